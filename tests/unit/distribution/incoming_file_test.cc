#include "writer/distribution/incoming_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quarry::distribution {
namespace {

/// Positions 10 to 16 of the curve, of 4, 4, 1, 9, 2, 2 and 2 bytes, with ranks 5, 3, 3, 5, 5, 3 and 5.
IncomingFile Example() {
  IncomingFile file(10, 17);
  const int encoders[] = {5, 3, 3, 5, 5, 3, 5};
  const std::uint64_t sizes[] = {4, 4, 1, 9, 2, 2, 2};
  for (const std::size_t i : {6u, 0u, 3u, 1u, 2u, 5u, 4u})
    EXPECT_TRUE(file.Announce(encoders[i], 10 + i, sizes[i]));
  return file;
}

TEST(IncomingFile, CutsWindowsAndTellsRanksTheirShares) {
  IncomingFile file = Example();
  ASSERT_TRUE(file.complete());

  file.CutWindows(8);

  // 4 + 4, then 1; 9 alone is more than a window holds; 2 + 2 + 2.
  ASSERT_EQ(file.windows(), 4u);
  EXPECT_EQ(file.WindowBegin(1), 12u);
  EXPECT_EQ(file.WindowBegin(2), 13u);
  EXPECT_EQ(file.WindowBegin(3), 14u);
  EXPECT_EQ(file.WindowBegin(4), 17u);
  EXPECT_EQ(file.EncodersIn(0), (std::vector<int>{3, 5}));
  EXPECT_EQ(file.EncodersIn(1), (std::vector<int>{3}));
  const auto shares = file.Shares();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares.at(3), (std::vector<WindowShare>{{0, 1}, {1, 1}, {3, 1}}));
  EXPECT_EQ(shares.at(5), (std::vector<WindowShare>{{0, 1}, {2, 1}, {3, 2}}));
}

TEST(IncomingFile, RefusesPatchesOfOthersAndASecondTime) {
  IncomingFile file(10, 12);
  EXPECT_FALSE(file.Announce(0, 9, 1));
  EXPECT_FALSE(file.Announce(0, 12, 1));
  EXPECT_TRUE(file.Announce(0, 10, 1));
  EXPECT_FALSE(file.Announce(1, 10, 1));
  EXPECT_FALSE(file.complete());
  EXPECT_TRUE(file.Announce(1, 11, 1));
  EXPECT_TRUE(file.complete());
}

TEST(Shipments, MeetTheWindowsOfTheirFilesInTheSameOrder) {
  std::vector<Shipment> shipments;
  // Two runs of parts: of file 1, whose windows are 4, from patch 20 on; of file 0 with one window.
  AddShipments(1, 20, 2, 4, std::vector<WindowShare>{{0, 1}, {2, 5}}, &shipments);
  AddShipments(0, 17, 2, 1, std::vector<WindowShare>{{0, 3}}, &shipments);

  SortShipments(&shipments);

  struct Expected {
    std::uint64_t round;
    std::size_t file, run, first, count;
  };
  const Expected expected[] = {{0, 0, 0, 17, 3}, {0, 1, 0, 20, 1}, {1, 0, 1, 17, 3},
                               {2, 1, 0, 21, 5}, {4, 1, 1, 20, 1}, {6, 1, 1, 21, 5}};
  ASSERT_EQ(shipments.size(), std::size(expected));
  for (std::size_t i = 0; i < shipments.size(); ++i) {
    EXPECT_EQ(shipments[i].round, expected[i].round) << i;
    EXPECT_EQ(shipments[i].file, expected[i].file) << i;
    EXPECT_EQ(shipments[i].run, expected[i].run) << i;
    EXPECT_EQ(shipments[i].first, expected[i].first) << i;
    EXPECT_EQ(shipments[i].count, expected[i].count) << i;
  }
}

// However patches are spread, the shares of all ranks are the windows.
TEST(IncomingFile, SharesAddUpToTheWindows) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t patches = 1 + random() % 60;
    IncomingFile file(100, 100 + patches);
    for (std::uint64_t p = 0; p < patches; ++p)
      ASSERT_TRUE(file.Announce(static_cast<int>(random() % 5), 100 + p, random() % 30));
    file.CutWindows(40);
    std::vector<std::uint64_t> patches_in(file.windows(), 0);
    for (const auto& [rank, shares] : file.Shares()) {
      for (const WindowShare& share : shares) {
        patches_in[share.window] += share.patches;
        EXPECT_TRUE(std::ranges::binary_search(file.EncodersIn(share.window), rank));
      }
    }
    for (std::size_t w = 0; w < file.windows(); ++w)
      EXPECT_EQ(patches_in[w], file.WindowBegin(w + 1) - file.WindowBegin(w));
  }
}

}  // namespace
}  // namespace quarry::distribution
