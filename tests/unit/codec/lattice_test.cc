#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/codec/interpolate/interpolate.h"
#include "tests/testing/random.h"

namespace quarry {
namespace {

/// The beginning of a patch's payload, as docs/format.md has it.
struct Head {
  bool lattice = false;
  float step = 0;
  int exponent = 0;
  double unit = 0;  ///< 0: a power of two
};

template <typename T>
Head HeadOf(const std::vector<T>& samples, Validity validity, double tolerance) {
  constexpr DataType kType = std::is_same_v<T, float> ? DataType::kFloat32 : DataType::kFloat64;
  const PatchLayout layout{kType, {16, 16, 16}, 1};
  const auto coded =
      InterpolateCoder().Encode({layout, std::as_bytes(std::span(samples)), validity, std::array{tolerance}});
  EXPECT_TRUE(coded.ok());
  const Bytes& payload = coded->levels.back();
  const auto form = std::to_integer<unsigned>(payload[0]);
  EXPECT_EQ(form & 3, 1u) << "not constant, with a step of four bytes";
  Head head{(form & 4) != 0, GetLittleEndian<float>(payload.data() + 1)};
  if ((form & 8) != 0) {
    head.unit = GetLittleEndian<double>(payload.data() + 5);
  } else if (head.lattice) {
    head.exponent = GetLittleEndian<std::int16_t>(payload.data() + 5);
  }
  return head;
}

template <typename T>
class Lattice : public ::testing::Test {
 protected:
  /// Multiples of a number, some of them of nothing larger.
  static std::vector<T> Samples(double unit = 0.25) {
    testing::Random random(5);
    std::vector<T> samples;
    samples.reserve(16 * 16 * 16);
    for (int i = 0; i < 16 * 16 * 16; ++i) samples.push_back(static_cast<T>(random.Between(-90, 90) * unit));
    return samples;
  }
};

using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Lattice, FloatTypes);

TYPED_TEST(Lattice, HasTheLargestUnitOfWhichAllSamplesAreMultiples) {
  for (const double tolerance : {1e-9, 1e-3, 0.125}) {
    const Head head = HeadOf(this->Samples(), {}, tolerance);
    EXPECT_TRUE(head.lattice) << tolerance;
    EXPECT_EQ(head.exponent, -2) << tolerance;
    EXPECT_EQ(head.unit, 0) << tolerance;
    EXPECT_EQ(head.step, 1) << tolerance;
  }
}

/// Within 0.3 of a multiple of 1/4 are that and its neighbours: steps of 3/4, where others have 0.6.
TYPED_TEST(Lattice, IsTakenWhereItsStepsAreLarger) {
  const Head head = HeadOf(this->Samples(), {}, 0.3);
  EXPECT_TRUE(head.lattice);
  EXPECT_EQ(head.exponent, -2);
  EXPECT_EQ(head.step, 3);
}

/// Within 0.24 there is no neighbour: steps of 1/4 would be half of what is allowed.
TYPED_TEST(Lattice, IsNotTakenWhereItsStepsAreSmaller) {
  const Head head = HeadOf(this->Samples(), {}, 0.24);
  EXPECT_FALSE(head.lattice);
  EXPECT_NEAR(head.step, 0.48, 1e-4);
}

/// Multiples of 3/4 are those of 1/4, too.
TYPED_TEST(Lattice, HasAnyUnitThatIsLargerThanAPowerOfTwo) {
  const Head head = HeadOf(this->Samples(0.75), {}, 1e-3);
  EXPECT_TRUE(head.lattice);
  EXPECT_EQ(head.unit, 0.75);
  EXPECT_EQ(head.step, 1);
}

TYPED_TEST(Lattice, DependsOnValidSamplesOnly) {
  std::vector<TypeParam> samples = this->Samples();
  std::vector<std::uint8_t> validity(samples.size(), 1);
  samples[77] = TypeParam(0.1);
  EXPECT_FALSE(HeadOf(samples, validity, 1e-3).lattice);
  validity[77] = 0;
  EXPECT_EQ(HeadOf(samples, validity, 1e-3).exponent, -2);
}

}  // namespace
}  // namespace quarry
