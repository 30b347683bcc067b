#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"
#include "tests/testing/random.h"

namespace quarry {
namespace {

const PatchCoder& kCoder = *FindCoder(CoderId::kInterpolate);

/// Waves that move, with noise that stays: what a step has in common with the one before.
template <typename T>
std::vector<T> Step(const Index3& shape, int step, double unit = 1) {
  std::mt19937 random(5);
  std::vector<T> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        const double noise = 0x1p-32 * static_cast<double>(random()) - 0.5;
        const double wave =
            std::sin(0.2 * static_cast<double>(x) + 0.02 * step) + std::cos(0.3 * static_cast<double>(y + z));
        samples.push_back(static_cast<T>(unit * (wave + noise)));
      }
    }
  }
  return samples;
}

template <typename T>
ByteSpan BytesOf(const std::vector<T>& samples) {
  return std::as_bytes(std::span(samples));
}

template <typename T>
constexpr DataType kType = std::is_same_v<T, float>    ? DataType::kFloat32
                           : std::is_same_v<T, double> ? DataType::kFloat64
                                                       : DataType::kInt16;

std::vector<std::uint8_t> Strided(Validity validity, const Index3& shape, int level) {
  std::vector<std::uint8_t> coarse;
  if (!validity.empty()) CopyStrided(validity.data(), shape, std::int64_t{1} << level, &coarse);
  return coarse;
}

/// Decodes a patch in layers, every level with the reference of that level; expects what the encoder says.
template <typename T>
void ExpectDecodes(const PatchLayout& layout, const CodedPatch& coded, int layers, Validity validity,
                   const PatchReference& reference) {
  const PatchParts parts{layout.levels, layers};
  std::vector<std::unique_ptr<PatchDecoder>> decoders(static_cast<std::size_t>(layers));
  for (auto& decoder : decoders) decoder = kCoder.NewDecoder(layout);
  for (int level = layout.levels - 1; level >= 0; --level) {
    const std::vector<std::uint8_t> valid = Strided(validity, layout.shape, level);
    const std::vector<std::uint8_t> reference_valid = Strided(reference.validity, layout.shape, level);
    for (int k = 0; k < layers; ++k) {
      const auto i = static_cast<std::size_t>(k);
      std::vector<T> samples;
      CopyStrided(reinterpret_cast<const T*>(reference.layers[i].data()), layout.shape,
                  std::int64_t{1} << level, &samples);
      const ReferenceLevel at_level{BytesOf(samples), reference_valid};
      const Bytes& payload = coded.levels[parts.Of(k, level)];
      const PatchDecoder* before = k == 0 ? nullptr : decoders[i - 1].get();
      const Status status = decoders[i]->Advance({payload, valid, &at_level, before}).status();
      ASSERT_TRUE(status.ok()) << status.message();
      const Bytes& promised = coded.decoded[parts.Of(k, level)];
      const ByteSpan decoded = decoders[i]->samples();
      ASSERT_EQ(decoded.size(), promised.size());
      for (std::size_t s = 0; s < decoded.size() / sizeof(T); ++s) {
        if (!valid.empty() && valid[s] == 0) continue;
        ASSERT_EQ(std::memcmp(&decoded[s * sizeof(T)], &promised[s * sizeof(T)], sizeof(T)), 0)
            << "level " << level << ", layer " << k << ", sample " << s;
      }
    }
  }
}

std::size_t SizeOfAll(const CodedPatch& coded) {
  std::size_t bytes = 0;
  for (const Bytes& level : coded.levels) bytes += level.size();
  return bytes;
}

