// Scopes in which calls are given up.
#include "quarry/base/cancel_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace quarry {
namespace {

TEST(CancelScope, TheInnermostOfAThreadCounts) {
  EXPECT_FALSE(CancelScope::Cancelled());
  bool outer = true;
  const CancelScope scope([&] { return outer; });
  EXPECT_TRUE(CancelScope::Cancelled());
  {
    const CancelScope inner([] { return false; });
    EXPECT_FALSE(CancelScope::Cancelled());
  }
  outer = false;
  EXPECT_FALSE(CancelScope::Cancelled());
}

TEST(CancelScope, IsThatOfItsThreadUnlessItIsCarried) {
  std::atomic<bool> gone = false;
  const CancelScope scope([&] { return gone.load(); });
  const auto carried = CancelScope::Carried();
  gone = true;
  bool without = true, with = false;
  std::thread other([&] {
    without = CancelScope::Cancelled();
    const CancelScope here(carried);
    with = CancelScope::Cancelled();
  });
  other.join();
  EXPECT_FALSE(without);
  EXPECT_TRUE(with);
}

}  // namespace
}  // namespace quarry
