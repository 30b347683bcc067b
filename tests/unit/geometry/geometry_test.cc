#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "quarry/geometry/morton.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/geometry/sample_place.h"

namespace quarry {
namespace {

TEST(LevelBox, KeepsSamplesWhoseFinePositionIsInside) {
  // Level-1 samples of [3, 9) are the fine samples 4, 6 and 8: [2, 5).
  const Box level = LevelBox({{3, 3, 3}, {9, 4, 9}}, 1);
  EXPECT_EQ(level.begin, (Index3{2, 2, 2}));
  EXPECT_EQ(level.end, (Index3{5, 2, 5}));
  EXPECT_TRUE(level.empty()) << "fine sample 3 alone is on no level-1 sample";
}

TEST(LevelBox, AgreesWithCountingOnRandomBoxes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t begin = random() % 300;
    const std::int64_t end = begin + random() % 40;
    const int level = static_cast<int>(random() % 7);
    std::int64_t first = -1;
    std::int64_t count = 0;
    for (std::int64_t sample = 0; sample << level < 400; ++sample) {
      if (sample << level < begin || sample << level >= end) continue;
      if (first < 0) first = sample;
      ++count;
    }
    const Box box = LevelBox({{begin, 0, 0}, {end, 1, 1}}, level);
    EXPECT_EQ(box.end[0] - box.begin[0], count);
    if (count > 0) {
      EXPECT_EQ(box.begin[0], first);
    }
  }
}

TEST(PatchGrid, CutsPatchesAtTheEdge) {
  // 13 samples, patch 4: [0,4) [4,8) [8,12) [12,13)
  const PatchGrid grid = *PatchGrid::Create({13, 1, 5}, {4, 1, 8});
  EXPECT_EQ(grid.patches(), (Index3{4, 1, 1}));
  EXPECT_EQ(grid.PatchBox(Index3{3, 0, 0}), (Box{{12, 0, 0}, {13, 1, 5}}));
}

TEST(PatchGrid, PatchesCoverTheGridOnce) {
  const PatchGrid grid = *PatchGrid::Create({13, 7, 5}, {4, 2, 8});
  std::vector<int> covered(13 * 7 * 5, 0);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    EXPECT_EQ(grid.PatchIndex(grid.PatchPosition(p)), p);
    const Box box = grid.PatchBox(p);
    for (auto z = box.begin[2]; z < box.end[2]; ++z) {
      for (auto y = box.begin[1]; y < box.end[1]; ++y) {
        for (auto x = box.begin[0]; x < box.end[0]; ++x)
          ++covered[static_cast<std::size_t>(x + 13 * (y + 7 * z))];
      }
    }
  }
  EXPECT_EQ(std::set<int>(covered.begin(), covered.end()), std::set<int>{1});
}

TEST(PatchGrid, RefusesImpossibleGrids) {
  EXPECT_FALSE(PatchGrid::Create({0, 1, 1}, {1, 1, 1}).ok());
  EXPECT_FALSE(PatchGrid::Create({10, 10, 10}, {3, 4, 4}).ok()) << "3 is no power of two";
  EXPECT_FALSE(PatchGrid::Create({10, 10, 10}, {1024, 1024, 1024}).ok()) << "patch too large for one message";
  EXPECT_FALSE(PatchGrid::Create({1 << 30, 1 << 30, 1 << 30}, {64, 64, 64}).ok()) << "sizes would overflow";
}

TEST(MortonOrder, VisitsQuadrantsOneAfterAnother) {
  // 4 x 4 patches: the Z order starts with the lower left 2 x 2.
  const PatchGrid grid = *PatchGrid::Create({4, 4, 1}, {1, 1, 1});
  const std::vector<std::int64_t> order = grid.MortonOrder();
  EXPECT_EQ(std::vector<std::int64_t>(order.begin(), order.begin() + 8),
            (std::vector<std::int64_t>{0, 1, 4, 5, 2, 3, 6, 7}));
}

