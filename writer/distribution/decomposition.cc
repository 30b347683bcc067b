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

/// The even share of part i of p: from floor(n i / p) to floor(n (i + 1) / p); and the part of element e.
std::int64_t ShareBegin(std::int64_t n, std::int64_t i, std::int64_t p) { return n * i / p; }
std::int64_t PartOf(std::int64_t n, std::int64_t e, std::int64_t p) { return ((e + 1) * p - 1) / n; }

}  // namespace

std::int64_t ReadingBoxes::Axis::At(std::int64_t number) const {
  if (number == 0) return begin;
  return std::min(end, (begin / unit + number) * unit);
}

ReadingBoxes::ReadingBoxes(const Box& region, const Index3& unit, int ranks, ReadingOrder order)
    : ranks_(ranks), round_robin_(order == ReadingOrder::kRoundRobin), region_(region) {
  if (region.empty()) return;
  for (std::size_t a = 0; a < 3; ++a) axes_[a] = {region.begin[a], region.end[a], unit[a]};
  if (order == ReadingOrder::kDirect) {
    parts_ = NearCubeGrid({axes_[0].count(), axes_[1].count(), axes_[2].count()}, unit, ranks);
    return;
  }
  axes_[0].unit = region.end[0];  // x is not cut
  const std::int64_t slabs = std::min<std::int64_t>(ranks, axes_[2].count());
  parts_ = {1, std::min<std::int64_t>(ranks / slabs, axes_[1].count()), slabs};
}

Box ReadingBoxes::Share(const Index3& part) const {
  Box box;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t units = axes_[a].count();
    box.begin[a] = axes_[a].At(ShareBegin(units, part[a], parts_[a]));
    box.end[a] = axes_[a].At(ShareBegin(units, part[a] + 1, parts_[a]));
  }
  return box;
}

Box ReadingBoxes::UnitOfZ(std::int64_t number) const {
  Box box = region_;
  box.begin[2] = axes_[2].At(number);
  box.end[2] = axes_[2].At(number + 1);
  return box;
}

std::vector<Box> ReadingBoxes::Of(int rank) const {
  std::vector<Box> boxes;
  if (region_.empty()) return boxes;
  if (round_robin_) {
    for (std::int64_t u = rank; u < axes_[2].count(); u += ranks_) boxes.push_back(UnitOfZ(u));
  } else if (rank < Volume(parts_)) {
    boxes.push_back(Share({rank % parts_[0], rank / parts_[0] % parts_[1], rank / parts_[0] / parts_[1]}));
  }
  return boxes;
}

void ReadingBoxes::ForEachMeeting(const Box& region, const Visit& visit) const {
  const Box inside = Intersect(region, region_);
  if (inside.empty()) return;
  Index3 first;
  Index3 last;
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = axes_[a].UnitOf(inside.begin[a]);
    last[a] = axes_[a].UnitOf(inside.end[a] - 1);
  }
  if (round_robin_) {
    for (std::int64_t u = first[2]; u <= last[2]; ++u)
      visit({UnitOfZ(u), static_cast<int>(u % ranks_), static_cast<std::size_t>(u / ranks_)});
    return;
  }
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = PartOf(axes_[a].count(), first[a], parts_[a]);
    last[a] = PartOf(axes_[a].count(), last[a], parts_[a]);
  }
  for (std::int64_t z = first[2]; z <= last[2]; ++z) {
    for (std::int64_t y = first[1]; y <= last[1]; ++y) {
      for (std::int64_t x = first[0]; x <= last[0]; ++x)
        visit({Share({x, y, z}), static_cast<int>(x + parts_[0] * (y + parts_[1] * z)), 0});
    }
  }
}

Ownership ReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order) {
  const ReadingBoxes boxes(region, unit, ranks, order);
  Ownership owned;
  for (int rank = 0; rank < ranks; ++rank) owned.push_back(boxes.Of(rank));
  return owned;
}

}  // namespace quarry::distribution
