#pragma once

#include <mpi.h>

#include <vector>

#include "quarry/base/data_type.h"
#include "quarry/base/endian.h"
#include "quarry/geometry/patch_grid.h"
#include "writer/distribution/placement.h"

namespace quarry::writer {

/// A whole patch on the rank that encodes it.
struct PatchSamples {
  std::int64_t patch_index = 0;
  Bytes samples;  ///< dense, x fastest, shape of the (cut) patch
};

/// Moves samples from the ranks that read them to the ranks that encode them, patch by patch: a subarray type
/// describes each part in place on both sides, non-blocking point-to-point messages carry it. Parts that stay
/// are copied.
///
/// @param owned     box of every rank, see distribution::PlacePatches
/// @param samples   this rank's box, dense, x fastest
/// @returns         this rank's patches, by ascending patch index
/// @collective over `comm`
/// @source Fan et al., section IV.A
std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const std::vector<Box>& owned,
                                          const distribution::Placement& placement, ByteSpan samples);

}  // namespace quarry::writer