std::vector<MortonRun> AllRuns(MortonRuns runs) {
  std::vector<MortonRun> all;
  while (const std::optional<MortonRun> run = runs.Next()) all.push_back(*run);
  return all;
}

// Bits of a code: ... z1 y1 x1 z0 y0 x0. x in [1, 3) and y in [0, 2): (1,0) is 1, (1,1) is 3, (2,0) is 8,
// (2,1) is 10.
TEST(MortonRuns, AreTheCodesOfTheBoxByHand) {
  using Runs = std::vector<MortonRun>;
  EXPECT_EQ(AllRuns(MortonRuns({{1, 0, 0}, {3, 2, 1}})), (Runs{{1, 2}, {3, 4}, {8, 9}, {10, 11}}));
  EXPECT_EQ(AllRuns(MortonRuns({{0, 0, 0}, {4, 2, 2}})), (Runs{{0, 16}})) << "two cells of 8 are one run";
  EXPECT_EQ(AllRuns(MortonRuns({{0, 0, 0}, {4, 4, 1}})), (Runs{{0, 4}, {8, 12}, {16, 20}, {24, 28}}));
  EXPECT_EQ(AllRuns(MortonRuns({{0, 0, 0}, {4, 4, 1}}, {3, 17})), (Runs{{3, 4}, {8, 12}, {16, 17}}));
  EXPECT_EQ(AllRuns(MortonRuns({{0, 0, 0}, {1, 1, 1}}, {5, 9})), Runs{});
  EXPECT_EQ(AllRuns(MortonRuns({{2, 0, 0}, {2, 4, 4}})), Runs{});
  // The farthest position that a code can hold: 63 bits, all set.
  constexpr std::int64_t kFar = kMaxPatchesPerAxis - 1;
  const std::uint64_t last = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(AllRuns(MortonRuns({{kFar, kFar, kFar}, {kFar + 1, kFar + 1, kFar + 1}})),
            (Runs{{last, last + 1}}));
}

TEST(MortonRuns, AgreeWithTheSortedCodesOfRandomBoxes) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    Box box;
    for (int a = 0; a < 3; ++a) {
      box.begin[a] = random() % 20;
      box.end[a] = box.begin[a] + random() % 9;
    }
    const std::uint64_t first = random() % 2000;
    const MortonRun wanted{first, first + random() % 9000};
    std::set<std::uint64_t> expected;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        for (std::int64_t x = box.begin[0]; x < box.end[0]; ++x) {
          const std::uint64_t code = MortonEncode({x, y, z});
          if (code >= wanted.begin && code < wanted.end) expected.insert(code);
        }
      }
    }
    std::vector<std::uint64_t> codes;
    std::uint64_t last_end = 0;
    for (const MortonRun& run : AllRuns(MortonRuns(box, wanted))) {
      EXPECT_TRUE(codes.empty() || run.begin > last_end) << "two runs that could be one";
      last_end = run.end;
      for (std::uint64_t code = run.begin; code < run.end; ++code) codes.push_back(code);
    }
    EXPECT_EQ(codes, std::vector<std::uint64_t>(expected.begin(), expected.end())) << ToString(box);
  }
}

TEST(CutCodes, PiecesHaveAllCodesOnceAndAsManyAsTheyMay) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Box box;
    for (int a = 0; a < 3; ++a) {
      box.begin[a] = random() % 20;
      box.end[a] = box.begin[a] + random() % 9;
    }
    const std::uint64_t most = 1 + random() % 40;
    const auto codes = [](const std::vector<MortonRun>& runs) {
      std::vector<std::uint64_t> all;
      for (const MortonRun& run : runs)
        for (std::uint64_t code = run.begin; code < run.end; ++code) all.push_back(code);
      return all;
    };
    const std::vector<MortonRun> pieces = CutCodes(box, most);
    std::vector<std::uint64_t> found;
    for (const MortonRun& piece : pieces) {
      const std::vector<std::uint64_t> of_piece = codes(AllRuns(MortonRuns(box, piece)));
      EXPECT_EQ(of_piece.size(), CountCodes(box, piece));
      EXPECT_LE(of_piece.size(), most);
      EXPECT_TRUE(&piece == &pieces.back() || of_piece.size() == most);
      found.insert(found.end(), of_piece.begin(), of_piece.end());
    }
    EXPECT_EQ(found, codes(AllRuns(MortonRuns(box)))) << ToString(box);
    EXPECT_EQ(CountCodes(box, kAllCodes), found.size());
  }
}

