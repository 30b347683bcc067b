#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/remote/sign.h"

namespace quarry::remote {

/// A small request without a signature, to a service that hands out credentials.
struct SmallRequest {
  std::string method = "GET";
  std::string url;
  Headers headers;
  std::string body;
  std::chrono::milliseconds patience{5000};  ///< for all of it
};

/// The world that credentials are looked for in. Tests replace it.
struct Surroundings {
  /// A variable of the environment, unless it is empty or not set.
  std::function<std::optional<std::string>(const char* name)> variable;
  /// A text file of at most 1 MiB. @errors kNotFound; kInternal
  std::function<Result<std::string>(const std::string& path)> file;
  /// Body of an answer with status 200. @errors kUnavailable with the reason
  std::function<Result<std::string>(const SmallRequest& request)> fetch;
  /// The output of a command of the shell. @errors kUnavailable with the reason
  std::function<Result<std::string>(const std::string& command)> run;
  std::function<std::chrono::system_clock::time_point()> now;
};

/// The environment, files and programs of this process.
/// @param fetch  see Surroundings
Surroundings ThisProcess(std::function<Result<std::string>(const SmallRequest& request)> fetch);

/// Wishes of the caller, beyond what variables and files say.
struct CredentialWishes {
  bool anonymous = false;          ///< looks nowhere
  bool instance_metadata = false;  ///< asks the service of virtual machines, which costs others a second
  std::string region;              ///< for web identity; empty: see FindRegion
};

/// Looks where the tools of Amazon look, in their order: variables of the environment, a web identity,
/// profiles in files with credential_process, a container's service, a virtual machine's service.
/// @returns anonymous ones, whose source says where was looked, if nothing is configured anywhere
/// @errors kUnavailable or kInvalidArgument: something is configured and does not work; no other is tried,
/// as the caller would get answers with another account's rights
Result<Credentials> FindCredentials(const CredentialWishes& wishes, const Surroundings& world);

/// AWS_REGION, AWS_DEFAULT_REGION, or that of the profile; nothing if none is set.
std::optional<std::string> FindRegion(const Surroundings& world);

/// Reads "[section]" and "name = value" lines of a file of profiles.
/// @returns nothing: it has no such section
std::optional<std::vector<std::pair<std::string, std::string>>> ProfileIn(const std::string& text,
                                                                          const std::string& section);

}  // namespace quarry::remote
