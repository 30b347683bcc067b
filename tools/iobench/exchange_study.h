#pragma once

#include <mpi.h>

#include "quarry/base/data_type.h"
#include "tools/iobench/spread.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/exchange.h"

/// The cost of moving samples to the ranks that encode them: compares placements and message sizes.
/// @source Robinson et al., Investigating Data Movement Strategies for Distributed Repartitioned Data
namespace quarry::iobench {

struct ExchangeOptions {
  Index3 dims{};
  DataType type = DataType::kFloat64;
  Index3 process_grid{};        ///< every rank owns its even share
  std::vector<Index3> patches;  ///< shapes of patches to compare
  std::vector<writer::ExchangeBatch> batches;
  int repeat = 10;  ///< timed runs, at least 1, after an untimed one
  bool progress = false;
};

struct ExchangeResult {
  Index3 patch{};
  distribution::PlacementStrategy placement = distribution::PlacementStrategy::kBalanced;
  writer::ExchangeBatch batch = writer::kExchangePerPatch;
  Spread seconds;                 ///< of the slowest rank, over the timed runs
  std::uint64_t bytes_moved = 0;  ///< from one rank to another
  std::uint64_t messages = 0;
  Spread patches_per_rank;
};

/// Times ExchangePatches alone: placement is known, samples are in memory. Checks the samples of every patch
/// once.
/// @errors the same on every rank
/// @collective over `comm`
Result<std::vector<ExchangeResult>> RunExchangeStudy(MPI_Comm comm, const ExchangeOptions& options);

}  // namespace quarry::iobench
