#include "quarry/remote/sign.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "quarry/remote/url.h"

namespace quarry::remote {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

const unsigned char* BytesOf(const void* data) { return static_cast<const unsigned char*>(data); }

std::string Hex(const Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

Digest Sha256(const void* data, std::size_t size) {
  Digest digest;
  SHA256(BytesOf(data), size, digest.data());
  return digest;
}

Digest Hmac(const void* key, std::size_t key_size, std::string_view text) {
  Digest digest;
  HMAC(EVP_sha256(), key, static_cast<int>(key_size), BytesOf(text.data()), text.size(), digest.data(),
       nullptr);
  return digest;
}

Digest Hmac(const Digest& key, std::string_view text) { return Hmac(key.data(), key.size(), text); }

/// Spaces at both ends go, runs of them become one.
std::string Squeezed(std::string_view value) {
  std::string squeezed;
  for (const char c : value) {
    if (c == ' ' && (squeezed.empty() || squeezed.back() == ' ')) continue;
    squeezed += c;
  }
  while (squeezed.ends_with(' ')) squeezed.pop_back();
  return squeezed;
}

}  // namespace

std::string QueryText(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = EscapeValue(name);
    value = EscapeValue(value);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

Headers Sign(const ToSign& request, const Credentials& credentials, const std::string& region,
             const std::string& service, std::chrono::system_clock::time_point now) {
  const std::tm utc = fmt::gmtime(std::chrono::system_clock::to_time_t(now));
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", utc);
  const std::string day = time.substr(0, 8);
  const std::string body = Hex(Sha256(request.body.data(), request.body.size()));

  Headers sent = request.headers;
  sent.emplace_back("x-amz-content-sha256", body);
  sent.emplace_back("x-amz-date", time);
  if (!credentials.token.empty()) sent.emplace_back("x-amz-security-token", credentials.token);
  Headers covered = sent;
  covered.emplace_back("host", request.host);
  std::sort(covered.begin(), covered.end());

  std::string canonical = fmt::format("{}\n{}\n{}\n", request.method, request.path, QueryText(request.query));
  std::string names;
  for (const auto& [name, value] : covered) {
    canonical += fmt::format("{}:{}\n", name, Squeezed(value));
    names += fmt::format("{}{}", names.empty() ? "" : ";", name);
  }
  canonical += fmt::format("\n{}\n{}", names, body);

  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope,
                                          Hex(Sha256(canonical.data(), canonical.size())));
  const std::string secret = "AWS4" + credentials.secret;
  const Digest of_day = Hmac(secret.data(), secret.size(), day);
  const Digest key = Hmac(Hmac(Hmac(of_day, region), service), "aws4_request");
  sent.emplace_back("authorization",
                    fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                                credentials.key_id, scope, names, Hex(Hmac(key, to_sign))));
  return sent;
}

}  // namespace quarry::remote
