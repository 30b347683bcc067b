#pragma once

#include <mutex>
#include <string>
#include <unordered_set>

namespace quarry::server {

/// Remembers which damage is logged: every read of a damaged place finds it again. Thread-safe.
class DamageLog {
 public:
  /// Whether a message is new.
  bool IsNew(const std::string& message) {
    const std::lock_guard lock(mutex_);
    // A bound, because damage can be everywhere; beyond it, places are logged again.
    if (logged_.size() >= kMostPlaces) logged_.clear();
    return logged_.insert(message).second;
  }

 private:
  static constexpr std::size_t kMostPlaces = 10000;
  std::mutex mutex_;
  std::unordered_set<std::string> logged_;
};

}  // namespace quarry::server
