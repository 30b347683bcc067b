#include "writer/distribution/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "tests/unit/distribution/earlier_placement.h"
#include "writer/distribution/decomposition.h"

namespace quarry::distribution {
namespace {

std::map<std::int64_t, int> RanksByPatchCount(const std::vector<std::int64_t>& counts) {
  std::map<std::int64_t, int> ranks;
  for (const std::int64_t count : counts) ++ranks[count];
  return ranks;
}

// Fan et al., figure 4: 3 x 3 patches on 2 x 2 ranks, boundary patches smaller. With 10 x 10 samples, patches
// of 4 and ranks meeting at 5, the rank of the upper right corner owns the largest part of patches 4, 5, 7
// and 8.
TEST(PlacePatches, EqualsTheFigureOfThePaper) {
  const PatchGrid grid = *PatchGrid::Create({10, 10, 1}, {4, 4, 1});
  const std::vector<Box> owned = ProcessGridBoxes({10, 10, 1}, {2, 2, 1});

  const Placement balanced = PlacePatches(grid, owned, PlacementStrategy::kBalanced);
  EXPECT_EQ(CountPerRank(balanced, 4), (std::vector<std::int64_t>{3, 2, 2, 2}));
  EXPECT_EQ(balanced[0], 0) << "patches inside one rank stay";
  EXPECT_EQ(balanced[2], 1);
  EXPECT_EQ(balanced[6], 2);
  EXPECT_EQ(balanced[8], 3);
  EXPECT_EQ(balanced[1], 0) << "patch 1 goes to the lower of its two ranks";

  const Placement greedy = PlacePatches(grid, owned, PlacementStrategy::kGreedy);
  EXPECT_EQ(CountPerRank(greedy, 4), (std::vector<std::int64_t>{1, 2, 2, 4}));
}

// Section V.A: 1600^3 in 64^3 patches on 4,096 ranks of 100^3. Per axis 7 ranks get one patch and 9 get two
// by greed, so 7^3, 3 * 7^2 * 9, 3 * 7 * 9^2 and 9^3 ranks have 1, 2, 4 and 8.
TEST(PlacePatches, EqualsTheExperimentOfThePaper) {
  const PatchGrid grid = *PatchGrid::Create({1600, 1600, 1600}, {64, 64, 64});
  const std::vector<Box> owned = ProcessGridBoxes({1600, 1600, 1600}, {16, 16, 16});
  ASSERT_EQ(grid.patch_count(), 15625);

  const auto balanced = CountPerRank(PlacePatches(grid, owned, PlacementStrategy::kBalanced), 4096);
  EXPECT_EQ(RanksByPatchCount(balanced), (std::map<std::int64_t, int>{{3, 759}, {4, 3337}}));

  const auto greedy = CountPerRank(PlacePatches(grid, owned, PlacementStrategy::kGreedy), 4096);
  EXPECT_EQ(RanksByPatchCount(greedy),
            (std::map<std::int64_t, int>{{1, 343}, {2, 1323}, {4, 1701}, {8, 729}}));
}

TEST(PlacePatches, HandlesTensOfThousandsOfRanks) {
  const Index3 dims = {4096, 4096, 4096};
  const PatchGrid grid = *PatchGrid::Create(dims, {64, 64, 64});
  const auto counts = CountPerRank(
      PlacePatches(grid, ProcessGridBoxes(dims, {32, 32, 32}), PlacementStrategy::kBalanced), 32768);
  EXPECT_EQ(RanksByPatchCount(counts), (std::map<std::int64_t, int>{{8, 32768}}));
}

TEST(PlacePatches, BalancedIsBalancedForAnyBoxesAndEmptyRanks) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Index3 dims = {1 + static_cast<std::int64_t>(random() % 40),
                         1 + static_cast<std::int64_t>(random() % 40),
                         1 + static_cast<std::int64_t>(random() % 40)};
    const PatchGrid grid = *PatchGrid::Create(dims, {8, 4, 8});
    const int ranks = 1 + static_cast<int>(random() % 60);
    const Ownership owned = ReadingOwnership(grid.domain(), {1, 1, 1}, ranks, ReadingOrder::kConsecutive);
    const std::vector<std::int64_t> target = TargetCounts(grid.patch_count(), ranks);
    const auto counts = CountPerRank(PlacePatches(grid, owned, PlacementStrategy::kBalanced, target), ranks);

    EXPECT_EQ(counts, TargetCounts(grid.patch_count(), ranks));
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), grid.patch_count());
  }
}

TEST(PlacePatches, GreedyGoesToAnOwnerOfTheLargestPart) {
  const Index3 dims = {37, 23, 11};
  const PatchGrid grid = *PatchGrid::Create(dims, {8, 8, 8});
  const std::vector<Box> owned = ProcessGridBoxes(dims, {3, 2, 2});
  const Placement placement = PlacePatches(grid, owned, PlacementStrategy::kGreedy);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const auto part = [&](int rank) {
      return Intersect(grid.PatchBox(p), owned[static_cast<std::size_t>(rank)]).volume();
    };
    for (int rank = 0; rank < 12; ++rank) EXPECT_LE(part(rank), part(placement[static_cast<std::size_t>(p)]));
  }
}

