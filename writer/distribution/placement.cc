#include "writer/distribution/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "quarry/base/numbers.h"
#include "quarry/base/status.h"

namespace quarry::distribution {
namespace {

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

}  // namespace

Result<PlacementStrategy> ParsePlacement(const std::string& text) {
  if (text == "balanced") return PlacementStrategy::kBalanced;
  if (text == "greedy") return PlacementStrategy::kGreedy;
  return InvalidArgument("--placement \"{}\" is not known; give balanced or greedy", text);
}

Result<std::int64_t> ParseExchange(const std::string& text) {
  if (text == "patch") return 1;
  if (text == "rank") return 0;
  std::int64_t batch = 0;
  if (ReadNumber(text, &batch) && batch > 0) return batch;
  return InvalidArgument(
      "--exchange \"{}\" is not known; give patch, rank, or a number of patches in a message", text);
}

Sharers FindSharers(const PatchGrid& grid, const Ownership& owned) {
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

std::vector<std::int64_t> TargetCounts(std::int64_t patches, int ranks) {
  const std::int64_t remainder = patches % ranks;
  std::vector<std::int64_t> target(static_cast<std::size_t>(ranks), patches / ranks);
  for (std::int64_t r = 0; r < ranks; ++r) {
    if (r * remainder % ranks < remainder) ++target[static_cast<std::size_t>(r)];
  }
  return target;
}

std::vector<std::int64_t> NextTargetCounts(std::span<const std::int64_t> counts, std::int64_t patches) {
  const std::int64_t ranks = static_cast<std::int64_t>(counts.size());
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), patches);
  std::vector<std::int64_t> more(counts.size(), 0);
  std::int64_t left = patches;
  // First fills every rank up to the floor of the mean; then adds one each, spread evenly over the ranks that
  // are not above it, like the remainder in TargetCounts.
  const std::int64_t floor = total / ranks;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    more[r] = std::min(left, std::max<std::int64_t>(0, floor - counts[r]));
    left -= more[r];
  }
  std::vector<std::size_t> candidates;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] + more[r] <= floor) candidates.push_back(r);
  }
  const auto n = static_cast<std::int64_t>(candidates.size());
  for (std::int64_t c = 0; c < n; ++c)
    more[candidates[static_cast<std::size_t>(c)]] += c * left % n < left ? 1 : 0;
  return more;
}

Placement PlacePatches(const PatchGrid& grid, const Ownership& owned, PlacementStrategy strategy,
                       std::span<const std::int64_t> target) {
  return PlacePatches(grid, owned, FindSharers(grid, owned), strategy, target);
}

Placement PlacePatches(const PatchGrid& grid, const Ownership& owned, const Sharers& sharers,
                       PlacementStrategy strategy, std::span<const std::int64_t> target) {
  if (strategy == PlacementStrategy::kGreedy) return PlaceGreedy(grid, sharers, owned);
  return PlaceBalanced(grid, sharers, target);
}

Placement PlacePatches(const PatchGrid& grid, std::span<const Box> owned, PlacementStrategy strategy) {
  return PlacePatches(grid, OneBoxEach({owned.begin(), owned.end()}), strategy,
                      TargetCounts(grid.patch_count(), static_cast<int>(owned.size())));
}

Ownership PatchesOfRanks(const PatchGrid& grid, const Placement& placement, std::size_t ranks) {
  Ownership needed(ranks);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p)
    needed[static_cast<std::size_t>(placement[static_cast<std::size_t>(p)])].push_back(grid.PatchBox(p));
  return needed;
}

std::vector<std::int64_t> CountPerRank(const Placement& placement, int ranks) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(ranks), 0);
  for (const int rank : placement) ++count[static_cast<std::size_t>(rank)];
  return count;
}

}  // namespace quarry::distribution
