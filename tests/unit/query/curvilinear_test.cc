#include "quarry/query/curvilinear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <random>

#include "quarry/box.h"

namespace quarry::query {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
constexpr double kRadians = std::numbers::pi / 180;
using Pair = std::array<double, 2>;

/// A grid whose samples lie where a function of sample coordinates says.
struct Mapped {
  CoordinateKind kind;
  std::int64_t nx;
  std::int64_t ny;
  std::function<Pair(double, double)> place_of;

  std::array<std::vector<double>, 2> Coordinates() const {
    std::array<std::vector<double>, 2> coordinates;
    for (std::int64_t j = 0; j < ny; ++j) {
      for (std::int64_t i = 0; i < nx; ++i) {
        const Pair place = place_of(static_cast<double>(i), static_cast<double>(j));
        for (std::size_t a = 0; a < 2; ++a) coordinates[a].push_back(place[a]);
      }
    }
    return coordinates;
  }
  CurvilinearGrid Make() const {
    auto [x, y] = Coordinates();
    return *CurvilinearGrid::Create(kind, nx, ny, std::move(x), std::move(y));
  }
};

/// The places of random sample coordinates are found there.
void ExpectInverse(const Mapped& mapped, const CurvilinearGrid& grid, double tolerance, int count = 5000) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> along_x(0, static_cast<double>(mapped.nx - 1));
  std::uniform_real_distribution<double> along_y(0, static_cast<double>(mapped.ny - 1));
  for (int p = 0; p < count; ++p) {
    const Pair asked = {along_x(random), along_y(random)};
    const Pair place = mapped.place_of(asked[0], asked[1]);
    const std::optional<Pair> found = grid.Find(place[0], place[1]);
    ASSERT_TRUE(found) << asked[0] << " " << asked[1] << " at " << place[0] << " " << place[1];
    for (std::size_t a = 0; a < 2; ++a)
      ASSERT_NEAR((*found)[a], asked[a], tolerance) << asked[0] << " " << asked[1] << " at " << place[0];
  }
}

void ExpectAt(const std::optional<Pair>& found, const Pair& expected, double tolerance = 1e-9) {
  ASSERT_TRUE(found);
  EXPECT_NEAR((*found)[0], expected[0], tolerance);
  EXPECT_NEAR((*found)[1], expected[1], tolerance);
}

/// Samples at even longitudes and latitudes.
Mapped Regular(double lon, double lat, double spacing, std::int64_t nx, std::int64_t ny) {
  return {CoordinateKind::kDegrees, nx, ny, [=](double i, double j) -> Pair {
            return {std::remainder(lon + spacing * i, 360), lat + spacing * j};
          }};
}

/// Samples half a degree apart on a sphere that is turned so that its north pole lies at a place.
/// @source COSMO documentation, part I, section 3.3: rotated spherical coordinates
Mapped Rotated(double pole_lon, double pole_lat, std::int64_t nx, std::int64_t ny) {
  return {
      CoordinateKind::kDegrees, nx, ny, [=](double i, double j) -> Pair {
        const double lon = (i - static_cast<double>(nx - 1) / 2) / 2 * kRadians;
        const double lat = (j - static_cast<double>(ny - 1) / 2) / 2 * kRadians;
        const double pole = pole_lat * kRadians;
        const double y = std::sin(lat) * std::sin(pole) + std::cos(lat) * std::cos(lon) * std::cos(pole);
        const double east = std::cos(lat) * std::sin(lon);
        const double north = std::sin(lat) * std::cos(pole) - std::cos(lat) * std::cos(lon) * std::sin(pole);
        return {std::remainder(pole_lon + std::atan2(-east, north) / kRadians, 360), std::asin(y) / kRadians};
      }};
}

