#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "quarry/question.h"

namespace quarry::client::internal {

/// The path to a server, as far as the calls of this process have seen it: an address says little, because a
/// tunnel begins on this machine. Thread-safe.
class SeenPath {
 public:
  /// The path to an address. All connections to it share one, as gRPC lets them share a TCP connection: a
  /// second one connects in no time.
  /// @param rate_if_near  [bytes/s] known where the round trip is that of a machine; 0: not known
  static std::shared_ptr<SeenPath> To(const std::string& address, double rate_if_near);

  explicit SeenPath(double rate_if_near) : rate_if_near_(rate_if_near) {}

  /// Held by whoever connects: a handshake that began before is no measure of the path.
  std::timed_mutex& connecting() { return connecting_; }

  /// Without the threads of the client. Nothing until something has come from the server.
  std::optional<query::Path> path() const;
  /// @param seconds  of a call or a handshake, for each of its round trips
  void Answered(double seconds);
  /// @param bytes            of the answer
  /// @param elapsed, waited  see query::RateAfter
  void Received(const query::EncodingChoice& choice, std::uint64_t bytes, double elapsed, double waited);

 private:
  query::Path Known() const;

  const double rate_if_near_;
  std::timed_mutex connecting_;
  mutable std::mutex mutex_;
  query::Path path_;
  bool seen_ = false;
};

/// Times the messages of one call.
class CallTimes {
 public:
  explicit CallTimes(SeenPath* path) : path_(path) {}

  /// @param wait  for the next message, returns whether there is one
  template <typename Wait>
  bool Next(const Wait& wait) {
    const auto begin = Clock::now();
    if (!wait()) return false;
    last_ = Clock::now();
    if (answered_) {
      waited_ += last_ - begin;
    } else {
      answered_ = true;
      first_ = last_;
      path_->Answered(Seconds(first_ - asked_).count());
    }
    return true;
  }
  /// @param bytes  of all messages
  void End(const query::EncodingChoice& choice, std::uint64_t bytes) const {
    path_->Received(choice, bytes, Seconds(last_ - first_).count(), waited_.count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  SeenPath* const path_;
  const Clock::time_point asked_ = Clock::now();
  bool answered_ = false;
  Clock::time_point first_{};
  Clock::time_point last_{};
  Seconds waited_{};
};

}  // namespace quarry::client::internal
