#pragma once

#include <mpi.h>

#include <string>

#include "quarry/base/status.h"
#include "quarry/box.h"

/// The ranks of a measuring program.
namespace quarry::iobench {

/// `count` as three factors that are as close to each other as possible, the largest along x.
Index3 NearCube(std::int64_t count);

/// The process grid of --ranks; NearCube without a text.
/// @param ranks  that are running
Result<Index3> ProcessGridOf(const std::string& text, int ranks);

/// The text of a file, read on rank 0, on every rank.
/// @errors those of ReadTextFile on rank 0, the same on every rank
/// @collective over MPI_COMM_WORLD
Result<std::string> ReadOnRoot(const std::string& path);

}  // namespace quarry::iobench
