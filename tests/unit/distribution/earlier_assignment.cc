#include "tests/unit/distribution/earlier_assignment.h"

#include <algorithm>
#include <numeric>

namespace quarry::testing {
namespace {

/// For the patches from each position on, the fewest runs of at most `limit` bytes; no size exceeds `limit`.
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

}  // namespace

std::vector<std::size_t> EarlierAssignment(std::span<const std::uint64_t> sizes, std::size_t files) {
  const std::uint64_t limit = SmallestLargestRun(sizes, files);
  const std::vector<std::size_t> needed = RunsNeeded(sizes, limit);
  std::uint64_t remaining = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  std::vector<std::size_t> begin = {0};
  std::size_t next = 0;
  for (std::size_t left = files; left > 1; --left) {
    const double average = static_cast<double>(remaining) / static_cast<double>(left);
    std::uint64_t sum = sizes[next++];
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

}  // namespace quarry::testing
