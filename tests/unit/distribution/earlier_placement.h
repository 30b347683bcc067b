#pragma once

#include <span>

#include "writer/distribution/decomposition.h"
#include "writer/distribution/placement.h"

namespace quarry::testing {

/// Placement and boxes as they were computed with lists of all patches and all ranks: today's must be the
/// same.
distribution::Placement EarlierPlacement(const PatchGrid& grid, const distribution::Ownership& owned,
                                         distribution::PlacementStrategy strategy,
                                         std::span<const std::int64_t> target);
distribution::Ownership EarlierReadingOwnership(const Box& region, const Index3& unit, int ranks,
                                                distribution::ReadingOrder order);

}  // namespace quarry::testing
