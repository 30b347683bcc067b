#pragma once

#include <cstdint>
#include <vector>

#include "quarry/base/checked_math.h"
#include "quarry/codec/coder.h"

namespace quarry {

/// Every `stride`-th sample along each axis: the samples of a coarser level.
/// @param fine  dense, x fastest
/// @param out   a vector of samples; what it held before is discarded
template <typename Sample, typename Vector>
void CopyStrided(const Sample* fine, const Index3& shape, std::int64_t stride, Vector* out) {
  const auto extent = [&](std::size_t axis) { return CeilDivide(shape[axis], stride); };
  out->resize(static_cast<std::size_t>(extent(0) * extent(1) * extent(2)));
  Sample* to = out->data();
  for (std::int64_t z = 0; z < shape[2]; z += stride) {
    for (std::int64_t y = 0; y < shape[1]; y += stride) {
      const Sample* row = fine + (z * shape[1] + y) * shape[0];
      for (std::int64_t x = 0; x < shape[0]; x += stride) *to++ = row[x];
    }
  }
}

using ValidityBuffer = std::vector<std::uint8_t, BufferAllocator<std::uint8_t>>;

/// The validity of a coarser level; empty where no sample is missing.
/// @param levels  by how many coarser
inline ValidityBuffer CoarserValidity(Validity validity, const Index3& shape, int levels) {
  ValidityBuffer coarse;
  if (!validity.empty()) CopyStrided(validity.data(), shape, std::int64_t{1} << levels, &coarse);
  return coarse;
}

}  // namespace quarry
