#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/storage/location.h"

namespace quarry {

/// How long a caller waits for looks at a storage that may hang.
struct Patience {
  /// For each look; half of it after each that was late, so that many of them do not add up.
  std::chrono::milliseconds each{5000};
  std::function<bool()> cancelled = [] { return false; };  ///< asked while waiting
};

/// True once nobody waits for a look any more.
using LookEnded = std::function<bool()>;

namespace internal {

using AnyLook = std::function<std::shared_ptr<void>(std::size_t, const LookEnded&)>;
Result<std::vector<std::shared_ptr<void>>> LookAtEach(std::vector<Location> places, AnyLook look,
                                                      Patience* patience);

}  // namespace internal

/// Looks at places one after the other, on another thread, or on as many as get answers sooner together, and
/// goes on without those that do not answer in time: a file server that has gone may hold a call for hours. A
/// look that is late is cancelled, see CancelScope, which calls on files do not hear. While a late look has
/// not ended, the next looks at its place are late at once. There can be 64 such looks; beyond that all are
/// late.
/// @param look  is given the number of a place. It owns all that it uses, because a late one goes on after
/// this function has returned
/// @returns in the order of the places; nothing for those that are late
/// @errors kCancelled; kResourceExhausted: no memory, or no thread
template <typename T>
Result<std::vector<std::optional<T>>> LookAtEach(std::vector<Location>&& places,
                                                 std::function<T(std::size_t, const LookEnded&)> look,
                                                 Patience* patience) {
  QUARRY_ASSIGN_OR_RETURN(
      const std::vector<std::shared_ptr<void>> seen,
      internal::LookAtEach(
          std::move(places),
          [look = std::move(look)](std::size_t number, const LookEnded& ended) -> std::shared_ptr<void> {
            return std::make_shared<T>(look(number, ended));
          },
          patience));
  std::vector<std::optional<T>> found(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) found[i] = std::move(*std::static_pointer_cast<T>(seen[i]));
  }
  return found;
}

}  // namespace quarry
