#pragma once

#include <array>
#include <vector>

#include "writer/distribution/rank_boxes.h"

namespace quarry::distribution {

/// The even share of each rank of a process grid, x fastest in the rank number: rank coordinate i of p on an
/// axis of n samples owns [floor(n i / p), floor(n (i + 1) / p)). Boxes may be empty when there are more
/// ranks than samples.
std::vector<Box> ProcessGridBoxes(const Index3& dims, const Index3& process_grid);

/// The process grid with the most of `ranks` ranks, of those the one with the most equal numbers along the
/// axes, as MPI_Dims_create gives it, and of those the one whose boxes have the smallest surface.
/// @param cells  cells to be shared out along each axis: at least one for each rank
/// @param shape  of a cell, in samples
Index3 NearCubeGrid(const Index3& cells, const Index3& shape, int ranks);

/// How ranks share the units in which a file is read.
enum class ReadingOrder {
  kConsecutive,  ///< each rank one run of units
  kRoundRobin,   ///< unit u goes to rank u mod ranks
  kDirect,       ///< each rank what it encodes, as programs without redistribution read
};

/// The boxes of `region` that `ranks` ranks read from a file stored x fastest: slabs of z, and of y if there
/// are more ranks than z samples, so that every rank reads few long runs. Cuts only where the file can be
/// read in parts; ranks beyond that get nothing, which is normal. A formula: no list of boxes is made.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.A, for stacks of images
class ReadingBoxes final : public RankBoxes {
 public:
  /// @param unit  samples x, y, z of the smallest part that is worth reading on its own: an image of a stack,
  ///              a chunk; {1,1,1} for raw files. Units begin at sample (0,0,0) of the file.
  /// @param order kRoundRobin deals out units of z one by one, as several boxes for each rank. kDirect gives
  ///              the boxes of NearCubeGrid; the unit is then the patch, and no patch is on two ranks
  ReadingBoxes(const Box& region, const Index3& unit, int ranks, ReadingOrder order);

  int ranks() const override { return ranks_; }
  std::vector<Box> Of(int rank) const override;
  void ForEachMeeting(const Box& region, const Visit& visit) const override;

 private:
  /// The units of an axis in the region: the first and the last may be cut.
  struct Axis {
    std::int64_t begin = 0;  ///< where the region begins
    std::int64_t end = 0;
    std::int64_t unit = 1;

    std::int64_t count() const { return (end - 1) / unit - begin / unit + 1; }
    std::int64_t UnitOf(std::int64_t sample) const { return sample / unit - begin / unit; }
    /// Where a unit begins; the one after the last begins at the end.
    std::int64_t At(std::int64_t number) const;
  };

  /// The even share of a part, of a process grid of parts_.
  Box Share(const Index3& part) const;
  /// A box of the region between units of z.
  Box UnitOfZ(std::int64_t number) const;

  const int ranks_;
  const bool round_robin_;
  Box region_;
  std::array<Axis, 3> axes_;
  Index3 parts_{};  ///< ranks along each axis
};

/// ReadingBoxes as a list.
Ownership ReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order);

}  // namespace quarry::distribution