template <typename T>
void ExpectReferencePays(const Index3& shape, double unit, const std::vector<double>& tolerances) {
  const PatchLayout layout{kType<T>, shape, 3};
  const CodedPatch key = *kCoder.Encode({layout, BytesOf(Step<T>(shape, 0, unit)), {}, tolerances});
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  PatchReference reference;
  for (int k = 0; k < parts.layers; ++k) reference.layers.emplace_back(key.decoded[parts.Of(k, 0)]);
  const std::vector<T> next = Step<T>(shape, 1, unit);
  const CodedPatch alone = *kCoder.Encode({layout, BytesOf(next), {}, tolerances});
  const CodedPatch coded = *kCoder.Encode({layout, BytesOf(next), {}, tolerances, &reference});
  EXPECT_TRUE(coded.refers);
  EXPECT_FALSE(alone.refers);
  EXPECT_LT(SizeOfAll(coded), 0.8 * static_cast<double>(SizeOfAll(alone)));
  for (int k = 0; k < parts.layers; ++k) {
    const T* decoded = reinterpret_cast<const T*>(coded.decoded[parts.Of(k, 0)].data());
    for (std::size_t i = 0; i < next.size(); ++i) {
      ASSERT_LE(std::abs(static_cast<double>(decoded[i]) - static_cast<double>(next[i])),
                tolerances[static_cast<std::size_t>(k)]);
    }
  }
  ExpectDecodes<T>(layout, coded, parts.layers, {}, reference);
}

TEST(References, SaveWhatTwoStepsHaveInCommon) {
  ExpectReferencePays<float>({33, 30, 17}, 1, {1e-2});
  ExpectReferencePays<double>({33, 30, 17}, 1, {1e-3});
  ExpectReferencePays<std::int16_t>({33, 30, 17}, 3000, {20});
  ExpectReferencePays<float>({65, 41, 1}, 1, {1e-2});
}

/// Float32 numbers in float64, which exact layers code as such; what they refer to need be none.
TEST(References, OfFloat32NumbersMayBeOthers) {
  const PatchLayout layout{DataType::kFloat64, {33, 30, 17}, 3};
  const std::vector<double> tolerances = {1e-2, 0};
  const std::vector<double> before = Step<double>(layout.shape, 0, 1);
  std::vector<double> next = Step<double>(layout.shape, 1, 1);
  for (double& sample : next) sample = static_cast<double>(static_cast<float>(sample));
  const CodedPatch key = *kCoder.Encode({layout, BytesOf(before), {}, tolerances});
  const PatchParts parts{layout.levels, 2};
  PatchReference reference;
  for (int k = 0; k < parts.layers; ++k) reference.layers.emplace_back(key.decoded[parts.Of(k, 0)]);
  const CodedPatch alone = *kCoder.Encode({layout, BytesOf(next), {}, tolerances});
  const CodedPatch coded = *kCoder.Encode({layout, BytesOf(next), {}, tolerances, &reference});
  EXPECT_TRUE(coded.refers);
  EXPECT_LT(SizeOfAll(coded), SizeOfAll(alone));
  EXPECT_EQ(std::memcmp(coded.decoded[0].data(), next.data(), coded.decoded[0].size()), 0);
  ExpectDecodes<double>(layout, coded, parts.layers, {}, reference);
}

/// The exact layer alone might refer, but lossless is smaller.
TEST(References, LosslessLayersHaveNone) {
  const PatchLayout layout{DataType::kInt16, {33, 30, 17}, 3};
  testing::Random random(7);
  std::vector<std::int16_t> numbers(12);
  for (std::int16_t& number : numbers) number = static_cast<std::int16_t>(random.Between(-3000, 3000));
  std::vector<std::int16_t> samples;
  while (samples.size() < 33 * 30 * 17) samples.push_back(numbers[random.Below(numbers.size())]);
  const std::vector<double> tolerances = {6000, 0};
  const std::vector<Bytes> before(2, Bytes(BytesOf(samples).begin(), BytesOf(samples).end()));
  std::vector<std::int16_t> moved = samples;
  std::rotate(moved.begin(), moved.begin() + 1, moved.end());
  PatchReference reference;
  for (const Bytes& layer : before) reference.layers.emplace_back(layer);
  const CodedPatch coded = *kCoder.Encode({layout, BytesOf(moved), {}, tolerances, &reference});
  constexpr PatchParts kParts{3, 2};
  EXPECT_EQ(coded.levels[kParts.Of(1, 2)].front(), std::byte{0x02});
  EXPECT_FALSE(coded.refers);
}

