#include "quarry/remote/credentials.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <sstream>

#include "quarry/remote/text.h"
#include "quarry/remote/url.h"

namespace quarry::remote {
namespace {

using SystemTime = std::chrono::system_clock::time_point;
using Found = std::optional<Result<Credentials>>;  // nothing: not configured here

/// "2026-11-30T17:00:00Z". Far ahead if there is none; now if it is not understood, so that it is asked anew.
SystemTime TimeOf(const std::string& text, SystemTime now) {
  if (text.empty()) return SystemTime::max();
  std::tm utc{};
  std::istringstream in(text.substr(0, 19));
  in >> std::get_time(&utc, "%Y-%m-%dT%H:%M:%S");
  return in.fail() ? now : std::chrono::system_clock::from_time_t(timegm(&utc));
}

/// The JSON object that containers, virtual machines and credential_process give.
Result<Credentials> FromJson(const std::string& text, std::string source, SystemTime now) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto member = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>()
                                                                             : std::string();
  };
  Credentials found{member("AccessKeyId"), member("SecretAccessKey"), member("SessionToken"),
                    TimeOf(member("Expiration"), now), std::move(source)};
  if (found.token.empty()) found.token = member("Token");
  if (!found.key_id.empty() && !found.secret.empty()) return found;
  return Unavailable("{} gave no AccessKeyId and SecretAccessKey", found.source);
}

Found FromVariables(const Surroundings& world) {
  const auto key = world.variable("AWS_ACCESS_KEY_ID");
  const auto secret = world.variable("AWS_SECRET_ACCESS_KEY");
  if (!key && !secret) return std::nullopt;
  if (!key || !secret)
    return InvalidArgument("{} is set without {}; set both",
                           key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                           key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  return Credentials{*key, *secret, world.variable("AWS_SESSION_TOKEN").value_or(""), SystemTime::max(),
                     "AWS_ACCESS_KEY_ID"};
}

Result<Credentials> FromIdentityAnswer(const std::string& xml, SystemTime now) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_minimal))
    return Unavailable("the service for web identities gave no XML");
  const pugi::xml_node node = document.child("AssumeRoleWithWebIdentityResponse")
                                  .child("AssumeRoleWithWebIdentityResult")
                                  .child("Credentials");
  Credentials found{node.child_value("AccessKeyId"), node.child_value("SecretAccessKey"),
                    node.child_value("SessionToken"), TimeOf(node.child_value("Expiration"), now),
                    "the role in AWS_ROLE_ARN"};
  if (!found.key_id.empty() && !found.secret.empty()) return found;
  return Unavailable("the service for web identities gave no keys");
}

/// A role that a token in a file entitles to, as Kubernetes has it.
Found FromWebIdentity(const CredentialWishes& wishes, const Surroundings& world) {
  const auto role = world.variable("AWS_ROLE_ARN");
  const auto path = world.variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!role || !path) return std::nullopt;
  const Result<std::string> token = world.file(*path);
  if (!token.ok())
    return Status(token.status()).Annotate("the token in AWS_WEB_IDENTITY_TOKEN_FILE cannot be read");
  const std::string region = wishes.region.empty() ? FindRegion(world).value_or("us-east-1") : wishes.region;
  SmallRequest ask;
  ask.method = "POST";
  ask.url =
      world.variable("AWS_ENDPOINT_URL_STS").value_or(fmt::format("https://sts.{}.amazonaws.com", region));
  ask.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  ask.body = QueryText({{"Action", "AssumeRoleWithWebIdentity"},
                        {"Version", "2011-06-15"},
                        {"RoleArn", *role},
                        {"RoleSessionName", world.variable("AWS_ROLE_SESSION_NAME").value_or("quarry")},
                        {"WebIdentityToken", Trimmed(*token)}});
  const Result<std::string> answer = world.fetch(ask);
  if (!answer.ok()) return Status(answer.status()).Annotate("the role in AWS_ROLE_ARN");
  return FromIdentityAnswer(*answer, world.now());
}

using Profile = std::vector<std::pair<std::string, std::string>>;

std::string ValueIn(const Profile& profile, const std::string& name) {
  const auto found =
      std::find_if(profile.begin(), profile.end(), [&](const auto& entry) { return entry.first == name; });
  return found == profile.end() ? "" : found->second;
}

std::string ProfileName(const Surroundings& world) {
  return world.variable("AWS_PROFILE").value_or(world.variable("AWS_DEFAULT_PROFILE").value_or("default"));
}

