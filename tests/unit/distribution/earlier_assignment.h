#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quarry::testing {

/// The assignment as it was computed from a list of all sizes, patch by patch: today's must be the same,
/// whatever the pieces of the curve.
std::vector<std::size_t> EarlierAssignment(std::span<const std::uint64_t> sizes, std::size_t files);

}  // namespace quarry::testing
