#include "writer/distribution/decomposition.h"

#include <algorithm>

namespace quarry::distribution {

std::vector<Box> ProcessGridBoxes(const Index3& dims, const Index3& process_grid) {
  std::vector<Box> boxes;
  for (std::int64_t k = 0; k < process_grid[2]; ++k) {
    for (std::int64_t j = 0; j < process_grid[1]; ++j) {
      for (std::int64_t i = 0; i < process_grid[0]; ++i) {
        const Index3 position = {i, j, k};
        Box box;
        for (std::size_t a = 0; a < 3; ++a) {
          box.begin[a] = dims[a] * position[a] / process_grid[a];
          box.end[a] = dims[a] * (position[a] + 1) / process_grid[a];
        }
        boxes.push_back(box);
      }
    }
  }
  return boxes;
}

namespace {

/// Where an axis of a region may be cut: its ends, and the unit boundaries between them.
std::vector<std::int64_t> Cuts(const Box& region, const Index3& unit, std::size_t axis) {
  std::vector<std::int64_t> cuts = {region.begin[axis]};
  for (std::int64_t at = (region.begin[axis] / unit[axis] + 1) * unit[axis]; at < region.end[axis];
       at += unit[axis])
    cuts.push_back(at);
  cuts.push_back(region.end[axis]);
  return cuts;
}

}  // namespace

Ownership ReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order) {
  Ownership owned(static_cast<std::size_t>(ranks));
  if (region.empty()) return owned;
  const std::vector<std::int64_t> z = Cuts(region, unit, 2);
  const auto z_units = static_cast<std::int64_t>(z.size()) - 1;
  if (order == ReadingOrder::kRoundRobin) {
    for (std::int64_t u = 0; u < z_units; ++u) {
      Box box = region;
      box.begin[2] = z[static_cast<std::size_t>(u)];
      box.end[2] = z[static_cast<std::size_t>(u) + 1];
      owned[static_cast<std::size_t>(u % ranks)].push_back(box);
    }
    return owned;
  }
  const std::vector<std::int64_t> y = Cuts(region, unit, 1);
  const std::int64_t slabs = std::min<std::int64_t>(ranks, z_units);
  const std::int64_t strips = std::min<std::int64_t>(ranks / slabs, static_cast<std::int64_t>(y.size()) - 1);
  // The even shares of a process grid, in units.
  const std::vector<Box> shares =
      ProcessGridBoxes({1, static_cast<std::int64_t>(y.size()) - 1, z_units}, {1, strips, slabs});
  for (std::size_t r = 0; r < shares.size(); ++r) {
    Box box = region;
    box.begin[1] = y[static_cast<std::size_t>(shares[r].begin[1])];
    box.end[1] = y[static_cast<std::size_t>(shares[r].end[1])];
    box.begin[2] = z[static_cast<std::size_t>(shares[r].begin[2])];
    box.end[2] = z[static_cast<std::size_t>(shares[r].end[2])];
    owned[r].push_back(box);
  }
  return owned;
}

}  // namespace quarry::distribution
