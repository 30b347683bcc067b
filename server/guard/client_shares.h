#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "quarry/base/status.h"
#include "server/guard/rate_limit.h"

namespace quarry::server {

/// An answer that has ended, and that its client has not taken yet, has a thread and its memory like a call
/// that runs. A client that has its answer may call again before that thread knows: so calls and such answers
/// together may be this many more than calls alone.
inline constexpr int kUntaken = 16;

/// Threads that so many calls of all clients need, with the answers to be taken.
inline constexpr int ThreadsFor(int calls) { return calls + 2 * kUntaken; }

/// Limits of one client for concurrent work. 0: no limit.
struct ClientLimits {
  int calls = 0;
  std::uint64_t bytes = 0;      ///< the costs of its reads together
  double calls_per_second = 0;  ///< in the long run, while others call too; twice as many may come at once
};

/// Work in progress of every client, so that none can take the whole server. Clients without a call are
/// forgotten, a moment later where they came often. Thread-safe.
class ClientShares {
 public:
  explicit ClientShares(ClientLimits limits = {}) : limits_(limits) {}

  /// Before the first call.
  void SetLimits(ClientLimits limits) { limits_ = limits; }

  /// One call of a client, and the costs of its reads, until it is destroyed.
  class Share {
   public:
    Share() = default;
    ~Share() { Reset(); }
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;

    /// @param advice  the end of "ask for ..."
    /// @errors kResourceExhausted with the numbers: more than the client may have in progress; nothing is
    /// added
    Status Add(std::uint64_t bytes, const std::string& advice);

    /// Bytes that Add would accept now; without a limit the largest number.
    std::uint64_t Left() const;

    /// The call has its answer, which is yet to be taken: until the share is destroyed.
    void EndCall();

   private:
    friend class ClientShares;
    Share(ClientShares* shares, std::string client) : shares_(shares), client_(std::move(client)) {}
    void Reset();

    ClientShares* shares_ = nullptr;
    std::string client_;
    std::uint64_t bytes_ = 0;
    bool ended_ = false;
  };

  /// @param client  one name for all calls of a client
  /// @param most    calls of all clients; 0: no limit
  /// @errors kResourceExhausted with the numbers: the client already runs as many calls as it may, or calls
  /// too often; all clients together run as many as they may; or too many answers were not taken
  Result<Share> Begin(const std::string& client, int most = 0);

  /// Clients that are remembered.
  std::size_t size() const;

 private:
  static constexpr std::size_t kFewClients = 64;

  struct Use {
    int calls = 0;
    int untaken = 0;
    std::uint64_t bytes = 0;
    RateLimit rate;

    bool is_idle(RateLimit::Clock::time_point now) const {
      return calls == 0 && untaken == 0 && rate.IsFull(now);
    }
  };

  using Time = RateLimit::Clock::time_point;

  Status Check(const std::string& client, const Use& use, int most) const;
  void ForgetSome(Time now);
  bool IsAlone(const std::string& client, const Use& use, Time now);

  ClientLimits limits_;
  mutable std::mutex mutex_;
  std::string last_client_;          ///< the last that has called,
  Time last_call_;                   ///< when it did,
  std::optional<Time> others_call_;  ///< and when another client did before
  std::map<std::string, Use> uses_;
  int running_ = 0;                    ///< calls of all clients
  int untaken_ = 0;                    ///< their answers that were not taken
  std::size_t look_at_ = kFewClients;  ///< clients at which those that are gone are looked for
};

}  // namespace quarry::server
