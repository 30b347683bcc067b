// Which patches may contain a value: their recorded range, widened by the error of level 0.
#include <gtest/gtest.h>

#include "quarry/query/read_plan.h"
#include "tests/testing/make_dataset.h"

namespace quarry::query {
namespace {

TEST(ValuesOfAPatch, ReachAsFarAsTheErrorOfLevelZero) {
  const testing::TemporaryFolder folder;
  testing::MakeDataset(folder.path() / "a.quarry", {.tolerance = 0.1});
  const auto dataset = *Dataset::Open(folder.path() / "a.quarry");
  const ReadPlan whole = *dataset->Plan({.field = "pressure"});
  const auto is_read = [&](const PlannedPatch& patch, const Bounds& values) {
    return !dataset->Plan({.field = "pressure", .box = patch.samples, .values = values})->patches.empty();
  };
  for (const PlannedPatch& patch : whole.patches) {
    const format::PatchEntry& row = patch.entry.patch;
    const double error = row.levels[0].max_error;
    ASSERT_GT(error, 1e-3);
    EXPECT_TRUE(is_read(patch, {row.min - 1, row.min - 0.9 * error}));
    EXPECT_TRUE(is_read(patch, {row.max + 0.9 * error, row.max + 1}));
    EXPECT_FALSE(is_read(patch, {row.min - 1, row.min - 1.1 * error}));
    EXPECT_FALSE(is_read(patch, {row.max + 1.1 * error, row.max + 1}));
  }
}

}  // namespace
}  // namespace quarry::query
