#include "quarry/remote/retry.h"

#include <algorithm>

namespace quarry::remote {

bool MayHelp(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

std::optional<Backoff::Duration> Backoff::Next(std::optional<Duration> retry_after) {
  if (tries_ == kMostTries || retry_after > kMostAsked) return std::nullopt;
  const Duration most = std::min(kLongest, kFirst * (1 << tries_++));
  const Duration wait(std::uniform_int_distribution<Duration::rep>(0, most.count())(random_));
  return std::max(wait, retry_after.value_or(Duration::zero()));
}

void HostBudget::Answered() {
  retries_ = std::min(kMostRetries, retries_ + kEarned);
  // One more under way after as many answers as there are under way.
  allowed_ = std::min<double>(most_, allowed_ + 1 / allowed_);
}

void HostBudget::Refused() { allowed_ = std::max(1.0, allowed_ / 2); }

bool HostBudget::TakeRetry() {
  if (retries_ < 1) return false;
  retries_ -= 1;
  return true;
}

}  // namespace quarry::remote
