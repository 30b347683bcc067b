#include "quarry/codec/wavelet_zfp/wavelet_zfp.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "quarry/codec/error_record/error_record.h"
#include "quarry/codec/mask/fill_missing.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/strided.h"
#include "quarry/codec/wavelet_zfp/lifting.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

const WaveletZfpCoder kCoder;

template <typename T>
constexpr DataType kType = sizeof(T) == 4 ? DataType::kFloat32 : DataType::kFloat64;

template <typename T>
ByteSpan AsBytes(const std::vector<T>& samples) {
  return std::as_bytes(std::span(samples));
}

template <typename T>
std::vector<T> Decode(const PatchLayout& layout, const EncodedPatch& encoded, int level) {
  const auto decoder = kCoder.NewDecoder(layout);
  for (int l = layout.levels - 1; l >= level; --l) {
    const Status status = decoder->Advance({encoded.levels[static_cast<std::size_t>(l)]}).status();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(decoder->level(), level);
  std::vector<T> samples(decoder->samples().size() / sizeof(T));
  std::memcpy(samples.data(), decoder->samples().data(), decoder->samples().size());
  return samples;
}

/// Kinds of fields that break careless coders.
template <typename T>
std::vector<T> MakeField(const Index3& shape, int kind, std::mt19937* random) {
  std::normal_distribution<double> normal;
  std::vector<T> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        const double xd = static_cast<double>(x);
        const double yd = static_cast<double>(y);
        const double zd = static_cast<double>(z);
        double value = 0;
        switch (kind) {
          case 0:
            value = std::sin(xd * 0.2) * std::cos(yd * 0.15) + 0.1 * zd;
            break;  // smooth
          case 1:
            value = normal(*random);
            break;  // noise
          case 2:
            value = xd + yd > 9 ? 1e6 : -3;
            break;  // a front
          case 3:
            value = 1e-30 * normal(*random);
            break;  // tiny unit
          case 4:
            value = 1e30 * normal(*random);
            break;  // huge unit
          case 5:
            value = (*random)() % 97 == 0 ? 1e9 : normal(*random);
            break;  // spikes
          default:
            value = 1e8 + 1e-1 * normal(*random);
            break;  // small variation on a large base
        }
        samples.push_back(static_cast<T>(value));
      }
    }
  }
  return samples;
}

template <typename T>
void CheckPromise(unsigned seed, int patches) {
  std::mt19937 random(seed);
  for (int i = 0; i < patches; ++i) {
    const auto extent = [&] { return random() % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 24); };
    const Index3 shape = {extent(), extent(), extent()};
    const int kind = static_cast<int>(random() % 7);
    const std::vector<T> samples = MakeField<T>(shape, kind, &random);
    const auto [min, max] = std::minmax_element(samples.begin(), samples.end());
    const double range = static_cast<double>(*max) - static_cast<double>(*min);
    const double tolerance = range * std::pow(10.0, -1.0 - static_cast<double>(random() % 12));
    const PatchLayout layout{kType<T>, shape, 1 + static_cast<int>(random() % 5)};
    const Result<EncodedPatch> encoded = EncodePatch(kCoder, layout, AsBytes(samples), {}, tolerance);
    ASSERT_TRUE(encoded.ok()) << encoded.status().message();
    const std::vector<T> decoded = Decode<T>(layout, *encoded, 0);

    double largest = 0;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const double difference = std::abs(static_cast<double>(samples[s]) - static_cast<double>(decoded[s]));
      ASSERT_TRUE(difference <= tolerance)
          << "shape " << ToString(shape) << " kind " << kind << " tolerance " << tolerance;
      largest = std::max(largest, difference);
    }
    EXPECT_EQ(encoded->errors[0].max_error, largest);
    EXPECT_EQ(encoded->min, static_cast<double>(*min));
    EXPECT_EQ(encoded->max, static_cast<double>(*max));
  }
}

