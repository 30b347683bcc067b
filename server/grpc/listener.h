#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "quarry/base/status.h"
#include "server/grpc/arrivals.h"
#include "server/grpc/health.h"
#include "server/grpc/tls.h"
#include "server/guard/acceptor.h"
#include "server/guard/workers.h"
#include "server/service.h"

namespace quarry::server {

struct ListenOptions {
  std::string address = "127.0.0.1:50051";  ///< HOST:PORT; port 0 picks a free one
  std::shared_ptr<PortCredentials> tls;     ///< null: plain text
  bool insecure = false;                    ///< plain text also where others than this machine listen
  ConnectionLimits connections;
  int streams = 100;  ///< most calls of one connection at a time; more wait in the client
  std::chrono::milliseconds connection_age{30 * 60 *
                                           1000};  ///< then clients connect anew, and so spread over servers
};

class GrpcCall;

/// The service behind a gRPC port, with the standard health service, until it is drained or goes. Every
/// method comes by gRPC's generic service as bytes: a call is let in before its question is parsed, and
/// samples leave without a copy.
class Listener {
 public:
  /// @param service  must live longer
  /// @errors kInvalidArgument: see CheckPlainText; kUnavailable: cannot listen there
  static Result<std::unique_ptr<Listener>> Start(const ListenOptions& options, Service* service);
  ~Listener();

  /// HOST:PORT with the port that it has got.
  const std::string& address() const { return acceptor_->address(); }
  /// Acceptor of its connections; never null, and still there when the listener has gone.
  std::shared_ptr<const Acceptor> acceptor() const { return acceptor_; }

  /// Health says NOT_SERVING, new calls are refused with kUnavailable, and running ones have this long; those
  /// that still run then are cut. Returns when all have ended, or half a second later. Streams that watch the
  /// health do not hold it up.
  ///
  /// The destructor may take longer: gRPC closes a connection only when its pending writes are taken, or the
  /// client has not answered a ping for 20 s.
  /// @param hurry  asked often; true ends the time at once
  void Drain(std::chrono::milliseconds time, const std::function<bool()>& hurry = nullptr);

 private:
  Listener(const ListenOptions& options, Service* service)
      : credentials_(options.tls ? options.tls : PlainTextCredentials()),
        service_(service),
        arrived_(options.streams + kMoreThanStreams) {}

  Status Listen(const ListenOptions& options);
  void ReceiveCalls();
  bool BeginReceiving();
  std::shared_ptr<GrpcCall> NextCall();
  void AcceptOne();
  void Answer(const std::shared_ptr<GrpcCall>& call);
  void ForgetRefused();
  bool IsAnswering();
  void CutCalls();
  void Stop();

  static constexpr std::size_t kFewRefused = 64;
  static constexpr std::size_t kMostRefused = 2048;

  /// Calls of a connection that may wait beside those of its streams, as their client has cancelled them.
  static constexpr int kMoreThanStreams = 100;

  const std::shared_ptr<PortCredentials> credentials_;  ///< asked by the server, which does not own them
  Service* const service_;
  Health health_{service_->operations()};
  Arrivals arrived_;
  grpc::AsyncGenericService methods_;
  std::unique_ptr<grpc::ServerCompletionQueue> arrivals_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> transport_;  ///< takes connections
  std::shared_ptr<Acceptor> acceptor_;
  std::mutex mutex_;       ///< nothing is accepted into a queue that was shut down
  bool stopping_ = false;  ///< guarded by mutex_, as the next
  std::set<GrpcCall*> answered_;
  std::list<std::shared_ptr<GrpcCall>> refused_;                ///< until gRPC has sent their refusals
  std::size_t forget_at_ = kFewRefused;                         ///< refused calls at which they are looked at
  std::unique_ptr<Workers> workers_;                            ///< receive and answer calls
  std::atomic<int> receiving_ = 0;                              ///< threads that wait for a call
  std::atomic<std::chrono::steady_clock::time_point> swept_{};  ///< the last ForgetRefused
};

}  // namespace quarry::server
