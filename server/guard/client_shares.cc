#include "server/guard/client_shares.h"

#include <algorithm>
#include <limits>

#include "quarry/base/units.h"

namespace quarry::server {

ClientShares::Share& ClientShares::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  shares_ = std::exchange(other.shares_, nullptr);
  client_ = std::move(other.client_);
  bytes_ = std::exchange(other.bytes_, 0);
  ended_ = std::exchange(other.ended_, false);
  return *this;
}

void ClientShares::Share::EndCall() {
  if (shares_ == nullptr || std::exchange(ended_, true)) return;
  const std::lock_guard lock(shares_->mutex_);
  Use& use = shares_->uses_.at(client_);
  use.bytes -= std::exchange(bytes_, 0);
  --use.calls;
  ++use.untaken;
  --shares_->running_;
  ++shares_->untaken_;
}

void ClientShares::Share::Reset() {
  ClientShares* const shares = std::exchange(shares_, nullptr);
  if (shares == nullptr) return;
  const std::lock_guard lock(shares->mutex_);
  const auto use = shares->uses_.find(client_);
  use->second.bytes -= bytes_;
  --(ended_ ? shares->untaken_ : shares->running_);
  --(ended_ ? use->second.untaken : use->second.calls);
  if (use->second.is_idle(RateLimit::Clock::now())) shares->uses_.erase(use);
}

Result<ClientShares::Share> ClientShares::Begin(const std::string& client, int most) {
  const std::lock_guard lock(mutex_);
  const auto now = RateLimit::Clock::now();
  ForgetSome(now);
  const double rate = limits_.calls_per_second;
  const auto use = uses_.try_emplace(client, Use{0, 0, 0, RateLimit(rate, 2 * rate)}).first;
  const bool alone = IsAlone(client, use->second, now);
  if (rate > 0 && !use->second.rate.Allow(now) && !alone) {
    return ResourceExhausted(
        "\"{}\" asks more than the {:.6g} calls a second that this server answers one client; "
        "ask again later, and for more at a time",
        client, rate);
  }
  QUARRY_RETURN_IF_ERROR(Check(client, use->second, most));
  ++use->second.calls;
  ++running_;
  return Share(this, client);
}

/// Whether there is a place for one more call.
Status ClientShares::Check(const std::string& client, const Use& use, int most) const {
  if (limits_.calls > 0 && use.calls >= limits_.calls) {
    return ResourceExhausted(
        "{} calls of \"{}\" are running, and {} is the most that this server answers one "
        "client at a time; ask again when one of them has ended",
        use.calls, client, limits_.calls);
  }
  if (limits_.calls > 0 && use.calls + use.untaken >= limits_.calls + kUntaken) {
    return ResourceExhausted("\"{}\" has not taken {} of its answers; take them before you ask again", client,
                             use.untaken);
  }
  if (most > 0 && running_ >= most) {
    return ResourceExhausted(
        "{} calls are running, and {} is the most that this server answers at a time; ask again later",
        running_, most);
  }
  if (most > 0 && running_ + untaken_ >= ThreadsFor(most)) {
    return ResourceExhausted("{} answers of this server were not taken yet; ask again later", untaken_);
  }
  return Status::Ok();
}

/// Whether no call of another client runs, and none has come for a while. A client that is alone takes
/// nothing from anybody.
bool ClientShares::IsAlone(const std::string& client, const Use& use, Time now) {
  constexpr auto kWhile = std::chrono::seconds(10);
  if (client != last_client_) {
    if (!last_client_.empty()) others_call_ = last_call_;
    last_client_ = client;
  }
  last_call_ = now;
  return running_ == use.calls && (!others_call_ || now - *others_call_ > kWhile);
}

/// Looks for clients that are gone when there are twice as many as after the last look.
void ClientShares::ForgetSome(Time now) {
  if (uses_.size() < look_at_) return;
  std::erase_if(uses_, [now](const auto& use) { return use.second.is_idle(now); });
  look_at_ = std::max(kFewClients, 2 * uses_.size());
}

std::uint64_t ClientShares::Share::Left() const {
  if (shares_ == nullptr || shares_->limits_.bytes == 0) return std::numeric_limits<std::uint64_t>::max();
  const std::lock_guard lock(shares_->mutex_);
  return shares_->limits_.bytes - shares_->uses_.at(client_).bytes;
}

Status ClientShares::Share::Add(std::uint64_t bytes, const std::string& advice) {
  if (shares_ == nullptr) return Status::Ok();
  const std::lock_guard lock(shares_->mutex_);
  const std::uint64_t most = shares_->limits_.bytes;
  Use& use = shares_->uses_.at(client_);
  if (most > 0 && bytes > most - use.bytes) {
    return ResourceExhausted(
        "this read costs {}, the others of \"{}\" that are running {}, and {} is the most that "
        "this server reads for one client at a time; ask {}for {}",
        FormatBytes(bytes), client_, FormatBytes(use.bytes), FormatBytes(most),
        use.bytes > 0 ? "again when they have ended, or " : "", advice);
  }
  use.bytes += bytes;
  bytes_ += bytes;
  return Status::Ok();
}

std::size_t ClientShares::size() const {
  const std::lock_guard lock(mutex_);
  return uses_.size();
}

}  // namespace quarry::server