TEST(WaveletZfp, KeepsThePromiseOnFloat32) { CheckPromise<float>(1, 400); }
TEST(WaveletZfp, KeepsThePromiseOnFloat64) { CheckPromise<double>(2, 400); }

TEST(WaveletZfp, RecordsTheErrorOfEveryLevelAgainstFullResolution) {
  std::mt19937 random(3);
  const PatchLayout layout{DataType::kFloat32, {19, 12, 7}, 4};
  const std::vector<float> samples = MakeField<float>(layout.shape, 0, &random);
  const EncodedPatch encoded = *EncodePatch(kCoder, layout, AsBytes(samples), {}, 1e-3);

  for (int level = 0; level < layout.levels; ++level) {
    const std::vector<float> decoded = Decode<float>(layout, encoded, level);
    ASSERT_EQ(decoded.size(), static_cast<std::size_t>(Volume(LevelShape(layout.shape, level))));
    std::vector<float> current = decoded;
    for (int l = level - 1; l >= 0; --l) {
      const Index3 shape = LevelShape(layout.shape, l);
      std::vector<float> finer(static_cast<std::size_t>(Volume(shape)));
      wavelet_zfp::Inverse<float>(current.data(), nullptr, shape, finer.data());
      current.swap(finer);
    }
    const LevelError expected = CompareSamples<float>(samples, current);
    const LevelError& recorded = encoded.errors[static_cast<std::size_t>(level)];
    EXPECT_NEAR(recorded.max_error, expected.max_error, level == 0 ? 0 : 1e-3 * expected.max_error);
    EXPECT_NEAR(recorded.rmse, expected.rmse, 1e-5 * expected.rmse);
  }
}

/// Level 0 as decoded.
template <typename T>
std::vector<T> DecodeCoded(const PatchLayout& layout, const CodedPatch& coded, Validity validity) {
  const auto decoder = kCoder.NewDecoder(layout);
  for (int l = layout.levels - 1; l >= 0; --l) {
    const ValidityBuffer valid = CoarserValidity(validity, layout.shape, l);
    EXPECT_TRUE(decoder->Advance({coded.levels[static_cast<std::size_t>(l)], valid}).ok());
  }
  std::vector<T> samples(decoder->samples().size() / sizeof(T));
  std::memcpy(samples.data(), decoder->samples().data(), decoder->samples().size());
  return samples;
}

template <typename T>
void CheckPromiseWithMissingSamples(unsigned seed, int patches) {
  std::mt19937 random(seed);
  for (int i = 0; i < patches; ++i) {
    const auto extent = [&] { return random() % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 24); };
    const PatchLayout layout{kType<T>, {extent(), extent(), extent()}, 1 + static_cast<int>(random() % 5)};
    std::vector<T> samples = MakeField<T>(layout.shape, static_cast<int>(random() % 7), &random);
    const std::uint32_t keep = 1 + static_cast<std::uint32_t>(random() % 9);
    std::vector<std::uint8_t> validity(samples.size());
    for (std::uint8_t& valid : validity) valid = random() % 10 < keep ? 1 : 0;
    validity[random() % validity.size()] = 1;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      if (validity[s] == 0)
        samples[s] = random() % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(1e30);
    }
    const double tolerance = std::pow(10.0, -1.0 - static_cast<double>(random() % 9));
    const Result<CodedPatch> coded =
        kCoder.Encode({layout, AsBytes(samples), validity, std::array{tolerance}});
    ASSERT_TRUE(coded.ok()) << coded.status().message();

    const std::vector<T> decoded = DecodeCoded<T>(layout, *coded, validity);
    ASSERT_EQ(coded->decoded[0].size(), decoded.size() * sizeof(T));
    EXPECT_EQ(std::memcmp(coded->decoded[0].data(), decoded.data(), coded->decoded[0].size()), 0);
    for (std::size_t s = 0; s < samples.size(); ++s) {
      if (validity[s] == 0) continue;
      ASSERT_LE(std::abs(static_cast<double>(samples[s]) - static_cast<double>(decoded[s])), tolerance);
    }
  }
}

