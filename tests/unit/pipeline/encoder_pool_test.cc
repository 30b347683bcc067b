#include "writer/pipeline/encoder_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <set>

#include "tests/testing/failing_memory.h"

namespace quarry::writer {
namespace {

PatchSamples Patch(std::int64_t index, std::size_t bytes = 8) { return {index, Bytes(bytes), 0}; }

TEST(EncoderPool, EncodesEveryPatchOnce) {
  std::mutex mutex;
  std::set<std::int64_t> encoded;
  std::size_t reported = 0;
  EncoderPool pool(
      3, 100,
      [&](const PatchSamples& patch) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(encoded.insert(patch.patch_index).second);
        return Status::Ok();
      },
      [&](std::size_t done) { EXPECT_EQ(done, ++reported); });

  for (std::int64_t p = 0; p < 1000; ++p) {
    pool.Reserve(8);
    pool.Submit(Patch(p));
  }

  EXPECT_TRUE(pool.Drain().ok());
  EXPECT_EQ(encoded.size(), 1000u);
  EXPECT_EQ(reported, 1000u);
}

TEST(EncoderPool, HoldsNoMoreSamplesThanItMay) {
  std::atomic<std::int64_t> held = 0;
  EncoderPool pool(
      2, 100,
      [&](const PatchSamples& patch) {
        EXPECT_LE(held.load(), 100);
        held -= static_cast<std::int64_t>(patch.samples.size());
        return Status::Ok();
      },
      [](std::size_t) {});

  for (std::int64_t p = 0; p < 1000; ++p) {
    pool.Reserve(30);
    held += 30;
    pool.Submit(Patch(p, 30));
  }

  EXPECT_TRUE(pool.Drain().ok());
  EXPECT_EQ(held, 0);
}

TEST(EncoderPool, GivesMoreRatherThanWaitForItsCaller) {
  EncoderPool pool(
      1, 100, [](const PatchSamples&) { return Status::Ok(); }, [](std::size_t) {});

  for (int patch = 0; patch < 3; ++patch) pool.Reserve(90);  // nothing is submitted that could make room
  pool.Release(90);
  for (std::int64_t p = 0; p < 2; ++p) pool.Submit(Patch(p, 90));
  pool.Reserve(100);

  EXPECT_TRUE(pool.Drain().ok());
}

TEST(EncoderPool, KeepsTheFirstErrorAndDropsTheRest) {
  std::atomic<int> encoded = 0;
  EncoderPool pool(
      1, UINT64_MAX,
      [&](const PatchSamples& patch) -> Status {
        ++encoded;
        if (patch.patch_index == 2) return DataLoss("patch {} is bad", patch.patch_index);
        if (patch.patch_index > 2) throw std::bad_alloc();
        return Status::Ok();
      },
      [](std::size_t) {});

  for (std::int64_t p = 0; p < 10; ++p) pool.Submit(Patch(p, 0));
  const Status drained = pool.Drain();

  EXPECT_EQ(drained.code(), StatusCode::kDataLoss);
  EXPECT_EQ(drained.message(), "patch 2 is bad");
  EXPECT_EQ(pool.status().message(), "patch 2 is bad");
  EXPECT_EQ(encoded, 3);
}

TEST(EncoderPool, TurnsExceptionsIntoErrors) {
  EncoderPool pool(
      1, 100, [](const PatchSamples&) -> Status { throw std::bad_alloc(); }, [](std::size_t) {});

  pool.Submit(Patch(0, 0));

  EXPECT_EQ(pool.Drain().code(), StatusCode::kInternal);
}

TEST(EncoderPool, EncodesOnTheThreadsThatMemoryAllows) {
  const int failures = testing::ForEveryAllocation([](int n) {
    std::atomic<int> encoded = 0;
    const testing::FailingAllocation failing(n);
    try {
      EncoderPool pool(
          3, 100, [&](const PatchSamples&) { return ++encoded, Status::Ok(); }, [](std::size_t) {});
      pool.Submit(Patch(0));
      pool.Submit(Patch(1));
      EXPECT_TRUE(pool.Drain().ok());
      EXPECT_EQ(encoded, 2);
    } catch (const std::bad_alloc&) {
    }
    return failing.failed();
  });
  EXPECT_GT(failures, 3);
}

TEST(EncoderPool, EndsWhilePatchesWait) {
  std::latch begun(1);
  std::atomic<bool> ended = false;
  {
    EncoderPool pool(
        1, UINT64_MAX,
        [&](const PatchSamples& patch) {
          EXPECT_FALSE(ended);
          if (patch.patch_index == 0) begun.count_down();
          return Status::Ok();
        },
        [](std::size_t) {});
    for (std::int64_t p = 0; p < 100; ++p) pool.Submit(Patch(p, 0));
    begun.wait();
  }
  ended = true;
}

}  // namespace
}  // namespace quarry::writer
