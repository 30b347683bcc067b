#include "writer/distribution/placement.h"

#include <algorithm>

namespace quarry::distribution {
namespace {

template <typename Visit>
void ForEachPatch(const PatchGrid& grid, const Box& samples, Visit visit) {
  const Box positions = grid.PatchesMeeting(samples);
  for (std::int64_t z = positions.begin[2]; z < positions.end[2]; ++z) {
    for (std::int64_t y = positions.begin[1]; y < positions.end[1]; ++y) {
      for (std::int64_t x = positions.begin[0]; x < positions.end[0]; ++x) visit(grid.PatchIndex({x, y, z}));
    }
  }
}

Placement PlaceBalanced(const PatchGrid& grid, const Sharers& sharers, int ranks) {
  const std::vector<std::int64_t> target = TargetCounts(grid.patch_count(), ranks);
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

Placement PlaceGreedy(const PatchGrid& grid, const Sharers& sharers, std::span<const Box> owned) {
  Placement owner(static_cast<std::size_t>(grid.patch_count()), 0);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const Box box = grid.PatchBox(p);
    std::int64_t largest = 0;
    for (const int rank : sharers.Of(p)) {
      const std::int64_t part = Intersect(box, owned[static_cast<std::size_t>(rank)]).volume();
      if (part > largest) {
        largest = part;
        owner[static_cast<std::size_t>(p)] = rank;
      }
    }
  }
  return owner;
}

}  // namespace

Sharers FindSharers(const PatchGrid& grid, std::span<const Box> owned) {
  Sharers sharers;
  sharers.first.assign(static_cast<std::size_t>(grid.patch_count()) + 1, 0);
  for (const Box& box : owned) {
    ForEachPatch(grid, box, [&](std::int64_t p) { ++sharers.first[static_cast<std::size_t>(p) + 1]; });
  }
  for (std::size_t p = 1; p < sharers.first.size(); ++p) sharers.first[p] += sharers.first[p - 1];
  sharers.ranks.resize(sharers.first.back());
  std::vector<std::size_t> next(sharers.first.begin(), sharers.first.end() - 1);
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    ForEachPatch(grid, owned[rank], [&](std::int64_t p) {
      sharers.ranks[next[static_cast<std::size_t>(p)]++] = static_cast<int>(rank);
    });
  }
  return sharers;
}

std::vector<std::int64_t> TargetCounts(std::int64_t patches, int ranks) {
  const std::int64_t remainder = patches % ranks;
  std::vector<std::int64_t> target(static_cast<std::size_t>(ranks), patches / ranks);
  for (std::int64_t r = 0; r < ranks; ++r) {
    if (r * remainder % ranks < remainder) ++target[static_cast<std::size_t>(r)];
  }
  return target;
}

Placement PlacePatches(const PatchGrid& grid, std::span<const Box> owned, PlacementStrategy strategy) {
  const Sharers sharers = FindSharers(grid, owned);
  if (strategy == PlacementStrategy::kGreedy) return PlaceGreedy(grid, sharers, owned);
  return PlaceBalanced(grid, sharers, static_cast<int>(owned.size()));
}

std::vector<std::int64_t> CountPerRank(const Placement& placement, int ranks) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(ranks), 0);
  for (const int rank : placement) ++count[static_cast<std::size_t>(rank)];
  return count;
}

}  // namespace quarry::distribution
