#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "server/call.h"

namespace quarry::server {

/// The standard health service, which needs no token. gRPC's own would take any number of calls. Thread-safe.
/// @source https://github.com/grpc/grpc/blob/master/doc/health-checking.md
class Health {
 public:
  /// Most calls at a time, half of them of one address; more are refused. Each has a thread.
  static constexpr int kMostCalls = 64;

  explicit Health(Operations* operations) : operations_(operations) {}

  /// "/grpc.health.v1.Health/Check" -> "Check"; nothing for the methods of other services.
  static std::optional<std::string> MethodOf(const std::string& path);

  /// Answers one call: blocks until the client has the answer, or, for Watch, until the client disconnects.
  void Answer(const std::string& method, Peer* peer, MessageStream* stream);

  /// From now on the server is NOT_SERVING.
  void SetStopping();

 private:
  Status Dispatch(const std::string& method, Peer* peer, MessageStream* stream);
  Status Watch(const std::string& service, Peer* peer, MessageStream* stream);
  /// As ServingStatus; nothing: no such service.
  std::optional<int> StatusOf(const std::string& service) const;
  bool Send(int status, Follows follows, Peer* peer, MessageStream* stream);

  Operations* const operations_;
  ClientShares clients_{{.calls = kMostCalls / 2, .calls_per_second = 100}};
  std::atomic<int> calls_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace quarry::server
