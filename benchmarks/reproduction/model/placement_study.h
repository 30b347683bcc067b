#pragma once

#include <mpi.h>

#include "benchmarks/reproduction/model/timing.h"
#include "quarry/data_type.h"
#include "writer/distribution/placement.h"
#include "writer/model/cost_model.h"

/// Cost of a placement: the exchange, which greedy makes cheap, and the encoding, which greedy leaves
/// uneven; measured, and predicted by the model of quarry-plan.
/// @source Fan et al., Scalable parallel I/O, figures 6b and 6c
namespace quarry::reproduction {

struct PlacementOptions {
  Index3 dims{};
  DataType type = DataType::kFloat32;  ///< float32 or float64
  Index3 process_grid{};               ///< every rank owns its even share
  std::vector<Index3> patches;         ///< shapes of patches to compare
  double relative = 1e-4;              ///< tolerance of the encoding, as a fraction of the range
  int repeat = 10;                     ///< timed runs, at least 1, after an untimed one
  bool progress = false;
  model::Machine machine;  ///< for the prediction
};

/// Seconds of two phases; of the encoding also with a core for every rank.
struct PredictedPlacement {
  double exchange = 0;
  double encode = 0;
  double encode_core = 0;
};

struct PlacementResult {
  Index3 patch{};
  distribution::PlacementStrategy placement = distribution::PlacementStrategy::kBalanced;
  std::vector<std::int64_t> patches_of_ranks;
  std::vector<std::int64_t> contained_of_ranks;  ///< patches of which a rank has every sample from the start
  std::uint64_t bytes_moved = 0;
  std::uint64_t messages = 0;
  Timing exchange;     ///< one message for each part of a patch
  Timing encode;       ///< one thread for each rank
  Timing encode_core;  ///< the same in processor time: what a rank would take with a core of its own
  Timing both;         ///< exchange and encode of the same rank and run
  /// Time of the slowest rank, if it encoded its contained patches while the parts of the others arrive, and
  /// that took no core away from the encoding: at least this much remains of `both`.
  iobench::Spread both_early_start;
  PredictedPlacement predicted;
};

/// @errors the same on every rank; kInvalidArgument: a type that is not float
/// @collective over `comm`
Result<std::vector<PlacementResult>> RunPlacementStudy(MPI_Comm comm, const PlacementOptions& options);

}  // namespace quarry::reproduction
