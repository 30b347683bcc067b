#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

/// Times of actions.
namespace quarry::plan {

inline constexpr int kRepeats = 3;

inline double WallSeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Time that a core has spent on this thread or process, without that of other processes.
inline double CpuSeconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace quarry::plan
