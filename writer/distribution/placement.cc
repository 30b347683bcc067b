#include "writer/distribution/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "quarry/base/numbers.h"
#include "quarry/base/status.h"

namespace quarry::distribution {
namespace {

/// Patches whose sharers are known at a time: few enough to stay in the cache.
constexpr std::int64_t kPatchesOfBlock = 4096;

/// Consecutive patches, with everything that is owned of them.
class PatchBlock {
 public:
  /// @param positions  of consecutive patches: whole layers, whole rows, or a part of a row
  PatchBlock(const PatchGrid& grid, const RankBoxes& owned, const Box& positions);

  const Sharers& sharers() const { return sharers_; }
  /// The sharer with the largest part of a patch; the lowest of equals.
  int OwnerOfLargestPart(const PatchGrid& grid, std::int64_t patch) const;

 private:
  template <typename Visit>
  void ForEachPair(const PatchGrid& grid, const Box& samples, Visit visit) const;

  std::vector<RankBox> boxes_;  ///< by rank
  Sharers sharers_;
};

PatchBlock::PatchBlock(const PatchGrid& grid, const RankBoxes& owned, const Box& positions) {
  const Index3 last = {positions.end[0] - 1, positions.end[1] - 1, positions.end[2] - 1};
  const Box samples = {grid.PatchBox(positions.begin).begin, grid.PatchBox(last).end};
  owned.ForEachMeeting(samples, [&](const RankBox& box) { boxes_.push_back(box); });
  std::sort(boxes_.begin(), boxes_.end(), [](const RankBox& a, const RankBox& b) { return a.rank < b.rank; });
  sharers_.first_patch = grid.PatchIndex(positions.begin);
  sharers_.first.assign(static_cast<std::size_t>(positions.volume()) + 1, 0);
  ForEachPair(grid, samples, [&](std::size_t p, int) { ++sharers_.first[p + 1]; });
  for (std::size_t p = 1; p < sharers_.first.size(); ++p) sharers_.first[p] += sharers_.first[p - 1];
  sharers_.ranks.resize(sharers_.first.back());
  std::vector<std::size_t> next(sharers_.first.begin(), sharers_.first.end() - 1);
  ForEachPair(grid, samples, [&](std::size_t p, int rank) { sharers_.ranks[next[p]++] = rank; });
}

/// Calls visit(patch of the block, rank), ranks ascending. Several boxes of one rank count once.
template <typename Visit>
void PatchBlock::ForEachPair(const PatchGrid& grid, const Box& samples, Visit visit) const {
  std::vector<int> last(sharers_.first.size() - 1, -1);  // the last rank seen at each patch
  for (const RankBox& box : boxes_) {
    ForEachPatch(grid, Intersect(box.box, samples), [&](std::int64_t patch) {
      const auto p = static_cast<std::size_t>(patch - sharers_.first_patch);
      if (std::exchange(last[p], box.rank) != box.rank) visit(p, box.rank);
    });
  }
}

int PatchBlock::OwnerOfLargestPart(const PatchGrid& grid, std::int64_t patch) const {
  const Box samples = grid.PatchBox(patch);
  std::int64_t largest = 0;
  int owner = 0;
  for (const int rank : sharers_.Of(patch)) {
    std::int64_t part = 0;
    auto box = std::lower_bound(boxes_.begin(), boxes_.end(), rank,
                                [](const RankBox& a, int wanted) { return a.rank < wanted; });
    for (; box != boxes_.end() && box->rank == rank; ++box) part += Intersect(samples, box->box).volume();
    if (part > largest) {
      largest = part;
      owner = rank;
    }
  }
  return owner;
}

/// Cuts a grid into blocks of consecutive patches, in index order: whole layers, or rows, or parts of a row.
template <typename Visit>
void ForEachBlock(const PatchGrid& grid, const RankBoxes& owned, Visit visit) {
  const Index3& patches = grid.patches();
  const std::int64_t row = patches[0];
  const std::int64_t layer = row * patches[1];
  Index3 shape = {std::min(row, kPatchesOfBlock), 1, 1};
  if (row <= kPatchesOfBlock) shape[1] = std::min(patches[1], kPatchesOfBlock / row);
  if (layer <= kPatchesOfBlock) shape[2] = std::min(patches[2], kPatchesOfBlock / layer);
  for (std::int64_t z = 0; z < patches[2]; z += shape[2]) {
    for (std::int64_t y = 0; y < patches[1]; y += shape[1]) {
      for (std::int64_t x = 0; x < patches[0]; x += shape[0]) {
        const Box positions = {{x, y, z},
                               {std::min(x + shape[0], patches[0]), std::min(y + shape[1], patches[1]),
                                std::min(z + shape[2], patches[2])}};
        const PatchBlock block(grid, owned, positions);
        const std::int64_t first = block.sharers().first_patch;
        for (std::int64_t p = first; p < first + positions.volume(); ++p) visit(block, p);
      }
    }
  }
}

/// The placement `balanced`, in two walks over the patches.
class Balancing {
 public:
  explicit Balancing(std::span<const std::int64_t> target)
      : target_(target), count_(target.size(), 0), contained_(target.size(), 0) {}

