#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace quarry::remote {

/// When a try has failed and another one may help: 408, 429, 500, 502, 503, 504, or no whole answer.
bool MayHelp(int status);

/// The waits between the tries of one request: full jitter, so that clients which failed together do not
/// return together.
class Backoff {
 public:
  using Duration = std::chrono::milliseconds;

  explicit Backoff(std::uint64_t seed) : random_(seed) {}

  /// @param retry_after  what the server asked for
  /// @returns nothing after the fifth try, or when the server asks for more than half a minute
  std::optional<Duration> Next(std::optional<Duration> retry_after);

 private:
  static constexpr int kMostTries = 5;
  static constexpr Duration kFirst{50}, kLongest{5000}, kMostAsked{30'000};

  std::minstd_rand random_;
  int tries_ = 1;
};

/// How much a host is asked for: requests under way, halved by each refusal (503, 429) and grown slowly by
/// answers; and a budget of retries, so that a host that is down is not asked five times as often.
/// Not thread-safe.
class HostBudget {
 public:
  explicit HostBudget(int most_under_way) : most_(most_under_way), allowed_(most_under_way) {}

  int allowed() const { return static_cast<int>(allowed_); }
  void Answered();
  void Refused();
  /// Takes a retry from the budget. @returns false: it is used up
  bool TakeRetry();

 private:
  static constexpr double kMostRetries = 100, kEarned = 0.2;

  const int most_;
  double allowed_;
  double retries_ = kMostRetries;
};

}  // namespace quarry::remote
