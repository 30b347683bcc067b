#include "quarry/codec/quantum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "tests/testing/random.h"

namespace quarry {
namespace {

constexpr int kCount = 8000;

template <typename T>
class QuantumOf : public ::testing::Test {
 protected:
  /// Whole numbers between -20000 and 20000.
  static std::vector<double> Multiples() {
    testing::Random random(3);
    std::vector<double> multiples;
    multiples.reserve(kCount);
    for (int i = 0; i < kCount; ++i) multiples.push_back(random.Between(-20000, 20000));
    return multiples;
  }

  template <typename Function>
  static std::vector<T> Samples(const Function& of) {
    std::vector<T> samples;
    for (const double k : Multiples()) samples.push_back(static_cast<T>(of(k)));
    return samples;
  }

  static std::optional<Quantum> Find(const std::vector<T>& samples, Validity validity = {},
                                     double least_unit = 0, bool exact = false) {
    QuantumLimits limits;
    limits.least = static_cast<double>(*std::min_element(samples.begin(), samples.end()));
    limits.most = static_cast<double>(*std::max_element(samples.begin(), samples.end()));
    const double largest = std::max(-limits.least, limits.most);
    limits.rounding = std::ldexp(1.0, std::ilogb(largest) - std::numeric_limits<T>::digits + 1);
    limits.least_unit = least_unit;
    limits.largest_multiple = 1 << 20;
    limits.pays = [](double) { return true; };
    limits.exact = exact;
    return FindQuantum<T>(samples, validity, limits);
  }
};

using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(QuantumOf, FloatTypes);

TYPED_TEST(QuantumOf, DecimalsIsTheirLastDigit) {
  const auto quantum = TestFixture::Find(TestFixture::Samples([](double k) { return k / 1000; }));
  ASSERT_TRUE(quantum);
  EXPECT_EQ(quantum->unit, 0.001);
  EXPECT_EQ(quantum->offset, 0);
}

TYPED_TEST(QuantumOf, PackedSamplesIsTheirScale) {
  const auto samples = TestFixture::Samples([](double k) { return 273.15 + k * 0.0153; });
  const auto quantum = TestFixture::Find(samples);
  ASSERT_TRUE(quantum);
  EXPECT_EQ(quantum->unit, 0.0153);
  EXPECT_EQ(quantum->offset, static_cast<double>(*std::min_element(samples.begin(), samples.end())));
}

TYPED_TEST(QuantumOf, ThirdsIsTheReciprocal) {
  const auto quantum = TestFixture::Find(TestFixture::Samples([](double k) { return k / 3; }));
  ASSERT_TRUE(quantum);
  EXPECT_EQ(quantum->unit, 1.0 / 3);
}

/// No number of a few digits: as exact as the samples say.
TYPED_TEST(QuantumOf, OtherUnitsIsNearlyThem) {
  const double unit = std::sqrt(2.0) / 100;
  const auto quantum = TestFixture::Find(TestFixture::Samples([&](double k) { return k * unit; }));
  ASSERT_TRUE(quantum);
  EXPECT_NEAR(quantum->unit, unit, unit * 1e-6);
  EXPECT_NE(quantum->unit, 0.01414);
}

TYPED_TEST(QuantumOf, SamplesOfAnyRealNumberIsNone) {
  EXPECT_FALSE(TestFixture::Find(TestFixture::Samples([](double k) { return std::sin(k); })));
}

/// One of 8000 samples, which is not among those drawn.
TYPED_TEST(QuantumOf, AllButOneSampleIsNone) {
  auto samples = TestFixture::Samples([](double k) { return k / 1000; });
  samples[1] += TypeParam(0.0004);
  EXPECT_FALSE(TestFixture::Find(samples));
  std::vector<std::uint8_t> validity(samples.size(), 1);
  EXPECT_FALSE(TestFixture::Find(samples, validity));
  validity[1] = 0;
  EXPECT_TRUE(TestFixture::Find(samples, validity)) << "it is missing";
}

TYPED_TEST(QuantumOf, SmallerUnitsThanWantedIsNone) {
  const auto samples = TestFixture::Samples([](double k) { return k / 1000; });
  EXPECT_FALSE(TestFixture::Find(samples, {}, 0.0011));
  EXPECT_TRUE(TestFixture::Find(samples, {}, 0.0009));
}

TYPED_TEST(QuantumOf, ExactSamplesIsOneThatGivesTheirBits) {
  // A product rounded before the offset is added, as programs do that unpack files in the type of the
  // samples.
  const auto unpacked = TestFixture::Samples(
      [](double k) { return static_cast<TypeParam>(static_cast<TypeParam>(k * 0.001) + TypeParam(-10)); });
  const auto quantum = TestFixture::Find(unpacked, {}, 0, /*exact=*/true);
  ASSERT_TRUE(quantum);
  EXPECT_EQ(quantum->unit, 0.001);
  for (const TypeParam sample : unpacked)
    ASSERT_EQ(SampleOf<TypeParam>(*quantum, MultipleOf(*quantum, static_cast<double>(sample))), sample);

  // A scale of float32, times whole numbers in the type of the samples.
  constexpr TypeParam kScale = 0.01f;
  const auto scaled = TestFixture::Samples([](double k) { return static_cast<TypeParam>(k) * kScale; });
  const auto scale = TestFixture::Find(scaled, {}, 0, /*exact=*/true);
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->unit, static_cast<double>(kScale));

  // One that is a rounding away is near its multiple, but not it.
  auto other = unpacked;
  other[1] = std::nextafter(other[1], TypeParam(1e3));
  EXPECT_FALSE(TestFixture::Find(other, {}, 0, /*exact=*/true));
  EXPECT_TRUE(TestFixture::Find(other));
}

TEST(QuantumTest, OnlyFloat32RoundsProducts) {
  // 3 times 0.1 is 0.300000012 in float32 either way; with the offset, the sum differs in its last bits.
  const Quantum once{0.1, 1024, false};
  const Quantum twice{0.1, 1024, true};
  EXPECT_EQ(SampleOf<float>(once, -10237), static_cast<float>(1024 - 10237 * 0.1));
  EXPECT_EQ(SampleOf<float>(twice, -10237), 1024.0f + static_cast<float>(-10237 * 0.1));
  EXPECT_NE(SampleOf<float>(once, -10237), SampleOf<float>(twice, -10237));
  EXPECT_EQ(SampleOf<double>(once, -10237), SampleOf<double>(twice, -10237));
  EXPECT_EQ(SampleOf<float>(Quantum{1e38, 1e38, true}, 1e300), std::numeric_limits<float>::max())
      << "nothing is infinite";
}

}  // namespace
}  // namespace quarry
