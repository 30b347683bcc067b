#pragma once

#include <vector>

#include "writer/distribution/ownership.h"

namespace quarry::distribution {

/// The even share of each rank of a process grid, x fastest in the rank number: rank coordinate i of p on an
/// axis of n samples owns [floor(n i / p), floor(n (i + 1) / p)). Boxes may be empty when there are more
/// ranks than samples.
std::vector<Box> ProcessGridBoxes(const Index3& dims, const Index3& process_grid);

/// How ranks share the units in which a file is read.
enum class ReadingOrder {
  kConsecutive,  ///< each rank one run of units
  kRoundRobin,   ///< unit u goes to rank u mod ranks
};

/// The boxes of `region` that `ranks` ranks read from a file stored x fastest: slabs of z, and of y if there
/// are more ranks than z samples, so that every rank reads few long runs. Cuts only where the file can be
/// read in parts; ranks beyond that get nothing, which is normal.
///
/// @param unit  samples x, y, z of the smallest part that is worth reading on its own: an image of a stack, a
///              chunk; {1,1,1} for raw files. Units begin at sample (0,0,0) of the file.
/// @param order kRoundRobin deals out units of z one by one, as several boxes for each rank
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.A, for stacks of images
Ownership ReadingOwnership(const Box& region, const Index3& unit, int ranks, ReadingOrder order);

}  // namespace quarry::distribution
