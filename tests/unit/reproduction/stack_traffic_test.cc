#include "benchmarks/reproduction/model/stack_traffic.h"

#include <gtest/gtest.h>

namespace quarry::reproduction {
namespace {

using distribution::ReadingOrder;

struct Row {
  std::int64_t edge;  // ranks along each axis
  std::int64_t consecutive_rounds;
  double consecutive_mib;
  std::int64_t round_robin_rounds;
  double round_robin_mib;
};

// Marrinan et al., Table III: 4096 images of 4096 x 2048 float32.
TEST(CountStackTraffic, EqualsTableIIIOfThePaper) {
  const Index3 dims = {4096, 2048, 4096};
  for (const Row& row : {Row{3, 1, 4315.12, 152, 30.81}, Row{4, 1, 1920.00, 64, 31.50},
                         Row{5, 1, 1006.63, 33, 31.74}, Row{6, 1, 589.95, 19, 31.85}}) {
    const Index3 grid = {row.edge, row.edge, row.edge};

    const StackTraffic consecutive = CountStackTraffic(dims, 4, grid, ReadingOrder::kConsecutive);
    const StackTraffic round_robin = CountStackTraffic(dims, 4, grid, ReadingOrder::kRoundRobin);

    EXPECT_EQ(consecutive.rounds, row.consecutive_rounds);
    EXPECT_NEAR(consecutive.mib_per_rank_per_round, row.consecutive_mib, 0.001 * row.consecutive_mib);
    EXPECT_EQ(round_robin.rounds, row.round_robin_rounds);
    EXPECT_NEAR(round_robin.mib_per_rank_per_round, row.round_robin_mib, 0.001 * row.round_robin_mib);
    EXPECT_EQ(consecutive.bytes_moved + consecutive.bytes_kept, Volume(dims) * 4);
    EXPECT_EQ(consecutive.images_read, 4096);
    EXPECT_EQ(consecutive.images_per_rank, row.round_robin_rounds);
    EXPECT_EQ(round_robin.images_per_rank, row.round_robin_rounds);
    EXPECT_EQ(round_robin.bytes_moved + round_robin.bytes_kept, Volume(dims) * 4);
  }
}

// 4 images of 2 x 2 bytes on 2 x 1 x 1 ranks, in turn: in each of 2 rounds both ranks read an image, keep
// their half and send 2 bytes.
TEST(CountStackTraffic, CountsASmallStackByHand) {
  const StackTraffic traffic = CountStackTraffic({2, 2, 4}, 1, {2, 1, 1}, ReadingOrder::kRoundRobin);

  EXPECT_EQ(traffic.rounds, 2);
  EXPECT_EQ(traffic.messages, 4);
  EXPECT_EQ(traffic.bytes_moved, 8);
  EXPECT_EQ(traffic.bytes_kept, 8);
  EXPECT_DOUBLE_EQ(traffic.mib_per_rank_per_round, 2.0 / (1 << 20));
  EXPECT_EQ(traffic.images_read, 4);
  EXPECT_EQ(traffic.images_per_rank, 2);
}

// 5 images on 3 x 1 x 2 ranks: the lower boxes meet 2 images, the upper ones 3, and each rank decodes all
// that its box meets.
TEST(CountStackTraffic, DirectReadingDecodesAnImageOnEveryRankThatNeedsIt) {
  const StackTraffic traffic = CountStackTraffic({6, 2, 5}, 2, {3, 1, 2}, ReadingOrder::kDirect);

  EXPECT_EQ(traffic.images_read, 3 * (2 + 3));
  EXPECT_EQ(traffic.images_per_rank, 3);
  EXPECT_EQ(traffic.rounds, 0);
  EXPECT_EQ(traffic.messages, 0);
  EXPECT_EQ(traffic.bytes_moved, 0);
  EXPECT_EQ(traffic.bytes_kept, 6 * 2 * 5 * 2);
}

Box Cell(std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height) {
  return {{x, y, 0}, {x + width, y + height, 1}};
}

// Marrinan et al., example E1, Table I: 8 x 8 samples on 4 ranks. Rank r owns rows r and r + 4 and needs the
// quadrant at (4 (r mod 2), 4 (r / 2)).
TEST(CountTraffic, AddsUpExampleE1) {
  redistribute::Layout layout{{8, 8, 1}, {}, {}};
  for (int r = 0; r < 4; ++r) {
    layout.owned.push_back({Cell(0, r, 8, 1), Cell(0, r + 4, 8, 1)});
    layout.needed.push_back({Cell(4 * (r % 2), 4 * (r / 2), 4, 4)});
  }

  const TrafficTable table = CountTraffic(layout, sizeof(float));

  ASSERT_EQ(table.rounds, 2u);
  // In round 0 rank 0 keeps the left half of row 0, 4 samples, sends its right half to rank 1, and receives
  // the left halves of rows 1, 2 and 3.
  EXPECT_EQ(table.At(0, 0).bytes_kept, 16);
  EXPECT_EQ(table.At(0, 0).messages_sent, 1);
  EXPECT_EQ(table.At(0, 0).bytes_sent, 16);
  EXPECT_EQ(table.At(0, 0).messages_received, 3);
  EXPECT_EQ(table.At(0, 0).bytes_received, 48);
  // In round 1 it sends row 4 to ranks 2 and 3.
  EXPECT_EQ(table.At(1, 0).bytes_kept, 0);
  EXPECT_EQ(table.At(1, 0).messages_sent, 2);
  EXPECT_EQ(table.At(1, 0).bytes_sent, 32);
  EXPECT_EQ(table.At(1, 0).messages_received, 0);
}

TEST(CountTraffic, TakesSeveralPartsToOneRankForOneMessage) {
  const redistribute::Layout layout{
      {10, 1, 1}, {{Cell(0, 0, 10, 1)}, {}}, {{}, {Cell(0, 0, 3, 1), Cell(6, 0, 4, 1), Cell(2, 0, 2, 1)}}};

  const TrafficTable table = CountTraffic(layout, 2);

  EXPECT_EQ(table.At(0, 0).messages_sent, 1);
  EXPECT_EQ(table.At(0, 0).bytes_sent, 18) << "what two boxes need is sent twice";
}

}  // namespace
}  // namespace quarry::reproduction
