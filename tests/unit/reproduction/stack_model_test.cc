#include "benchmarks/reproduction/model/stack_model.h"

#include <gtest/gtest.h>

namespace quarry::reproduction {
namespace {

using distribution::ReadingOrder;

// 5 images of 2 MiB at 3 s/MiB, each of 4 readers slows all down by a half: 5 * 2 * 3 * (1 + 4 / 2) = 90 s.
// Then 10 MiB at once at 4 MiB/s, or in 5 rounds at 8 MiB/s and 4 * 0.25 s for the call.
TEST(PredictStack, EqualsACalculationByHand) {
  const StackMachine machine{.decode_s_per_mib = 3,
                             .decode_slower_per_reader = 0.5,
                             .at_once_mib_per_s = 4,
                             .round_mib_per_s = 8,
                             .round_s_per_rank = 0.25};
  StackWork work{.order = ReadingOrder::kConsecutive,
                 .ranks = 4,
                 .images_per_rank = 5,
                 .image_mib = 2,
                 .rounds = 1,
                 .mib_per_rank_per_round = 10};
  EXPECT_DOUBLE_EQ(PredictStack(machine, work).decode, 90);
  EXPECT_DOUBLE_EQ(PredictStack(machine, work).exchange, 2.5);

  work.order = ReadingOrder::kRoundRobin;
  work.rounds = 5;
  work.mib_per_rank_per_round = 2;
  EXPECT_DOUBLE_EQ(PredictStack(machine, work).exchange, 5 * (0.25 + 1));
  EXPECT_DOUBLE_EQ(PredictStack(machine, work).total(), 96.25);

  work.order = ReadingOrder::kDirect;
  EXPECT_EQ(PredictStack(machine, work).exchange, 0) << "nothing moves";
}

TEST(SetConstant, ChangesOneConstantOfAStack) {
  StackMachine machine;
  ASSERT_TRUE(SetConstant("round_mib_per_s=7.5", &machine).ok());
  EXPECT_EQ(machine.round_mib_per_s, 7.5);
  EXPECT_TRUE(SetConstant("round_s_per_rank=0", &machine).ok());
  for (const char* bad :
       {"", "=", "round_mib_per_s", "round_mib_per_s=", "round_mib_per_s=0", "round_mib_per_s=x",
        "decode_s_per_mib=-1", "decode_s_per_mib=nan", "decode_s_per_mib=inf", "speed=1"}) {
    EXPECT_EQ(SetConstant(bad, &machine).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_NE(SetConstant("speed=1", &machine).message().find("at_once_mib_per_s"), std::string::npos);
}

}  // namespace
}  // namespace quarry::reproduction