/// A wake in a quiet flow: almost all indices are zero, and a patch takes about a kilobyte.
std::vector<float> Wake(const Index3& shape, double shift) {
  std::vector<float> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        const double across = static_cast<double>((y - 20) * (y - 20) + (z - 24) * (z - 24));
        const double wave = std::sin(0.4 * (static_cast<double>(x) - shift) + 0.3 * static_cast<double>(y));
        samples.push_back(static_cast<float>(wave * std::exp(-across / 60)));
      }
    }
  }
  return samples;
}

TEST(References, PayWhereFewBitsAreLeft) {
  const PatchLayout layout{DataType::kFloat32, {64, 48, 48}, 4};
  const double tolerance = 0.03;
  const CodedPatch key = *kCoder.Encode({layout, BytesOf(Wake(layout.shape, 0)), {}, std::array{tolerance}});
  const PatchReference reference{{key.decoded[0]}, {}};
  const std::vector<float> next = Wake(layout.shape, 0.05);
  const CodedPatch alone = *kCoder.Encode({layout, BytesOf(next), {}, std::array{tolerance}});
  const CodedPatch coded = *kCoder.Encode({layout, BytesOf(next), {}, std::array{tolerance}, &reference});
  EXPECT_LT(SizeOfAll(alone), next.size() * sizeof(float) / 30);
  EXPECT_TRUE(coded.refers);
  EXPECT_LT(SizeOfAll(coded), 0.8 * static_cast<double>(SizeOfAll(alone)));
}

TEST(References, AreOfTheSameLayer) {
  ExpectReferencePays<float>({33, 30, 17}, 1, {1e-1, 1e-3});
  ExpectReferencePays<double>({33, 30, 17}, 1, {1e-1, 1e-2, 1e-5});
}

TEST(References, AnUnchangedStepIsNothing) {
  const PatchLayout layout{DataType::kFloat32, {40, 40, 40}, 4};
  const std::vector<float> samples = Step<float>(layout.shape, 0);
  const CodedPatch key = *kCoder.Encode({layout, BytesOf(samples), {}, std::array{1e-3}});
  const PatchReference reference{{key.decoded[0]}, {}};
  const double tolerance = 1e-3;
  const CodedPatch coded = *kCoder.Encode({layout, BytesOf(samples), {}, std::array{tolerance}, &reference});
  EXPECT_TRUE(coded.refers);
  EXPECT_LT(SizeOfAll(coded), SizeOfAll(key) / 50);
  ExpectDecodes<float>(layout, coded, 1, {}, reference);
}

TEST(References, AnUnrelatedStepIsNotUsed) {
  const PatchLayout layout{DataType::kFloat32, {40, 40, 40}, 4};
  std::mt19937 random(6);
  std::vector<float> noise;
  for (std::int64_t i = 0; i < Volume(layout.shape); ++i)
    noise.push_back(static_cast<float>(random() % 1000));
  const PatchReference reference{{BytesOf(noise)}, {}};
  const double tolerance = 1e-3;
  const CodedPatch coded =
      *kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 0)), {}, std::array{tolerance}, &reference});
  EXPECT_FALSE(coded.refers);
  EXPECT_EQ(
      coded.levels,
      kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 0)), {}, std::array{tolerance}})->levels);
}

