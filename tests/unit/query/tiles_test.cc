#include "quarry/query/tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "quarry/codec/tile.h"
#include "quarry/query/plan_totals.h"
#include "quarry/query/question_rules.h"
#include "tests/testing/random.h"

namespace quarry::query {
namespace {

using testing::Random;

/// The patches of a box in Morton order, and one level of an answer.
ReadPlan MakePlan(const PatchGrid& grid, const Box& box, const Target& target, int level) {
  ReadPlan plan;
  plan.query.box = box;
  plan.query.target = target;
  const Index3 spacing = SpacingAt(target, level);
  for (const std::int64_t index : grid.MortonOrder()) {
    PlannedPatch patch;
    patch.samples = grid.PatchBox(index);
    if (!SpacedBox(Intersect(box, patch.samples), spacing).empty()) plan.patches.push_back(std::move(patch));
  }
  LevelExtent extent;
  extent.level = level;
  extent.spacing = spacing;
  extent.extent = SpacedBox(box, spacing);
  plan.levels.push_back(extent);
  return plan;
}

std::vector<Box> TilesOf(const ReadPlan& plan, const Index3& patch) {
  const TileCut cut(plan, patch, plan.levels.front());
  std::vector<Box> tiles;
  for (const PlannedPatch& planned : plan.patches) {
    const Box tile = cut.TileOf(planned);
    if (tiles.empty() || tiles.back() != tile) tiles.push_back(tile);
  }
  return tiles;
}

PatchGrid GridOf(const Index3& dims, const Index3& patch) { return *PatchGrid::Create(dims, patch); }

TEST(TileCut, JoinsPatchesWhereTheAnswerIsThin) {
  const Index3 patch{64, 64, 64};
  const PatchGrid grid = GridOf({384, 384, 384}, patch);
  const auto tiles = [&](const Box& box, const Target& target, int level) {
    return TilesOf(MakePlan(grid, box, target, level), patch);
  };

  EXPECT_EQ(tiles({{0, 0, 100}, {384, 384, 101}}, AtLevel{0}, 0),
            (std::vector<Box>{{{0, 0, 100}, {384, 384, 101}}}));
  EXPECT_EQ(tiles({{0, 0, 0}, {384, 384, 384}}, AtLevel{0}, 0).size(), 6u * 6 * 6) << "one for each patch";
  // Cubes of 4 x 4 x 4 patches, of which the last are cut: 64 samples along each axis, and 32.
  EXPECT_EQ(tiles({{0, 0, 0}, {384, 384, 384}}, AtLevel{2}, 2).size(), 8u);
  EXPECT_EQ(tiles({{0, 0, 0}, {384, 384, 384}}, AtStride{{8, 8, 8}}, 3).size(), 1u);
}

TEST(TileCut, LeavesNoHoles) {
  ReadPlan plan = MakePlan(GridOf({64, 64, 1}, {16, 16, 1}), {{0, 0, 0}, {64, 64, 1}}, AtLevel{0}, 0);
  EXPECT_EQ(TilesOf(plan, {16, 16, 1}).size(), 1u);
  plan.left_out = {{{0, 0, 0}, {16, 16, 1}}};
  plan.patches.erase(plan.patches.begin());
  EXPECT_EQ(TilesOf(plan, {16, 16, 1}).size(), 15u) << "each patch is its own tile";
}

/// Tiles are runs of the plan, disjoint, fill the level, and are small unless a patch is large.
TEST(TileCut, TilesAreRunsOfPatchesThatFillTheLevel) {
  Random random(testing::SeedFromEnvironment());
  for (int i = 0; i < 300; ++i) {
    Index3 patch{};
    Index3 dims{};
    Box box;
    for (std::size_t a = 0; a < 3; ++a) {
      patch[a] = std::int64_t{1} << random.Between(0, 7);
      dims[a] = random.OneIn(4) ? 1 : random.Between(1, static_cast<int>(12 * patch[a]));
      box.begin[a] = static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(dims[a])));
      box.end[a] =
          box.begin[a] + 1 +
          static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(dims[a] - box.begin[a])));
    }
    const int level = random.Between(0, 4);
    Target target = AtLevel{level};
    if (random.OneIn(3))
      target = AtStride{{random.Between(1, 9), random.Between(1, 9), random.Between(1, 9)}};
    const ReadPlan plan = MakePlan(GridOf(dims, patch), box, target, level);

    const std::vector<Box> tiles = TilesOf(plan, patch);

    std::int64_t samples = 0;
    std::set<std::pair<Index3, Index3>> seen;
    const TileCut cut(plan, patch, plan.levels.front());
    for (const Box& tile : tiles) {
      ASSERT_TRUE(seen.emplace(tile.begin, tile.end).second) << i << ": " << ToString(tile) << " is no run";
      ASSERT_TRUE(plan.levels.front().extent.Contains(tile));
      samples += tile.volume();
      const bool one_patch = tile.volume() <= Volume(patch);
      ASSERT_TRUE(tile.volume() <= kMaxTileSamples || one_patch) << i << ": " << ToString(tile);
    }
    ASSERT_EQ(samples, plan.levels.front().extent.volume()) << i;
    for (const PlannedPatch& planned : plan.patches) {
      const Box part = SpacedBox(Intersect(box, planned.samples), plan.levels.front().spacing);
      ASSERT_TRUE(cut.TileOf(planned).Contains(part));
    }
  }
}

