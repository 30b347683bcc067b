#include "writer/pipeline/chunks.h"

#include <gtest/gtest.h>

namespace quarry::writer {
namespace {

// 100 x 70 x 50 samples in patches of 16: 7 x 5 x 4 patches; a layer of 16 planes has 100 * 70 * 16 = 112000.
PatchGrid Grid() { return *PatchGrid::Create({100, 70, 50}, {16, 16, 16}); }

TEST(CutToChunks, TakesWholeLayersThenRowsThenPatches) {
  const auto first = [](std::uint64_t bytes, const Index3& unit = {1, 1, 1}) {
    return CutToChunks(Grid(), 4, bytes, unit).front();
  };
  EXPECT_EQ(first(UINT64_MAX), (Box{{0, 0, 0}, {7, 5, 4}}));
  EXPECT_EQ(first(4 * 112000), (Box{{0, 0, 0}, {7, 5, 1}}));
  EXPECT_EQ(first(2 * 4 * 112000 + 5), (Box{{0, 0, 0}, {7, 5, 2}}));
  EXPECT_EQ(first(4 * 112000 - 1), (Box{{0, 0, 0}, {7, 4, 1}})) << "rows of 100 * 16 * 16 samples";
  EXPECT_EQ(first(3 * 4 * 16 * 16 * 16), (Box{{0, 0, 0}, {3, 1, 1}}));
  EXPECT_EQ(first(1), (Box{{0, 0, 0}, {1, 1, 1}})) << "one patch at least";
  EXPECT_EQ(first(1, {100, 70, 1}), (Box{{0, 0, 0}, {7, 5, 1}})) << "images are not cut";
}

TEST(CutToChunks, CoversEveryPatchOnce) {
  const PatchGrid grid = Grid();
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{50000}, std::uint64_t{300000}, std::uint64_t{900000}}) {
    std::vector<int> seen(static_cast<std::size_t>(grid.patch_count()), 0);
    std::int64_t samples = 0;
    for (const Box& patches : CutToChunks(grid, 4, bytes, {1, 1, 1})) {
      const Chunk chunk = *Chunk::Create(grid, patches);
      samples += chunk.samples().volume();
      EXPECT_EQ(chunk.grid().patch_count(), patches.volume());
      for (std::int64_t p = 0; p < chunk.grid().patch_count(); ++p) {
        const std::int64_t whole = chunk.IndexInWhole(p);
        ++seen[static_cast<std::size_t>(whole)];
        EXPECT_EQ(Translate(grid.PatchBox(whole), chunk.samples().begin), chunk.grid().PatchBox(p));
      }
    }
    EXPECT_EQ(samples, Volume(grid.dims()));
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(CutToPieces, TakesWholePlanesThenRowsBetweenUnits) {
  const Box box = {{0, 10, 5}, {100, 70, 45}};
  const auto first = [&](std::uint64_t bytes, const Index3& unit = {1, 1, 1}) {
    return CutToPieces(box, 4, bytes, unit).front();
  };
  EXPECT_EQ(first(UINT64_MAX), box);
  // A plane of 100 x 60 samples has 24000 bytes; runs of 8 planes end at multiples of 8.
  EXPECT_EQ(first(8 * 24000), (Box{{0, 10, 5}, {100, 70, 8}}));
  EXPECT_EQ(first(24000 - 1), (Box{{0, 10, 5}, {100, 59, 6}})) << "59 rows of 400 bytes";
  EXPECT_EQ(first(1), (Box{{0, 10, 5}, {100, 11, 6}})) << "a row at least";
  EXPECT_EQ(first(1, {100, 70, 1}), (Box{{0, 10, 5}, {100, 70, 6}})) << "images are not cut";
  EXPECT_EQ(first(1, {32, 32, 32}), (Box{{0, 10, 5}, {100, 32, 32}})) << "nor are units of files";
}

TEST(CutToPieces, CoversEverySampleOnce) {
  const Box box = {{3, 10, 5}, {20, 70, 45}};
  for (const std::uint64_t bytes : {1, 200, 5000, 50000, 1000000}) {
    for (const Index3& unit : {Index3{1, 1, 1}, Index3{16, 7, 9}, Index3{20, 200, 3}}) {
      std::int64_t samples = 0;
      const std::vector<Box> pieces = CutToPieces(box, 4, bytes, unit);
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        EXPECT_TRUE(box.Contains(pieces[p]));
        samples += pieces[p].volume();
        for (std::size_t q = 0; q < p; ++q) EXPECT_TRUE(Intersect(pieces[p], pieces[q]).empty());
      }
      EXPECT_EQ(samples, box.volume());
    }
  }
}

}  // namespace
}  // namespace quarry::writer
