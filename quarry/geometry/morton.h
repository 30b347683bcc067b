#pragma once

#include <cstdint>

#include "quarry/geometry/box.h"

namespace quarry {

/// Coordinates that a Morton code can hold on each axis: 21 bits.
inline constexpr std::int64_t kMaxPatchesPerAxis = std::int64_t{1} << 21;

/// Position along the Z-order curve: bit i of x, y, z becomes bit 3i, 3i+1, 3i+2. Coordinates in [0, 2^21).
/// Patches that are close in this order are close in space, which is why subfiles keep it.
/// @source van Oosterom and Vijlbrief 1996; papers on hierarchical layouts call it Morton or Z order
std::uint64_t MortonEncode(const Index3& position);

/// Inverse of MortonEncode for codes below 2^63.
Index3 MortonDecode(std::uint64_t code);

}  // namespace quarry
