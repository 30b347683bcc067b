#pragma once

#include <span>

#include "quarry/codec/patch_codec.h"

namespace quarry {

/// Largest absolute difference and RMSE of two arrays of equal, non-zero length, in float64 arithmetic. The
/// sum runs in a fixed order, so that the result is the same on every machine and for any number of ranks.
template <typename T>
LevelError CompareSamples(std::span<const T> original, std::span<const T> decoded);

/// The error of a coarse level: its samples, interpolated multilinearly from level to level up to `shape`,
/// against the original samples of that shape.
/// @param coarse  samples of level `level`, shape LevelShape(shape, level)
template <typename T>
LevelError CompareUpsampled(std::span<const T> original, const Index3& shape, std::span<const T> coarse,
                            int level);

}  // namespace quarry
