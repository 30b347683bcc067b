#include "analysis/spectrum/pencils.h"

#include <algorithm>
#include <limits>

#include "writer/distribution/decomposition.h"

namespace quarry::spectrum {
namespace {

/// Ranks along x, y, z when lines along `axis` are whole.
Index3 ProcessGrid(const PencilGrid& grid, int axis) {
  switch (axis) {
    case 0:
      return {1, grid.first, grid.second};
    case 1:
      return {grid.first, 1, grid.second};
    default:
      return {grid.first, grid.second, 1};
  }
}

std::int64_t LargestShare(std::int64_t samples, int ranks) { return (samples + ranks - 1) / ranks; }

/// Samples of the busiest rank, in the fullest of the three decompositions.
std::int64_t MostSamples(const Index3& dims, const PencilGrid& grid) {
  const auto [x, y, z] = TransformDims(dims);
  return std::max({x * LargestShare(y, grid.first) * LargestShare(z, grid.second),
                   LargestShare(x, grid.first) * y * LargestShare(z, grid.second),
                   LargestShare(x, grid.first) * LargestShare(y, grid.second) * z});
}

}  // namespace

PencilGrid ChoosePencilGrid(const Index3& dims, int ranks) {
  std::vector<PencilGrid> grids;
  for (int first = 1; first <= ranks; ++first) {
    if (ranks % first == 0) grids.push_back({first, ranks / first});
  }
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const PencilGrid& grid : grids) fewest = std::min(fewest, MostSamples(dims, grid));
  std::erase_if(grids,
                [&](const PencilGrid& grid) { return MostSamples(dims, grid) - fewest > fewest / 10; });
  // first + second is largest where 1 / first + 1 / second is, as their product is fixed.
  return *std::max_element(grids.begin(), grids.end(), [](const PencilGrid& a, const PencilGrid& b) {
    return a.first + a.second < b.first + b.second;
  });
}

std::vector<Box> Pencils(const Index3& dims, const PencilGrid& grid, int axis) {
  return distribution::ProcessGridBoxes(dims, ProcessGrid(grid, axis));
}

}  // namespace quarry::spectrum
