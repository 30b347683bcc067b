#pragma once

#include <optional>

#include "quarry/base/data_type.h"
#include "quarry/codec/coder.h"
#include "quarry/geometry/patch_grid.h"

/// What a dataset gets that its creator does not choose: the same from files and from memory.
namespace quarry::writer {

/// The coder of a field of floats with a tolerance, unless somebody chooses another.
inline constexpr CoderId kDefaultFloatCoder = CoderId::kInterpolate;
/// The same of integers with a tolerance.
inline constexpr CoderId kDefaultIntegerCoder = CoderId::kInterpolate;

inline CoderId DefaultCoder(DataType type, bool lossless) {
  if (lossless) return CoderId::kLossless;
  return IsFloat(type) ? kDefaultFloatCoder : kDefaultIntegerCoder;
}

/// The patch of a grid: the wanted one or the default. An axis of one sample has patches of one, whatever a cube
/// like 64x64x64 says.
inline Index3 PatchFor(const std::optional<Index3>& wanted, const Index3& dims) {
  Index3 patch = wanted.value_or(DefaultPatch(dims));
  for (std::size_t a = 0; a < 3; ++a) {
    if (dims[a] == 1) patch[a] = 1;
  }
  return patch;
}

}  // namespace quarry::writer
