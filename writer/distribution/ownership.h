#pragma once

#include <vector>

#include "quarry/box.h"

namespace quarry::distribution {

/// The boxes that each rank owns, by rank: any number of them, none included. Boxes of different ranks, and
/// of one rank, are disjoint.
using Ownership = std::vector<std::vector<Box>>;

/// One box for each rank; empty boxes are ranks without data.
Ownership OneBoxEach(const std::vector<Box>& boxes);

}  // namespace quarry::distribution
