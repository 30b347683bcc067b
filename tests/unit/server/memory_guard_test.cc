#include "server/guard/memory_guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "quarry/base/memory.h"

namespace quarry::server {
namespace {

TEST(MemoryGuard, GivesBackWhatLiesFreeBetweenBuffersInUse) {
  constexpr std::size_t kBytes = 8 << 10;
  constexpr std::size_t kCount = 20'000;
  std::vector<std::unique_ptr<char[]>> buffers;
  for (std::size_t i = 0; i < kCount; ++i) buffers.push_back(std::make_unique<char[]>(kBytes));
  const std::uint64_t full = PrivateMemory();
  ASSERT_GE(full, kCount * kBytes);
  // One in sixteen stays in use, including the last: the heap cannot shrink from its end.
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 16 != 15) buffers[i].reset();
  }
  ASSERT_GE(PrivateMemory(), kCount * kBytes * 9 / 10) << "the C library gave it back on its own";

  const MemoryGuard guard(1 << 20);
  // The time limit of the test ends the wait for a guard that does nothing.
  while (PrivateMemory() > full - kCount * kBytes / 2) std::this_thread::yield();
}

}  // namespace
}  // namespace quarry::server
