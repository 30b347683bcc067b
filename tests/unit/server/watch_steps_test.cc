#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

class WatchStepsTest : public ServingTest {};

/// The steps announced to a watcher until `last`, each read as soon as it is announced.
std::vector<std::uint64_t> WatchUntil(const std::string& target, const client::WatchRequest& request,
                                      std::uint64_t last) {
  const auto dataset = *client::Dataset::Open(target);
  std::vector<std::uint64_t> steps;
  const Status status = dataset->WatchSteps(request, [&](const StepSummary& step) {
    steps.push_back(step.step);
    const query::ReadRequest question{.field = "pressure", .step = step.step, .target = query::AtLevel{2}};
    // From the watching object, and opened anew, as by another program that was notified.
    const auto read = dataset->Read(question);
    const auto told = client::Dataset::Open(target);
    EXPECT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(told.ok() && (*told)->Read(question).ok()) << target << " step " << step.step;
    return step.step != last;
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return steps;
}

TEST_F(WatchStepsTest, WatchersGetEveryStepOnceInOrderAndReadable) {
  constexpr std::uint64_t kLast = 9;
  auto first = std::async(std::launch::async, WatchUntil, Target("a"), client::WatchRequest{}, kLast);
  auto second =
      std::async(std::launch::async, WatchUntil, Target("a"), client::WatchRequest{.after = 2}, kLast);
  auto local = std::async(std::launch::async, WatchUntil, Path("a").string(), client::WatchRequest{}, kLast);
  for (std::uint64_t step = 3; step <= kLast; ++step) testing::MakeDataset(Path("a"), {.steps = {step}});
  const std::vector<std::uint64_t> all = {0, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(first.get(), all);
  EXPECT_EQ(second.get(), std::vector<std::uint64_t>(all.begin() + 2, all.end()));
  EXPECT_EQ(local.get(), all);
}

TEST_F(WatchStepsTest, AFieldThatAStepBringsIsReadFromTheSameObject) {
  for (const std::string& target : {Target("a"), Path("a").string()}) {
    const auto dataset = *client::Dataset::Open(target);
    const std::string field = target.starts_with("grpc") ? "speed" : "heat";
    const std::uint64_t step = dataset->Steps()->back().step + 1;
    testing::MakeDataset(Path("a"), {.steps = {step}, .field = field});
    const Status status = dataset->WatchSteps({.after = step - 1}, [&](const StepSummary& found) {
      const query::ReadRequest question{.field = field, .step = found.step};
      const auto read = dataset->Read(question);
      EXPECT_TRUE(read.ok() && read->field == field) << read.status().message();
      EXPECT_TRUE(dataset->PlanRead(question).ok());
      return false;
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST_F(WatchStepsTest, AWatcherGoesOnBehindTheLastStepWhenTheServerIsBack) {
  const auto remote = Remote("a");
  std::vector<std::uint64_t> steps;
  const Status status = remote->WatchSteps({}, [&](const StepSummary& step) {
    steps.push_back(step.step);
    if (step.step == 2 || step.step == 4) {
      // Cuts the connection. The new server has the same port.
      listener_.reset();
      testing::MakeDataset(Path("a"), {.steps = {step.step + 1, step.step + 2}});
      Listen();
    }
    return step.step != 6;
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{0, 2, 3, 4, 5, 6}));
}

TEST_F(WatchStepsTest, WatchingEndsWithADrainAndWhenTheClientHasEnough) {
  const auto remote = Remote("a");
  const auto watch = [&](const client::CallOptions& call) {
    return remote->WatchSteps(
        {.patience_ms = 0},
        [&](const StepSummary& step) {
          if (step.step == 2) call.cancel.Cancel();
          return true;
        },
        call);
  };
  EXPECT_EQ(watch({.cancel = CancelToken::Create()}).code(), StatusCode::kCancelled);
  auto result = std::async(std::launch::async, watch, client::CallOptions{});
  operations_.draining = true;
  EXPECT_EQ(result.get().code(), StatusCode::kUnavailable);
  EXPECT_EQ(watch({}).code(), StatusCode::kUnavailable);
}

TEST_F(WatchStepsTest, AWatcherThatWaitsIsNotCutByTheTimeLimit) {
  using Clock = std::chrono::steady_clock;
  const auto remote = Remote("a");
  // A busy machine may need the limit for the steps that are there: then the watcher is rightly cut, and a
  // larger limit shows what happens while it waits.
  for (auto limit = std::chrono::milliseconds(100);; limit *= 2) {
    operations_.limits.time = operations_.limits.grace = limit;
    const client::CallOptions call{.cancel = CancelToken::Create()};
    const Clock::time_point begin = Clock::now();
    std::atomic<bool> in_time = false;
    std::vector<std::uint64_t> seen;
    auto watching = std::async(std::launch::async, [&] {
      return remote->WatchSteps(
          {.patience_ms = 0},
          [&](const StepSummary& step) {
            seen.push_back(step.step);
            if (step.step == 2) in_time = Clock::now() - begin < limit;
            return step.step != 3;
          },
          call);
    });
    // The elapsed time is the experiment, not a wait for an event.
    const bool ended = watching.wait_for(5 * limit) == std::future_status::ready;
    if (!in_time) {
      call.cancel.Cancel();
      EXPECT_FALSE(watching.get().ok());
      continue;
    }
    ASSERT_FALSE(ended) << watching.get().message();
    testing::MakeDataset(Path("a"), {.steps = {3}});
    EXPECT_TRUE(watching.get().ok());
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 2, 3}));
    break;
  }
}

TEST_F(WatchStepsTest, WatchingEndsWhenTheDatasetHasGoneOrAnotherIsInItsPlace) {
  for (const bool replaced : {false, true}) {
    const std::string target = replaced ? Target("b") : Target("a");
    const std::filesystem::path path = Path(replaced ? "b" : "a");
    const auto dataset = *client::Dataset::Open(target);
    if (replaced) testing::MakeDataset(folder_.path() / "other", {});
    const Status status = dataset->WatchSteps({}, [&](const StepSummary& step) {
      if (step.step != 0) return true;
      std::filesystem::rename(path, folder_.path() / (replaced ? "old" : "away"));
      if (replaced) std::filesystem::rename(folder_.path() / "other", path);
      return true;
    });
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.message();
    EXPECT_NE(status.message().find("has gone"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace quarry::server