TEST(ReadingOwnership, CoversTheRegionOnceInWholeUnitsForAnyNumberOfRanks) {
  for (const Box& region : {Box{{0, 0, 0}, {5, 1, 1}}, Box{{0, 0, 0}, {5, 7, 1}}, Box{{0, 2, 3}, {5, 9, 14}},
                            Box{{0, 0, 4}, {1, 1, 13}}}) {
    for (const Index3& unit : {Index3{1, 1, 1}, Index3{5, 3, 2}}) {
      for (const ReadingOrder order : {ReadingOrder::kConsecutive, ReadingOrder::kRoundRobin}) {
        for (int ranks = 1; ranks < 20; ++ranks) {
          const Ownership owned = ReadingOwnership(region, unit, ranks, order);
          ASSERT_EQ(owned.size(), static_cast<std::size_t>(ranks));
          std::vector<Box> all;
          for (const auto& boxes : owned) all.insert(all.end(), boxes.begin(), boxes.end());
          std::int64_t volume = 0;
          for (std::size_t a = 0; a < all.size(); ++a) {
            volume += all[a].volume();
            EXPECT_TRUE(region.Contains(all[a]));
            EXPECT_TRUE(all[a].begin[2] == region.begin[2] || all[a].begin[2] % unit[2] == 0);
            EXPECT_TRUE(all[a].begin[1] == region.begin[1] || all[a].begin[1] % unit[1] == 0);
            for (std::size_t b = 0; b < a; ++b) EXPECT_TRUE(Intersect(all[a], all[b]).empty());
          }
          EXPECT_EQ(volume, region.volume());
        }
      }
    }
  }
}

// Marrinan et al., section IV.A: images distributed one by one.
TEST(ReadingOwnership, DealsOutImagesRoundRobin) {
  const Ownership owned = ReadingOwnership({{0, 0, 0}, {8, 6, 5}}, {8, 6, 1}, 2, ReadingOrder::kRoundRobin);
  EXPECT_EQ(owned[0].size(), 3u);
  EXPECT_EQ(owned[1].size(), 2u);
  EXPECT_EQ(owned[1][1], (Box{{0, 0, 3}, {8, 6, 4}}));
}

/// Boxes of random ranks, some with several and some with none, that cover a grid once.
Ownership RandomOwnership(const Index3& dims, int ranks, std::mt19937* random) {
  Ownership owned(static_cast<std::size_t>(ranks));
  const Index3 cuts = {1 + static_cast<std::int64_t>((*random)() % std::min<std::int64_t>(4, dims[0])),
                       1 + static_cast<std::int64_t>((*random)() % std::min<std::int64_t>(4, dims[1])),
                       1 + static_cast<std::int64_t>((*random)() % std::min<std::int64_t>(4, dims[2]))};
  for (const Box& box : ProcessGridBoxes(dims, cuts)) owned[(*random)() % owned.size()].push_back(box);
  return owned;
}

TEST(ForEachPlacement, PlacesAsTheEarlierListsDid) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    Index3 dims;
    for (std::int64_t& extent : dims) extent = 1 + static_cast<std::int64_t>(random() % 30);
    const PatchGrid grid =
        *PatchGrid::Create(dims, {1 << random() % 3, 1 << random() % 4, 1 << random() % 3});
    const int ranks = 1 + static_cast<int>(random() % 12);
    const Ownership owned = RandomOwnership(dims, ranks, &random);
    const auto target = TargetCounts(grid.patch_count(), ranks);
    for (const auto strategy : {PlacementStrategy::kBalanced, PlacementStrategy::kGreedy}) {
      ASSERT_EQ(PlacePatches(grid, owned, strategy, target),
                testing::EarlierPlacement(grid, owned, strategy, target))
          << i << ": " << ToString(dims) << " on " << ranks;
    }
  }
}

// More patches than are looked at together: many layers, rows and parts of a row.
TEST(ForEachPlacement, VisitsAllPatchesOfLargeGridsInOrder) {
  for (const Index3& dims : {Index3{20, 30, 40}, Index3{3, 5000, 2}, Index3{10001, 2, 2}}) {
    const PatchGrid grid = *PatchGrid::Create(dims, {1, 1, 1});
    const Ownership owned = OneBoxEach(ProcessGridBoxes(dims, {3, 2, 2}));
    const auto target = TargetCounts(grid.patch_count(), 12);
    std::int64_t next = 0;
    Placement placement;
    ForEachPlacement(grid, ListedBoxes(owned), PlacementStrategy::kBalanced, target,
                     [&](const PlacedPatch& placed) {
                       ASSERT_EQ(placed.patch, next++);
                       ASSERT_FALSE(placed.sharers.empty());
                       placement.push_back(placed.rank);
                     });
    EXPECT_EQ(placement, testing::EarlierPlacement(grid, owned, PlacementStrategy::kBalanced, target));
  }
}

