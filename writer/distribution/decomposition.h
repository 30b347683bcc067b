#pragma once

#include <vector>

#include "quarry/geometry/box.h"

namespace quarry::distribution {

/// The even share of each rank of a process grid, x fastest in the rank number: rank coordinate i of p on an
/// axis of n samples owns [floor(n i / p), floor(n (i + 1) / p)). Boxes may be empty when there are more
/// ranks than samples.
std::vector<Box> ProcessGridBoxes(const Index3& dims, const Index3& process_grid);

/// Boxes in which `ranks` ranks read a file that is stored x fastest: slabs of z, and of y where there are
/// more ranks than z samples, so that every rank reads few long runs. Ranks beyond that get an empty box: a
/// normal case.
std::vector<Box> ReadingBoxes(const Index3& dims, int ranks);

}  // namespace quarry::distribution
