// Steps as runs.
#include "quarry/format/step_runs.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quarry::format {
namespace {

using Steps = std::vector<std::uint64_t>;
using Runs = std::vector<StepRun>;

TEST(StepRuns, TakeStepsOfOneDistance) {
  EXPECT_EQ(RunsOf(Steps{}), Runs());
  EXPECT_EQ(RunsOf(Steps{7}), Runs({{7, 1, 1}}));
  EXPECT_EQ(RunsOf(Steps{0, 1, 2, 3}), Runs({{0, 1, 4}}));
  EXPECT_EQ(RunsOf(Steps{0, 100, 200, 201, 202}), Runs({{0, 100, 3}, {201, 1, 2}}));
  EXPECT_EQ(RunsOf(Steps{0, UINT64_MAX}), Runs({{0, UINT64_MAX, 2}}));
}

TEST(StepRuns, AnyOrderGivesTheSameSteps) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 200; ++turn) {
    std::set<std::uint64_t> steps;
    Runs runs;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t step = random() % 100 + (random() % 8 == 0 ? UINT64_MAX - 200 : 0);
      steps.insert(step);
      AddStep(step, &runs);
      ASSERT_EQ(StepsOf(runs), Steps(steps.begin(), steps.end()));
      ASSERT_EQ(CountSteps(runs), steps.size());
      ASSERT_TRUE(CheckRuns(runs).ok());
    }
  }
}

TEST(StepRuns, ImpossibleRunsAreRefused) {
  for (const Runs& runs :
       {Runs{{0, 1, 0}}, Runs{{0, 0, 1}}, Runs{{0, 1, kMaxListedSteps + 1}}, Runs{{5, 1, 2}, {6, 1, 1}},
        Runs{{1, UINT64_MAX, 2}}, Runs{{0, 1, kMaxListedSteps}, {kMaxListedSteps, 1, 1}}})
    EXPECT_EQ(CheckRuns(runs).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(CheckRuns(Runs{{0, UINT64_MAX, 2}}).ok());
}

}  // namespace
}  // namespace quarry::format
