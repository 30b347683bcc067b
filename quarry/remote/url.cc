#include "quarry/remote/url.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace quarry::remote {
namespace {

constexpr std::array<std::pair<std::string_view, StoreUrl::Scheme>, 3> kSchemes{
    {{"http://", StoreUrl::Scheme::kHttp},
     {"https://", StoreUrl::Scheme::kHttps},
     {"s3://", StoreUrl::Scheme::kS3}}};

std::optional<StoreUrl::Scheme> TakeScheme(std::string_view* text) {
  for (const auto& [name, scheme] : kSchemes) {
    if (!text->starts_with(name)) continue;
    text->remove_prefix(name.size());
    return scheme;
  }
  return std::nullopt;
}

int ValueOf(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/// Nothing if a "%" is not followed by two digits.
std::optional<std::string> Decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || ValueOf(text[i + 1]) < 0 || ValueOf(text[i + 2]) < 0) return std::nullopt;
    decoded += static_cast<char>(16 * ValueOf(text[i + 1]) + ValueOf(text[i + 2]));
    i += 2;
  }
  return decoded;
}

std::string Escape(std::string_view text, std::string_view kept) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kept.find(c) != std::string_view::npos;
    if (plain) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

std::string_view WithoutSlashes(std::string_view path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

/// An empty part, or one that leads out of the folder, names another object than a reader would think.
bool IsPlain(std::string_view path) {
  const std::string whole = fmt::format("/{}/", path);
  return whole.find("//") == std::string::npos && whole.find("/./") == std::string::npos &&
         whole.find("/../") == std::string::npos;
}

}  // namespace

std::string StoreUrl::Text() const {
  for (const auto& [name, of] : kSchemes) {
    if (of == scheme) return fmt::format("{}{}{}{}", name, host, path.empty() ? "" : "/", path);
  }
  return path;
}

bool IsUrl(std::string_view text) { return TakeScheme(&text).has_value(); }

Result<StoreUrl> ParseUrl(std::string_view text) {
  StoreUrl url;
  // No text of the caller is in these messages: it may hold a secret.
  const std::optional<StoreUrl::Scheme> scheme = TakeScheme(&text);
  if (!scheme) return InvalidArgument("not a URL; give http://, https:// or s3://");
  url.scheme = *scheme;
  if (text.find('#') != std::string_view::npos)
    return InvalidArgument("a URL of a dataset has no \"#\"; write %23 for one in a name");
  const std::size_t question = text.find('?');
  if (question != std::string_view::npos) {
    url.query = text.substr(question + 1);
    text = text.substr(0, question);
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  url.host = text.substr(0, slash);
  if (url.host.find('@') != std::string::npos)
    return InvalidArgument(
        "a URL of a dataset has no user and password; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  if (url.host.empty()) return InvalidArgument("the URL names no host or bucket");
  if (url.scheme == StoreUrl::Scheme::kS3 && !url.query.empty())
    return InvalidArgument("a URL s3://BUCKET/NAME has no \"?\"; write %3F for one in a name");
  const std::optional<std::string> path = Decode(WithoutSlashes(text.substr(slash)));
  if (!path) return InvalidArgument("a \"%\" in the URL is not followed by two hexadecimal digits");
  if (!path->empty() && !IsPlain(*path))
    return InvalidArgument("the path \"{}\" in the URL has an empty name, \".\" or \"..\" in it", *path);
  url.path = *path;
  return url;
}

std::string EscapePath(std::string_view path) { return Escape(path, "-._~/"); }

std::string EscapeValue(std::string_view value) { return Escape(value, "-._~"); }

bool IsLoopback(std::string_view host) {
  if (host.starts_with("[::1]")) return true;
  const std::string_view name = host.substr(0, host.find(':'));
  return name == "localhost" || name.starts_with("127.");
}

}  // namespace quarry::remote
