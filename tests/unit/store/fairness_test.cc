// Clients share memory and decoding threads: none has all of it, and none waits behind all that another asked
// for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <new>
#include <string>
#include <thread>

#include "quarry/store/decode_pool.h"
#include "quarry/store/patch_store.h"
#include "tests/testing/failing_memory.h"

namespace quarry {
namespace {

Requester Patient(std::uint64_t client) {
  return {[] { return false; }, client};
}

/// Gives up instead of waiting.
Requester Hasty(std::uint64_t client) {
  return {[] { return true; }, client};
}

std::future<Result<PatchStore::Memory>> PinLater(PatchStore* store, std::uint64_t bytes,
                                                 std::uint64_t client) {
  const std::size_t waiting = store->state().waiting;
  auto pinned = std::async(std::launch::async, [=] { return store->Pin(bytes, Patient(client)); });
  while (store->state().waiting == waiting) std::this_thread::yield();
  return pinned;
}

bool IsDone(const std::future<Result<PatchStore::Memory>>& pinned) {
  return pinned.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST(PatchStoreClients, NoneHasMoreThanHalfOfThePinnedMemory) {
  PatchStore store(8000);  // 3000 can be pinned
  const auto first = *store.Pin(1000, Patient(1));
  EXPECT_EQ(store.Pin(501, Hasty(1)).status().code(), StatusCode::kCancelled);
  const auto rest = *store.Pin(500, Patient(1));
  const auto other = *store.Pin(1500, Patient(2));
  EXPECT_EQ(store.state().pinned, 3000u);
}

TEST(PatchStoreClients, ARequestThatIsAloneMayHaveMoreThanHalf) {
  PatchStore store(8000);
  {
    const auto large = *store.Pin(2900, Patient(1));
    EXPECT_EQ(store.Pin(1, Hasty(1)).status().code(), StatusCode::kCancelled);
    EXPECT_TRUE(store.Pin(100, Hasty(2)).ok());
  }
  auto growing = *store.Pin(1, Patient(1));
  EXPECT_TRUE(growing.Resize(2900));
  EXPECT_TRUE(growing.Resize(1000));
  const auto second = *store.Pin(400, Patient(1));
  EXPECT_FALSE(growing.Resize(1101)) << "both together";
  EXPECT_TRUE(growing.Resize(1100));
}

TEST(PatchStoreClients, WhoHasItsHalfKeepsNobodyElseWaiting) {
  PatchStore store(8000);
  auto first = *store.Pin(1500, Patient(1));
  auto more = PinLater(&store, 1, 1);
  EXPECT_TRUE(store.Pin(1500, Hasty(2)).ok());
  EXPECT_TRUE(store.TryReserve(6000, 2)) << "nor from reading ahead";
  EXPECT_FALSE(IsDone(more));
  first.Release();
  EXPECT_TRUE(more.get().ok());
}

TEST(PatchStoreClients, ASmallRequestNeedNotWaitForALargeOne) {
  PatchStore store(8000);  // 500 beside the pinned memory for small ones
  auto large = *store.Pin(2900, Patient(1));
  auto next = PinLater(&store, 2900, 2);
  EXPECT_EQ(store.Pin(501, Hasty(3)).status().code(), StatusCode::kCancelled) << "not small";
  {
    auto small = *store.Pin(300, Hasty(3));
    EXPECT_EQ(store.state().pinned, 3200u);
    EXPECT_EQ(store.Pin(100, Hasty(3)).status().code(), StatusCode::kCancelled) << "one of each client";
    EXPECT_FALSE(small.Resize(501));
    EXPECT_TRUE(store.Pin(200, Hasty(4)).ok());
    EXPECT_EQ(store.Pin(201, Hasty(4)).status().code(), StatusCode::kCancelled) << "all of it is in use";
    EXPECT_EQ(store.Pin(1, Hasty(1)).status().code(), StatusCode::kCancelled) << "has the large one";
  }
  EXPECT_FALSE(IsDone(next)) << "the memory for small ones is not for it";
  large.Release();
  EXPECT_TRUE(next.get().ok());
}

TEST(PatchStoreClients, ASmallRequestWaitsForAnotherSmallOneAlone) {
  PatchStore store(8000);
  const auto large = *store.Pin(3000, Patient(1));
  auto small = *store.Pin(500, Patient(2));
  auto next = PinLater(&store, 500, 3);
  small.Release();
  EXPECT_TRUE(next.get().ok());
}

TEST(PatchStoreClients, QuestionsOfOneClientLeaveHalfToOthers) {
  PatchStore store(8000);  // 1000 of them for questions
  const auto first = *store.PinQuestion(500, Patient(1));
  EXPECT_EQ(store.PinQuestion(1, Hasty(1)).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(store.PinQuestion(500, Hasty(2)).ok());
}

TEST(PatchStoreClients, WhoHoldsLeastIsNext) {
  PatchStore store(8000);
  const auto one = *store.Pin(500, Patient(1));
  const auto two = *store.Pin(1000, Patient(2));
  std::array<PatchStore::Memory, 3> three;
  for (auto& memory : three) memory = *store.Pin(500, Patient(3));
  auto much = PinLater(&store, 500, 2);
  auto little = PinLater(&store, 500, 1);
  three[0].Release();
  EXPECT_TRUE(little.get().ok()) << "came later, but holds less";
  while (store.state().waiting > 1) std::this_thread::yield();
  EXPECT_TRUE(much.get().ok()) << "the memory of the other one is free again";
}

TEST(PatchStoreClients, OneHasAtMostHalfOfThePlacesToWait) {
  PatchStore store(8000, 4);
  auto all = *store.Pin(3000, Patient(3));
  auto first = PinLater(&store, 501, 1);
  auto second = PinLater(&store, 501, 1);
  const Status refused = store.Pin(501, Hasty(1)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("full with 2 others"), std::string::npos) << refused.message();
  EXPECT_EQ(store.Pin(501, Hasty(2)).status().code(), StatusCode::kCancelled) << "it was allowed to wait";
  all.Release();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST(PatchStoreClients, HaveEqualPartsToReadAheadIn) {
  PatchStore store(8000);
  EXPECT_EQ(store.FairShare(1), 4000u);
  const auto one = *store.Pin(400, Patient(1));
  EXPECT_EQ(store.FairShare(1), 3800u);
  std::array<PatchStore::Memory, 4> of_two;
  for (auto& memory : of_two) memory = *store.Pin(100, Patient(2));
  EXPECT_EQ(store.FairShare(1), 1800u);
  EXPECT_EQ(store.FairShare(2), 450u);
}

/// A pool of one thread that begins with the tasks when all of them are there.
class Order {
 public:
  explicit Order(int tasks) : done_(tasks) {
    pool_.Submit({}, [this] {
      begun_.count_down();
      go_.wait();
    });
    begun_.wait();
  }

  void Submit(char name, const DecodePriority& priority) {
    pool_.Submit(priority, [this, name] {
      order_ += name;
      done_.count_down();
    });
  }

  /// Computes on a thread of its own, once it is its turn.
  void ComputeInTurn(char name, std::uint64_t client, std::uint64_t work) {
    const std::size_t waiting = pool_.waiting();
    computing_.push_back(std::async(std::launch::async, [=, this] {
      pool_.InTurn(client, work, [this, name] { order_ += name; });
      done_.count_down();
    }));
    while (pool_.waiting() == waiting) std::this_thread::yield();
  }

  /// A task without a name.
  void SubmitThen(const DecodePriority& priority, std::function<void()> task) {
    pool_.Submit(priority, std::move(task));
  }

  std::string Run() {
    go_.count_down();
    done_.wait();
    return order_;
  }

 private:
  std::latch begun_{1}, go_{1}, done_;
  std::string order_;
  DecodePool pool_{1};
  std::vector<std::future<void>> computing_;  // destroyed first
};

constexpr std::uint64_t kMiB = 1 << 20;

TEST(DecodePoolClients, TakeTurns) {
  Order order(8);
  for (int i = 0; i < 6; ++i) order.Submit('a', {0, 0, 1, kMiB});
  for (int i = 0; i < 2; ++i) order.Submit('b', {0, 0, 2, kMiB});
  EXPECT_EQ(order.Run(), "ababaaaa");
}

TEST(DecodePoolClients, HaveEqualPartsOfTheWorkAndNotOfTheTasks) {
  Order order(8);
  for (int i = 0; i < 4; ++i) order.Submit('a', {0, 0, 1, 2 * kMiB});
  for (int i = 0; i < 4; ++i) order.Submit('b', {0, 0, 2, kMiB});
  EXPECT_EQ(order.Run(), "abbabbaa");
}

TEST(DecodePoolClients, ACoarseLevelOvertakesOnlyTasksOfItsClient) {
  Order order(4);
  order.Submit('a', {0, 0, 1, kMiB});
  for (int i = 0; i < 2; ++i) order.Submit('b', {5, 0, 2, kMiB});
  order.Submit('c', {9, 0, 1, kMiB});
  EXPECT_EQ(order.Run(), "cbab");
}

TEST(DecodePoolClients, WhoComesBackIsAheadOfWhoAlwaysHasTasks) {
  Order order(10);
  for (int i = 0; i < 4; ++i) order.Submit('a', {0, 0, 1, 10 * kMiB});
  order.SubmitThen({0, 0, 1, kMiB}, [&order] {  // after 40 MiB for the first client
    for (int i = 0; i < 2; ++i) order.Submit('a', {0, 0, 1, kMiB});
    for (int i = 0; i < 4; ++i) order.Submit('b', {0, 0, 2, 6 * kMiB});
  });
  EXPECT_EQ(order.Run(), "aaaabbbaab");
}

TEST(DecodePoolClients, ComputeInTurnBeforeTheirOwnTasks) {
  Order order(6);
  for (int i = 0; i < 3; ++i) order.Submit('a', {9, 0, 1, kMiB});
  order.ComputeInTurn('A', 1, kMiB);
  for (int i = 0; i < 2; ++i) order.ComputeInTurn('B', 2, kMiB);
  EXPECT_EQ(order.Run(), "ABaBaa");
}

TEST(DecodePool, RunsWhatItHasTakenWhereMemoryEnds) {
  constexpr int kTasks = 40;
  const int failures = testing::ForEveryAllocation([](int n) {
    std::atomic<int> ran = 0;
    int taken = 0;
    bool failed = false;
    {
      DecodePool pool(2);
      const testing::FailingAllocation failing(n);
      for (int t = 0; t < kTasks; ++t) {
        try {
          pool.Submit({.bytes = 1, .client = static_cast<std::uint64_t>(t % 3)}, [&] { ++ran; });
          ++taken;
        } catch (const std::bad_alloc&) {
        }
      }
      failed = failing.failed();
    }
    EXPECT_EQ(ran, taken);
    EXPECT_GE(taken, kTasks - 1);
    return failed;
  });
  EXPECT_GT(failures, kTasks);
}

TEST(DecodePoolInTurn, TakesThePlaceOfAThread) {
  DecodePool pool(1);
  std::future<void> other;
  const auto has_ended = [&] { return other.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  pool.InTurn(1, kMiB, [&] {
    other = std::async(std::launch::async, [&] { pool.InTurn(2, kMiB, [] {}); });
    while (pool.waiting() == 0 && !has_ended()) std::this_thread::yield();
    EXPECT_EQ(pool.waiting(), 1u) << "the one turn is taken";
  });
  other.get();
}

TEST(DecodePoolInTurn, EndsWithAnException) {
  DecodePool pool(1);
  EXPECT_THROW(pool.InTurn(1, kMiB, [] { throw std::bad_alloc(); }), std::bad_alloc);
  bool computed = false;
  pool.InTurn(1, kMiB, [&] { computed = true; });
  EXPECT_TRUE(computed);
}

}  // namespace
}  // namespace quarry
