#include "quarry/storage/look_at_each.h"

#include <gtest/gtest.h>

#include <barrier>
#include <future>
#include <latch>
#include <new>
#include <thread>

#include "quarry/base/cancel_scope.h"
#include "tests/testing/late_storage.h"
#include "tests/testing/memory_storage.h"

namespace quarry {
namespace {

std::vector<Location> Places(std::size_t count) {
  std::vector<Location> places;
  for (std::size_t i = 0; i < count; ++i) places.emplace_back(fmt::format("place{}", i));
  return places;
}

/// A look that hangs until it is told to end.
struct Hanging {
  std::latch begun{1};
  std::latch may_end{1};
  std::promise<void> ended;
};

/// Looks of which the one with number `hangs` does not return; the others return their number.
std::function<std::size_t(std::size_t, const LookEnded&)> HangingAt(std::size_t hangs,
                                                                    const std::shared_ptr<Hanging>& look) {
  return [hangs, look](std::size_t number, const LookEnded& ended) {
    if (number != hangs) return number;
    look->begun.count_down();
    look->may_end.wait();
    EXPECT_TRUE(ended());
    look->ended.set_value();
    return number;
  };
}

TEST(LookAtEach, ReturnsWhatEachLookReturnsInOrder) {
  Patience patience;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    const auto seen = LookAtEach<std::size_t>(
        Places(count), [](std::size_t number, const LookEnded&) { return 2 * number; }, &patience);
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    ASSERT_EQ(seen->size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ((*seen)[i], 2 * i);
  }
}

TEST(LookAtEach, GoesOnWithoutAPlaceThatHangs) {
  const auto look = std::make_shared<Hanging>();
  Patience patience{std::chrono::seconds(1)};
  const auto seen = LookAtEach<std::size_t>(Places(4), HangingAt(1, look), &patience);
  ASSERT_TRUE(seen.ok()) << seen.status().message();
  EXPECT_EQ(*seen, (std::vector<std::optional<std::size_t>>{0, std::nullopt, 2, 3}));
  EXPECT_EQ(patience.each, std::chrono::milliseconds(500)) << "the next one does not wait so long";

  // While it hangs, nobody else waits for it.
  bool looked = false;
  Patience long_patience{std::chrono::hours(1)};
  const auto again = LookAtEach<std::size_t>(
      Places(2),
      [&looked](std::size_t number, const LookEnded&) {
        looked = looked || number == 1;
        return number;
      },
      &long_patience);
  EXPECT_EQ(*again, (std::vector<std::optional<std::size_t>>{0, std::nullopt}));
  EXPECT_FALSE(looked);

  look->may_end.count_down();
  look->ended.get_future().wait();
  while (true) {  // the thread forgets it shortly after its end
    const auto now = LookAtEach<std::size_t>(
        Places(2), [](std::size_t number, const LookEnded&) { return number; }, &long_patience);
    if ((*now)[1]) break;
  }
}

TEST(LookAtEach, LooksSideBySideWhereThatIsSooner) {
  constexpr std::size_t kTogether = 4;
  const auto storage =
      std::make_shared<testing::LateStorage>(std::make_shared<testing::MemoryStorage>(),
                                             ReadCosts{.latency = 0.02, .bandwidth = 1e8, .side_by_side = 4});
  std::vector<Location> places;
  for (std::size_t i = 0; i < 2 * kTogether + 1; ++i) places.emplace_back(storage, fmt::format("place{}", i));
  std::barrier all(kTogether);  // passed by four at a time, so that fewer threads would wait for ever
  Patience patience{std::chrono::hours(1)};
  const auto seen = LookAtEach<std::size_t>(
      std::move(places),
      [&all](std::size_t number, const LookEnded&) {
        if (number < 2 * kTogether) all.arrive_and_wait();
        return number;
      },
      &patience);
  ASSERT_TRUE(seen.ok()) << seen.status().message();
  for (std::size_t i = 0; i < seen->size(); ++i) EXPECT_EQ((*seen)[i], i);
}

TEST(LookAtEach, ALookThatIsLateHearsIt) {
  Patience patience{std::chrono::milliseconds(100)};
  const auto ended = std::make_shared<std::promise<void>>();
  const auto seen = LookAtEach<std::size_t>(
      Places(2),
      [ended](std::size_t number, const LookEnded&) {
        if (number == 1) return number;
        while (!CancelScope::Cancelled()) std::this_thread::yield();
        ended->set_value();
        return number;
      },
      &patience);
  EXPECT_EQ(*seen, (std::vector<std::optional<std::size_t>>{std::nullopt, 1}));
  ended->get_future().wait();
}

TEST(LookAtEach, EndsWhenItsCallerLeavesThoughALookHangs) {
  const auto look = std::make_shared<Hanging>();
  Patience patience{std::chrono::hours(1), [look] { return look->begun.try_wait(); }};
  const auto seen = LookAtEach<std::size_t>(Places(2), HangingAt(0, look), &patience);
  EXPECT_EQ(seen.status().code(), StatusCode::kCancelled);
  look->may_end.count_down();
  look->ended.get_future().wait();
}

TEST(LookAtEach, ALookWithoutMemoryEndsItWithAnError) {
  Patience patience;
  const auto seen = LookAtEach<int>(
      Places(3),
      [](std::size_t number, const LookEnded&) { return number == 1 ? throw std::bad_alloc() : 0; },
      &patience);
  EXPECT_EQ(seen.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(seen.status().message().find("no memory"), std::string::npos) << seen.status().message();
}

}  // namespace
}  // namespace quarry
