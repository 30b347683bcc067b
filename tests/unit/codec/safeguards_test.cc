#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/codec/safeguards/logarithm.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

using safeguards::LogScale;

const PatchCoder& kZeros = *FindCoder(CoderId::kInterpolateZeros);
const PatchCoder& kSigns = *FindCoder(CoderId::kInterpolateSigns);
const PatchCoder& kRelative = *FindCoder(CoderId::kInterpolateRelative);
const PatchCoder& kPlain = *FindCoder(CoderId::kInterpolate);

template <typename T>
Bytes AsBytes(const std::vector<T>& samples) {
  const auto bytes = std::as_bytes(std::span(samples));
  return {bytes.begin(), bytes.end()};
}

template <typename T>
EncodedPatch Encode(const PatchCoder& coder, const PatchLayout& layout, const std::vector<T>& samples,
                    double tolerance) {
  Result<EncodedPatch> encoded = EncodePatch(coder, layout, AsBytes(samples), std::nullopt, tolerance);
  EXPECT_TRUE(encoded.ok()) << encoded.status().message();
  return *std::move(encoded);
}

/// The samples of a level.
template <typename T>
std::vector<T> Decode(const PatchCoder& coder, const PatchLayout& layout, const EncodedPatch& encoded,
                      int level) {
  PatchReader reader(coder, layout);
  while (reader.level() > level) {
    const auto next = static_cast<std::size_t>(reader.level() - 1);
    const ByteSpan mask = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels[next]);
    const Status status = reader.Advance(encoded.levels[next], mask);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const auto* begin = reinterpret_cast<const T*>(reader.samples().data());
  return {begin, begin + reader.samples().size() / sizeof(T)};
}

template <typename T>
std::vector<T> RoundTrip(const PatchCoder& coder, const PatchLayout& layout, const std::vector<T>& samples,
                         double tolerance) {
  return Decode<T>(coder, layout, Encode(coder, layout, samples, tolerance), 0);
}

/// Waves around zero, with zeros in between and a few outliers near zero.
std::vector<double> Waves(const Index3& shape) {
  std::mt19937 random(7);
  std::vector<double> samples;
  for (std::int64_t i = 0; i < Volume(shape); ++i) {
    const double wave =
        std::sin(0.37 * static_cast<double>(i % shape[0])) + std::cos(0.01 * static_cast<double>(i));
    samples.push_back(random() % 5 == 0 ? 0 : random() % 7 == 0 ? 1e-9 * wave : wave);
  }
  return samples;
}

template <typename T>
std::vector<T> As(const std::vector<double>& samples, double unit) {
  std::vector<T> out;
  for (const double sample : samples) out.push_back(static_cast<T>(sample * unit));
  return out;
}

int Sign(auto sample) { return sample > 0 ? 1 : sample < 0 ? -1 : 0; }

template <typename T>
void ExpectKept(const PatchCoder& coder, const Index3& shape, const std::vector<T>& samples,
                double tolerance) {
  const DataType type = std::is_same_v<T, float>    ? DataType::kFloat32
                        : std::is_same_v<T, double> ? DataType::kFloat64
                                                    : DataType::kInt16;
  const PatchLayout layout{type, shape, 3};
  const EncodedPatch encoded = Encode(coder, layout, samples, tolerance);
  for (int level = 0; level < layout.levels; ++level) {
    const std::vector<T> decoded = Decode<T>(coder, layout, encoded, level);
    const Index3 coarse = LevelShape(shape, level);
    for (std::int64_t i = 0; i < Volume(coarse); ++i) {
      const std::int64_t x = i % coarse[0] << level;
      const std::int64_t y = i / coarse[0] % coarse[1] << level;
      const std::int64_t z = i / coarse[0] / coarse[1] << level;
      const T sample = samples[static_cast<std::size_t>(x + shape[0] * (y + shape[1] * z))];
      const T got = decoded[static_cast<std::size_t>(i)];
      const double error = std::abs(static_cast<double>(sample) - static_cast<double>(got));
      const double allowed =
          &coder == &kRelative ? tolerance * std::abs(static_cast<double>(sample)) : tolerance;
      ASSERT_LE(error, allowed) << coder.name() << ": " << sample << " as " << got;
      if (&coder == &kZeros) {
        ASSERT_TRUE(sample != 0 || got == 0) << got;
      } else {
        ASSERT_EQ(Sign(sample), Sign(got)) << coder.name() << ": " << sample << " as " << got;
      }
    }
  }
}