TEST(WaveletZfp, KeepsThePromiseOnTheValidSamplesOfFloat32) { CheckPromiseWithMissingSamples<float>(8, 300); }
TEST(WaveletZfp, KeepsThePromiseOnTheValidSamplesOfFloat64) {
  CheckPromiseWithMissingSamples<double>(9, 300);
}

TEST(WaveletZfp, BytesDoNotDependOnWhatStandsInMissingSamples) {
  std::mt19937 random(10);
  const PatchLayout layout{DataType::kFloat32, {20, 11, 9}, 4};
  std::vector<float> samples = MakeField<float>(layout.shape, 0, &random);
  std::vector<std::uint8_t> validity(samples.size());
  for (std::uint8_t& valid : validity) valid = random() % 3 == 0 ? 1 : 0;
  const CodedPatch first = *kCoder.Encode({layout, AsBytes(samples), validity, std::array{1e-3}});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (validity[i] == 0) samples[i] = std::numeric_limits<float>::infinity();
  }

  EXPECT_EQ(first.levels, kCoder.Encode({layout, AsBytes(samples), validity, std::array{1e-3}})->levels);
}

TEST(WaveletZfp, MissingSamplesCostLittle) {
  // A smooth field with a hole of a quarter of the patch, like an island: no larger than with the field in
  // its place.
  std::mt19937 random(11);
  const PatchLayout layout{DataType::kFloat32, {64, 64, 16}, 5};
  const std::vector<float> samples = MakeField<float>(layout.shape, 0, &random);
  std::vector<float> holed = samples;
  std::vector<std::uint8_t> validity(samples.size(), 1);
  for (std::size_t z = 0; z < 16; ++z) {
    for (std::size_t y = 16; y < 48; ++y) {
      for (std::size_t x = 16; x < 48; ++x) {
        validity[x + 64 * (y + 64 * z)] = 0;
        holed[x + 64 * (y + 64 * z)] = -1e30F;
      }
    }
  }
  const auto size = [](const CodedPatch& coded) {
    std::size_t bytes = 0;
    for (const Bytes& level : coded.levels) bytes += level.size();
    return bytes;
  };

  const std::size_t whole = size(*kCoder.Encode({layout, AsBytes(samples), {}, std::array{1e-3}}));
  EXPECT_LT(size(*kCoder.Encode({layout, AsBytes(holed), validity, std::array{1e-3}})), 3 * whole);
  EXPECT_GT(size(*kCoder.Encode({layout, AsBytes(holed), {}, std::array{1e-3}})), 5 * whole);
}

