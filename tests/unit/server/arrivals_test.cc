#include "server/grpc/arrivals.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <memory>
#include <string>
#include <vector>

#include "quarry/base/file.h"

namespace quarry::server {
namespace {

/// gRPC's names of connections are nothing but addresses here.
const grpc_auth_context* Named(int number) {
  static char names[2000];
  return reinterpret_cast<const grpc_auth_context*>(&names[number]);
}

struct Known {
  explicit Known(std::string peer_name = "ipv4:127.0.0.1:1") : peer(std::move(peer_name)) {}

  std::string peer;
  FileDescriptor file{::eventfd(0, EFD_CLOEXEC)};
  std::shared_ptr<Connection> connection = std::make_shared<Connection>(
      file.get(), InodeOf(file.get()), peer, ConnectionRules{.faults_at_once = 10, .faults_per_second = 0});

  bool is_cut() const { return connection->is_cut(); }
};

TEST(Arrivals, AConnectionHasItsPartOfTheWaitingCalls) {
  Arrivals arrivals(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  EXPECT_NE(arrivals.Check(Named(1)), nullptr);
  EXPECT_EQ(arrivals.Check(Named(2)), nullptr);

  arrivals.Taken(Named(1), nullptr);
  EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  EXPECT_NE(arrivals.Check(Named(1)), nullptr);
}

TEST(Arrivals, AnAddressHasItsPart) {
  const Known one("ipv4:127.0.0.1:1");
  const Known two("ipv4:127.0.0.1:2");
  const Known other("ipv4:127.0.0.2:1");
  Arrivals arrivals(2000);
  int name = 0;
  for (const Known* known : {&one, &two, &other}) {
    EXPECT_EQ(arrivals.Check(Named(++name)), nullptr);
    EXPECT_EQ(arrivals.Check(Named(name)), nullptr);
    arrivals.Taken(Named(name), known->connection);
  }
  int waiting = 2;  // calls of the first address
  while (waiting < 2000 && arrivals.Check(Named(1 + waiting % 2)) == nullptr) ++waiting;
  EXPECT_EQ(waiting, 512);
  EXPECT_EQ(arrivals.Check(Named(3)), nullptr) << "others have places";
}

TEST(Arrivals, ThoseOfUnknownAddressesShareAPart) {
  Arrivals arrivals(3);
  int taken = 0;
  while (taken < 2000 && arrivals.Check(Named(taken)) == nullptr) ++taken;
  EXPECT_EQ(taken, 512);
  arrivals.Taken(Named(7), nullptr);
  EXPECT_EQ(arrivals.Check(Named(1999)), nullptr);
  EXPECT_NE(arrivals.Check(Named(1999)), nullptr);
}

TEST(Arrivals, CallsBeyondThatAreFaultsOfAConnectionThatIsKnown) {
  Known known;
  Arrivals arrivals(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  arrivals.Taken(Named(1), known.connection);
  EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  for (int i = 0; i < 10; ++i) EXPECT_NE(arrivals.Check(Named(1)), nullptr);
  EXPECT_FALSE(known.is_cut());
  EXPECT_NE(arrivals.Check(Named(1)), nullptr);
  EXPECT_TRUE(known.is_cut());
}

TEST(Arrivals, AndOfOneThatBecomesKnown) {
  Known known;
  Arrivals arrivals(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  for (int i = 0; i < 11; ++i) EXPECT_NE(arrivals.Check(Named(1)), nullptr);
  arrivals.Taken(Named(1), known.connection);
  EXPECT_TRUE(known.is_cut());
}

TEST(Arrivals, WhatHasEndedUnseenIsForgottenWhenNothingWaits) {
  Arrivals arrivals(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  const Arrivals::Look early(&arrivals);
  EXPECT_NE(arrivals.Check(Named(1)), nullptr);
  early.FoundNothing();
  EXPECT_NE(arrivals.Check(Named(1)), nullptr) << "a call has come since the look began";
  const Arrivals::Look look(&arrivals);
  look.FoundNothing();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals.Check(Named(1)), nullptr);
  arrivals.Taken(Named(1), nullptr);
  arrivals.Taken(Named(5), nullptr);
}

}  // namespace
}  // namespace quarry::server
