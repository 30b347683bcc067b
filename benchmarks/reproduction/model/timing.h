#pragma once

#include <mpi.h>

#include <vector>

#include "quarry/base/status.h"
#include "tools/iobench/spread.h"

namespace quarry::reproduction {

/// Seconds of an action on all ranks.
struct Timing {
  iobench::Spread slowest;                    ///< time of the slowest rank of a run, over the runs
  std::vector<std::vector<double>> of_ranks;  ///< by rank, then by run
};

/// @param mine  seconds of this rank in each run; every rank has equally many, at least one
/// @errors those of GatherEverywhere; the same on every rank
/// @collective over `comm`
Result<Timing> GatherTiming(MPI_Comm comm, const std::vector<double>& mine);

}  // namespace quarry::reproduction
