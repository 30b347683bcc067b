#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

namespace quarry::server {

/// Looks at each call as soon as gRPC has parsed its headers, on the thread that reads the connection: before
/// the call waits for a thread of ours. Thread-safe.
class ArrivalCheck {
 public:
  virtual ~ArrivalCheck() = default;
  /// @param connection  the same for all calls of one connection
  /// @returns why the call is refused; null: it may wait
  virtual const char* Check(const grpc_auth_context* connection) = 0;
};

/// How connections of the gRPC port begin: in plain text, or with TLS.
class PortCredentials : public grpc::ServerCredentials {
 public:
  ~PortCredentials() override { grpc_server_credentials_release(credentials_); }

  /// Before the server is built. @param check  outlives the server
  void CheckArrivals(ArrivalCheck* check);

  /// The server uses tokens instead (Call).
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 protected:
  /// @param credentials  belong to this object
  explicit PortCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

std::shared_ptr<PortCredentials> PlainTextCredentials();

}  // namespace quarry::server