TEST(WaveletZfp, RefusesAValidityThatDoesNotFit) {
  const PatchLayout layout{DataType::kFloat32, {2, 2, 1}, 1};
  const std::vector<float> samples(4, 1.0F);
  const std::vector<std::uint8_t> none(4, 0);
  const std::vector<std::uint8_t> few(3, 1);
  EXPECT_EQ(kCoder.Encode({layout, AsBytes(samples), none, kOneExactLayer}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(kCoder.Encode({layout, AsBytes(samples), few, kOneExactLayer}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(FillMissing, TakesTheNearestAlongXThenYThenZ) {
  constexpr float kGap = -9;
  // Shape 5x3x3; planes 0 and 1 as below, plane 2 all missing.
  std::vector<float> samples = {kGap, 1, kGap, kGap, 2, kGap, kGap, kGap, kGap, kGap, 3, kGap, 4, kGap, kGap};
  std::vector<float> second(15, kGap);
  second[7] = 5;
  samples.insert(samples.end(), second.begin(), second.end());
  samples.insert(samples.end(), 15, kGap);
  std::vector<std::uint8_t> validity;
  for (const float sample : samples) validity.push_back(sample != kGap ? 1 : 0);

  std::vector<float> expected = {1, 1, 1, 2, 2, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4};
  expected.insert(expected.end(), 30, 5);
  EXPECT_EQ(mask::FillMissing<float>({5, 3, 3}, samples, validity), expected);
}

TEST(WaveletZfp, ConstantPatchesCostAFewBytes) {
  const std::vector<double> samples(64 * 64 * 64, 293.15);
  const EncodedPatch encoded =
      *EncodePatch(kCoder, {DataType::kFloat64, {64, 64, 64}, 7}, AsBytes(samples), {}, 1e-3);

  EXPECT_LE(encoded.size(), 9u);
  EXPECT_EQ(encoded.errors[0].max_error, 0);
}

TEST(WaveletZfp, SmoothPatchesCostMuchLessThanRaw) {
  std::mt19937 random(4);
  const PatchLayout layout{DataType::kFloat32, {64, 64, 64}, 7};
  const std::vector<float> samples = MakeField<float>(layout.shape, 0, &random);
  const EncodedPatch encoded = *EncodePatch(kCoder, layout, AsBytes(samples), {}, 1e-3);
  EXPECT_LT(encoded.size() * 20, samples.size() * sizeof(float));
}

TEST(WaveletZfp, BytesDependOnTheSamplesAlone) {
  std::mt19937 random(5);
  const PatchLayout layout{DataType::kFloat32, {20, 20, 20}, 4};
  const std::vector<float> samples = MakeField<float>(layout.shape, 1, &random);
  const EncodedPatch first = *EncodePatch(kCoder, layout, AsBytes(samples), {}, 1e-2);
  (void)EncodePatch(kCoder, layout, AsBytes(MakeField<float>(layout.shape, 5, &random)), {}, 1e-7);

  EXPECT_EQ(first.levels, EncodePatch(kCoder, layout, AsBytes(samples), {}, 1e-2)->levels);
}

TEST(WaveletZfp, HostilePayloadsAreErrorsOrNumbersButNeverCrashes) {
  std::mt19937 random(6);
  for (int i = 0; i < 3000; ++i) {
    const PatchLayout layout{
        random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat64,
        {1 + static_cast<std::int64_t>(random() % 9), 1 + static_cast<std::int64_t>(random() % 9),
         1 + static_cast<std::int64_t>(random() % 9)},
        1 + static_cast<int>(random() % 4)};
    const auto decoder = kCoder.NewDecoder(layout);
    for (int level = layout.levels - 1; level >= 0; --level) {
      Bytes payload(random() % 200);
      for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
      // Plausible first bytes reach deeper than random ones.
      if (!payload.empty()) payload[0] = static_cast<std::byte>(random() % 4);
      if (payload.size() > 10 && level == layout.levels - 1) {
        payload[0] = std::byte{1};
        const double unit = 1e-3;
        std::memcpy(payload.data() + 1, &unit, sizeof(unit));
        payload[9] = std::byte{1};
      }
      if (!decoder->Advance({payload}).ok()) break;
    }
  }
}

TEST(WaveletZfp, EveryTruncationOfAPayloadIsHandled) {
  std::mt19937 random(7);
  const PatchLayout layout{DataType::kFloat32, {11, 9, 5}, 3};
  const EncodedPatch encoded =
      *EncodePatch(kCoder, layout, AsBytes(MakeField<float>(layout.shape, 1, &random)), {}, 1e-3);
  for (int cut = 0; cut < layout.levels; ++cut) {
    for (std::size_t length = 0; length < encoded.levels[static_cast<std::size_t>(cut)].size(); ++length) {
      const auto decoder = kCoder.NewDecoder(layout);
      for (int level = layout.levels - 1; level >= 0; --level) {
        ByteSpan payload = encoded.levels[static_cast<std::size_t>(level)];
        if (level == cut) payload = payload.first(length);
        if (!decoder->Advance({payload}).ok()) break;
      }
    }
  }
}

}  // namespace
}  // namespace quarry
