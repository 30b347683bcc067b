#pragma once

#include <mutex>
#include <string>
#include <unordered_set>

namespace quarry::server {

/// Which damage was logged before: a damaged place is met by every read of it. Thread-safe.
class DamageLog {
 public:
  /// Whether a message is met for the first time.
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