/// A profile from both files; that of the credentials file counts.
Result<std::optional<Profile>> ReadProfile(const std::string& name, const Surroundings& world) {
  const std::string home = world.variable("HOME").value_or("");
  const std::pair<std::string, std::string> places[] = {
      {world.variable("AWS_SHARED_CREDENTIALS_FILE").value_or(home + "/.aws/credentials"), name},
      {world.variable("AWS_CONFIG_FILE").value_or(home + "/.aws/config"),
       name == "default" ? name : "profile " + name}};
  std::optional<Profile> merged;
  for (const auto& [path, section] : places) {
    const Result<std::string> text = world.file(path);
    if (text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    const std::optional<Profile> found = ProfileIn(*text, section);
    if (!found) continue;
    if (!merged) merged.emplace();
    merged->insert(merged->end(), found->begin(), found->end());
  }
  return merged;
}

Found FromProfile(const Surroundings& world) {
  const std::string name = ProfileName(world);
  const bool named = name != "default";
  Result<std::optional<Profile>> profile = ReadProfile(name, world);
  if (!profile.ok()) return profile.status();
  if (!*profile && named)
    return InvalidArgument("AWS_PROFILE names \"{}\", which is in none of the files of profiles", name);
  if (!*profile) return std::nullopt;
  const std::string source = fmt::format("the profile \"{}\"", name);
  const std::string key = ValueIn(**profile, "aws_access_key_id");
  if (!key.empty())
    return Credentials{key, ValueIn(**profile, "aws_secret_access_key"),
                       ValueIn(**profile, "aws_session_token"), SystemTime::max(), source};
  if (const std::string command = ValueIn(**profile, "credential_process"); !command.empty()) {
    const Result<std::string> printed = world.run(command);
    if (!printed.ok()) return Status(printed.status()).Annotate("credential_process of " + source);
    return FromJson(*printed, "credential_process of " + source, world.now());
  }
  for (const char* other : {"sso_session", "sso_start_url", "role_arn"}) {
    if (ValueIn(**profile, other).empty()) continue;
    return InvalidArgument(
        "{} has {}, which Quarry cannot follow; add \"credential_process = aws configure export-credentials "
        "--profile {}\" to a profile, and name that one in AWS_PROFILE",
        source, other, name);
  }
  if (named) return InvalidArgument("{} has no keys", source);
  return std::nullopt;
}

/// Whether a container's token may be sent to a URL: https, this machine, or the addresses of such services.
bool IsContainerHost(const std::string& url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string host = url.substr(7, url.find('/', 7) - 7);
  const std::string name = host.substr(0, host.find(':'));
  return IsLoopback(host) || name == "169.254.170.2" || name == "169.254.170.23";
}

Found FromContainer(const Surroundings& world) {
  const auto relative = world.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto full = world.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative && !full) return std::nullopt;
  SmallRequest ask;
  ask.url = relative ? "http://169.254.170.2" + *relative : *full;
  if (!IsContainerHost(ask.url))
    return InvalidArgument("AWS_CONTAINER_CREDENTIALS_FULL_URI names a host that is neither https nor local");
  std::string token = world.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  if (const auto path = world.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    const Result<std::string> text = world.file(*path);
    if (!text.ok()) return text.status();
    token = Trimmed(*text);
  }
  if (!token.empty()) ask.headers = {{"authorization", token}};
  const Result<std::string> answer = world.fetch(ask);
  if (!answer.ok()) return Status(answer.status()).Annotate("the service of this container");
  return FromJson(*answer, "the service of this container", world.now());
}

/// Version 2 of the service of virtual machines. A second in all: elsewhere nobody answers.
Found FromInstance(const CredentialWishes& wishes, const Surroundings& world) {
  if (!wishes.instance_metadata) return std::nullopt;
  const std::string host = "http://169.254.169.254/latest/";
  const std::string roles = host + "meta-data/iam/security-credentials/";
  constexpr std::chrono::milliseconds kThird{333};
  const std::string source = "the service of this virtual machine";
  SmallRequest ask{"PUT", host + "api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "300"}}, "", kThird};
  const Result<std::string> token = world.fetch(ask);
  if (!token.ok()) return Status(token.status()).Annotate(source);
  ask = {"GET", roles, {{"x-aws-ec2-metadata-token", *token}}, "", kThird};
  const Result<std::string> role = world.fetch(ask);
  if (!role.ok()) return Status(role.status()).Annotate(source);
  ask.url = roles + role->substr(0, role->find('\n'));
  const Result<std::string> answer = world.fetch(ask);
  if (!answer.ok()) return Status(answer.status()).Annotate(source);
  return FromJson(*answer, source, world.now());
}

}  // namespace

std::optional<Profile> ProfileIn(const std::string& text, const std::string& section) {
  std::optional<Profile> found;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // A line that is indented belongs to a group of settings.
    const bool indented = line.starts_with(' ') || line.starts_with('\t');
    line = Trimmed(line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = Trimmed(std::string_view(line).substr(1, line.find(']') - 1)) == section;
      if (inside && !found) found.emplace();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!inside || indented || equals == std::string::npos) continue;
    found->emplace_back(Trimmed(std::string_view(line).substr(0, equals)),
                        Trimmed(std::string_view(line).substr(equals + 1)));
  }
  return found;
}

std::optional<std::string> FindRegion(const Surroundings& world) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = world.variable(name)) return region;
  }
  const Result<std::optional<Profile>> profile = ReadProfile(ProfileName(world), world);
  if (!profile.ok() || !*profile) return std::nullopt;
  std::string region = ValueIn(**profile, "region");
  return region.empty() ? std::nullopt : std::optional(std::move(region));
}

Result<Credentials> FindCredentials(const CredentialWishes& wishes, const Surroundings& world) {
  Credentials none;
  none.source = "none were asked for";
  if (wishes.anonymous) return none;
  if (Found found = FromVariables(world)) return *std::move(found);
  if (Found found = FromWebIdentity(wishes, world)) return *std::move(found);
  if (Found found = FromProfile(world)) return *std::move(found);
  if (Found found = FromContainer(world)) return *std::move(found);
  if (Found found = FromInstance(wishes, world)) return *std::move(found);
  none.source =
      "none in AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE, ~/.aws or AWS_CONTAINER_CREDENTIALS_*";
  return none;
}

}  // namespace quarry::remote
