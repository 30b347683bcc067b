#pragma once

#include <grpcpp/server.h>

#include <chrono>
#include <memory>
#include <string>

#include "quarry/base/status.h"
#include "server/call.h"
#include "server/tls.h"

namespace quarry::server {

struct ListenOptions {
  std::string address = "127.0.0.1:50051";       ///< HOST:PORT; port 0 picks a free one
  std::shared_ptr<grpc::ServerCredentials> tls;  ///< null: plain text
  bool insecure = false;                         ///< plain text also where others than this machine listen
  int streams = 100;            ///< most calls of one connection at a time; more wait in the client
  int request_bytes = 4 << 20;  ///< longest message of a client; as many points as one request may have fit
  std::chrono::milliseconds connection_age{30 * 60 *
                                           1000};  ///< then clients connect anew, and so spread over servers
};

/// Plain text is for this machine alone, unless the operator says otherwise.
/// @param what  "--listen", for the message
/// @errors kInvalidArgument: no HOST:PORT, or not a loopback address
Status CheckPlainText(const std::string& what, const std::string& address, bool insecure);

/// A gRPC server that listens, with the standard health service, until it is drained or goes.
class Listener {
 public:
  /// @param service  must live longer
  /// @errors kInvalidArgument: see CheckPlainText; kUnavailable: cannot listen there
  static Result<std::unique_ptr<Listener>> Start(const ListenOptions& options, grpc::Service* service);
  ~Listener();

  /// HOST:PORT with the port that it has got.
  const std::string& address() const { return address_; }

  /// Health says NOT_SERVING, new calls are refused with kUnavailable, and running ones have this long.
  /// Returns when all have ended. Streams that watch the health do not hold it up.
  void Drain(Operations* operations, std::chrono::milliseconds time);

 private:
  Listener(std::shared_ptr<grpc::ServerCredentials> tls, std::unique_ptr<grpc::Server> server, std::string address)
      : tls_(std::move(tls)), server_(std::move(server)), address_(std::move(address)) {}

  void Stop(std::chrono::milliseconds time);

  const std::shared_ptr<grpc::ServerCredentials> tls_;  ///< asked for the certificate by the server, which does not own it
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace quarry::server
