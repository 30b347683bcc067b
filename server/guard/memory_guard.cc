#include "server/guard/memory_guard.h"

#include <chrono>

#include "quarry/base/memory.h"

namespace quarry::server {
namespace {

/// Memory of a process beside its reads: the program, connections, indices, and some that is free.
constexpr std::uint64_t kAllowance = 48 << 20;
constexpr auto kLookEvery = std::chrono::milliseconds(250);

}  // namespace

MemoryGuard::MemoryGuard(std::uint64_t budget)
    : limit_(budget + kAllowance), thread_([this](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, stop, kLookEvery, [] { return false; }) && !stop.stop_requested()) {
          if (PrivateMemory() > limit_) ReturnFreedMemory();
        }
      }) {}

void MemoryGuard::Look() const {
  ReturnFreedMemoryOfThread();
  if (PrivateMemory() > limit_) ReturnFreedMemory();
}

}  // namespace quarry::server
