#pragma once

#include <mpi.h>

#include <vector>

#include "quarry/base/data_type.h"
#include "quarry/base/endian.h"
#include "quarry/geometry/patch_grid.h"
#include "writer/distribution/placement.h"
#include "writer/redistribute/redistribute.h"

namespace quarry::writer {

/// A whole patch on the rank that encodes it.
struct PatchSamples {
  std::int64_t patch_index = 0;
  Bytes samples;      ///< dense, x fastest, shape of the (cut) patch
  double change = 0;  ///< largest difference of a sample from its source, where it was rounded (rounding.h)
};

using redistribute::BoxView;

/// How many parts of patches travel in one message between two ranks: 1 is one message for each part, 0 a
/// single message for all of them.
using ExchangeBatch = redistribute::Batch;
inline constexpr ExchangeBatch kExchangePerPatch = redistribute::kOnePerPart;
inline constexpr ExchangeBatch kExchangePerRank = redistribute::kOnePerRankPair;

/// Moves samples from the ranks that have them to the ranks that encode them: a redistribution that every
/// rank plans for itself from boxes and placement, without communication.
///
/// @param owned      boxes of every rank, see distribution::PlacePatches; together they cover the grid
/// @param samples    one view for each of this rank's boxes
/// @param batch      the same on every rank
/// @returns          this rank's patches, by ascending patch index
/// @errors the same on every rank: kInvalidArgument where a rank has no samples for a box; kInternal: MPI,
/// memory
/// @collective over `comm`
/// @source Fan et al., section IV.A; Robinson et al., Investigating Data Movement Strategies, section 3.2
Result<std::vector<PatchSamples>> TryExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                                     const distribution::Ownership& owned,
                                                     const distribution::Placement& placement,
                                                     const std::vector<BoxView>& samples,
                                                     ExchangeBatch batch);

/// The same for callers that leave errors to the error handler of `comm`, which MPI_Comm_call_errhandler
/// runs: by default it ends the program. Returns no patches if the handler returns.
std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const distribution::Ownership& owned,
                                          const distribution::Placement& placement,
                                          const std::vector<BoxView>& samples, ExchangeBatch batch);

}  // namespace quarry::writer
