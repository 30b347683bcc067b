#pragma once

#include <string>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry::remote {

/// A dataset, a folder or a file on a web server or in an object store.
struct StoreUrl {
  enum class Scheme { kHttp, kHttps, kS3 };
  Scheme scheme = Scheme::kHttps;
  std::string host;   ///< HOST or HOST:PORT; the bucket of an S3 store
  std::string path;   ///< decoded, without a slash at its begin and end
  std::string query;  ///< as it stands, without "?": a signature of the storage may be in it. Never shown

  /// For messages: without the query.
  std::string Text() const;
};

/// Whether a text is a URL of this room: http://, https:// or s3://.
bool IsUrl(std::string_view text);

/// @errors kInvalidArgument: no URL, a user or password in it, a fragment, or no host
Result<StoreUrl> ParseUrl(std::string_view text);

/// A path as it stands in a URL (RFC 3986): all bytes but letters, digits, "-._~/" as %XX.
std::string EscapePath(std::string_view path);

/// The same of a name or value in a query, where "/" is escaped as well.
std::string EscapeValue(std::string_view value);

/// Whether a host, perhaps with a port, is this machine: 127.x.x.x, ::1 or localhost.
bool IsLoopback(std::string_view host);

}  // namespace quarry::remote