  /// The first walk: how many contained patches stay on each rank.
  void Count(std::span<const int> sharers) {
    if (sharers.size() == 1 && BelowTarget(sharers[0])) ++count_[static_cast<std::size_t>(sharers[0])];
  }

  /// The second walk.
  int Place(std::span<const int> sharers) {
    if (Stays(sharers)) return sharers[0];
    const auto candidate = std::ranges::find_if(sharers, [&](int rank) { return BelowTarget(rank); });
    if (candidate != sharers.end()) return Add(*candidate);
    // Ranks only fill up, so the lowest one with room never moves back.
    while (!BelowTarget(lowest_with_room_)) ++lowest_with_room_;
    return Add(lowest_with_room_);
  }

 private:
  bool BelowTarget(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return count_[r] < target_[r];
  }
  int Add(int rank) {
    ++count_[static_cast<std::size_t>(rank)];
    return rank;
  }
  /// Whether a patch is contained, and among the first that fill the target of its rank: the first walk has
  /// counted it.
  bool Stays(std::span<const int> sharers) {
    if (sharers.size() != 1) return false;
    const auto rank = static_cast<std::size_t>(sharers[0]);
    return contained_[rank]++ < target_[rank];
  }

  std::span<const std::int64_t> target_;
  std::vector<std::int64_t> count_;      ///< patches that each rank has got
  std::vector<std::int64_t> contained_;  ///< contained patches of each rank that have been placed
  int lowest_with_room_ = 0;
};

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
  return PatchBlock(grid, ListedBoxes(owned), {{0, 0, 0}, grid.patches()}).sharers();
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

void ForEachPlacement(const PatchGrid& grid, const RankBoxes& owned, PlacementStrategy strategy,
                      std::span<const std::int64_t> target,
                      const std::function<void(const PlacedPatch&)>& visit) {
  if (strategy == PlacementStrategy::kGreedy) {
    ForEachBlock(grid, owned, [&](const PatchBlock& block, std::int64_t patch) {
      visit({patch, block.sharers().Of(patch), block.OwnerOfLargestPart(grid, patch)});
    });
    return;
  }
  Balancing balancing(target);
  ForEachBlock(grid, owned, [&](const PatchBlock& block, std::int64_t patch) {
    balancing.Count(block.sharers().Of(patch));
  });
  ForEachBlock(grid, owned, [&](const PatchBlock& block, std::int64_t patch) {
    const std::span<const int> sharers = block.sharers().Of(patch);
    visit({patch, sharers, balancing.Place(sharers)});
  });
}

Placement PlacePatches(const PatchGrid& grid, const Ownership& owned, PlacementStrategy strategy,
                       std::span<const std::int64_t> target) {
  Placement placement;
  placement.reserve(static_cast<std::size_t>(grid.patch_count()));
  ForEachPlacement(grid, ListedBoxes(owned), strategy, target,
                   [&](const PlacedPatch& placed) { placement.push_back(placed.rank); });
  return placement;
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
