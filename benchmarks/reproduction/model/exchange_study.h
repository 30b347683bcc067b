#pragma once

#include <mpi.h>

#include "benchmarks/reproduction/model/timing.h"
#include "quarry/data_type.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/exchange.h"

/// The cost of moving samples to the ranks that encode them: compares placements, message sizes, and derived
/// datatypes with packed buffers.
/// @source Robinson et al., Investigating Data Movement Strategies for Distributed Repartitioned Data
namespace quarry::reproduction {

struct ExchangeOptions {
  Index3 dims{};
  DataType type = DataType::kFloat64;
  Index3 process_grid{};                       ///< every rank owns its even share
  std::vector<Index3> patches;                 ///< shapes of patches to compare
  std::vector<writer::ExchangeBatch> batches;  ///< with derived datatypes; PackedExchange always competes
  int repeat = 10;                             ///< timed runs, at least 1, after an untimed one
  bool progress = false;
};

struct ExchangeResult {
  Index3 patch{};
  distribution::PlacementStrategy placement = distribution::PlacementStrategy::kBalanced;
  writer::ExchangeBatch batch = writer::kExchangePerPatch;
  bool packed = false;  ///< PackedExchange, and `batch` is kExchangePerRank
  double setup_seconds =
      0;           ///< time of the slowest rank, once: plan, buffers, datatypes; not part of `seconds`
  Timing seconds;  ///< from a rank's first message until its patches are whole
  std::uint64_t bytes_moved = 0;  ///< from one rank to another
  std::uint64_t messages = 0;
  iobench::Spread patches_per_rank;
};

/// Samples of a box: each holds its own position in the domain, as far as its type can, so that a misplaced
/// one shows.
Bytes PositionSamples(const Box& box, const Index3& dims, DataType type);

/// Rejects sizes that no machine can hold or that overflow.
Status CheckVolume(const Index3& dims, DataType type);

/// Bytes and messages between different ranks.
struct MovedTraffic {
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
};

/// @param schedule  of this rank
/// @param batch     parts of patches in a message
/// @collective over `comm`
Result<MovedTraffic> CountMoved(MPI_Comm comm, const redistribute::RankSchedule& schedule, DataType type,
                                writer::ExchangeBatch batch);

/// Times the exchange alone: samples are in memory, and everything is planned and allocated. Checks the
/// samples of every patch once.
/// @errors the same on every rank
/// @collective over `comm`
Result<std::vector<ExchangeResult>> RunExchangeStudy(MPI_Comm comm, const ExchangeOptions& options);

}  // namespace quarry::reproduction
