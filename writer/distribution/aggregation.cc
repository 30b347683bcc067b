#include "writer/distribution/aggregation.h"

#include <algorithm>
#include <numeric>

#include "quarry/base/status.h"

namespace quarry::distribution {
namespace {

/// For the patches from each position on, the fewest runs of at most `limit` bytes; no size exceeds `limit`.
/// Taking as much as fits is optimal, and the end of a run from `i` only moves forward with `i`.
std::vector<std::size_t> RunsNeeded(std::span<const std::uint64_t> sizes, std::uint64_t limit) {
  const std::size_t n = sizes.size();
  std::vector<std::size_t> needed(n + 1, 0);
  std::size_t end = n;
  std::uint64_t sum = 0;  // sum over [i, end)
  for (std::size_t i = n; i-- > 0;) {
    sum += sizes[i];
    while (sum > limit) sum -= sizes[--end];
    needed[i] = 1 + needed[end];
  }
  return needed;
}

/// The smallest possible size of the largest of `files` runs, in bytes.
std::uint64_t SmallestLargestRun(std::span<const std::uint64_t> sizes, std::size_t files) {
  std::uint64_t low = *std::max_element(sizes.begin(), sizes.end());
  std::uint64_t high = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (RunsNeeded(sizes, middle)[0] <= files) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Assignment AssignEqual(std::size_t patches, std::size_t files) {
  Assignment begin(files + 1);
  for (std::size_t f = 0; f <= files; ++f) begin[f] = patches * f / files;
  return begin;
}

Assignment AssignBalanced(std::span<const std::uint64_t> sizes, std::size_t files) {
  const std::uint64_t limit = SmallestLargestRun(sizes, files);
  const std::vector<std::size_t> needed = RunsNeeded(sizes, limit);
  std::uint64_t remaining = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  Assignment begin = {0};
  std::size_t next = 0;
  for (std::size_t left = files; left > 1; --left) {
    const double average = static_cast<double>(remaining) / static_cast<double>(left);
    std::uint64_t sum = sizes[next++];
    // Leaves one patch for every later run. Within that, the run grows while the rest does not fit otherwise
    // or one more patch brings it nearer to the average.
    while (sizes.size() - next > left - 1) {
      const std::uint64_t longer = sum + sizes[next];
      const bool must = needed[next] > left - 1;
      const bool nearer = static_cast<double>(longer) - average < average - static_cast<double>(sum);
      if (!must && (longer > limit || !nearer)) break;
      sum = longer;
      ++next;
    }
    remaining -= sum;
    begin.push_back(next);
  }
  begin.push_back(sizes.size());
  return begin;
}

}  // namespace

Result<AggregationStrategy> ParseAggregation(const std::string& text) {
  if (text == "balanced") return AggregationStrategy::kBalanced;
  if (text == "equal") return AggregationStrategy::kEqual;
  return InvalidArgument("--aggregation \"{}\" is not known; give balanced or equal", text);
}

std::size_t UsableFiles(std::size_t patches, std::size_t files) {
  return std::max<std::size_t>(1, std::min(patches, files));
}

Assignment AssignPatches(std::span<const std::uint64_t> sizes, std::size_t files,
                         AggregationStrategy strategy) {
  if (strategy == AggregationStrategy::kEqual) return AssignEqual(sizes.size(), files);
  return AssignBalanced(sizes, files);
}

}  // namespace quarry::distribution
