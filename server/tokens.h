#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/status.h"

namespace quarry::server {

/// Rights of the holder of a token.
struct Access {
  std::string client;                 ///< name of the token, for the log
  std::vector<std::string> patterns;  ///< dataset names; * stands for any characters, / among them

  bool Allows(const std::string& dataset) const;
};

/// The tokens of a server, from a file with one line each:
///
///   NAME sha256:HEX PATTERN...
///
/// HEX is the SHA-256 of the token: the file does not reveal it. Tokens are long random strings (32 bytes of
/// `openssl rand`), so that a plain hash is as hard to invert as the token is to guess. Empty lines and lines
/// that begin with # are ignored. Thread-safe.
class TokenStore {
 public:
  /// @errors kNotFound: no such file; kInvalidArgument with the line: another form, a name or token twice, no
  /// token
  static Result<std::shared_ptr<TokenStore>> Load(const std::filesystem::path& path);

  /// Reads the file again; on an error everything stays as it was. Running calls keep their access, except
  /// those that ask again (Call::CheckAccess).
  Status Reload();

  /// @param authorization  value of the header: "Bearer TOKEN"
  /// @errors kUnauthenticated: none, or not one of ours
  Result<std::shared_ptr<const Access>> Authenticate(
      const std::optional<std::string_view>& authorization) const;

  std::size_t size() const;

 private:
  /// By hash: the time of a lookup reveals nothing about the token.
  using Table = std::map<std::string, std::shared_ptr<const Access>, std::less<>>;

  explicit TokenStore(std::filesystem::path path) : path_(std::move(path)) {}
  Result<Table> Read() const;

  const std::filesystem::path path_;
  mutable std::mutex mutex_;
  Table tokens_;
};

/// SHA-256 in lower-case hexadecimal.
std::string Sha256Hex(std::string_view text);

}  // namespace quarry::server
