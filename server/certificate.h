#pragma once

#include <string>

#include "quarry/base/status.h"

namespace quarry::server {

/// Files in PEM format.
struct TlsFiles {
  std::string certificate;       ///< certificate of the server, with the chain up to its authority
  std::string key;               ///< key of the certificate, not encrypted
  std::string client_authority;  ///< clients must show a certificate of it; empty: they need none
};

/// The contents of the files.
struct Pem {
  std::string certificate;
  std::string key;
  std::string client_authority;
  double certificate_end = 0;  ///< [s] since 1970
};

/// Reads and checks the files: a TLS library itself would only report that it cannot listen.
/// @errors kNotFound: no such file; kInvalidArgument: not PEM, an encrypted key, a key of another certificate
Result<Pem> ReadPem(const TlsFiles& files);

}  // namespace quarry::server
