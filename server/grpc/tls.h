#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "quarry/base/status.h"

namespace quarry::server {

/// Files in PEM format.
struct TlsFiles {
  std::string certificate;       ///< of the server, with the chain up to its authority
  std::string key;               ///< of the certificate, not encrypted
  std::string client_authority;  ///< clients must show a certificate of it; empty: they need none
};

namespace internal {
class ReloadingCredentials;
}

/// The certificate of a server, which can change while it listens. Thread-safe.
class Tls {
 public:
  /// Reads and checks the files: gRPC itself would only report that it cannot listen.
  /// @errors kNotFound: no such file; kInvalidArgument: not PEM, an encrypted key, a key of another
  /// certificate
  static Result<std::shared_ptr<Tls>> Load(const TlsFiles& files);

  /// Reads the files again, for later connections; on an error everything stays as it was.
  Status Reload();

  /// For one listener.
  std::shared_ptr<grpc::ServerCredentials> credentials() const;
  /// [s] since 1970
  double certificate_end() const;

 private:
  Tls(TlsFiles files, std::shared_ptr<internal::ReloadingCredentials> credentials);

  const TlsFiles files_;
  const std::shared_ptr<internal::ReloadingCredentials> credentials_;
};

}  // namespace quarry::server
