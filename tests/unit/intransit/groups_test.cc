#include "writer/intransit/groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::intransit {
namespace {

std::vector<int> Sizes(int simulation_ranks, int writers) {
  std::vector<int> sizes;
  for (int w = 0; w < writers; ++w) {
    const RankRange group = SimulationRanksOf(w, simulation_ranks, writers);
    sizes.push_back(group.end - group.begin);
  }
  return sizes;
}

// Marrinan et al., figure 4: the first two of four have 3 ranks, the last two have 2.
TEST(Groups, TenRanksForFourAsInThePaper) {
  EXPECT_EQ(Sizes(10, 4), (std::vector<int>{3, 3, 2, 2}));
  EXPECT_EQ(SimulationRanksOf(0, 10, 4), (RankRange{0, 3}));
  EXPECT_EQ(SimulationRanksOf(1, 10, 4), (RankRange{3, 6}));
  EXPECT_EQ(SimulationRanksOf(2, 10, 4), (RankRange{6, 8}));
  EXPECT_EQ(SimulationRanksOf(3, 10, 4), (RankRange{8, 10}));
}

// The paper's run: 128 ranks for 32.
TEST(Groups, FactorsGiveEqualGroups) { EXPECT_EQ(Sizes(128, 32), std::vector<int>(32, 4)); }

TEST(Groups, MoreWritersThanRanksLeavesTheLastWithout) {
  EXPECT_EQ(Sizes(3, 5), (std::vector<int>{1, 1, 1, 0, 0}));
}

TEST(Groups, EveryRankHasOneWriterAndGroupsAreConsecutive) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int writers = 1; writers <= 45; ++writers) {
      int next = 0;
      for (int w = 0; w < writers; ++w) {
        const RankRange group = SimulationRanksOf(w, ranks, writers);
        ASSERT_EQ(group.begin, next) << ranks << " ranks, writer " << w << " of " << writers;
        next = group.end;
        for (int r = group.begin; r < group.end; ++r)
          ASSERT_EQ(WriterOf(r, ranks, writers), w)
              << "rank " << r << " of " << ranks << ", " << writers << " writers";
      }
      ASSERT_EQ(next, ranks) << writers << " writers";
    }
  }
}

}  // namespace
}  // namespace quarry::intransit
