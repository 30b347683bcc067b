#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/base/status.h"

/// The parts of requests and answers that are text: pure functions.
namespace quarry::server::http {

/// Without spaces and tabs around it.
std::string_view Trimmed(std::string_view text);

/// The path of a request: without its query, percent-decoded once.
/// @errors kInvalidArgument: it does not begin with "/", has "." or ".." between its slashes, a backslash, a
/// control character, or a percent sign without two hexadecimal digits
Result<std::string> PathOf(std::string_view target);

/// Bytes of a value, half-open.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
/// The byte range of the header Range, in a value of `size` bytes; nothing: all of it, also where the header
/// is not understood or has several ranges. An empty one is outside the value.
std::optional<ByteRange> ParseRange(std::string_view header, std::uint64_t size);

/// Whether the header If-None-Match has this tag, which stands in quotes.
bool HasTag(std::string_view header, std::string_view tag);

/// Whether the header Accept-Encoding takes gzip.
bool TakesGzip(std::string_view header);

/// The host of a header Host, in lower case and without its port: "localhost", "[::1]".
std::string HostOf(std::string_view header);
/// Whether this is a name of the machine itself, which no stranger's name can be made to lead to.
bool IsOwnName(std::string_view host);

/// The host and port of an origin: "https://quarry.example.org:8443" -> "quarry.example.org:8443"; empty if
/// it has none, like "null".
std::string AuthorityOf(std::string_view origin);
/// Whether an origin is one as browsers send it: scheme, host, port if any, in lower case and nothing else.
bool IsOrigin(std::string_view text);

/// "Fri, 31 Jan 2026 12:00:00 GMT". @param seconds  since 1970
std::string HttpDate(std::time_t seconds);

/// "text/html; charset=utf-8" for "index.html"; "application/octet-stream" for unknown endings.
std::string_view MediaTypeOf(std::string_view path);

/// "Not Found" of 404; empty if it is none that this server sends.
std::string_view ReasonOf(int status);

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The status line and the headers of an answer, with the empty line.
std::string HeadOf(int status, const Headers& headers);

}  // namespace quarry::server::http