// 3 x 2 positions: codes 0, 1, 2, 3 of the first four, then (2,0) is 8 and (2,1) is 10.
TEST(MortonCodeOfRank, IsThePlaceInTheOrderOfTheGrid) {
  const std::uint64_t codes[] = {0, 1, 2, 3, 8, 10};
  for (std::int64_t rank = 0; rank < 6; ++rank) EXPECT_EQ(MortonCodeOfRank({3, 2, 1}, rank), codes[rank]);

  for (const Index3& dims : {Index3{1, 1, 1}, Index3{7, 5, 3}, Index3{1, 13, 2}, Index3{4, 4, 8}}) {
    const PatchGrid grid = *PatchGrid::Create(dims, {1, 1, 1});
    std::int64_t rank = 0;
    for (const std::int64_t patch : grid.MortonOrder())
      EXPECT_EQ(MortonCodeOfRank(dims, rank++), grid.PatchMorton(patch)) << ToString(dims);
  }
}

TEST(CurvePosition, IsThePlaceInTheOrderOfTheGridAndBack) {
  for (const Index3& dims :
       {Index3{1, 1, 1}, Index3{7, 5, 3}, Index3{1, 13, 2}, Index3{4, 4, 8}, Index3{9, 1, 1}}) {
    const PatchGrid grid = *PatchGrid::Create(dims, {1, 1, 1});
    std::int64_t position = 0;
    for (const std::int64_t patch : grid.MortonOrder()) {
      EXPECT_EQ(grid.CurvePosition(patch), position) << ToString(dims);
      EXPECT_EQ(grid.PatchAtCurvePosition(position), patch) << ToString(dims);
      ++position;
    }
  }
  // 2^40 patches, far more than a list could hold.
  const PatchGrid large = *PatchGrid::Create({1 << 21, 1 << 19, 1}, {1, 1, 1});
  for (const std::int64_t position :
       {std::int64_t{0}, (std::int64_t{1} << 39) + 12345, (std::int64_t{1} << 40) - 1})
    EXPECT_EQ(large.CurvePosition(large.PatchAtCurvePosition(position)), position);
}

TEST(Morton, DecodeInvertsEncode) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const Index3 position = {static_cast<std::int64_t>(random() % kMaxPatchesPerAxis),
                             static_cast<std::int64_t>(random() % kMaxPatchesPerAxis),
                             static_cast<std::int64_t>(random() % kMaxPatchesPerAxis)};
    EXPECT_EQ(MortonDecode(MortonEncode(position)), position);
  }
}

TEST(MaxLevels, CountsAxesWithMoreThanOneSample) {
  EXPECT_EQ(MaxLevels({100, 100, 100}, {64, 64, 64}), 7);
  EXPECT_EQ(MaxLevels({100, 100, 100}, {64, 32, 64}), 6);
  EXPECT_EQ(MaxLevels({100, 1, 1}, {64, 1, 1}), 7);
  EXPECT_EQ(MaxLevels({1, 1, 1}, {1, 1, 1}), 1);
}

