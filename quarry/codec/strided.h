#pragma once

#include <cstdint>

#include "quarry/box.h"

namespace quarry {

/// Every `stride`-th sample along each axis: the samples of a coarser level.
/// @param fine  dense, x fastest
/// @param out   a vector of samples; what it held before is discarded
template <typename Sample, typename Vector>
void CopyStrided(const Sample* fine, const Index3& shape, std::int64_t stride, Vector* out) {
  out->clear();
  for (std::int64_t z = 0; z < shape[2]; z += stride) {
    for (std::int64_t y = 0; y < shape[1]; y += stride) {
      const Sample* row = fine + (z * shape[1] + y) * shape[0];
      for (std::int64_t x = 0; x < shape[0]; x += stride) out->push_back(row[x]);
    }
  }
}

}  // namespace quarry
