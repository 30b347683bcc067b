#include "writer/redistribute/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "writer/distribution/decomposition.h"
#include "writer/redistribute/patch_schedule.h"

namespace quarry::redistribute {
namespace {

Box Cell(std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height) {
  return {{x, y, 0}, {x + width, y + height, 1}};
}

// Marrinan et al., example E1, Table I: 8 x 8 samples on 4 ranks. Rank r owns rows r and r + 4 and needs the
// quadrant at (4 (r mod 2), 4 (r / 2)).
Layout ExampleE1() {
  Layout layout{{8, 8, 1}, {}, {}};
  for (int r = 0; r < 4; ++r) {
    layout.owned.push_back({Cell(0, r, 8, 1), Cell(0, r + 4, 8, 1)});
    layout.needed.push_back({Cell(4 * (r % 2), 4 * (r / 2), 4, 4)});
  }
  return layout;
}

std::string MessageOf(const Layout& layout) {
  const Status status = CheckLayout(layout);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

std::vector<Part> PartsOf(const Layout& layout) {
  std::vector<Part> parts;
  ForEachPart(layout, [&](const Part& part) { parts.push_back(part); });
  return parts;
}

TEST(ForEachPart, EqualsExampleE1OfThePaper) {
  const std::vector<Part> parts = PartsOf(ExampleE1());

  ASSERT_EQ(parts.size(), 16u);
  // Round 0 moves the rows 0 to 3: their left halves to rank 0, their right halves to rank 1. Round 1 moves
  // the rows 4 to 7 to ranks 2 and 3.
  for (std::size_t round = 0; round < 2; ++round) {
    for (int source = 0; source < 4; ++source) {
      const int y = source + 4 * static_cast<int>(round);
      const int target = 2 * static_cast<int>(round);
      const std::size_t left = 8 * round + static_cast<std::size_t>(2 * source);
      EXPECT_EQ(parts[left], (Part{source, target, round, 0, Cell(0, y, 4, 1)}));
      EXPECT_EQ(parts[left + 1], (Part{source, target + 1, round, 0, Cell(4, y, 4, 1)}));
    }
  }
}

TEST(ScheduleForRank, IsFigure1bOfThePaper) {
  const RankSchedule schedule = ScheduleForRank(ExampleE1(), 0);

  EXPECT_EQ(schedule.rounds, 2u);
  EXPECT_EQ(schedule.copies, (std::vector<Part>{{0, 0, 0, 0, Cell(0, 0, 4, 1)}}));
  EXPECT_EQ(schedule.sends, (std::vector<Part>{{0, 1, 0, 0, Cell(4, 0, 4, 1)},
                                               {0, 2, 1, 0, Cell(0, 4, 4, 1)},
                                               {0, 3, 1, 0, Cell(4, 4, 4, 1)}}));
  EXPECT_EQ(schedule.receives, (std::vector<Part>{{1, 0, 0, 0, Cell(0, 1, 4, 1)},
                                                  {2, 0, 0, 0, Cell(0, 2, 4, 1)},
                                                  {3, 0, 0, 0, Cell(0, 3, 4, 1)}}));
}

TEST(CountRounds, IsTheLargestNumberOfChunks) {
  EXPECT_EQ(CountRounds({{Cell(0, 0, 1, 1)}, {}, {Cell(1, 0, 1, 1), Cell(2, 0, 1, 1), Cell(3, 0, 1, 1)}}),
            3u);
  EXPECT_EQ(CountRounds({{Cell(0, 0, 1, 1), Box{}}, {Box{}, Box{}, Box{}}}), 1u) << "empty chunks at the end";
  EXPECT_EQ(CountRounds({{}, {}}), 0u);
}

TEST(CheckLayout, NamesBothRanksOfAnOverlap) {
  Layout layout = ExampleE1();
  layout.owned[2][1] = Cell(0, 5, 8, 2);  // row 5 belongs to rank 1

  EXPECT_EQ(MessageOf(layout),
            "ranks 1 and 2 both own [0:8,5:6,0:1): box 1 of rank 1 is [0:8,5:6,0:1), box 1 of rank 2 is "
            "[0:8,5:7,0:1); owned boxes must not overlap");
}

TEST(CheckLayout, NamesARankThatOwnsSamplesTwice) {
  Layout layout = ExampleE1();
  layout.owned[3][1] = layout.owned[3][0];

  EXPECT_NE(MessageOf(layout).find("rank 3 owns [0:8,3:4,0:1) twice"), std::string::npos);
}

TEST(CheckLayout, NamesTheHole) {
  Layout layout = ExampleE1();
  layout.owned[2][1] = Cell(0, 6, 7, 1);

  EXPECT_EQ(MessageOf(layout),
            "none of 4 ranks owns [7:8,6:7,0:1) of the domain of 8x8x1 samples; the owned boxes must cover "
            "all of it");
}

TEST(CheckLayout, NamesTheRankWhoseBoxIsOutside) {
  Layout owned = ExampleE1();
  owned.owned[1][1] = Cell(1, 5, 8, 1);
  Layout needed = ExampleE1();
  needed.needed[3][0] = Cell(4, -1, 4, 4);

  EXPECT_EQ(
      MessageOf(owned),
      "rank 1 owns [1:9,5:6,0:1) (its box 1), which is not inside the domain of 8x8x1 samples; correct its "
      "size or offset");
  EXPECT_NE(MessageOf(needed).find("rank 3 needs [4:8,-1:3,0:1) (its box 0)"), std::string::npos);
}

TEST(CheckLayout, LetsNeedsOverlapAndLeaveGaps) {
  Layout layout = ExampleE1();
  layout.needed = {{Cell(0, 0, 8, 8), Cell(0, 0, 8, 8)}, {}, {Cell(1, 1, 1, 1), Box{}}, {}};

  EXPECT_TRUE(CheckLayout(layout).ok());
}

TEST(CheckDomain, RefusesWhatOffsetsCannotHold) {
  EXPECT_TRUE(CheckDomain({1 << 30, 1 << 30, 1}, 7).ok());
  EXPECT_FALSE(CheckDomain({1 << 30, 1 << 30, 1}, 8).ok());
  EXPECT_FALSE(CheckDomain({8, 0, 1}, 4).ok());
  EXPECT_FALSE(CheckDomain({8, 8, 1}, 0).ok());
}

/// Splits a box at random into `count` pieces, and distributes them.
Ownership RandomTiling(const Index3& dims, std::size_t ranks, std::size_t count, std::mt19937* random) {
  std::vector<Box> boxes = {{{0, 0, 0}, dims}};
  while (boxes.size() < count) {
    Box& box = boxes[(*random)() % boxes.size()];
    const std::size_t axis = (*random)() % 3;
    const std::int64_t extent = box.shape()[axis];
    if (extent < 2) continue;
    const std::int64_t cut = box.begin[axis] + 1 + static_cast<std::int64_t>((*random)() % (extent - 1));
    Box rest = box;
    box.end[axis] = cut;
    rest.begin[axis] = cut;
    boxes.push_back(rest);
  }
  Ownership owned(ranks);
  for (const Box& box : boxes) owned[(*random)() % ranks].push_back(box);
  return owned;
}

TEST(CheckLayout, FindsAnyMissingAndAnyDoubleBoxOfARandomTiling) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 60;
    Layout layout{{16, 12, 9}, RandomTiling({16, 12, 9}, 5, count, &random), Ownership(5)};
    ASSERT_TRUE(CheckLayout(layout).ok()) << CheckLayout(layout).message();

    std::size_t rank = random() % 5;
    while (layout.owned[rank].empty()) rank = (rank + 1) % 5;
    const Box lost = layout.owned[rank].back();
    layout.owned[rank].pop_back();
    EXPECT_NE(MessageOf(layout).find(fmt::format("owns {} of the domain", ToString(lost))),
              std::string::npos);

    layout.owned[rank].push_back(lost);
    layout.owned[random() % 5].push_back(
        {lost.begin, {lost.begin[0] + 1, lost.begin[1] + 1, lost.begin[2] + 1}});
    EXPECT_NE(MessageOf(layout).find("owned boxes must not overlap"), std::string::npos);
  }
}

TEST(ForEachPart, IsWhatAllPairsOfBoxesGiveAndWhatTheRanksSchedule) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const Index3 dims = {40, 17, 8};
    const Layout layout{dims, RandomTiling(dims, 6, 70, &random), RandomTiling(dims, 6, 30, &random)};