TEST(Curvilinear, RegularGridsAcrossTheDateLineAreExact) {
  const Mapped mapped = Regular(170, -30, 2, 16, 21);
  const CurvilinearGrid grid = mapped.Make();

  ExpectInverse(mapped, grid, 1e-9);

  for (const double turn : {-360.0, 0.0, 360.0}) {
    ExpectAt(grid.Find(179 + turn, 3), {4.5, 16.5});
    ExpectAt(grid.Find(-175.5 + turn, 10), {7.25, 20});
  }
  EXPECT_FALSE(grid.Find(169, 0));
  EXPECT_FALSE(grid.Find(-159, 0));
  EXPECT_FALSE(grid.Find(0, 0)) << "the other side of the sphere";
  EXPECT_FALSE(grid.Find(-10, 0)) << "the other side of the sphere";
}

TEST(Curvilinear, RegularGridsReachThePoles) {
  const Mapped mapped = Regular(0, -90, 10, 37, 19);
  const CurvilinearGrid grid = mapped.Make();

  ExpectInverse(mapped, grid, 1e-9);

  ExpectAt(grid.Find(123, 90), {12.3, 18});
  ExpectAt(grid.Find(-5, -90), {35.5, 0});
  EXPECT_FALSE(grid.Find(0, 90.1));
}

TEST(Curvilinear, ColumnsMayBeParallels) {
  const Mapped mapped = {CoordinateKind::kDegrees, 16, 11, [](double i, double j) -> Pair {
                           return {20 - 3 * j, 40 + 2 * i};
                         }};
  ExpectInverse(mapped, mapped.Make(), 1e-9);
}

/// Such cells bulge far out of the box around their corners.
TEST(Curvilinear, CoarseCellsAreFoundWherever) {
  for (const Mapped& mapped :
       {Regular(-180, -90, 45, 9, 5), Regular(20, -60, 60, 3, 3), Regular(10, -25, 50, 2, 2)})
    ExpectInverse(mapped, mapped.Make(), 1e-9);
  const Mapped arctic = {CoordinateKind::kDegrees, 3, 2, [](double i, double j) -> Pair {
                           return {130 * i, 80 + 2 * j};
                         }};
  ExpectInverse(arctic, arctic.Make(), 1e-9);
}

TEST(Curvilinear, CellsDoNotHoldTheOtherSideOfTheSphere) {
  const CurvilinearGrid grid =
      *CurvilinearGrid::Create(CoordinateKind::kDegrees, 2, 2, {0, 100, 5, 120}, {0, 5, 60, 70});
  EXPECT_TRUE(grid.Find(60, 40));
  EXPECT_FALSE(grid.Find(-120, -40));
}

/// Parallels and great circles differ by h / 8 sin(lat) cos(lat) of a cell of h radians.
TEST(Curvilinear, RotatedGrids) {
  const Mapped europe = Rotated(-162, 39.25, 61, 45);
  ExpectInverse(europe, europe.Make(), 3e-4);
  const Mapped pacific = Rotated(0, 50, 61, 45);  // its centre is at 180, 40
  EXPECT_NEAR(std::abs(pacific.place_of(30, 22)[0]), 180, 1e-9);
  ExpectInverse(pacific, pacific.Make(), 3e-4);
}

TEST(Curvilinear, CellsHoldThePoles) {
  for (const double sign : {1.0, -1.0}) {
    Mapped mapped = Rotated(40, 0, 61, 46);
    if (sign < 0) {
      mapped.place_of = [north = mapped.place_of](double i, double j) -> Pair {
        return {north(i, j)[0], -north(i, j)[1]};
      };
    }
    const CurvilinearGrid grid = mapped.Make();

    ExpectInverse(mapped, grid, 3e-4);

    // The pole lies on the middle column, between two rows.
    for (const double lon : {0.0, 77.0, -180.0}) ExpectAt(grid.Find(lon, sign * 90), {30, 22.5}, 1e-4);
    EXPECT_FALSE(grid.Find(0, -sign * 90));
  }
}

