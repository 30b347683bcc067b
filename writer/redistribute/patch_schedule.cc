#include "writer/redistribute/patch_schedule.h"

#include <algorithm>

namespace quarry::redistribute {
namespace {

distribution::BoxIndex IndexOfOwn(const std::vector<Box>& boxes, int rank) {
  std::vector<distribution::BoxIndex::Entry> entries;
  for (std::size_t b = 0; b < boxes.size(); ++b) entries.push_back({boxes[b], rank, b});
  return distribution::BoxIndex(std::move(entries));
}

}  // namespace

PatchScheduler::PatchScheduler(const PatchGrid& grid, const distribution::RankBoxes& owned, int rank)
    : grid_(grid), owned_(owned), rank_(rank), own_(IndexOfOwn(owned.Of(rank), rank)) {
  result_.schedule.rank = rank;
  result_.schedule.owned = owned.Of(rank);
}

void PatchScheduler::Add(const distribution::PlacedPatch& placed) {
  const bool here = placed.rank == rank_;
  const bool shared = std::ranges::binary_search(placed.sharers, rank_);
  if (!here && !shared) return;
  const Box patch = grid_.PatchBox(placed.patch);
  if (here) {
    result_.patches.push_back(placed.patch);
    result_.schedule.needed.push_back(patch);
  }
  if (shared) AddOwnParts(placed, patch);
  if (here && (!shared || placed.sharers.size() > 1)) AddReceives(patch);
}

void PatchScheduler::AddOwnParts(const distribution::PlacedPatch& placed, const Box& patch) {
  const bool here = placed.rank == rank_;
  std::vector<Part>& parts = here ? result_.schedule.copies : result_.schedule.sends;
  const std::size_t needed = here ? result_.patches.size() - 1 : static_cast<std::size_t>(placed.patch);
  own_.ForEachMeeting(patch, [&](const distribution::RankBox& box) {
    parts.push_back({rank_, placed.rank, box.number, needed, Intersect(box.box, patch)});
  });
}

void PatchScheduler::AddReceives(const Box& patch) {
  owned_.ForEachMeeting(patch, [&](const distribution::RankBox& box) {
    if (box.rank == rank_) return;
    result_.schedule.receives.push_back(
        {box.rank, rank_, box.number, result_.patches.size() - 1, Intersect(box.box, patch)});
  });
}

PatchSchedule PatchScheduler::Finish() && {
  SortParts(&result_.schedule);
  return std::move(result_);
}

}  // namespace quarry::redistribute
