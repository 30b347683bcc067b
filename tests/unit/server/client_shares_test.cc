#include "server/guard/client_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::server {
namespace {

TEST(ClientShares, EachClientHasItsOwnCalls) {
  ClientShares shares({.calls = 2});
  auto first = shares.Begin("alice");
  const auto second = shares.Begin("alice");
  ASSERT_TRUE(first.ok() && second.ok());
  const Status refused = shares.Begin("alice").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("2 calls of \"alice\""), std::string::npos) << refused.message();
  EXPECT_TRUE(shares.Begin("bob").ok());
  *first = {};
  EXPECT_TRUE(shares.Begin("alice").ok()) << "one of them has ended";
}

TEST(ClientShares, AnswersThatAreNotTakenCountBesideTheCalls) {
  ClientShares shares({.calls = 2});
  std::vector<ClientShares::Share> untaken;
  for (int i = 0; i < 2 + kUntaken; ++i) {
    untaken.push_back(*shares.Begin("alice"));
    untaken.back().EndCall();
  }
  const Status refused = shares.Begin("alice").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("\"alice\" has not taken 18 of its answers"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(shares.Begin("bob").ok());
  untaken.pop_back();
  EXPECT_TRUE(shares.Begin("alice").ok()) << "one was taken";
}

TEST(ClientShares, AllClientsTogetherHaveSoManyCalls) {
  ClientShares shares;
  const auto alice = shares.Begin("alice", 2);
  auto bob = shares.Begin("bob", 2);
  ASSERT_TRUE(alice.ok() && bob.ok());
  EXPECT_NE(shares.Begin("eve", 2).status().message().find("2 calls are running"), std::string::npos);
  bob->EndCall();
  EXPECT_TRUE(shares.Begin("eve", 2).ok()) << "an answer that is to be taken is no call that runs";
}

TEST(ClientShares, CostsCountUntilTheirCallsEnd) {
  ClientShares shares({.bytes = 1000});
  auto first = *shares.Begin("alice");
  auto second = *shares.Begin("alice");
  ASSERT_TRUE(first.Add(700, "less").ok());
  EXPECT_EQ(second.Left(), 300u);
  const Status refused = second.Add(301, "a smaller box");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"301 B", "700 B", "1000 B", "when they have ended, or for a smaller box"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << part << ": " << refused.message();
  EXPECT_EQ(second.Left(), 300u) << "what was refused does not count";
  EXPECT_TRUE(second.Add(300, "less").ok()) << "the limit itself is allowed";
  auto bob = *shares.Begin("bob");
  EXPECT_TRUE(bob.Add(1000, "less").ok());
  first = {};
  EXPECT_TRUE(second.Add(700, "less").ok());
}

TEST(ClientShares, AReadBeyondTheLimitIsRefusedThoughNothingRuns) {
  ClientShares shares({.bytes = 1000});
  auto share = *shares.Begin("alice");
  const Status refused = share.Add(UINT64_MAX, "a smaller box");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("ask for a smaller box"), std::string::npos) << refused.message();
}

TEST(ClientShares, WithoutLimitsNothingIsRefused) {
  ClientShares shares;
  auto share = *shares.Begin("alice");
  EXPECT_EQ(share.Left(), UINT64_MAX);
  EXPECT_TRUE(share.Add(UINT64_MAX, "less").ok());
}

TEST(ClientShares, ClientsWithoutCallsAreForgotten) {
  ClientShares shares({.calls = 1});
  {
    auto share = *shares.Begin("alice");
    const ClientShares::Share moved = std::move(share);
    EXPECT_FALSE(shares.Begin("alice").ok());
    EXPECT_EQ(shares.size(), 1u) << "a refused call leaves nothing";
  }
  EXPECT_EQ(shares.size(), 0u);
}

TEST(ClientShares, CallsComeNoFasterThanAllowed) {
  ClientShares shares({.calls_per_second = 1e-6});
  EXPECT_TRUE(shares.Begin("alice").ok()) << "alone";
  EXPECT_EQ(shares.Begin("bob").status().code(), StatusCode::kResourceExhausted) << "less than one call";
  EXPECT_EQ(shares.Begin("alice").status().code(), StatusCode::kResourceExhausted);
  ClientShares quick({.calls_per_second = 2});
  EXPECT_TRUE(quick.Begin("carol").ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(quick.Begin("alice").ok()) << "twice as many at once";
  const Status refused = quick.Begin("alice").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("more than the 2 calls a second"), std::string::npos) << refused.message();
  EXPECT_TRUE(quick.Begin("bob").ok());
  EXPECT_EQ(quick.size(), 3u) << "remembered, though no call runs";
}

TEST(ClientShares, AClientThatIsAloneMayCallAsOftenAsItLikes) {
  ClientShares shares({.calls_per_second = 2});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(shares.Begin("alice").ok());
  EXPECT_TRUE(shares.Begin("bob").ok());
  EXPECT_FALSE(shares.Begin("alice").ok()) << "what it has had counts";
  EXPECT_TRUE(shares.Begin("bob").ok()) << "and not against others";
}

TEST(ClientShares, AClientWithManyCallsIsStillAlone) {
  ClientShares shares({.calls_per_second = 0.5});
  const auto first = shares.Begin("alice");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(shares.Begin("alice").ok()) << "its own calls do not count";
  EXPECT_TRUE(shares.Begin("alice").ok());
}

TEST(RateLimit, RefillsWithTime) {
  RateLimit limit(2, 4);
  const auto start = RateLimit::Clock::now();
  EXPECT_TRUE(limit.Allow(start, 4));
  EXPECT_FALSE(limit.Allow(start));
  EXPECT_TRUE(limit.Allow(start + std::chrono::milliseconds(500)));
  EXPECT_FALSE(limit.Allow(start + std::chrono::milliseconds(500)));
  EXPECT_FALSE(limit.IsFull(start + std::chrono::seconds(2)));
  EXPECT_TRUE(limit.IsFull(start + std::chrono::seconds(3)));
}

}  // namespace
}  // namespace quarry::server