TEST(Curvilinear, SamplesAndMiddlesOfSidesAreExact) {
  const Mapped mapped = Rotated(-162, 39.25, 21, 15);
  const CurvilinearGrid grid = mapped.Make();
  const auto vector = [&](double i, double j) {
    const auto [lon, lat] = mapped.place_of(i, j);
    return std::array<double, 3>{std::cos(lat * kRadians) * std::cos(lon * kRadians),
                                 std::cos(lat * kRadians) * std::sin(lon * kRadians),
                                 std::sin(lat * kRadians)};
  };
  for (int j = 0; j < 15; ++j) {
    for (int i = 0; i < 21; ++i) {
      const Pair place = mapped.place_of(i, j);
      EXPECT_EQ(grid.Find(place[0], place[1]), (Pair{static_cast<double>(i), static_cast<double>(j)}));
      if (i == 20) continue;
      const auto here = vector(i, j);
      const auto next = vector(i + 1, j);
      const std::array<double, 3> sum = {here[0] + next[0], here[1] + next[1], here[2] + next[2]};
      const double lon = std::atan2(sum[1], sum[0]) / kRadians;
      const double lat = std::atan2(sum[2], std::hypot(sum[0], sum[1])) / kRadians;
      ExpectAt(grid.Find(lon, lat), {i + 0.5, static_cast<double>(j)});
    }
  }
}

/// A northern cap between two poles on land, at distance kPole in the stereographic plane: confocal ellipses
/// and hyperbolas. The last row is folded along the line between the poles: its first half lies on its
/// second.
struct Tripolar {
  static constexpr double kPole = 0.3;
  static constexpr std::int64_t kColumns = 180;
  static constexpr std::int64_t kRows = 41;
  static constexpr double kHeight = 1.2 / (kRows - 1);
  static constexpr double kWidth = 2 * std::numbers::pi / kColumns;

  static Pair PlaceOf(double i, double j) {
    const std::complex<double> zeta = std::exp(std::complex<double>(kHeight * (kRows - 1 - j), kWidth * i));
    const std::complex<double> plane = kPole * (zeta + 1.0 / zeta) / 2.0;
    return {std::arg(plane) / kRadians, 90 - 2 * std::atan(std::abs(plane)) / kRadians};
  }
  static Pair SampleOf(double lon, double lat) {
    const std::complex<double> plane =
        std::polar(std::tan((90 - lat) / 2 * kRadians), lon * kRadians) / kPole;
    std::complex<double> zeta = plane + std::sqrt(plane * plane - 1.0);
    if (std::abs(zeta) < 1) zeta = 1.0 / zeta;
    return {std::fmod(std::arg(zeta) / kWidth + kColumns, kColumns),
            kRows - 1 - std::log(std::abs(zeta)) / kHeight};
  }
};

TEST(Curvilinear, FoldsOfTripolarGrids) {
  // A column that closes the circle, and a row behind the fold that repeats the one before it.
  const Mapped mapped = {CoordinateKind::kDegrees, Tripolar::kColumns + 1, Tripolar::kRows + 1,
                         Tripolar::PlaceOf};
  const CurvilinearGrid grid = mapped.Make();
  std::mt19937 random(1);
  std::uniform_real_distribution<double> longitudes(-180, 180);
  std::uniform_real_distribution<double> latitudes(65, 90);
  int compared = 0;
  for (int p = 0; p < 5000; ++p) {
    const double lon = longitudes(random);
    const double lat = latitudes(random);
    const Pair expected = Tripolar::SampleOf(lon, lat);
    const std::optional<Pair> found = grid.Find(lon, lat);
    ASSERT_TRUE(found) << lon << " " << lat;
    // Beside the two poles of the grid, the inverse changes too much in a cell.
    const double angle = std::abs(std::sin(expected[0] * Tripolar::kWidth));
    if (angle < 0.1 && expected[1] > Tripolar::kRows - 5) continue;
    ASSERT_NEAR(std::remainder((*found)[0] - expected[0], Tripolar::kColumns), 0, 0.02) << lon << " " << lat;
    ASSERT_NEAR((*found)[1], expected[1], 0.02) << lon << " " << lat;
    ++compared;
  }
  EXPECT_GT(compared, 4500);
  ExpectAt(grid.Find(17, 90), {Tripolar::kColumns / 4.0, Tripolar::kRows - 1.0}, 1e-6);
}

