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

struct Tls {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  double certificate_end = 0;  ///< [s] since 1970
};

/// Reads and checks the files: gRPC itself would only say that it cannot listen.
/// @errors kNotFound: no such file; kInvalidArgument: not PEM, an encrypted key, a key of another certificate
Result<Tls> LoadTls(const TlsFiles& files);

}  // namespace quarry::server