TEST(Safeguards, HoldAtEveryLevel) {
  for (const Index3 shape : {Index3{17, 12, 9}, Index3{64, 5, 1}, Index3{1, 1, 33}}) {
    const std::vector<double> waves = Waves(shape);
    for (const double tolerance : {0.3, 1e-3}) {
      for (const PatchCoder* coder : {&kZeros, &kSigns, &kRelative}) {
        ExpectKept(*coder, shape, As<float>(waves, 1), tolerance);
        ExpectKept(*coder, shape, waves, tolerance);
      }
      for (const PatchCoder* coder : {&kZeros, &kSigns})
        ExpectKept(*coder, shape, As<std::int16_t>(waves, 300), 300 * tolerance);
    }
  }
}

TEST(Safeguards, ArePromisedByNoOtherCoder) {
  const Index3 shape = {17, 12, 9};
  const std::vector<double> waves = Waves(shape);
  const std::vector<double> decoded = RoundTrip(kPlain, {DataType::kFloat64, shape, 3}, waves, 0.3);
  EXPECT_FALSE(kPlain.traits().has_safeguards);
  for (const PatchCoder* coder : {&kZeros, &kSigns, &kRelative}) {
    EXPECT_TRUE(coder->traits().has_safeguards);
    EXPECT_FALSE(coder->Keeps(DataType::kFloat64, AsBytes(waves), {}, 0.3, AsBytes(decoded)))
        << coder->name();
  }
}

TEST(Safeguards, ZerosAlmostEverywhereTakeAlmostNothing) {
  const PatchLayout layout{DataType::kFloat32, {64, 64, 64}, 5};
  std::vector<float> rain(static_cast<std::size_t>(Volume(layout.shape)), 0.0f);
  for (std::size_t i = 0; i < 4000; ++i) rain[i] = 1 + std::sin(0.1f * static_cast<float>(i));
  EXPECT_LT(Encode(kZeros, layout, rain, 1e-3).size(), Encode(kPlain, layout, rain, 1e-3).size());
  // A byte of mode, in the coarsest level alone.
  const EncodedPatch dry = Encode(kSigns, layout, std::vector<float>(rain.size(), 0.0f), 1e-3);
  EXPECT_EQ(dry.size(), 1u);
  EXPECT_EQ(dry.levels.back().front(), std::byte{0});
}

TEST(Safeguards, MissingSamplesAndZerosAreDifferentThings) {
  const PatchLayout layout{DataType::kFloat32, {16, 8, 4}, 3};
  std::vector<float> samples = As<float>(Waves(layout.shape), 1);
  for (std::size_t i = 0; i < samples.size(); i += 3) samples[i] = std::nanf("");
  for (const PatchCoder* coder : {&kZeros, &kSigns, &kRelative}) {
    const std::vector<float> decoded = RoundTrip(*coder, layout, samples, 0.1);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      ASSERT_EQ(std::isnan(decoded[i]), std::isnan(samples[i])) << i;
      ASSERT_TRUE(samples[i] != 0 || decoded[i] == 0);
    }
  }
}

TEST(Safeguards, TheSignOfALargeSampleAtTheEndOfItsType) {
  const PatchLayout layout{DataType::kInt8, {4, 1, 1}, 1};
  const std::vector<std::int8_t> samples = {-128, -128, -128, -128};
  for (const std::int8_t decoded : RoundTrip(kSigns, layout, samples, 200.0)) EXPECT_LT(decoded, 0);
}

TEST(Safeguards, SubnormalAndLargestSamplesKeepARelativeBound) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kMost = std::numeric_limits<float>::max();
  // A hundredth of 150 least numbers is one and a half: rounding breaks the bound of some, and all are exact.
  std::vector<float> subnormal = {1, -1, 0, kLeast};
  for (int i = 60; i < 200; ++i) subnormal.push_back(static_cast<float>(i % 2 == 0 ? i : -i) * kLeast);
  const PatchLayout many{DataType::kFloat32, {static_cast<std::int64_t>(subnormal.size()), 1, 1}, 1};
  const EncodedPatch encoded = Encode(kRelative, many, subnormal, 0.01);
  EXPECT_EQ(encoded.levels[0].front(), std::byte{3});
  EXPECT_EQ(Decode<float>(kRelative, many, encoded, 0), subnormal);
  const PatchLayout layout{DataType::kFloat32, {8, 1, 1}, 2};
  const std::vector<float> large = {kMost, -kMost, kMost, 1, kMost, -1, kMost / 2, kMost};
  const std::vector<float> decoded = RoundTrip(kRelative, layout, large, 0.25);
  for (std::size_t i = 0; i < large.size(); ++i) {
    EXPECT_TRUE(std::isfinite(decoded[i])) << decoded[i];
    EXPECT_LE(std::abs(decoded[i] - large[i]), 0.25f * std::abs(large[i]));
  }
}