TEST(References, HaveMissingSamplesOfTheirOwn) {
  const PatchLayout layout{DataType::kFloat32, {33, 30, 17}, 3};
  const auto count = static_cast<std::size_t>(Volume(layout.shape));
  std::vector<std::uint8_t> before(count, 1);
  std::vector<std::uint8_t> now(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    before[i] = i % 7 != 0 && i > 100 ? 1 : 0;
    now[i] = i % 11 != 0 ? 1 : 0;
  }
  const CodedPatch key =
      *kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 0)), before, std::array{1e-2}});
  const PatchReference reference{{key.decoded[0]}, before};
  const double tolerance = 1e-2;
  const CodedPatch coded =
      *kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 1)), now, std::array{tolerance}, &reference});
  EXPECT_TRUE(coded.refers);
  ExpectDecodes<float>(layout, coded, 1, now, reference);
}

TEST(References, APatchThatNeedsOneIsNotDecodedWithout) {
  const PatchLayout layout{DataType::kFloat32, {33, 30, 17}, 3};
  const CodedPatch key =
      *kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 0)), {}, std::array{1e-2}});
  const PatchReference reference{{key.decoded[0]}, {}};
  const double tolerance = 1e-2;
  const CodedPatch coded =
      *kCoder.Encode({layout, BytesOf(Step<float>(layout.shape, 1)), {}, std::array{tolerance}, &reference});
  EXPECT_EQ(kCoder.NewDecoder(layout)->Advance({coded.levels.back()}).status().code(), StatusCode::kDataLoss);
  const std::unique_ptr<PatchDecoder> decoder = kCoder.NewDecoder(layout);
  const ReferenceLevel too_short{ByteSpan(key.decoded[0]).first(4), {}};
  EXPECT_EQ(decoder->Advance({.payload = coded.levels.back(), .reference = &too_short}).status().code(),
            StatusCode::kInternal);
}

/// A patch of a step, encoded with the mean of others.
template <typename T>
struct Coded {
  EncodedPatch encoded;
  DecodedPatch decoded;
};

template <typename T>
Coded<T> EncodeStep(const PatchLayout& layout, const std::vector<T>& samples,
                    const std::vector<double>& tolerances, const DecodedPatch& reference) {
  Coded<T> coded;
  Result<EncodedPatch> encoded =
      EncodePatch(kCoder, layout, BytesOf(samples), {std::nullopt, tolerances, &reference, &coded.decoded});
  EXPECT_TRUE(encoded.ok()) << encoded.status().message();
  coded.encoded = *std::move(encoded);
  return coded;
}

