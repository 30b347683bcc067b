#pragma once

#include <functional>
#include <vector>

#include "writer/distribution/box_index.h"
#include "writer/distribution/ownership.h"

namespace quarry::distribution {

/// A box of a rank.
using RankBox = BoxIndex::Entry;

/// The boxes that each rank owns, for code that asks for those of some region: a formula, or a list with an
/// index. Boxes of different ranks, and of one rank, are disjoint.
class RankBoxes {
 public:
  using Visit = std::function<void(const RankBox& box)>;

  virtual ~RankBoxes() = default;
  virtual int ranks() const = 0;
  /// The boxes of a rank, which may be none or empty. Their numbers ascend.
  virtual std::vector<Box> Of(int rank) const = 0;
  /// Visits the boxes with samples in `region`, in no particular order.
  virtual void ForEachMeeting(const Box& region, const Visit& visit) const = 0;
};

/// Boxes from a list, which may be of any kind. Leaves out empty ones.
class ListedBoxes final : public RankBoxes {
 public:
  explicit ListedBoxes(const Ownership& owned);

  int ranks() const override { return ranks_; }
  /// @complexity O(boxes of all ranks)
  std::vector<Box> Of(int rank) const override;
  void ForEachMeeting(const Box& region, const Visit& visit) const override;

 private:
  int ranks_;
  BoxIndex index_;
};

/// The parts of boxes in a region. The other boxes must outlive this.
class BoxesInRegion final : public RankBoxes {
 public:
  /// @param origin  sample of the region's coordinates that is (0,0,0) of those given here
  BoxesInRegion(const RankBoxes& boxes, const Box& region, const Index3& origin)
      : boxes_(boxes), region_(region), origin_(origin) {}

  int ranks() const override { return boxes_.ranks(); }
  std::vector<Box> Of(int rank) const override;
  void ForEachMeeting(const Box& region, const Visit& visit) const override;

 private:
  const RankBoxes& boxes_;
  const Box region_;
  const Index3 origin_;
};

}  // namespace quarry::distribution
