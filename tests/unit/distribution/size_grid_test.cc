#include "writer/distribution/size_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace quarry::distribution {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(Extrapolate, EqualsTheHandComputationAlongOneAxis) {
  // New centres at 1/8, 3/8, 5/8, 7/8; old ones at 1/4 and 3/4: the outermost are constant, the others a
  // quarter of the way from one old size to the other.
  EXPECT_EQ(Extrapolate({{2, 1, 1}, {10, 20}}, {4, 1, 1}).bytes, (Sizes{10, 13, 18, 20}));
  EXPECT_EQ(Extrapolate({{1, 2, 1}, {100, 200}}, {1, 4, 1}).bytes, (Sizes{100, 125, 175, 200}));
  // 3 to 2: centres 1/4 and 3/4 lie at 1/4 and 7/4 between the old centres 0, 1, 2.
  EXPECT_EQ(Extrapolate({{1, 1, 3}, {0, 100, 400}}, {1, 1, 2}).bytes, (Sizes{25, 325}));
}

TEST(Extrapolate, EqualsTheHandComputationInSpace) {
  // Sizes 64 (x + 2 y + 4 z) on 2x2x2: between the centres the interpolation is the same linear function,
  // with each coordinate 0, 1/4, 3/4, 1 on 4 cells.
  const SizeGrid grid{{2, 2, 2}, {0, 64, 128, 192, 256, 320, 384, 448}};
  const Sizes at = {0, 16, 48, 64};

  const SizeGrid finer = Extrapolate(grid, {4, 4, 4});

  ASSERT_EQ(finer.bytes.size(), 64u);
  for (std::int64_t z = 0; z < 4; ++z) {
    for (std::int64_t y = 0; y < 4; ++y) {
      for (std::int64_t x = 0; x < 4; ++x) {
        const auto i = [](std::int64_t c) { return static_cast<std::size_t>(c); };
        EXPECT_EQ(finer.at({x, y, z}), at[i(x)] + 2 * at[i(y)] + 4 * at[i(z)]) << x << " " << y << " " << z;
      }
    }
  }
}

TEST(Extrapolate, KeepsAGridOfTheSameShape) {
  std::mt19937 random(1);
  SizeGrid grid{{5, 3, 4}, {}};
  for (int i = 0; i < 60; ++i) grid.bytes.push_back(random());
  EXPECT_EQ(Extrapolate(grid, grid.shape), grid);
}

TEST(Extrapolate, SpreadsASingleCell) {
  EXPECT_EQ(Extrapolate({{1, 1, 1}, {7}}, {3, 2, 1}).bytes, (Sizes{7, 7, 7, 7, 7, 7}));
}

Sizes Quartiles(Sizes sizes) {
  std::sort(sizes.begin(), sizes.end());
  return {sizes[sizes.size() / 4], sizes[sizes.size() / 2], sizes[sizes.size() * 3 / 4]};
}

/// Compressed sizes around a flame: large in a wrinkled sheet, small far from it, medium in the burnt gas.
/// @param half_thickness  of the sheet where sizes fall to 1/e, as a fraction of the domain
SizeGrid Flame(std::int64_t n, double half_thickness) {
  // Sums over parts of a cell: a rank has the data of its whole box, not only of its centre.
  constexpr std::int64_t kParts = 4;
  const auto position = [n](std::int64_t i) {
    return (static_cast<double>(i) + 0.5) / static_cast<double>(n * kParts);
  };
  SizeGrid cells{{n, n, n}, Sizes(static_cast<std::size_t>(n * n * n))};
  for (std::int64_t k = 0; k < n * kParts; ++k) {
    for (std::int64_t j = 0; j < n * kParts; ++j) {
      for (std::int64_t i = 0; i < n * kParts; ++i) {
        const double x = position(i);
        const double y = position(j);
        const double sheet = 0.45 + 0.15 * std::sin(6.3 * x) * std::cos(5 * position(k)) + 0.1 * x;
        const double distance = (y - sheet) / half_thickness;
        const double burnt = y < sheet ? 60e3 * (sheet - y) : 0;
        cells.bytes[static_cast<std::size_t>(i / kParts + n * (j / kParts + n * (k / kParts)))] +=
            static_cast<std::uint64_t>(2e3 + burnt + 300e3 * std::exp(-distance * distance));
      }
    }
  }
  return cells;
}

