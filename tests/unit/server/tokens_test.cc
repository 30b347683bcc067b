#include "server/tokens.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

class TokenStoreTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const { std::ofstream(path()) << text; }
  std::filesystem::path path() const { return folder_.path() / "tokens"; }
  static std::string Line(const std::string& name, const std::string& token, const std::string& datasets) {
    return name + "  sha256:" + Sha256Hex(token) + "  " + datasets + "\n";
  }

  testing::TemporaryFolder folder_;
};

TEST(Sha256Hex, IsThatOfTheStandard) {
  // FIPS 180-2, B.1.
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Access, PatternsAreOfWholeNames) {
  const Access access{"x", {"run42", "wind/*", "t?"}};
  for (const char* name : {"run42", "wind/a", "wind/a/b", "t1"}) EXPECT_TRUE(access.Allows(name)) << name;
  for (const char* name : {"run4", "run421", "a/run42", "wind", "t", "t12", "Run42"})
    EXPECT_FALSE(access.Allows(name)) << name;
}

TEST_F(TokenStoreTest, KnowsItsTokens) {
  Write("# people\n\n" + Line("alice", "secret-a", "run42 wind/*") + Line("bob", "secret-b", "*"));
  const auto store = *TokenStore::Load(path());

  EXPECT_EQ(store->size(), 2u);
  const auto alice = *store->Authenticate("Bearer secret-a");
  EXPECT_EQ(alice->client, "alice");
  EXPECT_TRUE(alice->Allows("wind/7"));
  EXPECT_FALSE(alice->Allows("other"));
  EXPECT_TRUE((*store->Authenticate("bearer secret-b"))->Allows("other"));
}

TEST_F(TokenStoreTest, RefusesEverythingElse) {
  Write(Line("alice", "secret-a", "*"));
  const auto store = *TokenStore::Load(path());
  EXPECT_EQ(store->Authenticate(std::nullopt).status().code(), StatusCode::kUnauthenticated);
  for (const std::string header : {"", "Bearer", "Bearer ", "Bearer secret", "Bearer secret-a ",
                                   "Basic secret-a", "secret-a", "Bearer sha256:", "Bearer SECRET-A"}) {
    EXPECT_EQ(store->Authenticate(header).status().code(), StatusCode::kUnauthenticated) << header;
  }
  EXPECT_EQ(store->Authenticate("Bearer " + Sha256Hex("secret-a")).status().code(),
            StatusCode::kUnauthenticated)
      << "who has read the file has no token";
}

TEST_F(TokenStoreTest, SaysWhichLineIsWrong) {
  const std::string good = Line("alice", "a", "*");
  for (const std::string& second :
       {std::string("bob\n"), std::string("bob secret *\n"), "bob sha256:" + Sha256Hex("b") + "\n",
        "bob sha256:" + Sha256Hex("b").substr(1) + " *\n", Line("alice", "b", "*"), Line("bob", "a", "*")}) {
    Write(good + second);
    const Status status = TokenStore::Load(path()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << second;
    EXPECT_NE(status.message().find("line 2"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("secret"), std::string::npos) << "tokens do not go into messages";
  }
  Write("# nobody\n");
  EXPECT_EQ(TokenStore::Load(path()).status().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(path());
  EXPECT_EQ(TokenStore::Load(path()).status().code(), StatusCode::kNotFound);
}

TEST_F(TokenStoreTest, ReloadsAllOrNothing) {
  Write(Line("alice", "a", "*"));
  const auto store = *TokenStore::Load(path());
  Write(Line("bob", "b", "*") + "half a li");
  EXPECT_FALSE(store->Reload().ok());
  EXPECT_TRUE(store->Authenticate("Bearer a").ok());
  EXPECT_FALSE(store->Authenticate("Bearer b").ok());

  Write(Line("bob", "b", "*"));
  EXPECT_TRUE(store->Reload().ok());
  EXPECT_FALSE(store->Authenticate("Bearer a").ok());
  EXPECT_TRUE(store->Authenticate("Bearer b").ok());
}

}  // namespace
}  // namespace quarry::server
