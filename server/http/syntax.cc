#include "server/http/syntax.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "quarry/base/address.h"
#include "quarry/base/numbers.h"
#include "quarry/base/utf8.h"

namespace quarry::server::http {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(c < 0x80 ? std::tolower(c) : c); });
  return lower;
}

/// Takes the text before the next separator off the front.
std::string_view NextPart(std::string_view* text, char separator) {
  const std::size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return part;
}

Status BadPath(std::string_view target, std::string_view why) {
  return InvalidArgument("the path \"{}\" {}", Printable(Beginning(target, 200)), why);
}

Result<std::string> Decoded(std::string_view target) {
  std::string path;
  path.reserve(target.size());
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const std::string_view digits = target.substr(i + 1, 2);
    unsigned char byte = 0;
    const char* const end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16).ptr;
    if (end - digits.data() != 2)
      return BadPath(target, "has a percent sign without two hexadecimal digits behind it");
    path += static_cast<char>(byte);
    i += 2;
  }
  return path;
}

/// All digits, and small enough.
std::optional<std::uint64_t> Number(std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  std::uint64_t number = 0;
  const bool good = text.size() <= kMostDigits && ReadNumber(text, &number);
  return good ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Result<std::string> PathOf(std::string_view target) {
  const std::string_view encoded = target.substr(0, std::min(target.find_first_of("?#"), target.size()));
  Result<std::string> decoded = Decoded(encoded);
  if (!decoded.ok()) return decoded;
  const std::string& path = *decoded;
  if (!path.starts_with('/')) return BadPath(target, "does not begin with \"/\"");
  const bool strange =
      std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
  if (strange) return BadPath(target, "has a backslash or a control character");
  for (std::string_view rest = std::string_view(path).substr(1); !rest.empty();) {
    const std::string_view part = NextPart(&rest, '/');
    if (part == "." || part == "..") return BadPath(target, "has \".\" or \"..\" between its slashes");
  }
  return decoded;
}

std::optional<ByteRange> ParseRange(std::string_view header, std::uint64_t size) {
  header = Trimmed(header);
  if (!header.starts_with("bytes=")) return std::nullopt;
  std::string_view rest = header.substr(6);
  const std::string_view first = Trimmed(NextPart(&rest, '-'));
  const std::string_view last = Trimmed(rest);
  const std::optional<std::uint64_t> end = Number(last);
  if (!last.empty() && !end) return std::nullopt;
  if (first.empty()) return end ? std::optional(ByteRange{size - std::min(size, *end), size}) : std::nullopt;
  const std::optional<std::uint64_t> begin = Number(first);
  if (!begin || (end && *end < *begin) || header.find('-') == std::string_view::npos) return std::nullopt;
  const std::uint64_t from = std::min(*begin, size);
  return ByteRange{from, std::max(from, end ? std::min(*end + 1, size) : size)};
}

bool HasTag(std::string_view header, std::string_view tag) {
  if (Trimmed(header) == "*") return true;
  while (!header.empty()) {
    std::string_view known = Trimmed(NextPart(&header, ','));
    if (known.starts_with("W/")) known.remove_prefix(2);
    if (known == tag) return true;
  }
  return false;
}

bool TakesGzip(std::string_view header) {
  while (!header.empty()) {
    std::string_view parameters = NextPart(&header, ',');
    const std::string name = Lower(Trimmed(NextPart(&parameters, ';')));
    if (name != "gzip" && name != "x-gzip" && name != "*") continue;
    const std::string quality = Lower(Trimmed(parameters));
    const bool refused =
        quality.starts_with("q=0") && quality.find_first_of("123456789") == std::string::npos;
    return !refused;
  }
  return false;
}

std::string HostOf(std::string_view header) {
  std::string host = Lower(Trimmed(header));
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) host.resize(colon);
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool IsOwnName(std::string_view host) { return IsLoopback(host) || host.ends_with(".localhost"); }

std::string AuthorityOf(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return "";
  return Lower(origin.substr(scheme + 3));
}

bool IsOrigin(std::string_view text) {
  const bool scheme = text.starts_with("http://") || text.starts_with("https://");
  const std::string authority = AuthorityOf(text);
  return scheme && text.ends_with(authority) && !authority.empty() &&
         std::ranges::all_of(authority, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
                  c == ']';
         });
}

std::string HttpDate(std::time_t seconds) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(seconds));
}

std::string_view MediaTypeOf(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".json", "application/json"},
      {".map", "application/json"},
      {".webmanifest", "application/manifest+json"},
      {".wasm", "application/wasm"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".jpg", "image/jpeg"},
      {".webp", "image/webp"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".woff", "font/woff"},
      {".txt", "text/plain; charset=utf-8"},
      {".md", "text/plain; charset=utf-8"},
  }};
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

std::string_view ReasonOf(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 20> kReasons = {{
      {200, "OK"},
      {204, "No Content"},
      {206, "Partial Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  }};
  for (const auto& [number, reason] : kReasons)
    if (number == status) return reason;
  return "";
}

std::string HeadOf(int status, const Headers& headers) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonOf(status));
  for (const auto& [name, value] : headers) {
    head += name;
    head += ": ";
    // A value from elsewhere must not begin another header.
    for (const char c : value) head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    head += "\r\n";
  }
  return head + "\r\n";
}

}  // namespace quarry::server::http
