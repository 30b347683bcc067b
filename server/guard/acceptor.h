#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "quarry/base/status.h"
#include "server/guard/connection.h"

namespace quarry::server {

/// Plain text is for this machine alone, unless the operator says otherwise.
/// @param what  "--listen", for the message
/// @errors kInvalidArgument: no HOST:PORT, or not a loopback address
Status CheckPlainText(const std::string& what, const std::string& address, bool insecure);

/// Address of the peer of a connection, as Peer::address(); empty if it is closed.
std::string PeerNameOf(int connection);

/// Most connections at a time. More are closed as soon as they are accepted; clients try again.
struct ConnectionLimits {
  int total = 1000;
  int per_address = 500;
};

/// Accepts TCP connections for a transport, and watches over them until they are closed. A transport that
/// accepts by itself may stop for ever when descriptors run out (gRPC before 1.53: CVE-2023-4785). An address
/// whose connection was cut waits for its next one (ConnectionRules::pause), or it could do over many
/// connections what it may not do over one. Thread-safe.
class Acceptor {
 public:
  /// Takes a new connection. The next one waits meanwhile; the others are still watched.
  /// @param listener    descriptor that it came by
  /// @param connection  its descriptor, not blocking; the transport closes it
  using Take = std::function<void(int listener, int connection)>;

  /// @param address  HOST:PORT; port 0 picks a free one
  /// @errors kInvalidArgument: no HOST:PORT; kUnavailable: cannot listen there
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& address, const ConnectionLimits& limits,
                                                  const ConnectionRules& rules = {});
  ~Acceptor() { Stop(); }

  /// HOST:PORT with the port that it has got.
  const std::string& address() const { return address_; }

  /// Begins to accept.
  void Start(Take take);
  /// Accepts no more, and watches no more.
  void Stop();

  /// The connection from a peer, while it is open; null for others.
  /// @param peer  as Peer::address()
  std::shared_ptr<Connection> Find(const std::string& peer) const;

  /// The state at this moment, and counts since the start.
  struct State {
    std::uint64_t open = 0;
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  ///< beyond a limit
    std::uint64_t cut = 0;      ///< against ConnectionRules
    std::uint64_t waiting = 0;  ///< open ones that the transport does not have yet
  };
  State state() const;

 private:
  Acceptor(const ConnectionLimits& limits, const ConnectionRules& rules) : limits_(limits), rules_(rules) {}

  using Clock = RateLimit::Clock;

  struct Entry {
    std::shared_ptr<Connection> connection;
    std::string host;
  };
  /// Accepted, and not handed over yet.
  struct Arrival {
    int listener = 0;
    FileDescriptor socket;
    std::shared_ptr<Connection> connection;
  };
  struct Host {
    explicit Host(const ConnectionRules& rules) : wasted(rules.wasted_per_second, rules.wasted_at_once) {}

    int connections = 0;
    RateLimit wasted;  ///< bytes of closed connections of which nothing came
    std::deque<Arrival> waiting;
    Clock::time_point next;        ///< before this time it has no new connection
    Clock::time_point suspicious;  ///< until then new ones come one after the other
  };

  Status Bind(const HostPort& address);
  void Accept();
  bool AcceptOne(int listener);
  void TakeWaiting();
  std::optional<Arrival> NextWaiting(Clock::time_point now);
  int MillisecondsToNext();
  void HandOver(Arrival arrival);
  void RefuseForDescriptors(int listener, const std::string& why);
  std::string Excess(const std::string& host) const;
  void Suspect(Host* host, Clock::time_point now) const;
  void Remove(const std::string& peer);
  void Watch();
  void InspectAll();
  void DismissSome(Clock::time_point now);
  void LogRefusal(const std::string& what);

  const ConnectionLimits limits_;
  const ConnectionRules rules_;
  std::string address_;
  std::vector<FileDescriptor> listeners_;
  FileDescriptor wake_;
  FileDescriptor spare_;  ///< given up to refuse a connection when no descriptor is left
  Take take_;
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;           ///< a first connection has come, or nothing is watched any more
  bool watching_ = true;                      ///< guarded by mutex_, as the next
  std::map<std::string, Entry> connections_;  ///< by peer
  std::map<std::string, Host> hosts_;         ///< addresses with connections, or under suspicion
  State state_;
  RateLimit log_limit_{1, 1};  ///< lines on refusals
  std::uint64_t unlogged_ = 0;
  std::thread accept_thread_;  ///< last: the threads use the others
  std::thread watch_thread_;
};

}  // namespace quarry::server
