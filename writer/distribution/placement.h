#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quarry/geometry/patch_grid.h"
#include "quarry/result.h"
#include "quarry/strategies.h"
#include "writer/distribution/rank_boxes.h"

/// Which rank transforms and encodes which patch. Pure integer functions: every rank computes the same answer
/// from the boxes alone, and so can a program without MPI for any number of ranks.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section IV.A
namespace quarry::distribution {

/// Calls visit(patch index) for each patch that meets a box of samples.
template <typename Visit>
void ForEachPatch(const PatchGrid& grid, const Box& samples, Visit visit) {
  const Box positions = grid.PatchesMeeting(samples);
  for (std::int64_t z = positions.begin[2]; z < positions.end[2]; ++z) {
    for (std::int64_t y = positions.begin[1]; y < positions.end[1]; ++y) {
      for (std::int64_t x = positions.begin[0]; x < positions.end[0]; ++x) visit(grid.PatchIndex({x, y, z}));
    }
  }
}

/// The rank of every patch, by patch index.
using Placement = std::vector<int>;

/// "balanced" or "greedy", of an option --placement. @errors kInvalidArgument
Result<PlacementStrategy> ParsePlacement(const std::string& text);

/// Parts of patches in a message between two ranks, of an option --exchange: 1 for "patch", 0 for "rank",
/// which is all of them, or a number. @errors kInvalidArgument
Result<std::int64_t> ParseExchange(const std::string& text);

/// The ranks that own a part of each patch of a run, ascending, in one array.
struct Sharers {
  std::int64_t first_patch = 0;
  /// Sharers of patch first_patch + i are ranks[first[i]] up to ranks[first[i + 1]].
  std::vector<std::size_t> first;
  std::vector<int> ranks;

  std::span<const int> Of(std::int64_t patch) const {
    const auto p = static_cast<std::size_t>(patch - first_patch);
    return std::span(ranks).subspan(first[p], first[p + 1] - first[p]);
  }
};

/// Sharers of all patches.
/// @param owned  box of each rank; disjoint, covering the grid; empty boxes are ranks without data
/// @complexity O(ranks + pairs of a rank and a patch that meet)
Sharers FindSharers(const PatchGrid& grid, const Ownership& owned);

/// Number of patches that `balanced` gives each rank: the remainder of M / N is spread evenly over the ranks.
/// Example: 9 patches on 4 ranks -> 3, 2, 2, 2.
std::vector<std::int64_t> TargetCounts(std::int64_t patches, int ranks);

/// The same for one part of a grid after others: how many of `patches` more each rank gets, so that with its
/// earlier `counts` it has floor(M/N) or floor(M/N) + 1 of all M, where the history allows it.
std::vector<std::int64_t> NextTargetCounts(std::span<const std::int64_t> counts, std::int64_t patches);

/// A patch with the rank that encodes it.
struct PlacedPatch {
  std::int64_t patch = 0;
  std::span<const int> sharers;  ///< ranks that own a part of it, ascending
  int rank = 0;
};

/// Visits all patches with their ranks, in index order, without a list of them: a rank keeps what concerns
/// it.
///
/// Balanced: patches inside one rank's box stay there, up to its target. Each other patch goes, in index
/// order, to the lowest rank that owns a part of it and is below its target, else to the lowest rank of all
/// below its target. If boxes are so uneven that a rank holds more whole patches than its target, the paper's
/// rule leaves the imbalance; here the surplus moves like shared patches, so that counts always equal
/// targets.
///
/// Greedy: the rank with the largest part of the patch; the lowest of equals.
///
/// @param owned   covers the grid
/// @param target  patches of each rank, for `balanced`; their sum is the number of patches
/// @complexity O(pairs of a rank and a patch that meet); memory: two numbers for each rank beside the target,
/// and the sharers of 4096 patches
void ForEachPlacement(const PatchGrid& grid, const RankBoxes& owned, PlacementStrategy strategy,
                      std::span<const std::int64_t> target,
                      const std::function<void(const PlacedPatch&)>& visit);

/// ForEachPlacement as a list.
Placement PlacePatches(const PatchGrid& grid, const Ownership& owned, PlacementStrategy strategy,
                       std::span<const std::int64_t> target);

/// With the counts of TargetCounts, and one box for each rank.
Placement PlacePatches(const PatchGrid& grid, std::span<const Box> owned, PlacementStrategy strategy);

/// The patches of each rank, whole and by ascending index, as the boxes that it needs.
/// @param ranks  that `placement` is for
Ownership PatchesOfRanks(const PatchGrid& grid, const Placement& placement, std::size_t ranks);

/// Number of patches of each rank under a placement.
std::vector<std::int64_t> CountPerRank(const Placement& placement, int ranks);

}  // namespace quarry::distribution