    const std::vector<Part> parts = PartsOf(layout);

    std::vector<Part> expected;
    for (std::size_t chunk = 0; chunk < CountRounds(layout.owned); ++chunk) {
      for (int s = 0; s < 6; ++s) {
        if (chunk >= layout.owned[s].size()) continue;
        for (int t = 0; t < 6; ++t) {
          for (std::size_t n = 0; n < layout.needed[t].size(); ++n) {
            const Box both = Intersect(layout.owned[s][chunk], layout.needed[t][n]);
            if (!both.empty()) expected.push_back({s, t, chunk, n, both});
          }
        }
      }
    }
    EXPECT_EQ(parts, expected);
    std::vector<Part> sent;
    std::vector<Part> received;
    for (int rank = 0; rank < 6; ++rank) {
      const RankSchedule schedule = ScheduleForRank(layout, rank);
      sent.insert(sent.end(), schedule.sends.begin(), schedule.sends.end());
      sent.insert(sent.end(), schedule.copies.begin(), schedule.copies.end());
      received.insert(received.end(), schedule.receives.begin(), schedule.receives.end());
      received.insert(received.end(), schedule.copies.begin(), schedule.copies.end());
    }
    const auto in_order = [](const Part& a, const Part& b) {
      return std::tie(a.owned_box, a.source, a.target, a.needed_box) <
             std::tie(b.owned_box, b.source, b.target, b.needed_box);
    };
    std::sort(sent.begin(), sent.end(), in_order);
    std::sort(received.begin(), received.end(), in_order);
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(received, expected);
  }
}

