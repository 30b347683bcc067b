#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/result.h"
#include "quarry/strategies.h"

/// Which patch goes to which subfile, and which rank writes it. Pure functions, as in placement.h.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section IV.C
namespace quarry::distribution {

/// Cuts patches, in Morton order, into `files` runs: run f is [begin[f], begin[f + 1]). begin has files + 1
/// entries.
using Assignment = std::vector<std::size_t>;

/// "balanced" or "equal", of an option --aggregation. @errors kInvalidArgument
Result<AggregationStrategy> ParseAggregation(const std::string& text);

/// No more files than patches: every subfile holds at least one.
std::size_t UsableFiles(std::size_t patches, std::size_t files);

/// Balanced: the paper's scan against the running average of the remaining bytes, with two changes. A run
/// ends on the nearer side of the average, not always beyond it. No run exceeds the smallest possible largest
/// file in this order, so no better balance exists; docs/decisions/writer.md explains why.
/// @param sizes  encoded bytes of each patch, in Morton order
/// @param files  1 to sizes.size()
/// @complexity O(patches + files log(patches) log(bytes))
Assignment AssignPatches(std::span<const std::uint64_t> sizes, std::size_t files,
                         AggregationStrategy strategy);

/// Equal: the same number of patches for each file, plus or minus one. No size matters.
Assignment AssignEqual(std::uint64_t patches, std::size_t files);

/// Rank that writes a subfile: aggregators are spread evenly over the ranks; with more files than ranks a
/// rank has several.
inline int AggregatorRank(std::size_t file, std::size_t files, int ranks) {
  return static_cast<int>(file * static_cast<std::size_t>(ranks) / files);
}

}  // namespace quarry::distribution
