#pragma once

#include <array>
#include <string_view>

#include "writer/model/machine.h"
#include "writer/model/rank_tables.h"
#include "writer/model/traffic.h"

namespace quarry::model {

/// Phases of a step, in order: those of quarry-write after `start`, which is what comes before them.
enum class Phase { kStart, kRead, kExchange, kEncode, kAssign, kTransfer, kWrite };
inline constexpr std::array<std::string_view, 7> kPhaseNames = {"start",  "read",     "exchange", "encode",
                                                                "assign", "transfer", "write"};
inline constexpr std::size_t kPhases = kPhaseNames.size();

/// From encoded patches to files.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section V.C
enum class Pipeline {
  kFilePerRank,      ///< each rank writes what it has encoded
  kCollective,       ///< all ranks write one file together
  kGroupCollective,  ///< `files` groups of neighbouring ranks, of which one rank writes
  kAggregated,       ///< to `files` aggregators, by the assignment: what quarry-write does
};

/// One field of one step, and how it is to be written.
struct Workload {
  PatchGrid grid;
  std::size_t sample_bytes = 4;
  distribution::Ownership owned;  ///< data that each rank reads, or has in memory
  bool from_file = true;  ///< ranks read what they own; otherwise a simulation has it in memory already
  distribution::PlacementStrategy placement = distribution::PlacementStrategy::kBalanced;
  std::int64_t exchange_batch = 1;  ///< parts of patches in a message between two ranks; 0: all of them
  distribution::AggregationStrategy aggregation = distribution::AggregationStrategy::kBalanced;
  Pipeline pipeline = Pipeline::kAggregated;
  std::size_t files =
      1;  ///< at most as many as patches, or ranks; as many as ranks for kFilePerRank, 1 for kCollective
  double ratio = 0;  ///< bytes of samples over bytes of payload; 0: the machine's ratio
  /// Relative payload of each patch, by patch index; only ratios count. Empty: in proportion to the samples.
  std::vector<std::uint64_t> patch_weights;
};

/// Seconds of a phase, by what they are spent on. See docs/planning.md for the equations.
struct PhaseSeconds {
  double cores = 0;        ///< computing and copying, limited by the cores
  double memory = 0;       ///< the same, limited by the memory of a node; the longer of the two counts
  double network = 0;      ///< between nodes, with latencies
  double file_system = 0;  ///< reading, writing, syncs

  double total() const { return (cores > memory ? cores : memory) + network + file_system; }
};

/// Time and traffic of a step.
struct Prediction {
  std::array<PhaseSeconds, kPhases> phases{};
  int ranks = 0;
  int nodes = 0;
  std::int64_t patches = 0;
  std::size_t files = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::int64_t most_patches_per_rank = 0;
  std::uint64_t largest_file = 0;
  Traffic exchange;
  Traffic transfer;
  RankTables tables;  ///< by each number, the most of a rank

  const PhaseSeconds& of(Phase phase) const { return phases[static_cast<std::size_t>(phase)]; }
  double total_seconds() const;
};

/// Runs placement, exchange, assignment and transfer on paper and prices what they move.
/// @source Czechowski et al., On the Communication Complexity of 3D FFTs, equations 1 to 5: computation over
/// cores, traffic over memory bandwidth, and three networks
Prediction Predict(const Machine& machine, const Workload& workload);

/// Seconds until every rank has done its work.
///
/// The ranks of a node share its cores without loss: all cores work while there is work, and no rank is
/// faster than its own cores.
/// @param work  seconds of one core, by rank
/// @param threads  available to a rank in this phase
double CoreSeconds(const Machine& machine, std::span<const double> work, double threads);

}  // namespace quarry::model
