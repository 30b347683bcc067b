#include "writer/distribution/decomposition.h"

#include <gtest/gtest.h>

namespace quarry::distribution {
namespace {

constexpr Index3 kCube = {64, 64, 64};

TEST(NearCubeGrid, IsTheOneOfThePaper) {
  // Marrinan et al., section IV.A: 4096 images of 4096x2048, cut equally often along each axis. In patches of
  // 64^3 these are 64x32x64.
  for (const int k : {2, 3, 4, 5, 6})
    EXPECT_EQ(NearCubeGrid({64, 32, 64}, kCube, k * k * k), (Index3{k, k, k})) << k;
}

TEST(NearCubeGrid, LeavesAsFewRanksIdleAsPossible) {
  EXPECT_EQ(NearCubeGrid({4, 4, 8}, kCube, 7), (Index3{1, 1, 7})) << "a prime number of ranks";
  EXPECT_EQ(NearCubeGrid({4, 4, 4}, kCube, 7), (Index3{1, 2, 3})) << "no axis has seven cells";
  EXPECT_EQ(NearCubeGrid({8, 1, 1}, kCube, 4), (Index3{4, 1, 1})) << "other axes have nothing to share";
  EXPECT_EQ(NearCubeGrid({2, 1, 1}, kCube, 100), (Index3{2, 1, 1})) << "more ranks than cells";
  EXPECT_EQ(NearCubeGrid({1, 1, 1}, kCube, 1), (Index3{1, 1, 1}));
}

// Cells of 4x4x64 samples, four along each axis. On 4 ranks, 1x2x2 makes boxes of 16x8x128 samples with faces
// of 128, 1024 and 2048; 2x2x1 makes 8x8x256 with 64, 2048 and 2048.
TEST(NearCubeGrid, PrefersASmallSurface) {
  EXPECT_EQ(NearCubeGrid({4, 4, 4}, {4, 4, 64}, 4), (Index3{1, 2, 2}));
}

// 5x3x4 samples in patches of 2, on 4 ranks: 3x2x2 patches; 1x2x2 ranks have 3 patches each.
TEST(ReadingOwnership, GivesWholePatchesForDirectReading) {
  const Box region = {{0, 0, 0}, {5, 3, 4}};
  const Ownership owned = ReadingOwnership(region, {2, 2, 2}, 5, ReadingOrder::kDirect);

  ASSERT_EQ(owned.size(), 5u);
  EXPECT_EQ(owned[0], (std::vector<Box>{{{0, 0, 0}, {5, 2, 2}}}));
  EXPECT_EQ(owned[1], (std::vector<Box>{{{0, 2, 0}, {5, 3, 2}}}));
  EXPECT_EQ(owned[2], (std::vector<Box>{{{0, 0, 2}, {5, 2, 4}}}));
  EXPECT_EQ(owned[3], (std::vector<Box>{{{0, 2, 2}, {5, 3, 4}}}));
  EXPECT_TRUE(owned[4].empty());
}

}  // namespace
}  // namespace quarry::distribution