/// Quartiles of 4,096 generated sizes relative to those of the 512 measured ones.
std::vector<double> QuartileRatios(const SizeGrid& measured) {
  const Sizes before = Quartiles(measured.bytes);
  const Sizes after = Quartiles(Extrapolate(measured, {16, 16, 16}).bytes);
  std::vector<double> ratios;
  for (std::size_t q = 0; q < 3; ++q)
    ratios.push_back(static_cast<double>(after[q]) / static_cast<double>(before[q]));
  return ratios;
}

TEST(Extrapolate, KeepsTheDistributionOfAFlameFrom512To4096Ranks) {
  const SizeGrid measured = Flame(8, 0.3);

  const SizeGrid generated = Extrapolate(measured, {16, 16, 16});

  const Sizes quartiles = Quartiles(measured.bytes);
  ASSERT_GT(static_cast<double>(quartiles[2]), 2.5 * static_cast<double>(quartiles[0])) << "an uneven field";
  for (const double ratio : QuartileRatios(measured)) EXPECT_NEAR(ratio, 1, 0.1);
  const auto [min, max] = std::minmax_element(measured.bytes.begin(), measured.bytes.end());
  EXPECT_GE(*std::min_element(generated.bytes.begin(), generated.bytes.end()), *min);
  EXPECT_LE(*std::max_element(generated.bytes.begin(), generated.bytes.end()), *max);
}

TEST(Extrapolate, DoesNotKeepTheDistributionOfASheetThinnerThanACell) {
  EXPECT_GT(QuartileRatios(Flame(8, 0.06))[0], 1.2) << "the quiet cells beside the sheet are gone";
}

TEST(Extrapolate, SmoothsSizesThatHaveNothingToDoWithTheirNeighbours) {
  std::mt19937 random(2);
  SizeGrid grid{{8, 8, 8}, {}};
  for (int i = 0; i < 512; ++i) grid.bytes.push_back(random() % 100000);

  const Sizes before = Quartiles(grid.bytes);
  const Sizes after = Quartiles(Extrapolate(grid, {16, 16, 16}).bytes);

  EXPECT_GT(after[0], before[0]);
  EXPECT_LT(after[2], before[2]);
}

TEST(ParseSizeGrid, ReadsAReportAndAGridAlone) {
  const SizeGrid grid{{2, 1, 1}, {5, 0}};
  EXPECT_EQ(*ParseSizeGrid(R"({"ratio": 2, "size_grid": {"shape": [2, 1, 1], "bytes": [5, 0]}})", "r"), grid);
  EXPECT_EQ(*ParseSizeGrid(R"({"shape": [2, 1, 1], "bytes": [5, 0]})", "r"), grid);
}

TEST(ParseSizeGrid, SaysWhatIsWrongAndWhere) {
  const auto message = [](const char* json) {
    const Result<SizeGrid> grid = ParseSizeGrid(json, "report.json");
    EXPECT_EQ(grid.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(grid.status().message().find("report.json"), std::string::npos);
    return grid.status().message();
  };
  EXPECT_NE(message("{").find("not JSON"), std::string::npos);
  EXPECT_NE(message("[1]").find("no \"size_grid\""), std::string::npos);
  EXPECT_NE(message(R"({"ratio": 1})").find("quarry-write --report"), std::string::npos);
  EXPECT_NE(message(R"({"shape": [2, 1], "bytes": []})").find("[2,1]"), std::string::npos);
  EXPECT_NE(message(R"({"shape": [2, 0, 1], "bytes": []})").find("at least 1"), std::string::npos);
  EXPECT_NE(message(R"({"shape": [99999999, 99999999, 2], "bytes": []})").find("the maximum is"),
            std::string::npos);
  EXPECT_NE(message(R"({"shape": [2, 1, 1], "bytes": [5]})").find("2 cells, but 1 sizes"), std::string::npos);
  EXPECT_NE(message(R"({"shape": [1, 1, 1], "bytes": [-5]})").find("-5"), std::string::npos);
  EXPECT_NE(message(R"({"shape": [1, 1, 1], "bytes": [1.5]})").find("1.5"), std::string::npos);
}

}  // namespace
}  // namespace quarry::distribution
