#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "quarry/base/cancel_scope.h"

namespace quarry::server {

/// A mutex that may be held for as long as a storage takes to answer: who waits for it may give up. For
/// std::unique_lock, with std::adopt_lock after LockUnlessCancelled.
class Turn {
 public:
  bool try_lock() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(taken_, true);
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }
  /// @returns false: the CancelScope of this thread says that nobody waits any more
  bool LockUnlessCancelled() {
    constexpr auto kAsk = std::chrono::milliseconds(20);
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (free_.wait_for(lock, kAsk, [this] { return !taken_; })) return taken_ = true;
      }
      if (CancelScope::Cancelled()) return false;
    }
  }

 private:
  std::mutex mutex_;  ///< held for moments
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace quarry::server