/// A plan of one patch in two layers, with these errors of level 0 and level 1 in each.
ReadPlan PlanWithErrors(const Target& target) {
  ReadPlan plan;
  plan.type = DataType::kFloat32;
  plan.coder = CoderId::kInterpolate;
  plan.parts = {2, 2};
  plan.query.target = target;
  PlannedPatch patch;
  patch.entry.patch.levels.resize(4);
  const auto set = [&](int layer, int level, double error) {
    patch.entry.patch.levels[plan.parts.Of(layer, level)].max_error = error;
    LevelExtent extent;
    extent.level = level;
    extent.layer = layer;
    extent.max_error = error;
    plan.levels.push_back(extent);
  };
  set(0, 1, 3);
  set(0, 0, 1);
  set(1, 0, 0.25);
  patch.entry.patch.levels[plan.parts.Of(1, 1)].max_error = 2;
  plan.patches.push_back(patch);
  plan.totals = TotalsOf(plan);
  return plan;
}

TEST(CodedErrors, AreWhatTheWishAllows) {
  const ReadPlan plan = PlanWithErrors(AtLevel{0});
  for (const CodedError& error : CodedErrors(plan, {})) EXPECT_EQ(error.coding, 0);
  const std::vector<CodedError> twice = CodedErrors(plan, {.factor = 2});
  // The error of level 0 at the coarse level, too: it is that of its samples.
  EXPECT_EQ(twice[0].coding, 1);
  EXPECT_EQ(twice[1].coding, 1);
  EXPECT_EQ(twice[2].coding, 0.25);
  EXPECT_NEAR(twice[0].kept, 4, 1e-14);
  EXPECT_GE(twice[0].kept, 4);
  const std::vector<CodedError> more = CodedErrors(plan, {.error = 0.5});
  EXPECT_EQ(more[2].coding, 0.5);
  EXPECT_NEAR(more[2].kept, 0.75, 1e-14);
}

TEST(CodedErrors, KeepTheWholeError) {
  for (const double wanted : {0.25, 0.3, 1.0, 1e9}) {
    const std::vector<CodedError> errors = CodedErrors(PlanWithErrors(WithinError{wanted}), {});
    EXPECT_LE(errors.back().kept, wanted);
    EXPECT_GE(errors.back().coding, 0);
    EXPECT_NEAR(errors.back().coding, wanted - 0.25, 1e-12 * wanted);
    EXPECT_EQ(errors.front().coding, errors.back().coding) << "levels on the way have the same room";
  }
}

TEST(CodedErrors, AreNoneWhereNothingMayBeLost) {
  ReadPlan plan = PlanWithErrors(AtLevel{0});
  plan.coder = CoderId::kInterpolateRelative;
  for (const CodedError& error : CodedErrors(plan, {.factor = 3})) EXPECT_EQ(error.coding, 0);
  plan.type = DataType::kInt64;
  plan.coder = CoderId::kLossless;
  for (const CodedError& error : CodedErrors(plan, {.error = 3})) EXPECT_EQ(error.coding, 0);
}

TEST(CheckRecode, RefusesWhatIsNoError) {
  EXPECT_TRUE(CheckRecode({}, WithinError{1}).ok());
  EXPECT_TRUE(CheckRecode({.factor = 2}, AtLevel{0}).ok());
  EXPECT_TRUE(CheckRecode({.error = 0.5}, AtStride{}).ok());
  for (const Recode& recode : {Recode{.factor = 0.5}, Recode{.factor = INFINITY}, Recode{.factor = NAN},
                               Recode{.error = -1}, Recode{.error = NAN}, Recode{2, 0.5}})
    EXPECT_EQ(CheckRecode(recode, AtLevel{0}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckRecode({.factor = 2}, WithinError{1}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quarry::query
