#include "writer/distribution/aggregation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace quarry::distribution {
namespace {

std::vector<std::uint64_t> RunBytes(const std::vector<std::uint64_t>& sizes, const Assignment& begin) {
  std::vector<std::uint64_t> bytes;
  for (std::size_t f = 0; f + 1 < begin.size(); ++f) {
    bytes.push_back(std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(begin[f]),
                                    sizes.begin() + static_cast<std::ptrdiff_t>(begin[f + 1]),
                                    std::uint64_t{0}));
  }
  return bytes;
}

double MaxOverMean(const std::vector<std::uint64_t>& bytes) {
  const double sum = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) *
         static_cast<double>(bytes.size()) / sum;
}

/// The smallest possible largest run, found by trying every cut.
std::uint64_t BruteForce(const std::vector<std::uint64_t>& sizes, std::size_t from, std::size_t files) {
  if (files == 1)
    return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end(), std::uint64_t{0});
  std::uint64_t best = ~std::uint64_t{0};
  std::uint64_t sum = 0;
  for (std::size_t end = from + 1; end + files - 1 <= sizes.size(); ++end) {
    sum += sizes[end - 1];
    best = std::min(best, std::max(sum, BruteForce(sizes, end, files - 1)));
  }
  return best;
}

TEST(AssignPatches, EqualsTheHandComputation) {
  // 30 bytes in 3 files: 10 each. 6 + 5 is nearer to 10 than 6; then 19 remain for 2 files: 7 + 3 is nearer
  // to 9.5 than 7.
  const std::vector<std::uint64_t> sizes = {6, 5, 7, 3, 2, 7};
  EXPECT_EQ(AssignPatches(sizes, 3, AggregationStrategy::kBalanced), (Assignment{0, 2, 4, 6}));
  EXPECT_EQ(AssignPatches(sizes, 3, AggregationStrategy::kEqual), (Assignment{0, 2, 4, 6}));
  EXPECT_EQ(AssignPatches(sizes, 4, AggregationStrategy::kEqual), (Assignment{0, 1, 3, 4, 6}));
}

TEST(AssignPatches, NoOtherCutHasASmallerLargestFile) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::uint64_t> sizes(2 + random() % 9);
    for (std::uint64_t& size : sizes) size = random() % 4 == 0 ? 1000 : 1 + random() % 50;
    const std::size_t files = 1 + random() % sizes.size();
    const Assignment begin = AssignPatches(sizes, files, AggregationStrategy::kBalanced);
    const std::vector<std::uint64_t> bytes = RunBytes(sizes, begin);

    ASSERT_EQ(begin.size(), files + 1);
    EXPECT_EQ(begin.front(), 0u);
    EXPECT_EQ(begin.back(), sizes.size());
    for (std::size_t f = 0; f < files; ++f) EXPECT_LT(begin[f], begin[f + 1]) << "every file holds a patch";
    EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), BruteForce(sizes, 0, files));
  }
}

TEST(AssignPatches, BalancesVeryUnevenPatchesWhereEqualDoesNot) {
  std::mt19937 random(2);
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 400; ++i) sizes.push_back(i < 200 ? 20 + random() % 20 : 20000 + random() % 80000);
  const double balanced =
      MaxOverMean(RunBytes(sizes, AssignPatches(sizes, 10, AggregationStrategy::kBalanced)));
  const double equal = MaxOverMean(RunBytes(sizes, AssignPatches(sizes, 10, AggregationStrategy::kEqual)));

  EXPECT_LE(balanced, 1.1);
  EXPECT_GE(equal, 1.5);
}

TEST(AggregatorRank, SpreadsOverTheRanks) {
  std::vector<int> ranks;
  for (std::size_t f = 0; f < 4; ++f) ranks.push_back(AggregatorRank(f, 4, 16));
  EXPECT_EQ(ranks, (std::vector<int>{0, 4, 8, 12}));
  EXPECT_EQ(AggregatorRank(5, 6, 3), 2) << "with more files than ranks a rank writes several";
  EXPECT_EQ(AggregatorRank(0, 6, 3), AggregatorRank(1, 6, 3));
}

TEST(UsableFiles, NeverExceedsThePatches) {
  EXPECT_EQ(UsableFiles(3, 8), 3u);
  EXPECT_EQ(UsableFiles(100, 8), 8u);
}

}  // namespace
}  // namespace quarry::distribution
