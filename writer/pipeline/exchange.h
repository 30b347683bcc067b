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

/// Where the samples of a box lie in somebody's memory.
struct BoxView {
  const std::byte* data = nullptr;  ///< the first sample of the box
  Index3 stride{};                  ///< bytes from one sample to the next along x, y, z; any order of axes

  /// Samples of `box`, dense, x fastest.
  static BoxView Dense(const std::byte* data, const Box& box, std::size_t sample_bytes);
};

/// How many parts of patches travel in one message between two ranks: 1 is one message for each part, 0 a single
/// message for all of them.
using ExchangeBatch = std::int64_t;
inline constexpr ExchangeBatch kExchangePerPatch = 1;
inline constexpr ExchangeBatch kExchangePerRank = 0;

/// Moves samples from the ranks that have them to the ranks that encode them: a datatype describes each part in
/// place on both sides, non-blocking point-to-point messages carry it. Parts that stay are copied.
///
/// @param owned      boxes of every rank, see distribution::PlacePatches; together they cover the grid
/// @param samples    one view for each of this rank's boxes
/// @param batch      the same on every rank
/// @returns          this rank's patches, by ascending patch index
/// @collective over `comm`
/// @source Fan et al., section IV.A; Robinson et al., Investigating Data Movement Strategies, section 3.2
std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const distribution::Ownership& owned,
                                          const distribution::Placement& placement,
                                          const std::vector<BoxView>& samples, ExchangeBatch batch);

}  // namespace quarry::writer