TEST(DefaultPatch, HasAsManySamplesWhateverTheShape) {
  // 2^18 = 262,144 samples: 64^3, 512^2.
  EXPECT_EQ(DefaultPatch({1600, 1600, 1600}), (Index3{64, 64, 64}));
  EXPECT_EQ(DefaultPatch({91, 91, 91}), (Index3{64, 64, 64}));
  EXPECT_EQ(DefaultPatch({1440, 721, 1}), (Index3{512, 512, 1}));
  EXPECT_EQ(DefaultPatch({1, 2048, 2048}), (Index3{1, 512, 512}));
  EXPECT_EQ(DefaultPatch({10'000'000, 1, 1}), (Index3{262144, 1, 1}));
  EXPECT_EQ(DefaultPatch({1, 1, 300'000}), (Index3{1, 1, 262144}));
}

TEST(DefaultPatch, OfASmallerGridIsItsOnlyOne) {
  EXPECT_EQ(DefaultPatch({100'000, 1, 1}), (Index3{131072, 1, 1}));
  EXPECT_EQ(DefaultPatch({300, 200, 1}), (Index3{512, 256, 1}));
  EXPECT_EQ(DefaultPatch({65, 65, 20}), (Index3{128, 128, 64}));  // 84,500 samples
  EXPECT_EQ(DefaultPatch({64, 64, 64}), (Index3{64, 64, 64}));
  EXPECT_EQ(DefaultPatch({1, 1, 1}), (Index3{1, 1, 1}));
}

TEST(DefaultPatch, LeavesTheShareOfShortAxesToTheOthersAndKeepsTheirLevels) {
  // 128 x 128 x 10 = 163,840; 256 x 128 x 10 would be 327,680.
  EXPECT_EQ(DefaultPatch({1440, 721, 10}), (Index3{128, 128, 64}));
  // 128 x 64 x 20 = 163,840; 128 x 128 x 20 would be 327,680.
  EXPECT_EQ(DefaultPatch({360, 180, 20}), (Index3{128, 64, 64}));
  EXPECT_EQ(DefaultPatch({2, 4096, 4096}), (Index3{64, 512, 256}));  // 2 x 512 x 256 = 2^18
  EXPECT_EQ(DefaultPatch({4, 1'000'000, 1}), (Index3{64, 65536, 1}));
  EXPECT_EQ(MaxLevels({1440, 721, 10}, {128, 128, 64}), 7);
}

TEST(DefaultPatch, KeepsTheLimitsOfTheFormat) {
  // 65536 x 2 x 2 = 2^18; 65536 x 32 x 32 = 2^26, the largest patch.
  EXPECT_EQ(DefaultPatch({1'000'000, 2, 2}), (Index3{65536, 32, 32}));
  const std::int64_t extents[] = {1, 2, 3, 9, 63, 64, 65, 1000, 70'000, 10'000'000};
  for (const std::int64_t x : extents) {
    for (const std::int64_t y : extents) {
      for (const std::int64_t z : extents) {
        const Index3 dims = {x, y, z};
        const Index3 patch = DefaultPatch(dims);
        const double in_grid =
            static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);  // up to 1e21
        EXPECT_TRUE(PatchGrid::Create(dims, patch).ok() || in_grid > 0x1p57) << ToString(dims);
        const std::int64_t samples = Volume(LargestPatchShape(dims, patch));
        EXPECT_LE(samples, 1 << 18) << ToString(dims);
        // Twice a half of it, or the whole grid.
        EXPECT_TRUE(samples > 1 << 16 || static_cast<double>(samples) == in_grid)
            << ToString(dims) << " in " << ToString(patch);
      }
    }
  }
}

TEST(DefaultLevels, AreAsManyAsThePatchHasButAtMostTen) {
  EXPECT_EQ(DefaultLevels({100, 100, 100}, {64, 64, 64}), 7);
  EXPECT_EQ(DefaultLevels({1440, 721, 1}, {512, 512, 1}), 10);
  EXPECT_EQ(DefaultLevels({100'000, 1, 1}, {131072, 1, 1}), 10);
  EXPECT_EQ(DefaultLevels({1, 1, 1}, {1, 1, 1}), 1);
}

TEST(JoinBoxes, MakesOneOfThoseThatMakeUpOne) {
  std::vector<Box> cells;
  for (std::int64_t z = 0; z < 3; ++z) {
    for (std::int64_t y = 0; y < 4; ++y) {
      for (std::int64_t x = 0; x < 5; ++x) cells.push_back({{2 * x, y, z}, {2 * x + 2, y + 1, z + 1}});
    }
  }
  std::shuffle(cells.begin(), cells.end(), std::mt19937(1));
  EXPECT_EQ(JoinBoxes(cells), (std::vector<Box>{{{0, 0, 0}, {10, 4, 3}}}));
  // With one cell missing in the middle of a row: two parts of its row, the rows of its plane on both sides,
  // and the planes below and above it.
  std::erase(cells, Box{{4, 2, 1}, {6, 3, 2}});
  const std::vector<Box> joined = JoinBoxes(cells);
  EXPECT_EQ(joined.size(), 6u);
  std::int64_t volume = 0;
  for (const Box& box : joined) {
    volume += box.volume();
    EXPECT_TRUE(Intersect(box, {{4, 2, 1}, {6, 3, 2}}).empty());
    for (const Box& other : joined) EXPECT_TRUE(&box == &other || Intersect(box, other).empty());
  }
  EXPECT_EQ(volume, 10 * 4 * 3 - 2);
  EXPECT_TRUE(JoinBoxes({}).empty());
}

TEST(ParseBox, TakesPartsAndRefusesTheRest) {
  const Index3 dims = {10, 20, 30};
  EXPECT_EQ(*ParseBox("1:2,3:4,5:6", dims), (Box{{1, 3, 5}, {2, 4, 6}}));
  EXPECT_EQ(*ParseBox(":,:,5:6", dims), (Box{{0, 0, 5}, {10, 20, 6}}));
  EXPECT_EQ(*ParseBox("3:", dims), (Box{{3, 0, 0}, {10, 20, 30}}));
  for (const char* bad : {"", "1", "1:2:3", "a:b", "5:3", "0:11", "-1:3", "1:2,3:4,5:6,7:8", "2:2"}) {
    const auto box = ParseBox(bad, dims);
    EXPECT_EQ(box.status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

/// A box of an array filled with numbers, everything else left as it was.
void ExpectFilled(const Box& whole, const Box& part) {
  constexpr int kGuard = -1;
  std::vector<std::int32_t> array(static_cast<std::size_t>(whole.volume()), kGuard);
  std::vector<std::int32_t> samples(static_cast<std::size_t>(part.volume()));
  std::iota(samples.begin(), samples.end(), 1);
  const SampleArray target{std::as_writable_bytes(std::span(array)).data(), whole, sizeof(std::int32_t)};

  CopySamples(std::as_bytes(std::span(samples)), part.shape(), sizeof(std::int32_t), target.PlaceOf(part));

  auto next = samples.begin();
  auto at = array.begin();
  for (auto z = whole.begin[2]; z < whole.end[2]; ++z) {
    for (auto y = whole.begin[1]; y < whole.end[1]; ++y) {
      for (auto x = whole.begin[0]; x < whole.end[0]; ++x) {
        const int expected = part.Contains({{x, y, z}, {x + 1, y + 1, z + 1}}) ? *next++ : kGuard;
        ASSERT_EQ(*at++, expected) << ToString(Index3{x, y, z}) << " of " << ToString(whole);
      }
    }
  }
}

TEST(SampleArray, TakesABoxAtItsPlace) {
  ExpectFilled({{2, 3, 4}, {13, 10, 9}}, {{5, 4, 6}, {9, 10, 8}});
  ExpectFilled({{2, 3, 4}, {13, 10, 9}}, {{2, 4, 6}, {13, 9, 9}});  // whole rows
  ExpectFilled({{2, 3, 4}, {13, 10, 9}}, {{2, 3, 4}, {13, 10, 9}});
}

TEST(SampleArray, TakesABoxPastTheCachesIfItIsLarge) {
  const Box whole{{0, 0, 0}, {301, 150, 101}};
  ASSERT_TRUE((SampleArray{nullptr, whole, sizeof(std::int32_t)}.PlaceOf(whole).streamed));
  ExpectFilled(whole, {{7, 9, 3}, {90, 80, 70}});
  ExpectFilled(whole, {{0, 11, 97}, {301, 12, 101}});
}

}  // namespace
}  // namespace quarry
