#include "server/tokens.h"

#include <fnmatch.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "quarry/base/file.h"

namespace quarry::server {
namespace {

constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::string_view kScheme = "bearer ";

bool IsHash(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status Unauthenticated(std::string_view what) {
  return {
      StatusCode::kUnauthenticated,
      fmt::format("{}; send one as \"authorization: Bearer TOKEN\" (quarry: --token-file, or QUARRY_TOKEN), "
                  "and ask the operator of the server for it",
                  what)};
}

}  // namespace

std::string Sha256Hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool Access::Allows(const std::string& dataset) const {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), dataset.c_str(), FNM_NOESCAPE) == 0;
  });
}

Result<std::shared_ptr<TokenStore>> TokenStore::Load(const std::filesystem::path& path) {
  std::shared_ptr<TokenStore> store(new TokenStore(path));
  QUARRY_RETURN_IF_ERROR(store->Reload());
  return store;
}

Result<TokenStore::Table> TokenStore::Read() const {
  constexpr std::uint64_t kLargestFile = 16 << 20;
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path_, kLargestFile));
  Table tokens;
  std::set<std::string> names;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    Access access;
    std::string hash;
    if (!(words >> access.client) || access.client.starts_with('#')) continue;
    const auto wrong = [&](std::string_view what) {
      return InvalidArgument("{}, line {}: {}; a line is NAME sha256:HEX PATTERN...", path_.string(), number,
                             what);
    };
    if (!(words >> hash) || !hash.starts_with(kHashPrefix) ||
        !IsHash(std::string_view(hash).substr(kHashPrefix.size())))
      return wrong("the second word is not sha256: and 64 hexadecimal digits in lower case");
    for (std::string pattern; words >> pattern;) access.patterns.push_back(pattern);
    if (access.patterns.empty()) return wrong("no dataset is named; write * for all");
    if (!names.insert(access.client).second)
      return wrong("the name \"" + access.client + "\" is there already");
    const auto entry = std::make_shared<const Access>(std::move(access));
    if (!tokens.emplace(hash.substr(kHashPrefix.size()), entry).second)
      return wrong("another name has the same token");
  }
  if (tokens.empty())
    return InvalidArgument("{} has no token in it; nobody could ask anything", path_.string());
  return tokens;
}

Status TokenStore::Reload() {
  QUARRY_ASSIGN_OR_RETURN(Table tokens, Read());
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  return Status::Ok();
}

Result<std::shared_ptr<const Access>> TokenStore::Authenticate(
    const std::optional<std::string_view>& authorization) const {
  if (!authorization) return Unauthenticated("this server wants a token");
  std::string scheme(authorization->substr(0, kScheme.size()));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (scheme != kScheme)
    return Unauthenticated("the header \"authorization\" does not begin with \"Bearer \"");
  const std::string hash = Sha256Hex(authorization->substr(kScheme.size()));
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(hash);
  if (found == tokens_.end()) return Unauthenticated("the token is none of this server's");
  return found->second;
}

std::size_t TokenStore::size() const {
  const std::lock_guard lock(mutex_);
  return tokens_.size();
}

}  // namespace quarry::server
