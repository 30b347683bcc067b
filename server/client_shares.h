#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "quarry/base/status.h"

namespace quarry::server {

/// What one client may have under way at a time. 0: no limit.
struct ClientLimits {
  int calls = 0;
  std::uint64_t bytes = 0;  ///< the prices of its reads together
};

/// What every client has under way, so that one of them cannot take the whole server. Clients without a call
/// are not remembered: the memory that this takes is bounded by the calls. Thread-safe.
class ClientShares {
 public:
  explicit ClientShares(ClientLimits limits = {}) : limits_(limits) {}

  /// Before the first call.
  void SetLimits(ClientLimits limits) { limits_ = limits; }

  /// One call of a client, and the prices of its reads, until it goes.
  class Share {
   public:
    Share() = default;
    ~Share() { Reset(); }
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;

    /// @param advice  what finishes "ask for ..."
    /// @errors kResourceExhausted with the numbers: more than the client may have under way; nothing is added
    Status Add(std::uint64_t bytes, const std::string& advice);

    /// What Add would take now; without a limit the largest number.
    std::uint64_t Left() const;

   private:
    friend class ClientShares;
    Share(ClientShares* shares, std::string client) : shares_(shares), client_(std::move(client)) {}
    void Reset();

    ClientShares* shares_ = nullptr;
    std::string client_;
    std::uint64_t bytes_ = 0;
  };

  /// @param client  whoever it is that asks: one name for all its calls
  /// @errors kResourceExhausted with the numbers: as many calls as it may have run already
  Result<Share> Begin(const std::string& client);

  /// Clients with a call under way.
  std::size_t size() const;

 private:
  struct Use {
    int calls = 0;
    std::uint64_t bytes = 0;
  };

  ClientLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Use> uses_;
};

}  // namespace quarry::server
