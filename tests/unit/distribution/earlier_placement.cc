#include "tests/unit/distribution/earlier_placement.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quarry::testing {

using namespace distribution;

namespace {

Sharers AllSharers(const PatchGrid& grid, const Ownership& owned) {
  Sharers sharers;
  sharers.first.assign(static_cast<std::size_t>(grid.patch_count()) + 1, 0);
  // The last rank seen at each patch: several boxes of one rank count once.
  std::vector<int> last(static_cast<std::size_t>(grid.patch_count()), -1);
  const auto for_each_pair = [&](auto visit) {
    std::fill(last.begin(), last.end(), -1);
    for (std::size_t rank = 0; rank < owned.size(); ++rank) {
      for (const Box& box : owned[rank]) {
        ForEachPatch(grid, box, [&](std::int64_t p) {
          if (std::exchange(last[static_cast<std::size_t>(p)], static_cast<int>(rank)) ==
              static_cast<int>(rank))
            return;
          visit(static_cast<std::size_t>(p), static_cast<int>(rank));
        });
      }
    }
  };
  for_each_pair([&](std::size_t p, int) { ++sharers.first[p + 1]; });
  for (std::size_t p = 1; p < sharers.first.size(); ++p) sharers.first[p] += sharers.first[p - 1];
  sharers.ranks.resize(sharers.first.back());
  std::vector<std::size_t> next(sharers.first.begin(), sharers.first.end() - 1);
  for_each_pair([&](std::size_t p, int rank) { sharers.ranks[next[p]++] = rank; });
  return sharers;
}

Placement PlaceBalanced(const PatchGrid& grid, const Sharers& sharers, std::span<const std::int64_t> target) {
  std::vector<std::int64_t> count(target.size(), 0);
  constexpr int kNobody = -1;
  Placement owner(static_cast<std::size_t>(grid.patch_count()), kNobody);
  const auto below_target = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return count[r] < target[r];
  };
  const auto assign = [&](std::size_t patch, int rank) {
    owner[patch] = rank;
    ++count[static_cast<std::size_t>(rank)];
  };

  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const std::span<const int> ranks_of_patch = sharers.Of(p);
    if (ranks_of_patch.size() == 1 && below_target(ranks_of_patch[0]))
      assign(static_cast<std::size_t>(p), ranks_of_patch[0]);
  }
  // Ranks only fill up, so the lowest one with room never moves back.
  int lowest_with_room = 0;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const auto patch = static_cast<std::size_t>(p);
    if (owner[patch] != kNobody) continue;
    const std::span<const int> candidates = sharers.Of(p);
    const auto candidate = std::find_if(candidates.begin(), candidates.end(), below_target);
    if (candidate != candidates.end()) {
      assign(patch, *candidate);
      continue;
    }
    while (!below_target(lowest_with_room)) ++lowest_with_room;
    assign(patch, lowest_with_room);
  }
  return owner;
}

Placement PlaceGreedy(const PatchGrid& grid, const Sharers& sharers, const Ownership& owned) {
  Placement owner(static_cast<std::size_t>(grid.patch_count()), 0);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const Box box = grid.PatchBox(p);
    std::int64_t largest = 0;
    for (const int rank : sharers.Of(p)) {
      std::int64_t part = 0;
      for (const Box& own : owned[static_cast<std::size_t>(rank)]) part += Intersect(box, own).volume();
      if (part > largest) {
        largest = part;
        owner[static_cast<std::size_t>(p)] = rank;
      }
    }
  }
  return owner;
}

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

Placement EarlierPlacement(const PatchGrid& grid, const Ownership& owned, PlacementStrategy strategy,
                           std::span<const std::int64_t> target) {
  const Sharers sharers = AllSharers(grid, owned);
  return strategy == PlacementStrategy::kGreedy ? PlaceGreedy(grid, sharers, owned)
                                                : PlaceBalanced(grid, sharers, target);
}

Ownership EarlierReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order) {
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

}  // namespace quarry::testing
