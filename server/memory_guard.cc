#include "server/memory_guard.h"

#include <chrono>

#include "quarry/base/memory.h"

namespace quarry::server {
namespace {

/// What a process has beside its reads: the program, connections, indices; and some that lies free.
constexpr std::uint64_t kAllowance = 48 << 20;
constexpr auto kLookEvery = std::chrono::milliseconds(250);

}  // namespace

MemoryGuard::MemoryGuard(std::uint64_t budget)
    : thread_([this, limit = budget + kAllowance](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, stop, kLookEvery, [] { return false; }) && !stop.stop_requested()) {
          if (PrivateMemory() > limit) ReturnFreedMemory();
        }
      }) {}

}  // namespace quarry::server
