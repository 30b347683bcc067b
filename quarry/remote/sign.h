#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "quarry/base/endian.h"

namespace quarry::remote {

/// Keys of an account of a store.
struct Credentials {
  std::string key_id;  ///< empty: requests are not signed
  std::string secret;
  std::string token;  ///< token of a session; often empty
  std::chrono::system_clock::time_point expires = std::chrono::system_clock::time_point::max();
  std::string source;  ///< for messages: where they were found

  bool anonymous() const { return key_id.empty(); }
};

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The parts of a request that a signature of Amazon's version 4 covers.
struct ToSign {
  std::string method;
  std::string host;                                        ///< as the header Host has it
  std::string path;                                        ///< escaped, from "/" on
  std::vector<std::pair<std::string, std::string>> query;  ///< not escaped
  Headers headers;                                         ///< to be signed; names in small letters
  ByteSpan body;
};

/// A query as it is sent and signed: sorted, escaped, each name with "=".
std::string QueryText(std::vector<std::pair<std::string, std::string>> query);

/// The headers to send with a request: those of it, date, checksum of the body, token and signature.
/// Source: AWS Signature Version 4, "Create a signed AWS API request".
/// @param service  "s3" or "sts"
/// @param now      the clock of the caller; stores refuse one that is 15 minutes off
Headers Sign(const ToSign& request, const Credentials& credentials, const std::string& region,
             const std::string& service, std::chrono::system_clock::time_point now);

}  // namespace quarry::remote
