#include "server/guard/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace quarry::server {
namespace {

TEST(Workers, RunAllWorkAtOnceAndReuseTheirThreads) {
  Workers workers(5);
  for (int round = 0; round < 3; ++round) {
    constexpr int kAtOnce = 5;
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::latch all(kAtOnce);  // each waits for the others: fewer threads would never end
    std::latch done(kAtOnce);
    for (int i = 0; i < kAtOnce; ++i) {
      workers.Run([&] {
        all.arrive_and_wait();
        {
          const std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
        }
        done.count_down();
      });
    }
    done.wait();
    EXPECT_EQ(threads.size(), std::size_t{kAtOnce});
  }
}

TEST(Workers, WhatWorkHoldsGoesWithoutKeepingOthersFromTheirs) {
  Workers workers(2);
  std::promise<void> other_ran;
  std::promise<void> gone;
  auto slow_to_go = std::shared_ptr<int>(new int(0), [&](int* held) {
    // It waits for other work, which must be able to begin meanwhile.
    workers.Run([&] { other_ran.set_value(); });
    other_ran.get_future().wait();
    delete held;
    gone.set_value();
  });

  workers.Run([held = std::move(slow_to_go)] {});

  gone.get_future().wait();
}

TEST(Workers, EndTheirWorkBeforeTheyGo) {
  std::atomic<int> ended = 0;
  {
    Workers workers(20);
    for (int i = 0; i < 20; ++i) workers.Run([&] { ++ended; });
  }
  EXPECT_EQ(ended, 20);
}

TEST(Workers, FinishWhatTheirWorkGivesMeanwhile) {
  constexpr int kPieces = 2000;
  Workers workers(4);
  std::atomic<int> done = 0;
  std::latch begun(1);
  // Each piece gives the next one, most of them while the threads are waited for.
  std::function<void()> piece = [&] {
    begun.count_down(done == 0 ? 1 : 0);
    if (++done < kPieces) {
      EXPECT_TRUE(workers.Run(piece));
    }
  };
  workers.Run(piece);
  begun.wait();

  workers.Finish();

  EXPECT_EQ(done, kPieces);
}

TEST(Workers, NeverHaveMoreThreadsThanAllowedAndTakeWorkInOrder) {
  std::promise<void> begun;
  std::promise<void> go;
  std::vector<int> order;
  {
    Workers workers(1);
    ASSERT_TRUE(workers.Run([&] {
      begun.set_value();
      go.get_future().wait();
    }));
    begun.get_future().wait();
    EXPECT_TRUE(workers.Run([&] { order.push_back(1); }));
    EXPECT_TRUE(workers.Run([&] { order.push_back(2); }));
    go.set_value();
  }
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(Workers, RefuseWorkThatNoThreadWillEverDo) {
  Workers workers(0);
  EXPECT_FALSE(workers.Run([] {}));
}

}  // namespace
}  // namespace quarry::server
