#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/grpc/port_credentials.h"
#include "server/guard/connection.h"

namespace quarry::server {

/// The calls that gRPC has parsed, and that no thread of ours has taken yet. gRPC keeps any number of them,
/// with kilobytes for each: those of a client that its own faults have reset no longer count among its
/// streams, and a client that does not acknowledge the server's settings has no limit on these at all. So
/// they are bounded here when they arrive, for each connection and in all.
/// @source CVE-2023-44487, CVE-2025-8671
class Arrivals final : public ArrivalCheck {
 public:
  /// @param per_connection  most waiting calls of one
  explicit Arrivals(int per_connection) : per_connection_(per_connection) {}

  const char* Check(const grpc_auth_context* connection) override;

  /// A thread has taken a call.
  /// @param connection  that it came by; may be null
  void Taken(const grpc_auth_context* key, const std::shared_ptr<Connection>& connection);

  /// A look at the queue of calls, from its beginning on. gRPC does not report a call that ended in the queue
  /// because its client disconnected: an empty queue shows it.
  class Look {
   public:
    explicit Look(Arrivals* arrivals) : arrivals_(arrivals), arrived_(arrivals->arrived_) {}
    /// The queue was empty: what had arrived before the look has ended.
    void FoundNothing() const { arrivals_->Forget(arrived_); }

   private:
    Arrivals* const arrivals_;
    const std::uint64_t arrived_;
  };
  /// Whether so many calls are counted that it is worth an extra look.
  bool is_crowded() const { return calls_ >= kCrowd; }

 private:
  struct Waiting {
    int calls = 0;
    int refused = 0;                       ///< refused calls of a connection that is not known yet
    std::weak_ptr<Connection> connection;  ///< known once a call of it was taken,
    std::string host;                      ///< and its address; until then empty, as that of all such
  };

  /// Most of all connections, and of those of one address. A thread takes ten thousand in a second.
  static constexpr int kMost = 4096;
  static constexpr int kMostOfHost = 512;
  static constexpr int kCrowd = 64;

  void Forget(std::uint64_t arrived);

  const int per_connection_;
  std::atomic<int> calls_ = 0;
  std::atomic<std::uint64_t> arrived_ = 0;
  std::mutex mutex_;
  std::map<const grpc_auth_context*, Waiting> waiting_;  ///< guarded by mutex_, as the next
  std::map<std::string, int> hosts_;                     ///< waiting calls
};

}  // namespace quarry::server