/// By rank, then number.
std::vector<RankBox> Sorted(std::vector<RankBox> boxes) {
  std::sort(boxes.begin(), boxes.end(), [](const RankBox& a, const RankBox& b) {
    return std::pair(a.rank, a.number) < std::pair(b.rank, b.number);
  });
  return boxes;
}

bool SameBoxes(const std::vector<RankBox>& a, const std::vector<RankBox>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const RankBox& x, const RankBox& y) {
    return x.box == y.box && x.rank == y.rank && x.number == y.number;
  });
}

TEST(ReadingBoxes, AreTheEarlierListsAndFoundByRegion) {
  std::mt19937 random(6);
  for (int i = 0; i < 4000; ++i) {
    Box region;
    Index3 unit;
    for (std::size_t a = 0; a < 3; ++a) {
      region.begin[a] = static_cast<std::int64_t>(random() % 9);
      region.end[a] = region.begin[a] + 1 + static_cast<std::int64_t>(random() % 12);
      unit[a] = 1 + static_cast<std::int64_t>(random() % 6);
    }
    const int ranks = 1 + static_cast<int>(random() % 40);
    const auto order = static_cast<ReadingOrder>(random() % 3);
    const Ownership expected = testing::EarlierReadingOwnership(region, unit, ranks, order);
    ASSERT_EQ(ReadingOwnership(region, unit, ranks, order), expected);

    Box part;
    for (std::size_t a = 0; a < 3; ++a) {
      part.begin[a] = static_cast<std::int64_t>(random() % 20);
      part.end[a] = static_cast<std::int64_t>(random() % 22);
    }
    std::vector<RankBox> found;
    ReadingBoxes(region, unit, ranks, order).ForEachMeeting(part, [&](const RankBox& box) {
      found.push_back(box);
    });
    std::vector<RankBox> listed;
    ListedBoxes(expected).ForEachMeeting(part, [&](const RankBox& box) { listed.push_back(box); });
    ASSERT_TRUE(SameBoxes(Sorted(found), Sorted(listed))) << i;
  }
}

TEST(BoxesInRegion, AreThePartsThereInItsCoordinates) {
  const Ownership owned = {{{{0, 0, 0}, {4, 8, 1}}, {{4, 0, 0}, {8, 4, 1}}}, {}, {{{4, 4, 0}, {8, 8, 1}}}};
  const ListedBoxes all(owned);
  const BoxesInRegion inside(all, {{3, 2, 0}, {8, 4, 1}}, {3, 2, 0});

  EXPECT_EQ(inside.ranks(), 3);
  EXPECT_EQ(inside.Of(0), (std::vector<Box>{{{0, 0, 0}, {1, 2, 1}}, {{1, 0, 0}, {5, 2, 1}}}));
  EXPECT_TRUE(inside.Of(1).empty());
  EXPECT_TRUE(inside.Of(2).empty()) << "it lies beyond y 4";
  std::vector<RankBox> found;
  inside.ForEachMeeting({{0, 0, 0}, {1, 9, 9}}, [&](const RankBox& box) { found.push_back(box); });
  EXPECT_TRUE(SameBoxes(found, {{{{0, 0, 0}, {1, 2, 1}}, 0, 0}}));
}

TEST(FindSharers, CountsARankWithSeveralBoxesOnce) {
  const PatchGrid grid = *PatchGrid::Create({8, 1, 1}, {4, 1, 1});
  const Ownership owned = {{{{0, 0, 0}, {1, 1, 1}}, {{2, 0, 0}, {4, 1, 1}}},
                           {{{1, 0, 0}, {2, 1, 1}}, {{4, 0, 0}, {8, 1, 1}}}};
  const Sharers sharers = FindSharers(grid, owned);
  EXPECT_EQ(sharers.first, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(sharers.ranks, (std::vector<int>{0, 1, 1}));
  // Rank 0 has three samples of patch 0 in two boxes, rank 1 one.
  const Placement greedy = PlacePatches(grid, owned, PlacementStrategy::kGreedy, {});
  EXPECT_EQ(greedy, (Placement{0, 1}));
}

TEST(NextTargetCounts, KeepTheWholeBalancedOverParts) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int64_t> counts(1 + random() % 30, 0);
    std::int64_t total = 0;
    for (int part = 0; part < 10; ++part) {
      const std::int64_t patches = random() % 50;
      const auto more = NextTargetCounts(counts, patches);
      for (std::size_t r = 0; r < counts.size(); ++r) counts[r] += more[r];
      total += patches;
      const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
      EXPECT_LE(*high - *low, 1);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), total);
    }
  }
  EXPECT_EQ(NextTargetCounts(std::vector<std::int64_t>(4, 0), 9), TargetCounts(9, 4));
}

TEST(TargetCounts, SpreadTheRemainderEvenly) {
  EXPECT_EQ(TargetCounts(9, 4), (std::vector<std::int64_t>{3, 2, 2, 2}));
  EXPECT_EQ(TargetCounts(10, 4), (std::vector<std::int64_t>{3, 2, 3, 2}));
  EXPECT_EQ(TargetCounts(2, 5), (std::vector<std::int64_t>{1, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace quarry::distribution