// A million chunks: quadratic work would take too long.
TEST(ScheduleForRank, ScalesToThousandsOfRanksWithManyChunks) {
  constexpr int kRanks = 4096;
  const Index3 dims = {256, 256, 1 << 20};
  const Layout layout{dims,
                      distribution::ReadingOwnership({{0, 0, 0}, dims}, {256, 256, 1}, kRanks,
                                                     distribution::ReadingOrder::kRoundRobin),
                      distribution::OneBoxEach(distribution::ProcessGridBoxes(dims, {2, 2, 1024}))};

  EXPECT_TRUE(CheckLayout(layout).ok());
  const RankSchedule schedule = ScheduleForRank(layout, 17);

  EXPECT_EQ(schedule.rounds, 256u);
  EXPECT_EQ(schedule.sends.size() + schedule.copies.size(), 256u * 4);
  EXPECT_EQ(schedule.receives.size() + schedule.copies.size(), 1024u);
}

/// The schedule as it follows from the patches of all ranks.
RankSchedule ScheduleFromLists(const PatchGrid& grid, const Ownership& owned,
                               const distribution::Placement& placement, int rank) {
  RankSchedule schedule = ScheduleForRank(
      {grid.dims(), owned, distribution::PatchesOfRanks(grid, placement, owned.size())}, rank);
  schedule.rounds = 0;
  std::vector<std::vector<std::int64_t>> patches(owned.size());
  for (std::size_t p = 0; p < placement.size(); ++p)
    patches[static_cast<std::size_t>(placement[p])].push_back(static_cast<std::int64_t>(p));
  for (Part& part : schedule.sends)
    part.needed_box =
        static_cast<std::size_t>(patches[static_cast<std::size_t>(part.target)][part.needed_box]);
  return schedule;
}

TEST(PatchScheduler, EqualsTheScheduleFromThePatchesOfAllRanks) {
  std::mt19937 random(9);
  for (int i = 0; i < 500; ++i) {
    Index3 dims;
    for (std::int64_t& extent : dims) extent = 1 + static_cast<std::int64_t>(random() % 14);
    const PatchGrid grid =
        *PatchGrid::Create(dims, {1 << random() % 3, 1 << random() % 3, 1 << random() % 3});
    const int ranks = 1 + static_cast<int>(random() % 6);
    const auto order = static_cast<distribution::ReadingOrder>(random() % 2);
    const Ownership owned = distribution::ReadingOwnership(grid.domain(), {1, 1, 1}, ranks, order);
    const distribution::ListedBoxes boxes(owned);
    const auto strategy = static_cast<distribution::PlacementStrategy>(random() % 2);
    const auto target = distribution::TargetCounts(grid.patch_count(), ranks);
    const distribution::Placement placement = distribution::PlacePatches(grid, owned, strategy, target);
    for (int rank = 0; rank < ranks; ++rank) {
      PatchScheduler scheduler(grid, boxes, rank);
      distribution::ForEachPlacement(grid, boxes, strategy, target,
                                     [&](const distribution::PlacedPatch& placed) { scheduler.Add(placed); });

      const PatchSchedule result = std::move(scheduler).Finish();

      const RankSchedule expected = ScheduleFromLists(grid, owned, placement, rank);
      ASSERT_EQ(result.schedule.sends, expected.sends) << i;
      ASSERT_EQ(result.schedule.receives, expected.receives) << i;
      ASSERT_EQ(result.schedule.copies, expected.copies) << i;
      ASSERT_EQ(result.schedule.owned, expected.owned) << i;
      ASSERT_EQ(result.schedule.needed, expected.needed) << i;
      ASSERT_EQ(result.patches.size(), expected.needed.size());
      for (std::size_t n = 0; n < result.patches.size(); ++n)
        ASSERT_EQ(grid.PatchBox(result.patches[n]), expected.needed[n]);
    }
  }
}

}  // namespace
}  // namespace quarry::redistribute
