#pragma once

#include <memory>

#include "quarry/base/status.h"
#include "server/certificate.h"
#include "server/grpc/port_credentials.h"

namespace quarry::server {

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
  std::shared_ptr<PortCredentials> credentials() const;
  /// The key and certificate in use now.
  Pem pem() const;
  /// [s] since 1970
  double certificate_end() const { return pem().certificate_end; }

 private:
  Tls(TlsFiles files, std::shared_ptr<internal::ReloadingCredentials> credentials);

  const TlsFiles files_;
  const std::shared_ptr<internal::ReloadingCredentials> credentials_;
};

}  // namespace quarry::server
