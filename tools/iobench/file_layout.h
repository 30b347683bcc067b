#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tools/iobench/load.h"

/// Which units lie in which file, for each pipeline. Pure functions: every rank computes the same.
namespace quarry::iobench {

/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section V.C
enum class Pipeline {
  kFilePerProcess,   ///< every rank a file of its own
  kCollective,       ///< one file, written collectively by all ranks
  kGroupCollective,  ///< a file for each group of consecutive ranks, written collectively by them
  kEqual,            ///< aggregators that get equally many units, as in AggregationStrategy::kEqual
  kBalanced,         ///< aggregators that get nearly equal bytes, as in AggregationStrategy::kBalanced
};

inline constexpr Pipeline kPipelines[] = {Pipeline::kFilePerProcess, Pipeline::kCollective,
                                          Pipeline::kGroupCollective, Pipeline::kEqual, Pipeline::kBalanced};

/// "fpp", "collective", "group-collective", "equal", "balanced".
std::string_view Name(Pipeline pipeline);
std::optional<Pipeline> FindPipeline(std::string_view name);

/// A file: its units, one after the other.
struct FileLayout {
  std::vector<std::size_t> units;
  std::uint64_t bytes = 0;
};

/// First rank of group `g` of `groups`, groups being as equal as possible; `g` may be `groups`.
constexpr int GroupBegin(int g, int groups, int ranks) {
  return static_cast<int>(static_cast<std::int64_t>(ranks) * g / groups);
}

/// Files of a pipeline, by number. Those written rank by rank (the first three) hold the units of each rank
/// together, ascending; those of aggregators hold runs of the Morton order.
/// @param files  wanted by group-collective, equal and balanced; they take fewer where there are fewer ranks
/// or
///               units
std::vector<FileLayout> LayOutFiles(Pipeline pipeline, const Load& load, std::size_t files);

}  // namespace quarry::iobench
