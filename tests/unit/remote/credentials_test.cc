// Where credentials are looked for, in a world of the test's own.
#include "quarry/remote/credentials.h"

#include <gtest/gtest.h>

#include <map>

namespace quarry::remote {
namespace {

/// Variables, files, services and commands, and what was asked of them.
struct World {
  std::map<std::string, std::string> variables{{"HOME", "/home/me"}};
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> services;  ///< by "METHOD URL"
  std::map<std::string, std::string> commands;
  std::vector<SmallRequest> asked;

  Surroundings surroundings() {
    Surroundings world;
    world.variable = [this](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    world.file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return NotFound("\"{}\" is missing", path);
      return found->second;
    };
    world.fetch = [this](const SmallRequest& request) -> Result<std::string> {
      asked.push_back(request);
      const auto found = services.find(request.method + " " + request.url);
      if (found == services.end()) return Unavailable("nobody answers");
      return found->second;
    };
    world.run = [this](const std::string& command) -> Result<std::string> {
      const auto found = commands.find(command);
      if (found == commands.end()) return Unavailable("it ended with 127");
      return found->second;
    };
    world.now = [] { return std::chrono::system_clock::from_time_t(1'800'000'000); };
    return world;
  }
  Result<Credentials> Find(const CredentialWishes& wishes = {}) {
    return FindCredentials(wishes, surroundings());
  }
};

constexpr const char* kKeys =
    R"({"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret", "SessionToken": "token",
        "Expiration": "2027-01-15T09:00:00Z"})";
// 2027-01-15 09:00:00 UTC
const auto kEnd = std::chrono::system_clock::from_time_t(1'800'003'600);

TEST(Credentials, NothingConfiguredIsAnonymousAndAsksNobody) {
  World world;
  const auto found = world.Find();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->anonymous());
  EXPECT_NE(found->source.find("AWS_ACCESS_KEY_ID"), std::string::npos);
  EXPECT_TRUE(world.asked.empty());
}

TEST(Credentials, VariablesComeFirst) {
  World world;
  world.variables["AWS_ACCESS_KEY_ID"] = "id";
  world.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  world.variables["AWS_SESSION_TOKEN"] = "token";
  world.files["/home/me/.aws/credentials"] =
      "[default]\naws_access_key_id = other\naws_secret_access_key = x\n";
  const auto found = world.Find();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->key_id, "id");
  EXPECT_EQ(found->secret, "secret");
  EXPECT_EQ(found->token, "token");
  CredentialWishes anonymous;
  anonymous.anonymous = true;
  EXPECT_TRUE(world.Find(anonymous)->anonymous());
}

TEST(Credentials, HalfAPairIsRefused) {
  World world;
  world.variables["AWS_ACCESS_KEY_ID"] = "id";
  const auto found = world.Find();
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("AWS_SECRET_ACCESS_KEY"), std::string::npos);
}

TEST(Credentials, AProfileIsMergedFromBothFiles) {
  World world;
  world.variables["AWS_PROFILE"] = "work";
  world.files["/home/me/.aws/credentials"] =
      "# keys\n[default]\naws_access_key_id=other\n\n[work]\naws_access_key_id = "
      "id\naws_secret_access_key=se=cret\n";
  world.files["/home/me/.aws/config"] =
      "[profile work]\nregion = eu-west-3\ns3 =\n  aws_access_key_id = nested\n";
  const auto found = world.Find();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->key_id, "id");
  EXPECT_EQ(found->secret, "se=cret");
  EXPECT_EQ(FindRegion(world.surroundings()), "eu-west-3");
}

TEST(Credentials, AProfileThatIsNamedAndMissingIsAnError) {
  World world;
  world.variables["AWS_PROFILE"] = "work";
  const auto found = world.Find();
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("\"work\""), std::string::npos);
}

TEST(Credentials, ACommandOfAProfileGivesThemWithTheirEnd) {
  World world;
  world.files["/home/me/.aws/config"] = "[default]\ncredential_process = /opt/login --for me\n";
  world.commands["/opt/login --for me"] = kKeys;
  const auto found = world.Find();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->key_id, "id");
  EXPECT_EQ(found->token, "token");
  EXPECT_EQ(found->expires, kEnd);
  world.commands["/opt/login --for me"] = "not json";
  EXPECT_EQ(world.Find().status().code(), StatusCode::kUnavailable);
  world.commands.clear();
  EXPECT_NE(world.Find().status().message().find("127"), std::string::npos);
}

TEST(Credentials, ALoginInTheBrowserSaysWhatToDo) {
  World world;
  world.files["/home/me/.aws/config"] = "[default]\nsso_session = my\n";
  const auto found = world.Find();
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("credential_process"), std::string::npos);
}

TEST(Credentials, AWebIdentityIsTradedForKeys) {
  World world;
  world.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  world.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  world.variables["AWS_REGION"] = "eu-west-1";
  world.files["/token"] = "header.payload\n";
  world.services["POST https://sts.eu-west-1.amazonaws.com"] =
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id</"
      "AccessKeyId>"
      "<SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>"
      "<Expiration>2027-01-15T09:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
      "</AssumeRoleWithWebIdentityResponse>";
  const auto found = world.Find();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->key_id, "id");
  EXPECT_EQ(found->expires, kEnd);
  ASSERT_EQ(world.asked.size(), 1U);
  EXPECT_NE(world.asked[0].body.find("WebIdentityToken=header.payload&"), 0U);
  EXPECT_NE(world.asked[0].body.find("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"), std::string::npos);
  EXPECT_NE(world.asked[0].body.find("header.payload"), std::string::npos);
}

TEST(Credentials, AContainerIsAskedOnlyWhereItIsSafe) {
  World world;
  world.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://169.254.170.23/v1/credentials";
  world.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";
  world.files["/token"] = "pod\n";
  world.services["GET http://169.254.170.23/v1/credentials"] =
      R"({"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token"})";
  const auto found = world.Find();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->token, "token");
  EXPECT_EQ(world.asked[0].headers, (Headers{{"authorization", "pod"}}));
  world.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://example.org/credentials";
  world.asked.clear();
  EXPECT_EQ(world.Find().status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(world.asked.empty());
}

TEST(Credentials, AVirtualMachineIsAskedOnRequestAndWithinASecond) {
  World world;
  const std::string host = "http://169.254.169.254/latest/";
  world.services["PUT " + host + "api/token"] = "ticket";
  world.services["GET " + host + "meta-data/iam/security-credentials/"] = "role\n";
  world.services["GET " + host + "meta-data/iam/security-credentials/role"] =
      R"({"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token"})";
  EXPECT_TRUE(world.Find()->anonymous());
  EXPECT_TRUE(world.asked.empty());
  CredentialWishes wishes;
  wishes.instance_metadata = true;
  const auto found = world.Find(wishes);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->key_id, "id");
  std::chrono::milliseconds together{0};
  for (const SmallRequest& request : world.asked) together += request.patience;
  EXPECT_LE(together, std::chrono::seconds(1));
}

TEST(Credentials, CommandsOfThisProcessAreRunWithoutInput) {
  const Surroundings world = ThisProcess({});
  EXPECT_EQ(*world.run("printf '%s' \"$0\"; cat"), "/bin/sh");
  EXPECT_NE(world.run("exit 3").status().message().find('3'), std::string::npos);
  EXPECT_FALSE(world.run("head -c 2000000 /dev/zero").ok());
}

}  // namespace
}  // namespace quarry::remote
