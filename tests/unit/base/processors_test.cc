#include "quarry/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace quarry {
namespace {

TEST(UsableProcessors, FollowsTheMaskOfTheThread) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  int before = 0;
  int bound = 0;
  int started_by_a_bound_thread = 0;

  std::thread([&] {
    before = UsableProcessors();
    cpu_set_t one;
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    bound = UsableProcessors();
    std::thread([&] { started_by_a_bound_thread = UsableProcessors(); }).join();
  }).join();

  EXPECT_EQ(before, CPU_COUNT(&all));
  EXPECT_EQ(bound, 1);
  EXPECT_EQ(started_by_a_bound_thread, 1);
  EXPECT_EQ(UsableProcessors(), CPU_COUNT(&all)) << "the mask of another thread counts";
}

TEST(MachineProcessors, AreNoFewerThanTheUsableOnes) {
  EXPECT_GE(UsableProcessors(), 1);
  EXPECT_GE(MachineProcessors(), UsableProcessors());
}

}  // namespace
}  // namespace quarry
