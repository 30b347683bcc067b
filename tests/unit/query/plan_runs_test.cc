#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "quarry/query/distance_order.h"
#include "quarry/query/left_out.h"
#include "quarry/query/patch_locator.h"

// Pieces of plans that are made run by run.
namespace quarry::query {
namespace {

Box RandomPart(const Index3& extent, std::mt19937* random) {
  Box part;
  for (std::size_t a = 0; a < 3; ++a) {
    part.begin[a] = static_cast<std::int64_t>((*random)()) % extent[a];
    part.end[a] = part.begin[a] + 1 + static_cast<std::int64_t>((*random)()) % (extent[a] - part.begin[a]);
  }
  return part;
}

/// The codes of a box by distance, all in a list.
std::vector<std::uint64_t> SortedCodes(const PatchGrid& grid, const Box& positions,
                                       const std::array<double, 3>& focus) {
  std::vector<std::pair<double, std::uint64_t>> order;
  MortonRuns runs(positions);
  for (auto run = runs.Next(); run; run = runs.Next()) {
    for (std::uint64_t code = run->begin; code < run->end; ++code)
      order.emplace_back(SquaredDistance(focus, grid.PatchBox(MortonDecode(code))), code);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint64_t> codes;
  for (const auto& [distance, code] : order) codes.push_back(code);
  return codes;
}

/// The codes of shells one after the other, sorted by distance in each.
std::vector<std::uint64_t> CodesOfShells(const PatchGrid& grid, const DistanceOrder& order,
                                         const std::vector<Shell>& shells, std::uint64_t most,
                                         const std::array<double, 3>& focus) {
  std::vector<std::uint64_t> codes;
  for (const Shell& shell : shells) {
    std::vector<std::pair<double, std::uint64_t>> sorted;
    for (const MortonRun& run : order.CodesOf(shell)) {
      for (std::uint64_t code = run.begin; code < run.end; ++code)
        sorted.emplace_back(SquaredDistance(focus, grid.PatchBox(MortonDecode(code))), code);
    }
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; }));
    std::sort(sorted.begin(), sorted.end());
    EXPECT_LE(sorted.size(), most);
    EXPECT_FALSE(sorted.empty());
    for (const auto& [distance, code] : sorted) codes.push_back(code);
  }
  return codes;
}

TEST(DistanceOrder, ShellsFollowOneAnotherAsTheDistancesDo) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Index3 dims = {1 + static_cast<std::int64_t>(random() % 150),
                         1 + static_cast<std::int64_t>(random() % 90),
                         1 + static_cast<std::int64_t>(random() % 40)};
    const PatchGrid grid = *PatchGrid::Create(dims, {8, 4, 4});
    const Box positions = RandomPart(grid.patches(), &random);
    std::array<double, 3> focus{};
    std::uniform_real_distribution<double> near(-50, 200);
    for (double& along : focus) along = i % 5 == 0 ? std::floor(near(random)) : near(random);
    if (i % 7 == 0) focus[random() % 3] = i % 2 == 0 ? 1e9 : -1e300;
    const std::uint64_t most = 1 + random() % 60;
    const DistanceOrder order(grid, positions, focus);

    const std::vector<Shell> shells = order.Cut(most);

    EXPECT_EQ(CodesOfShells(grid, order, shells, most, focus), SortedCodes(grid, positions, focus)) << i;
    const std::uint64_t patches = static_cast<std::uint64_t>(positions.volume());
    EXPECT_LE(shells.size(), 4 * (patches / most + 1)) << "PlanningMemory counts on it";
  }
}

TEST(DistanceOrder, PatchesOfOneDistanceAreCutAlongTheCurve) {
  const PatchGrid grid = *PatchGrid::Create({64, 64, 4}, {4, 4, 4});
  const std::array<double, 3> focus = {1e200, 0, 0};  // all squares are infinite

  const std::vector<Shell> shells = DistanceOrder(grid, {{0, 0, 0}, grid.patches()}, focus).Cut(100);

  ASSERT_EQ(shells.size(), 3u);
  EXPECT_EQ(shells[0].codes.begin, 0u);
  EXPECT_LT(shells[0].codes.end, shells[2].codes.begin);
}

TEST(LeftOutPatches, AreJoinedAsTheirBoxes) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    const Index3 dims = {1 + static_cast<std::int64_t>(random() % 40),
                         1 + static_cast<std::int64_t>(random() % 40),
                         1 + static_cast<std::int64_t>(random() % 40)};
    const PatchGrid grid = *PatchGrid::Create(dims, {4, 4, 8});
    const Box box = RandomPart(dims, &random);
    const Box positions = grid.PatchesMeeting(box);
    const unsigned share = 1 + random() % 9;
    LeftOutPatches left_out(grid, box);
    std::vector<Box> boxes;
    MortonRuns runs(positions);
    for (auto run = runs.Next(); run; run = runs.Next()) {
      for (std::uint64_t code = run->begin; code < run->end; ++code) {
        if (random() % 10 < share) continue;
        const Index3 position = MortonDecode(code);
        left_out.Add(static_cast<std::uint64_t>(grid.PatchIndex(position)));
        boxes.push_back(Intersect(box, grid.PatchBox(position)));
      }
    }
    const std::vector<Box> joined = JoinBoxes(boxes);

    EXPECT_EQ(*left_out.Boxes(joined.size()), joined) << i;
    if (joined.empty()) continue;
    const Status refused = left_out.Boxes(joined.size() - 1).status();
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(refused.message().find("ask for a smaller box"), std::string::npos) << refused.message();
  }
}

TEST(PatchRange, ListedCodesAreThoseWithinARun) {
  const std::vector<MortonRun> listed = {{2, 5}, {7, 8}, {20, 30}};
  const PatchRange range(Box{{0, 0, 0}, {8, 8, 8}}, listed);
  EXPECT_EQ(range.count(), 14u);
  const auto within = [&](const MortonRun& run) {
    std::vector<MortonRun> found;
    RangeRuns runs(range, run);
    for (auto next = runs.Next(); next; next = runs.Next()) found.push_back(*next);
    return found;
  };
  EXPECT_EQ(within(kAllCodes), listed);
  EXPECT_EQ(within({4, 25}), (std::vector<MortonRun>{{4, 5}, {7, 8}, {20, 25}}));
  EXPECT_EQ(within({5, 7}), std::vector<MortonRun>());
  EXPECT_EQ(within({8, 21}), (std::vector<MortonRun>{{20, 21}}));
}

}  // namespace
}  // namespace quarry::query