TEST(Safeguards, ARelativeBoundOfOneOrOfIntegersIsRefused) {
  const PatchLayout layout{DataType::kFloat32, {4, 1, 1}, 1};
  const Bytes samples = AsBytes(std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(kRelative.Encode({layout, samples, {}, std::array{1.0}}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(kRelative.Supports(DataType::kInt32));
  EXPECT_EQ(
      kRelative.Encode({{DataType::kInt32, {4, 1, 1}, 1}, samples, {}, std::array{0.1}}).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(Safeguards, HostilePayloadsAreNamed) {
  const PatchLayout layout{DataType::kFloat32, {4, 4, 4}, 2};
  const auto refuses = [&](const PatchCoder& coder, std::initializer_list<int> bytes) {
    Bytes payload;
    for (const int byte : bytes) payload.push_back(static_cast<std::byte>(byte));
    return coder.NewDecoder(layout)->Advance({payload}).status().code() == StatusCode::kDataLoss;
  };
  for (const PatchCoder* coder : {&kZeros, &kSigns, &kRelative}) {
    EXPECT_TRUE(refuses(*coder, {}));
    EXPECT_TRUE(refuses(*coder, {0, 0})) << "bytes after nothing but zeros";
    EXPECT_TRUE(refuses(*coder, {4})) << "an unknown mode";
  }
  EXPECT_TRUE(refuses(kSigns, {3})) << "exact samples are of relative bounds";
  EXPECT_TRUE(refuses(kRelative, {1}));
  EXPECT_TRUE(refuses(kSigns, {1, 0, 0})) << "half a least magnitude";
  EXPECT_TRUE(refuses(kRelative, {2, 31, 0, 0, 0, 0})) << "a scale of 31 bits";
  EXPECT_TRUE(refuses(kRelative, {2, 20}));
  EXPECT_TRUE(refuses(kZeros, {1, 200, 1, 2})) << "a plane beyond the payload";
}

TEST(Logarithms, AreThoseOfTheMathematicalLibrary) {
  std::mt19937_64 random(3);
  const LogScale scale{18, -1080};
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = random() >> 1;  // positive
    const auto sample = std::bit_cast<double>(bits);
    if (!std::isfinite(sample) || sample == 0) continue;
    std::int32_t code = 0;
    safeguards::ToCodes(scale, &sample, 1, &code);
    const long double exact = (std::log2(static_cast<long double>(sample)) + 1080) * (1 << 18);
    ASSERT_NEAR(static_cast<double>(exact), code, 0.5001) << sample;
    double magnitude = 0;
    safeguards::ToMagnitudes(scale, &code, 1, &magnitude);
    const long double power = std::exp2(static_cast<long double>(code) / (1 << 18) - 1080);
    const double least = std::numeric_limits<double>::denorm_min();
    ASSERT_NEAR(static_cast<double>(power), magnitude, std::max(1e-15 * magnitude, least)) << code;
  }
}

TEST(Logarithms, ToleranceOfACodeKeepsTheRelativeBound) {
  std::mt19937_64 random(4);
  for (const double relative : {0.5, 0.1, 1e-3, 1e-5}) {
    const double least = 1e-20;
    const double most = 1e20;
    const LogScale scale = safeguards::ChooseScale(least, most, relative);
    const std::int64_t tolerance = safeguards::CodeTolerance(scale, relative, 0x1p-24);
    ASSERT_GE(tolerance, 8);
    for (int i = 0; i < 10'000; ++i) {
      const auto sample =
          static_cast<float>(std::pow(10.0, -20 + 40 * 0x1p-64 * static_cast<double>(random())));
      std::int32_t code = 0;
      safeguards::ToCodes(scale, &sample, 1, &code);
      for (const std::int64_t error : {-tolerance, tolerance}) {
        const auto wrong = static_cast<std::int32_t>(code + error);
        float decoded = 0;
        safeguards::ToMagnitudes(scale, &wrong, 1, &decoded);
        ASSERT_LE(std::abs(static_cast<double>(decoded) - static_cast<double>(sample)),
                  relative * static_cast<double>(sample));
      }
    }
  }
}

TEST(Logarithms, HostileCodesAreSafe) {
  const std::vector<std::int32_t> codes = {std::numeric_limits<std::int32_t>::min(), -1, 0,
                                           std::numeric_limits<std::int32_t>::max()};
  for (const LogScale scale : {LogScale{0, 32767}, LogScale{0, -32768}, LogScale{30, 0}}) {
    std::vector<float> magnitudes(codes.size());
    safeguards::ToMagnitudes(scale, codes.data(), codes.size(), magnitudes.data());
    for (const float magnitude : magnitudes) EXPECT_GE(magnitude, 0);
  }
}

}  // namespace
}  // namespace quarry
