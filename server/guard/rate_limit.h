#pragma once

#include <algorithm>
#include <chrono>

namespace quarry::server {

/// Lets `burst` events pass at once, and `per_second` of them in the long run. One thread at a time.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Whether `events` more may pass at `now`, which never goes back; if so, they are counted.
  bool Allow(Clock::time_point now, double events = 1) {
    if (last_ != Clock::time_point())
      left_ = std::min(burst_, left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    if (events > left_) return false;
    left_ -= events;
    return true;
  }

  /// True when it is as if nothing had ever passed.
  bool IsFull(Clock::time_point now) const {
    return last_ == Clock::time_point() ||
           left_ + per_second_ * std::chrono::duration<double>(now - last_).count() >= burst_;
  }

 private:
  double per_second_;
  double burst_;
  double left_;
  Clock::time_point last_;
};

}  // namespace quarry::server