/// Straight sides and any corners: the forward map is bilinear itself.
TEST(Curvilinear, AnyQuadrilateralsOfAPlane) {
  constexpr std::int64_t kColumns = 41;
  constexpr std::int64_t kRows = 33;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> shift(-0.24, 0.24);
  std::vector<Pair> corners;
  for (std::int64_t j = 0; j < kRows; ++j) {
    for (std::int64_t i = 0; i < kColumns; ++i)
      corners.push_back(
          {500'000 + 100.0 * (static_cast<double>(i) + shift(random) + 0.5 * static_cast<double>(j)),
           4'000'000 - 70.0 * (static_cast<double>(j) + shift(random))});
  }
  const Mapped mapped = {CoordinateKind::kPlane, kColumns, kRows, [&](double x, double y) -> Pair {
                           const auto i = std::min<std::size_t>(static_cast<std::size_t>(x), kColumns - 2);
                           const auto j = std::min<std::size_t>(static_cast<std::size_t>(y), kRows - 2);
                           const double s = x - static_cast<double>(i);
                           const double t = y - static_cast<double>(j);
                           Pair place = {0, 0};
                           for (std::size_t a = 0; a < 2; ++a) {
                             const auto at = [&](std::size_t c, std::size_t r) {
                               return corners[c + kColumns * r][a];
                             };
                             place[a] = (1 - t) * ((1 - s) * at(i, j) + s * at(i + 1, j)) +
                                        t * ((1 - s) * at(i, j + 1) + s * at(i + 1, j + 1));
                           }
                           return place;
                         }};
  ExpectInverse(mapped, mapped.Make(), 1e-6, 20'000);
}

TEST(Curvilinear, ExactGridsOfAPlane) {
  const Mapped skew = {CoordinateKind::kPlane, 6, 5, [](double i, double j) -> Pair {
                         return {10 + 2 * i + j, 5 - 3 * j + i};
                       }};
  const CurvilinearGrid grid = skew.Make();

  ExpectInverse(skew, grid, 1e-9);

  EXPECT_EQ(grid.Find(10, 5), (Pair{0, 0}));
  EXPECT_FALSE(grid.Find(10 + 2 * 5.02, 5 + 5.02));
  EXPECT_EQ(grid.Find(10 + 2 * 5.005, 5 + 5.005), (Pair{5, 0}))
      << "beside the grid, by less than a hundredth";
  EXPECT_FALSE(grid.Find(370, 5)) << "a plane has no turns";
  EXPECT_FALSE(grid.Find(kNowhere, 5));
  EXPECT_FALSE(grid.Find(10, std::numeric_limits<double>::infinity()));
}

TEST(Curvilinear, CellsWithAMissingCornerHoldNothing) {
  const Mapped mapped = Regular(0, 0, 1, 12, 10);
  for (const double missing : {kNowhere, 1e20, -999.0}) {
    for (const std::size_t coordinate : {0, 1}) {
      auto coordinates = mapped.Coordinates();
      coordinates[coordinate][5 + 12 * 4] = missing;
      const CurvilinearGrid grid =
          *CurvilinearGrid::Create(mapped.kind, 12, 10, coordinates[0], coordinates[1]);

      for (const Pair& cell : {Pair{4, 3}, Pair{5, 3}, Pair{4, 4}, Pair{5, 4}})
        EXPECT_FALSE(grid.Find(cell[0] + 0.5, cell[1] + 0.5)) << missing;
      ExpectAt(grid.Find(3.5, 3.5), {3.5, 3.5});
      ExpectAt(grid.Find(6.5, 4.5), {6.5, 4.5});
      ExpectAt(grid.Find(4.5, 5.5), {4.5, 5.5});
      EXPECT_EQ((*grid.ranges())[0].high, 11);
      EXPECT_EQ((*grid.ranges())[1].low, 0);
    }
  }
}

TEST(Curvilinear, CellsToAFillerHoldNothingThatOthersHold) {
  struct Land {
    Box box;
    Pair filler;
  };
  for (const auto& [land, filler] :
       {Land{{{0, 10, 0}, {8, 20, 1}}, {0, 0}}, Land{{{0, 10, 0}, {8, 20, 1}}, {45.2, 48.3}},
        Land{{{0, 10, 0}, {8, 20, 1}}, {-170, -40}}, Land{{{34, 2, 0}, {40, 8, 1}}, {15.3, 40.2}}}) {
    const auto is_land = [&, box = land](std::int64_t i, std::int64_t j) {
      return box.Contains({{i, j, 0}, {i + 1, j + 1, 1}});
    };
    auto [lon, lat] = Regular(10, 20, 1, 40, 30).Coordinates();
    for (std::size_t s = 0; s < lon.size(); ++s) {
      if (!is_land(static_cast<std::int64_t>(s % 40), static_cast<std::int64_t>(s / 40))) continue;
      lon[s] = filler[0];
      lat[s] = filler[1];
    }
    const CurvilinearGrid grid = *CurvilinearGrid::Create(CoordinateKind::kDegrees, 40, 30, lon, lat);
    for (std::int64_t j = 0; j < 29; ++j) {
      for (std::int64_t i = 0; i < 39; ++i) {
        if (is_land(i, j) || is_land(i, j + 1) || is_land(i + 1, j) || is_land(i + 1, j + 1)) continue;
        const Pair middle = {static_cast<double>(i) + 0.5, static_cast<double>(j) + 0.5};
        ExpectAt(grid.Find(10 + middle[0], 20 + middle[1]), middle);
      }
    }
  }
}

TEST(Curvilinear, OfCellsThatRepeatTheFirstHoldsThePlace) {
  const Mapped halo = Regular(0, -10, 5, 75, 5);  // 370 degrees: the last three columns are the first
  const CurvilinearGrid grid = halo.Make();
  ExpectAt(grid.Find(7.5, 0), {1.5, 2});
  ExpectAt(grid.Find(2.5, 0), {0.5, 2});
  ExpectAt(grid.Find(357.5, 0), {71.5, 2});
}

TEST(Curvilinear, RadiansAreDegrees) {
  const Mapped mapped = Rotated(40, 0, 31, 26);
  const Mapped radians = {CoordinateKind::kRadians, 31, 26, [&](double i, double j) -> Pair {
                            const Pair place = mapped.place_of(i, j);
                            return {place[0] * kRadians, place[1] * kRadians};
                          }};
  ExpectInverse(radians, radians.Make(), 3e-4);
}

TEST(Curvilinear, GridsWithoutCellsHoldNothing) {
  for (const auto& [nx, ny] : {std::pair{1, 1}, std::pair{1, 7}, std::pair{7, 1}}) {
    const CurvilinearGrid grid = Regular(0, 0, 1, nx, ny).Make();
    EXPECT_FALSE(grid.Find(0, 0));
  }
  const std::vector<double> none(12, kNowhere);
  const CurvilinearGrid grid = *CurvilinearGrid::Create(CoordinateKind::kDegrees, 4, 3, none, none);
  EXPECT_FALSE(grid.Find(0, 0));
  EXPECT_FALSE(grid.ranges());
}

TEST(Curvilinear, RefusesArraysOfAnotherSize) {
  const std::vector<double> twelve(12);
  const Status status = CurvilinearGrid::Create(CoordinateKind::kDegrees, 4, 4, twelve, twelve).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "12 and 12 coordinates are given for 4 x 4 samples; give one of each for each");
}

}  // namespace
}  // namespace quarry::query
