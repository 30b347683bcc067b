#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace quarry {

/// The owner of memory or decoding tasks, and whether it still wants them.
struct Requester {
  template <std::predicate Cancelled>
  requires(!std::same_as<std::decay_t<Cancelled>, Requester>)
      Requester(Cancelled cancelled, std::uint64_t client = 0)  // NOLINT: most requests are of this process
      : cancelled(std::move(cancelled)), client(client) {}

  std::function<bool()> cancelled;  ///< called from time to time while it waits; true: its client has gone
  std::uint64_t client = 0;         ///< one number for all requests of a client; 0: this process itself
};

}  // namespace quarry
