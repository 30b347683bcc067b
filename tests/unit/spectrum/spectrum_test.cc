#include <gtest/gtest.h>

#include <complex>
#include <numeric>

#include "analysis/spectrum/energy.h"
#include "analysis/spectrum/pencils.h"

namespace quarry::spectrum {
namespace {

using Waves = std::vector<std::complex<double>>;

// --- who has which lines ---

TEST(Pencils, ShareTheOtherAxesAsComputedByHand) {
  const PencilGrid grid{2, 3};

  // 5 along x: [0,5 * 1/2) = [0,2), [2,5). 7 along z among 3: [0,2) [2,4) [4,7).
  EXPECT_EQ(Pencils({5, 4, 7}, grid, 0), (std::vector<Box>{{{0, 0, 0}, {5, 2, 2}},
                                                           {{0, 2, 0}, {5, 4, 2}},
                                                           {{0, 0, 2}, {5, 2, 4}},
                                                           {{0, 2, 2}, {5, 4, 4}},
                                                           {{0, 0, 4}, {5, 2, 7}},
                                                           {{0, 2, 4}, {5, 4, 7}}}));
  EXPECT_EQ(Pencils({5, 4, 7}, grid, 1), (std::vector<Box>{{{0, 0, 0}, {2, 4, 2}},
                                                           {{2, 0, 0}, {5, 4, 2}},
                                                           {{0, 0, 2}, {2, 4, 4}},
                                                           {{2, 0, 2}, {5, 4, 4}},
                                                           {{0, 0, 4}, {2, 4, 7}},
                                                           {{2, 0, 4}, {5, 4, 7}}}));
  // 4 along y among 3: [0,1) [1,2) [2,4).
  EXPECT_EQ(Pencils({5, 4, 7}, grid, 2), (std::vector<Box>{{{0, 0, 0}, {2, 1, 7}},
                                                           {{2, 0, 0}, {5, 1, 7}},
                                                           {{0, 1, 0}, {2, 2, 7}},
                                                           {{2, 1, 0}, {5, 2, 7}},
                                                           {{0, 2, 0}, {2, 4, 7}},
                                                           {{2, 2, 0}, {5, 4, 7}}}));
}

TEST(Pencils, TransposesStayAmongTheRanksOfOneAxis) {
  const PencilGrid grid{4, 3};
  const Index3 dims{9, 10, 11};
  for (int axis = 0; axis < 2; ++axis) {
    const std::vector<Box> from = Pencils(dims, grid, axis);
    const std::vector<Box> to = Pencils(dims, grid, axis + 1);
    for (int a = 0; a < grid.ranks(); ++a) {
      for (int b = 0; b < grid.ranks(); ++b) {
        // First the ranks of a row exchange, then those of a column.
        const bool same = axis == 0 ? a / grid.first == b / grid.first : a % grid.first == b % grid.first;
        EXPECT_EQ(Intersect(from[static_cast<std::size_t>(a)], to[static_cast<std::size_t>(b)]).empty(),
                  !same)
            << "axis " << axis << ", ranks " << a << " and " << b;
      }
    }
  }
}

TEST(ChoosePencilGrid, SharesEvenlyAndMovesLittle) {
  EXPECT_EQ(ChoosePencilGrid({64, 64, 64}, 1), (PencilGrid{1, 1}));
  // Slabs keep the first transpose on their rank: 33 * 64 * 8 samples, and 2 x 4 has 17 * 64 * 16.
  EXPECT_EQ(ChoosePencilGrid({64, 64, 64}, 8), (PencilGrid{1, 8}));
  // No z to share: only x and y are.
  EXPECT_EQ(ChoosePencilGrid({64, 64, 1}, 7), (PencilGrid{7, 1}));
  // 64 planes are too few for 128 slabs: 33 * 64 samples, where 2 x 64 has 17 * 64.
  EXPECT_EQ(ChoosePencilGrid({64, 64, 64}, 128), (PencilGrid{2, 64}));
  // 10 planes on 6 ranks: 2 for the busiest, 9 * 10 * 2 = 180 samples; 2 x 3 has 5 * 10 * 4 = 200, 11 % more;
  // 3 x 2 has 3 * 10 * 5 = 150 and 9 * 4 * 5 = 180; 6 x 1 has 9 * 2 * 10 = 180 and 2 * 10 * 10 = 200.
  EXPECT_EQ(ChoosePencilGrid({16, 10, 10}, 6), (PencilGrid{1, 6}));
}

// --- shells ---

TEST(Shells, CountAndEndAsComputedByHand) {
  EXPECT_EQ(ShellCount({1, 1, 1}), 1u);
  EXPECT_EQ(ShellCount({8, 1, 1}), 5u);      // 0 to 4
  EXPECT_EQ(ShellCount({91, 91, 91}), 79u);  // sqrt(3 * 45^2) = 77.94
  EXPECT_EQ(LastWholeShell({1, 1, 1}), 0);
  // 8 samples have waves -3 to 4: shell 4 lacks -4.
  EXPECT_EQ(LastWholeShell({8, 8, 8}), 3);
  EXPECT_EQ(LastWholeShell({9, 9, 16}), 4);
  EXPECT_EQ(LastWholeShell({9, 9, 1}), 4);
}

/// The energy of a transform that is 1 at one place of 6 x 5 x 4 samples.
std::vector<double> EnergyOfOne(const Index3& place) {
  const Index3 dims{6, 5, 4};
  const Box whole{{0, 0, 0}, TransformDims(dims)};
  Waves waves(static_cast<std::size_t>(whole.volume()));
  waves[static_cast<std::size_t>(place[0] + 4 * (place[1] + 5 * place[2]))] = 1;
  std::vector<double> energy(ShellCount(dims));
  AddEnergy(dims, whole, waves, energy);
  return energy;
}

TEST(AddEnergy, CountsConjugatesThatAreLeftOut) {
  const double unit = 0.5 / (120.0 * 120.0);

  EXPECT_EQ(EnergyOfOne({0, 0, 0}), (std::vector<double>{unit, 0, 0, 0, 0}));
  // x = 1 and 2 stand for -1 and -2 too; x = 3 = 6 / 2 is its own conjugate.
  EXPECT_EQ(EnergyOfOne({1, 0, 0}), (std::vector<double>{0, 2 * unit, 0, 0, 0}));
  EXPECT_EQ(EnergyOfOne({2, 0, 0}), (std::vector<double>{0, 0, 2 * unit, 0, 0}));
  EXPECT_EQ(EnergyOfOne({3, 0, 0}), (std::vector<double>{0, 0, 0, unit, 0}));
}

TEST(AddEnergy, RoundsTheLengthOfTheWaveVector) {
  const double unit = 0.5 / (120.0 * 120.0);

  // Positions 4 of 5 and 3 of 4 are one wave backwards.
  EXPECT_EQ(EnergyOfOne({0, 4, 0}), (std::vector<double>{0, unit, 0, 0, 0}));
  EXPECT_EQ(EnergyOfOne({0, 0, 3}), (std::vector<double>{0, unit, 0, 0, 0}));
  // sqrt(2) = 1.41 and sqrt(3) = 1.73; 3, 2, 2: sqrt(17) = 4.12.
  EXPECT_EQ(EnergyOfOne({0, 1, 1}), (std::vector<double>{0, unit, 0, 0, 0}));
  EXPECT_EQ(EnergyOfOne({1, 1, 1}), (std::vector<double>{0, 0, 2 * unit, 0, 0}));
  EXPECT_EQ(EnergyOfOne({3, 2, 2}), (std::vector<double>{0, 0, 0, 0, unit}));
}

TEST(AddEnergy, OfPartsAddsUp) {
  const Index3 dims{6, 5, 4};
  const PencilGrid grid{3, 2};
  const Box whole{{0, 0, 0}, TransformDims(dims)};
  std::vector<double> together(ShellCount(dims));
  std::vector<double> apart(ShellCount(dims));

  AddEnergy(dims, whole, Waves(static_cast<std::size_t>(whole.volume()), {3, 4}), together);
  for (const Box& part : Pencils(TransformDims(dims), grid, 2))
    AddEnergy(dims, part, Waves(static_cast<std::size_t>(part.volume()), {3, 4}), apart);

  // 120 wave vectors, each half of 5^2 over 120^2.
  EXPECT_NEAR(std::accumulate(together.begin(), together.end(), 0.0), 120 * 12.5 / 14400, 1e-15);
  for (std::size_t k = 0; k < together.size(); ++k) EXPECT_NEAR(together[k], apart[k], 1e-15) << k;
}

}  // namespace
}  // namespace quarry::spectrum
