#include "writer/distribution/rank_boxes.h"

#include <algorithm>

namespace quarry::distribution {
namespace {

std::vector<RankBox> EntriesOf(const Ownership& owned) {
  std::vector<RankBox> entries;
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    for (std::size_t b = 0; b < owned[rank].size(); ++b)
      entries.push_back({owned[rank][b], static_cast<int>(rank), b});
  }
  return entries;
}

}  // namespace

ListedBoxes::ListedBoxes(const Ownership& owned)
    : ranks_(static_cast<int>(owned.size())), index_(EntriesOf(owned)) {}

std::vector<Box> ListedBoxes::Of(int rank) const {
  std::vector<RankBox> own;
  for (const RankBox& box : index_.entries()) {
    if (box.rank == rank) own.push_back(box);
  }
  std::sort(own.begin(), own.end(), [](const RankBox& a, const RankBox& b) { return a.number < b.number; });
  std::vector<Box> boxes;
  for (const RankBox& box : own) boxes.push_back(box.box);
  return boxes;
}

void ListedBoxes::ForEachMeeting(const Box& region, const Visit& visit) const {
  index_.ForEachMeeting(region, visit);
}

std::vector<Box> BoxesInRegion::Of(int rank) const {
  std::vector<Box> parts;
  for (const Box& box : boxes_.Of(rank)) {
    const Box part = Intersect(box, region_);
    if (!part.empty()) parts.push_back(Translate(part, origin_));
  }
  return parts;
}

void BoxesInRegion::ForEachMeeting(const Box& region, const Visit& visit) const {
  const Index3 back = {-origin_[0], -origin_[1], -origin_[2]};
  const Box inside = Intersect(Translate(region, back), region_);
  if (inside.empty()) return;
  boxes_.ForEachMeeting(inside, [&](const RankBox& box) {
    visit({Translate(Intersect(box.box, region_), origin_), box.rank, box.number});
  });
}

}  // namespace quarry::distribution
