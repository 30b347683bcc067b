#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "server/rate_limit.h"

namespace quarry::server {

/// What a client may do on one connection before it is closed. Good clients stay far below.
struct ConnectionRules {
  /// [bytes] that may be read while no call arrives, no question is expected, and no message leaves: an
  /// endless header, or frames that mean nothing. A transport may need time for them that grows with the
  /// square.
  std::uint64_t idle_bytes = 512 << 10;
  /// In which the transport takes the connection. It may begin to read on the thread that hands connections
  /// over, and goes on as long as there is something to read. Beyond this time, no more than idle_bytes may
  /// have been read.
  std::chrono::milliseconds taking{100};
  /// Faults of its calls, see Connection::CountFault.
  double faults_at_once = 200;
  double faults_per_second = 50;
};

/// A client's connection, from its acceptance until the transport has closed it. The calls that it carries
/// report to it, on any thread; Inspect is for one thread.
class Connection {
 public:
  /// A call was cancelled before it had its answer: as a viewer does that moves on.
  static constexpr int kCancelled = 1;
  /// A call asked for a method that there is none of.
  static constexpr int kUnknownMethod = 1;
  /// A call came with a wrong token: as those of a script do whose token has expired, some at a time.
  static constexpr int kWrongToken = 8;

  /// @param peer  "ipv4:127.0.0.1:50123", as Peer::address()
  Connection(int descriptor, std::uint64_t inode, std::string peer, const ConnectionRules& rules)
      : descriptor_(descriptor),
        inode_(inode),
        peer_(std::move(peer)),
        rules_(rules),
        opened_(RateLimit::Clock::now()),
        faults_limit_(rules.faults_per_second, rules.faults_at_once) {}

  const std::string& peer() const { return peer_; }

  /// The transport has taken the connection, and the next one can be handed over.
  void Taken() { taken_ = true; }
  /// A call has arrived, or a message has left: the bytes before were worth it.
  void Progress() { progress_ = true; }
  /// A question of at most so many bytes may arrive: before the transport is asked for it. With a negative
  /// number it need not any more: after Progress, if it has come.
  void Expect(std::int64_t bytes) { expected_ += bytes; }
  /// Cuts the connection by itself when there are too many at once: in the time until the next inspection a
  /// transport parses thousands of calls.
  /// @param weight  one of the constants above
  void CountFault(int weight) {
    if (weight == kCancelled) has_cancelled_ = true;
    if ((faults_ += weight) > rules_.faults_at_once) Cut();
  }
  /// Whether a call was ever cancelled.
  bool has_cancelled() const { return has_cancelled_; }

  enum class Finding { kGood, kClosed, kFlood, kFaults, kHoldsOthersUp };
  /// Whether the client has broken a rule since the last time: then the connection is cut. That is found
  /// once; from then on, as of any other, whether the transport has closed it.
  Finding Inspect(RateLimit::Clock::time_point now);
  /// Ends the connection under the transport, which then closes it.
  void Cut();
  /// Whether it was cut: nobody waits for the answers to the calls that had arrived.
  bool is_cut() const { return cut_; }

 private:
  bool IsOpen() const;
  Finding Judge(RateLimit::Clock::time_point now);

  const int descriptor_;       ///< the transport's: it may be closed, and be another file, at any moment
  const std::uint64_t inode_;  ///< of the socket, which tells
  const std::string peer_;
  const ConnectionRules rules_;
  const RateLimit::Clock::time_point opened_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> progress_ = false;
  std::atomic<std::int64_t> expected_ = 0;
  std::atomic<int> faults_ = 0;
  std::atomic<bool> has_cancelled_ = false;
  std::atomic<bool> cut_ = false;
  std::uint64_t worth_ = 0;  ///< [bytes] read at the last sign of progress
  RateLimit faults_limit_;
  bool found_ = false;  ///< that it has broken a rule
};

/// The inode of an open socket or file; 0 if the descriptor is closed.
std::uint64_t InodeOf(int descriptor);

}  // namespace quarry::server
