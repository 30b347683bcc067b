#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "server/guard/rate_limit.h"

namespace quarry::server {

/// Limits of one connection, which is closed beyond them. Good clients stay far below.
struct ConnectionRules {
  /// [bytes] that may be read while no question comes, none is expected, and no message leaves: an endless
  /// header, frames that mean nothing, or calls that end before they have begun. A transport may need time
  /// for them that grows with the square, and memory for each call.
  std::uint64_t idle_bytes = 512 << 10;
  /// The same before anything has come of a connection.
  std::uint64_t first_bytes = 128 << 10;
  /// [bytes] more that may be read while questions are expected, however many, unless memory is pinned for
  /// them.
  std::uint64_t question_bytes = 8 << 20;
  /// [bytes] that all connections may have read without anything coming of it, and without memory that is
  /// pinned; then those with most of it are cut.
  std::uint64_t all_bytes = 32 << 20;
  /// Bytes of closed connections of an address of which nothing came, at once and in a second.
  double wasted_at_once = 4 << 20;
  double wasted_per_second = 256 << 10;
  /// In which the transport takes the connection. It may begin to read on the thread that hands connections
  /// over, and goes on as long as there is something to read. Beyond this time, no more than idle_bytes may
  /// have been read.
  std::chrono::milliseconds taking{100};
  /// Faults of its calls, see Connection::CountFault.
  double faults_at_once = 200;
  double faults_per_second = 50;
  /// Most calls at a time, and most of them that wait for their question. A transport counts the streams that
  /// are open for the client, and some of those that have ended for it still run here.
  int calls = 1 << 20;
  int questions = 1 << 20;
  /// After a connection was cut, its address has one new connection in each `pause`, until `probation` has
  /// passed without another cut.
  std::chrono::milliseconds pause{500};
  std::chrono::milliseconds probation{10'000};
};

/// A client's connection, from its acceptance until the transport has closed it. The calls that it carries
/// report to it, on any thread; Inspect is for one thread.
class Connection {
 public:
  /// A call ended before it had its answer, or before its question had come: as those of a viewer do that
  /// moves on.
  static constexpr int kCancelled = 1;
  /// The question of a call did not come in time.
  static constexpr int kNoQuestion = 4;
  /// A call came while as many as the connection may have were there.
  static constexpr int kOneTooMany = 1;
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
  /// A question has come as a whole, or a message has left: the bytes before were worth it. The arrival of a
  /// call is no progress: it costs a client nothing.
  void Progress() { progress_ = true; }

  /// A call has been taken, and ends with EndCall.
  /// @returns false: it is one too many, which is a fault
  bool BeginCall() { return Begin(&calls_, rules_.calls); }
  void EndCall() { --calls_; }
  /// Memory of so many bytes is pinned for a question that may arrive.
  class Pinned {
   public:
    /// @param connection  may be null
    Pinned(Connection* connection, std::int64_t bytes) : connection_(connection), bytes_(bytes) {
      if (connection_ != nullptr) connection_->pinned_ += bytes_;
    }
    ~Pinned() {
      if (connection_ != nullptr) connection_->pinned_ -= bytes_;
    }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

   private:
    Connection* const connection_;
    const std::int64_t bytes_;
  };

  /// A question of at most so many bytes may arrive: before the transport is asked for it.
  /// @returns false: too many calls wait for theirs, which is a fault; EndQuestion is due all the same
  bool BeginQuestion(std::int64_t bytes) {
    expected_ += bytes;
    return Begin(&questions_, rules_.questions);
  }
  /// @param came  as a whole
  void EndQuestion(std::int64_t bytes, bool came) {
    if (came) Progress();
    expected_ -= bytes;
    --questions_;
  }
  /// Cuts the connection by itself when there are too many at once: in the time until the next inspection a
  /// transport parses thousands of calls.
  /// @param weight  one of the constants above
  void CountFault(int weight) {
    if (weight == kCancelled) has_cancelled_ = true;
    if ((faults_ += weight) > rules_.faults_at_once) Cut();
  }
  /// Whether a call was ever cancelled.
  bool has_cancelled() const { return has_cancelled_; }

  enum class Finding { kGood, kClosed, kFlood, kFaults, kHoldsOthersUp, kVanished };
  /// Whether the client has broken a rule since the last time, or has vanished while something was sent: then
  /// the connection is cut. That is found once; from then on, as of any other, whether the transport has
  /// closed it.
  Finding Inspect(RateLimit::Clock::time_point now);
  /// [bytes] At the last inspection: read since something came of them, without what memory is pinned for.
  std::uint64_t excess() const { return excess_; }
  /// Cuts it for what other connections need. For the thread that inspects.
  void Dismiss() {
    found_ = true;
    excess_ = 0;
    Cut();
  }
  /// Ends the connection under the transport, which then closes it.
  void Cut();
  /// Whether it was cut: nobody waits for the answers to the calls that had arrived.
  bool is_cut() const { return cut_; }

 private:
  bool Begin(std::atomic<int>* count, int most) {
    if (++*count <= most) return true;
    CountFault(kOneTooMany);
    return false;
  }
  bool IsOpen() const;
  Finding Judge(RateLimit::Clock::time_point now);
  bool HasVanished(RateLimit::Clock::time_point now);

  const int descriptor_;       ///< the transport's: it may be closed, and be another file, at any moment
  const std::uint64_t inode_;  ///< inode of the socket, to recognise it
  const std::string peer_;
  const ConnectionRules rules_;
  const RateLimit::Clock::time_point opened_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> progress_ = false;
  std::atomic<std::int64_t> expected_ = 0;
  std::atomic<std::int64_t> pinned_ = 0;  ///< [bytes]
  std::atomic<int> calls_ = 0;
  std::atomic<int> questions_ = 0;
  std::atomic<int> faults_ = 0;
  std::atomic<bool> has_cancelled_ = false;
  std::atomic<bool> cut_ = false;
  std::uint64_t worth_ = 0;  ///< [bytes] read at the last sign of progress
  std::uint64_t excess_ = 0;
  bool has_progressed_ = false;
  RateLimit::Clock::time_point heard_;  ///< when it was last asked whether anything is heard of the client
  RateLimit faults_limit_;
  bool found_ = false;  ///< that it has broken a rule
};

/// The inode of an open socket or file; 0 if the descriptor is closed.
std::uint64_t InodeOf(int descriptor);

}  // namespace quarry::server
