#include "writer/distribution/decomposition.h"

#include <algorithm>
#include <array>
#include <optional>

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

Index3 NearCubeGrid(const Index3& cells, const Index3& shape, int ranks) {
  // Ranks that idle, ranks along the axes, surface of the largest box: the first difference decides.
  using Cost = std::array<std::int64_t, 3>;
  std::optional<Cost> least;
  Index3 best = {1, 1, 1};
  for (std::int64_t px = 1; px <= std::min<std::int64_t>(ranks, cells[0]); ++px) {
    for (std::int64_t py = 1; py <= std::min(ranks / px, cells[1]); ++py) {
      const Index3 grid = {px, py, std::min(ranks / (px * py), cells[2])};
      Index3 edge{};
      for (std::size_t a = 0; a < 3; ++a) edge[a] = (cells[a] + grid[a] - 1) / grid[a] * shape[a];
      const std::int64_t surface = edge[0] * edge[1] + edge[1] * edge[2] + edge[2] * edge[0];
      const Cost cost = {ranks - Volume(grid), grid[0] + grid[1] + grid[2], surface};
      if (least && *least <= cost) continue;
      least = cost;
      best = grid;
    }
  }
  return best;
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

/// Boxes of whole units, as close to cubes as possible.
Ownership DirectOwnership(const Box& region, const Index3& unit, int ranks) {
  std::array<std::vector<std::int64_t>, 3> cuts;
  Index3 units{};
  for (std::size_t a = 0; a < 3; ++a) {
    cuts[a] = Cuts(region, unit, a);
    units[a] = static_cast<std::int64_t>(cuts[a].size()) - 1;
  }
  Ownership owned(static_cast<std::size_t>(ranks));
  const std::vector<Box> shares = ProcessGridBoxes(units, NearCubeGrid(units, unit, ranks));
  for (std::size_t r = 0; r < shares.size(); ++r) {
    Box box;
    for (std::size_t a = 0; a < 3; ++a) {
      box.begin[a] = cuts[a][static_cast<std::size_t>(shares[r].begin[a])];
      box.end[a] = cuts[a][static_cast<std::size_t>(shares[r].end[a])];
    }
    owned[r].push_back(box);
  }
  return owned;
}

}  // namespace

Ownership ReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order) {
  if (region.empty()) return Ownership(static_cast<std::size_t>(ranks));
  if (order == ReadingOrder::kDirect) return DirectOwnership(region, unit, ranks);
  Ownership owned(static_cast<std::size_t>(ranks));
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
