#include "quarry/codec/wavelet_zfp/lifting.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quarry/geometry/patch_grid.h"

namespace quarry::wavelet_zfp {
namespace {

template <typename T>
std::vector<T> RandomSamples(const Index3& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> samples(static_cast<std::size_t>(Volume(shape)));
  for (T& sample : samples) sample = static_cast<T>(uniform(random));
  return samples;
}

template <typename T>
struct Level {
  std::vector<T> coarse;
  std::vector<T> details;
};

template <typename T>
Level<T> Transform(std::vector<T> fine, const Index3& shape) {
  Level<T> level{std::vector<T>(static_cast<std::size_t>(Volume(LevelShape(shape, 1)))),
                 std::vector<T>(static_cast<std::size_t>(DetailVolume(shape)))};
  Forward<T>(fine.data(), shape, level.coarse.data(), level.details.data());
  return level;
}

TEST(Forward, EqualsTheHandComputationInOneDimension) {
  // evens 1 5 2, odds 4 3, beyond the end of an odd length there is no odd sample.
  //   d0 = 4 - (1 + 5) / 2 = 1         d1 = 3 - (5 + 2) / 2 = -0.5
  //   s0 = 1 + (1 + 1) / 4 = 1.5       s1 = 5 + (1 - 0.5) / 4 = 5.125     s2 = 2 + (-0.5 - 0.5) / 4 = 1.75
  const Level<double> level = Transform<double>({1, 4, 5, 3, 2}, {5, 1, 1});

  EXPECT_EQ(level.details, (std::vector<double>{1, -0.5}));
  EXPECT_EQ(level.coarse, (std::vector<double>{1.5, 5.125, 1.75}));
}

TEST(Forward, ExtrapolatesLinearlyAtAnEvenEnd) {
  // evens 1 5, odds 4 8: the last odd is predicted as 1.5 * 5 - 0.5 * 1 = 7.
  const Level<double> level = Transform<double>({1, 4, 5, 8}, {4, 1, 1});
  EXPECT_EQ(level.details, (std::vector<double>{1, 1}));
}

TEST(Forward, LinearFieldsHaveNoDetails) {
  const Index3 shape = {9, 8, 7};
  std::vector<double> fine;
  for (int z = 0; z < 7; ++z) {
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 9; ++x) fine.push_back(2 * x - 3 * y + 0.5 * z + 1);
    }
  }
  for (const double detail : Transform(fine, shape).details) EXPECT_NEAR(detail, 0, 1e-12);
}

TEST(Inverse, RestoresEveryShape) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const Index3 shape = {1 + static_cast<std::int64_t>(random() % 20),
                          1 + static_cast<std::int64_t>(random() % 20),
                          1 + static_cast<std::int64_t>(random() % 20)};
    const std::vector<double> original = RandomSamples<double>(shape, random());
    const Level<double> level = Transform(original, shape);
    std::vector<double> restored(original.size(), NAN);
    Inverse<double>(level.coarse.data(), level.details.data(), shape, restored.data());

    for (std::size_t s = 0; s < original.size(); ++s)
      ASSERT_NEAR(restored[s], original[s], 1e-13) << ToString(shape);
  }
}

TEST(Inverse, WithoutDetailsEqualsZeroDetails) {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    const Index3 shape = {1 + static_cast<std::int64_t>(random() % 9),
                          1 + static_cast<std::int64_t>(random() % 9),
                          1 + static_cast<std::int64_t>(random() % 9)};
    const std::vector<float> coarse = RandomSamples<float>(LevelShape(shape, 1), random());
    const std::vector<float> zeros(static_cast<std::size_t>(DetailVolume(shape)), 0);
    std::vector<float> with(static_cast<std::size_t>(Volume(shape)));
    std::vector<float> without(with.size());
    Inverse<float>(coarse.data(), zeros.data(), shape, with.data());
    Inverse<float>(coarse.data(), nullptr, shape, without.data());

    EXPECT_EQ(with, without) << ToString(shape);
  }
}

TEST(Split, IsBitExactAndCoarseSamplesAreStrided) {
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const Index3 shape = {1 + static_cast<std::int64_t>(random() % 9),
                          1 + static_cast<std::int64_t>(random() % 9),
                          1 + static_cast<std::int64_t>(random() % 9)};
    const std::vector<float> fine = RandomSamples<float>(shape, random());
    std::vector<float> coarse(static_cast<std::size_t>(Volume(LevelShape(shape, 1))));
    std::vector<float> details(static_cast<std::size_t>(DetailVolume(shape)));
    Split<float>(fine.data(), shape, coarse.data(), details.data());
    std::vector<float> merged(fine.size());
    Merge<float>(coarse.data(), details.data(), shape, merged.data());

    EXPECT_EQ(merged, fine);
    EXPECT_EQ(coarse[0], fine[0]);
    if (shape[0] > 2) {
      EXPECT_EQ(coarse[1], fine[2]);
    }
  }
}

TEST(DetailSlabs, TogetherWithTheCoarseBoxHoldEverySample) {
  for (const Index3& shape : {Index3{1, 1, 1}, Index3{5, 1, 1}, Index3{4, 6, 1}, Index3{7, 5, 3}}) {
    std::int64_t volume = Volume(LevelShape(shape, 1));
    for (const Index3& slab : DetailSlabs(shape)) volume += Volume(slab);
    EXPECT_EQ(volume, Volume(shape));
  }
}

}  // namespace
}  // namespace quarry::wavelet_zfp
