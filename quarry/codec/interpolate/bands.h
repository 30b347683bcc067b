#pragma once

#include <array>
#include <cstddef>

#include "quarry/box.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::interpolate {

/// The samples of a level by the parity of their coordinates. Bit d of a band's number is set when the
/// coordinate along axis d (x, y, z) is odd: band 0 is the coarser level, the other seven are what the level
/// adds. Each band is a dense array, x fastest, so that every neighbour along an axis is at a fixed distance.
inline constexpr int kBands = 8;

/// Bands in the order in which they are coded: each is predicted from those with one odd axis less.
inline constexpr std::array<int, kBands - 1> kBandOrder = {1, 2, 4, 3, 5, 6, 7};

constexpr bool IsOdd(int band, int axis) { return (band >> axis & 1) != 0; }
constexpr int OddAxes(int band) { return (band & 1) + (band >> 1 & 1) + (band >> 2 & 1); }

/// Shape of a band of a grid with `fine` samples: ceil(n/2) even and floor(n/2) odd positions an axis.
inline Index3 BandShape(const Index3& fine, int band) {
  Index3 shape{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    shape[a] = IsOdd(band, axis) ? fine[a] / 2 : (fine[a] + 1) / 2;
  }
  return shape;
}

inline std::size_t BandSize(const Index3& fine, int band) {
  return static_cast<std::size_t>(Volume(BandShape(fine, band)));
}

/// Levels until a grid is a single sample.
inline int InnerLevels(const Index3& shape) {
  int levels = 1;
  while (Volume(LevelShape(shape, levels - 1)) > 1) ++levels;
  return levels;
}

}  // namespace quarry::interpolate