/// Steps 0 and 4 alone, 2 between them, 1 between 0 and 2: read as a dataset does, with clones on the way.
template <typename T>
void ExpectGraphDecodes(const std::vector<double>& tolerances, bool missing) {
  const PatchLayout layout{kType<T>, {33, 30, 17}, 3};
  const auto step = [&](int number) {
    std::vector<T> samples = Step<T>(layout.shape, number, std::is_integral_v<T> ? 3000 : 1);
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t i = 0; missing && i < samples.size(); ++i) {
        if ((i / 5 + static_cast<std::size_t>(number)) % 4 == 0)
          samples[i] = std::numeric_limits<T>::quiet_NaN();
      }
    }
    return samples;
  };
  const auto at_0 = EncodeStep<T>(layout, step(0), tolerances, {});
  const auto at_4 = EncodeStep<T>(layout, step(4), tolerances, {});
  const auto at_2 =
      EncodeStep<T>(layout, step(2), tolerances, MeanOf(layout.type, at_0.decoded, at_4.decoded));
  const auto at_1 =
      EncodeStep<T>(layout, step(1), tolerances, MeanOf(layout.type, at_0.decoded, at_2.decoded));
  EXPECT_FALSE(at_4.encoded.refers);
  ASSERT_TRUE(at_2.encoded.refers && at_1.encoded.refers);

  const std::array<const EncodedPatch*, 4> steps = {&at_0.encoded, &at_4.encoded, &at_2.encoded,
                                                    &at_1.encoded};
  const int layers = static_cast<int>(tolerances.size());
  const PatchParts parts{layout.levels, layers};
  PatchReader reader(kCoder, layout, layers, {{}, {}, {0, 1}, {0, 2}});
  while (reader.level() > 0) {
    const int level = reader.level() - 1;
    std::array<std::vector<ByteSpan>, 4> payloads;
    std::vector<LevelParts> of_steps;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (int k = 0; k < layers; ++k) payloads[s].emplace_back(steps[s]->levels[parts.Of(k, level)]);
      const ByteSpan mask = steps[s]->mask_levels.empty()
                                ? ByteSpan()
                                : ByteSpan(steps[s]->mask_levels[static_cast<std::size_t>(level)]);
      of_steps.push_back({payloads[s], mask});
    }
    PatchReader clone = reader.Clone();
    ASSERT_TRUE(reader.Advance(of_steps).ok());
    ASSERT_TRUE(clone.Advance(of_steps).ok());
    ASSERT_TRUE(std::ranges::equal(clone.samples(), reader.samples()));
    EXPECT_GE(reader.memory(), 4 * reader.samples().size() * static_cast<std::size_t>(layers))
        << "all steps count";
    EXPECT_FALSE(reader.Advance({of_steps.data(), 3}).ok()) << "a step is missing";
  }
  const DecodedPatch decoded = reader.Decoded();
  ASSERT_EQ(decoded.layers.size(), tolerances.size());
  EXPECT_EQ(decoded.validity, at_1.decoded.validity);
  for (std::size_t k = 0; k < tolerances.size(); ++k) {
    const T* got = reinterpret_cast<const T*>(decoded.layers[k].data());
    const T* promised = reinterpret_cast<const T*>(at_1.decoded.layers[k].data());
    for (std::size_t i = 0; i < decoded.layers[k].size() / sizeof(T); ++i) {
      if (!decoded.validity.empty() && decoded.validity[i] == std::byte{0}) continue;
      ASSERT_EQ(got[i], promised[i]) << i;
    }
  }
}

TEST(References, AGraphOfStepsIsDecodedLevelByLevel) {
  ExpectGraphDecodes<float>({1e-2}, false);
  ExpectGraphDecodes<double>({1e-1, 1e-3}, false);
  ExpectGraphDecodes<std::int16_t>({20}, false);
  ExpectGraphDecodes<float>({1e-2}, true);
  ExpectGraphDecodes<double>({1e-1, 1e-3}, true);
}

TEST(References, TheMeanOfTwoStepsIsOfWhatTheyHave) {
  const std::vector<std::int16_t> first = {1, -3, 7, 9};
  const std::vector<std::int16_t> second = {2, -4, 5, 11};
  const auto patch = [](const std::vector<std::int16_t>& samples, std::initializer_list<int> validity) {
    DecodedPatch decoded;
    const ByteSpan bytes = BytesOf(samples);
    decoded.layers.emplace_back(bytes.begin(), bytes.end());
    for (const int valid : validity) decoded.validity.push_back(static_cast<std::byte>(valid));
    return decoded;
  };
  const auto samples = [](const DecodedPatch& mean) {
    const auto* begin = reinterpret_cast<const std::int16_t*>(mean.layers[0].data());
    return std::vector<std::int16_t>(begin, begin + 4);
  };
  const DecodedPatch whole = MeanOf(DataType::kInt16, patch(first, {}), patch(second, {}));
  EXPECT_EQ(samples(whole), (std::vector<std::int16_t>{1, -4, 6, 10})) << "rounded down";
  EXPECT_TRUE(whole.validity.empty());
  const DecodedPatch holes =
      MeanOf(DataType::kInt16, patch(first, {1, 0, 1, 0}), patch(second, {1, 1, 0, 0}));
  EXPECT_EQ(samples(holes), (std::vector<std::int16_t>{1, -4, 7, 0}));
  EXPECT_EQ(holes.validity, (Bytes{std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}}));
  EXPECT_EQ(samples(MeanOf(DataType::kInt16, DecodedPatch(), patch(second, {}))), second);
}

}  // namespace
}  // namespace quarry
