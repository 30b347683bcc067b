#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/codec/repeats/fold_patch.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"

/// Patches that do not depend on an axis.
namespace quarry {
namespace {

using Axes = std::array<bool, 3>;

constexpr Index3 kShape = {17, 12, 9};
constexpr int kLevels = 3;
constexpr double kTolerance = 0.01;

const std::vector<Axes> kAllAxes = {{true, false, false}, {false, true, false}, {false, false, true},
                                    {true, true, false},  {true, false, true},  {false, true, true}};

Index3 PlaneOf(Axes axes, Index3 shape = kShape) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (axes[axis]) shape[axis] = 1;
  }
  return shape;
}

std::byte FirstByte(Axes axes, bool mask = false) {
  return std::byte{static_cast<std::uint8_t>(8 * axes[0] + 16 * axes[1] + 32 * axes[2] + 64 * mask)};
}

/// Samples by their coordinates.
template <typename T>
std::vector<T> Field(const Index3& shape, const std::function<double(double, double, double)>& value) {
  std::vector<T> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x)
        samples.push_back(
            static_cast<T>(value(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z))));
    }
  }
  return samples;
}

/// Waves with noise, which depend on the other axes alone; above 0.
template <typename T>
std::vector<T> Repeating(Axes axes, double unit = 1, const Index3& shape = kShape) {
  return Field<T>(shape, [&](double x, double y, double z) {
    if (axes[0]) x = 0;
    if (axes[1]) y = 0;
    if (axes[2]) z = 0;
    const double noise = std::fmod(31 * x + 57 * y + 101 * z + x * y * z, 13) / 13;
    return unit * (2 + std::sin(0.3 * x + 0.4 * y) * std::cos(0.5 * z) + 0.2 * noise);
  });
}

template <typename T>
ByteSpan BytesOf(const std::vector<T>& samples) {
  return std::as_bytes(std::span(samples));
}

template <typename T>
constexpr DataType kType = std::is_same_v<T, float>          ? DataType::kFloat32
                           : std::is_same_v<T, double>       ? DataType::kFloat64
                           : std::is_same_v<T, std::uint8_t> ? DataType::kUint8
                           : std::is_same_v<T, std::int16_t> ? DataType::kInt16
                                                             : DataType::kInt64;

template <typename T>
PatchLayout LayoutOf(const Index3& shape = kShape) {
  return {kType<T>, shape, kLevels};
}

std::size_t SizeOfAll(const std::vector<Bytes>& levels) {
  std::size_t bytes = 0;
  for (const Bytes& level : levels) bytes += level.size();
  return bytes;
}

/// The samples of a level that a patch of its plane gives.
Bytes Repeated(const Bytes& plane, Axes axes, const Index3& shape, std::size_t size) {
  const Index3 from = PlaneOf(axes, shape);
  Bytes samples;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        const std::int64_t at =
            (axes[0] ? 0 : x) + from[0] * ((axes[1] ? 0 : y) + from[1] * (axes[2] ? 0 : z));
        const std::byte* sample = plane.data() + static_cast<std::size_t>(at) * size;
        samples.insert(samples.end(), sample, sample + size);
      }
    }
  }
  return samples;
}

/// Decodes all levels of all layers; the samples of each level of the last layer.
std::vector<Bytes> Decode(const PatchCoder& coder, const PatchLayout& layout, const EncodedPatch& encoded) {
  PatchReader reader(coder, layout, encoded.parts.layers);
  std::vector<Bytes> levels(static_cast<std::size_t>(layout.levels));
  for (int level = layout.levels - 1; level >= 0; --level) {
    const auto l = static_cast<std::size_t>(level);
    std::vector<ByteSpan> payloads;
    for (int k = 0; k < encoded.parts.layers; ++k)
      payloads.emplace_back(encoded.levels[encoded.parts.Of(k, level)]);
    const ByteSpan mask = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels[l]);
    const Status status = reader.Advance(payloads, mask);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) break;
    levels[l].assign(reader.samples().begin(), reader.samples().end());
  }
  return levels;
}

/// Every level is within the tolerance at valid samples, and bit by bit at missing ones and where it is 0.
template <typename T>
void ExpectKept(const PatchLayout& layout, const std::vector<T>& samples, std::vector<Bytes> decoded,
                double tolerance) {
  for (int level = 0; level < layout.levels; ++level) {
    std::vector<T> originals;
    CopyStrided(samples.data(), layout.shape, std::int64_t{1} << level, &originals);
    const Bytes& bytes = decoded[static_cast<std::size_t>(level)];
    ASSERT_EQ(bytes.size(), originals.size() * sizeof(T)) << "level " << level;
    for (std::size_t i = 0; i < originals.size(); ++i) {
      T sample;
      std::memcpy(&sample, &bytes[i * sizeof(T)], sizeof(T));
      if (std::memcmp(&sample, &originals[i], sizeof(T)) == 0) continue;
      ASSERT_LE(std::abs(static_cast<double>(sample) - static_cast<double>(originals[i])), tolerance)
          << "level " << level << ", sample " << i;
      ASSERT_GT(tolerance, 0) << "level " << level << ", sample " << i;
    }
  }
}

template <typename T>
void ExpectOnePlane(const PatchCoder& coder, Axes axes, double unit, double tolerance) {
  const std::vector<T> samples = Repeating<T>(axes, unit);
  const std::vector<T> plane = Repeating<T>(axes, unit, PlaneOf(axes));
  const CodedPatch coded = *coder.Encode({LayoutOf<T>(), BytesOf(samples), {}, std::array{tolerance}});
  const CodedPatch alone =
      *coder.Encode({LayoutOf<T>(PlaneOf(axes)), BytesOf(plane), {}, std::array{tolerance}});

  std::vector<Bytes> expected = alone.levels;
  expected.back().insert(expected.back().begin(), FirstByte(axes));
  EXPECT_EQ(coded.levels, expected);
  const std::unique_ptr<PatchDecoder> decoder = coder.NewDecoder(LayoutOf<T>());
  for (int level = kLevels - 1; level >= 0; --level) {
    const auto l = static_cast<std::size_t>(level);
    ASSERT_TRUE(decoder->Advance({coded.levels[l]}).ok());
    EXPECT_EQ(decoder->level(), level);
    const Bytes wanted = Repeated(alone.decoded[l], axes, LevelShape(kShape, level), sizeof(T));
    EXPECT_TRUE(std::ranges::equal(decoder->samples(), wanted));
    EXPECT_EQ(coded.decoded[l], wanted);
    EXPECT_TRUE(std::ranges::equal(decoder->Clone()->samples(), wanted));
  }
}

TEST(Repeats, AreOnePlaneAndAByteWithEveryCoder) {
  for (const PatchCoder* coder : FieldCoders()) {
    for (const Axes axes : kAllAxes) {
      SCOPED_TRACE(fmt::format("{}, {}{}{}", coder->name(), axes[0], axes[1], axes[2]));
      ExpectOnePlane<float>(*coder, axes, 1, kTolerance);
      ExpectOnePlane<double>(*coder, axes, 1, kTolerance);
      if (coder->Supports(DataType::kInt16)) ExpectOnePlane<std::int16_t>(*coder, axes, 3000, 20);
      if (coder->Supports(DataType::kUint8)) ExpectOnePlane<std::uint8_t>(*coder, axes, 60, 2);
      if (coder->Supports(DataType::kInt64)) ExpectOnePlane<std::int64_t>(*coder, axes, 1e17, 0);
    }
  }
}

TEST(Repeats, OneOtherBitEndsThemWhereNothingIsLost) {
  const PatchCoder& coder = *FindCoder(CoderId::kLossless);
  const Axes along_z = {false, false, true};
  for (const std::size_t at : {std::size_t{0}, std::size_t{700}, static_cast<std::size_t>(17 * 12 * 9 - 1)}) {
    for (const bool masked : {false, true}) {
      std::vector<double> samples = Repeating<double>(along_z);
      samples[at] = std::nextafter(samples[at], 9.0);
      for (std::size_t line = 100; masked && line < samples.size(); line += 17 * 12)
        samples[line] = std::numeric_limits<double>::quiet_NaN();
      const EncodedPatch encoded =
          *EncodePatch(coder, LayoutOf<double>(), BytesOf(samples), std::nullopt, 0.0);
      EXPECT_NE(encoded.levels.back()[masked ? sizeof(double) + 1 : 0], FirstByte(along_z, masked));
      ExpectKept(LayoutOf<double>(), samples, Decode(coder, LayoutOf<double>(), encoded), 0);
    }
  }
}

TEST(Repeats, ZerosOfBothSignsAreNotTheSameBits) {
  const auto samples =
      Field<float>(kShape, [](double x, double, double z) { return x < 3 ? (z == 4 ? -0.0 : 0.0) : x; });
  for (const CoderId id : {CoderId::kLossless, CoderId::kInterpolate}) {
    const PatchCoder& coder = *FindCoder(id);
    const EncodedPatch encoded = *EncodePatch(coder, LayoutOf<float>(), BytesOf(samples), std::nullopt, 0.0);
    EXPECT_EQ(encoded.levels.back().front(), FirstByte({false, true, false})) << coder.name();
  }
}

TEST(Repeats, AConstantPatchIsOneOfItsCoder) {
  const std::vector<float> samples(static_cast<std::size_t>(Volume(kShape)), 3.5f);
  for (const PatchCoder* coder : FieldCoders()) {
    const CodedPatch coded =
        *coder->Encode({LayoutOf<float>(), BytesOf(samples), {}, std::array{kTolerance}});
    EXPECT_LT(std::to_integer<int>(coded.levels.back().front()), 8) << coder->name();
  }
}

template <typename T>
void ExpectCloseIsOnePlane(double unit, double noise, double tolerance) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  for (const Axes axes : kAllAxes) {
    std::mt19937 random(3);
    std::vector<T> samples = Repeating<T>(axes, unit);
    for (T& sample : samples)
      sample =
          static_cast<T>(static_cast<double>(sample) +
                         std::round(1000 * noise * (0x1p-31 * static_cast<double>(random()) - 1)) / 1000);
    const EncodedPatch encoded =
        *EncodePatch(coder, LayoutOf<T>(), BytesOf(samples), std::nullopt, tolerance);
    EXPECT_EQ(encoded.levels.back().front(), FirstByte(axes));
    EXPECT_LE(encoded.errors.front().max_error, tolerance);
    ExpectKept(LayoutOf<T>(), samples, Decode(coder, LayoutOf<T>(), encoded), tolerance);
  }
}

TEST(Repeats, NoiseWithinTheToleranceDoesNotEndThem) {
  ExpectCloseIsOnePlane<float>(1, 0.3 * kTolerance, kTolerance);
  ExpectCloseIsOnePlane<float>(1, 0.9 * kTolerance, kTolerance);
  ExpectCloseIsOnePlane<double>(1e8, 0.9, 1);
  ExpectCloseIsOnePlane<std::int16_t>(3000, 15, 20);
}

TEST(Repeats, CloseSamplesAreOneWhereThatIsSmaller) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  std::mt19937 random(6);
  const Index3 shape = {64, 64, 2};
  // Noise that the tolerance hides, and that what is left of it would not.
  const auto samples = Field<float>(shape, [&](double x, double y, double) {
    return 0.2 * (x + y) * kTolerance + 0.9 * kTolerance * (0x1p-31 * static_cast<double>(random()) - 1);
  });
  const EncodedPatch encoded =
      *EncodePatch(coder, LayoutOf<float>(shape), BytesOf(samples), std::nullopt, kTolerance);
  EXPECT_NE(encoded.levels.back().front(), FirstByte({false, false, true}));
}

TEST(Repeats, NoiseBeyondTheToleranceDoes) {
  const Axes along_z = {false, false, true};
  std::vector<float> samples = Repeating<float>(along_z);
  samples[5] += static_cast<float>(2.5 * kTolerance);
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const EncodedPatch encoded =
      *EncodePatch(coder, LayoutOf<float>(), BytesOf(samples), std::nullopt, kTolerance);
  EXPECT_NE(encoded.levels.back().front(), FirstByte(along_z));
}

/// A middle that rounding moves is farther from its ends than they are wide.
TEST(Repeats, NumbersOfFewDigitsKeepTheTolerance) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  for (const double tolerance : {3.9, 4.1, 6.0, 7.9, 8.0}) {
    const auto samples = Field<float>(
        kShape, [](double x, double y, double z) { return 1e8 + 8 * (x * x + 3 * y + std::fmod(z, 2)); });
    const EncodedPatch encoded =
        *EncodePatch(coder, LayoutOf<float>(), BytesOf(samples), std::nullopt, tolerance);
    EXPECT_LE(encoded.errors.front().max_error, tolerance);
  }
}

TEST(Repeats, ExtremeTolerancesAreKept) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const double most = std::numeric_limits<double>::max();
  for (const double tolerance :
       {std::numeric_limits<double>::infinity(), most, std::numeric_limits<double>::denorm_min(), 1e-300}) {
    for (const double unit : {1e-308, 1.0, most / 4}) {
      const std::vector<double> samples = Repeating<double>({false, false, true}, unit);
      const Result<EncodedPatch> encoded =
          EncodePatch(coder, LayoutOf<double>(), BytesOf(samples), std::nullopt, tolerance);
      ASSERT_TRUE(encoded.ok()) << encoded.status().message();
      ExpectKept(LayoutOf<double>(), samples, Decode(coder, LayoutOf<double>(), *encoded), tolerance);
    }
  }
}

TEST(Repeats, SafeguardsAreKeptWhereSamplesAreClose) {
  // Zeros and small numbers of both signs, all within the tolerance.
  const auto samples = Field<double>(kShape, [](double x, double y, double z) {
    return 1e-6 * (std::fmod(x + 2 * y + 3 * z, 5) - 2) + (y > 5 ? 1 : 0);
  });
  for (const PatchCoder* coder : FieldCoders()) {
    if (!coder->traits().has_safeguards) continue;
    const Result<EncodedPatch> encoded =
        EncodePatch(*coder, LayoutOf<double>(), BytesOf(samples), std::nullopt, kTolerance);
    EXPECT_TRUE(encoded.ok()) << encoded.status().message();
  }
}

/// The bytes of a patch are those after the missing values, which begin with a sample and a count.
template <typename T>
void ExpectFirstByte(const EncodedPatch& encoded, std::byte first) {
  EXPECT_EQ(encoded.levels.back()[sizeof(T) + 1], first);
}

TEST(Repeats, MasksThatRepeatAreThoseOfThePlane) {
  for (const PatchCoder* coder : FieldCoders()) {
    for (const Axes axes : kAllAxes) {
      std::vector<float> samples = Repeating<float>(axes);
      for (float& sample : samples) {
        if (sample < 2.05f) sample = std::numeric_limits<float>::quiet_NaN();
      }
      const EncodedPatch encoded =
          *EncodePatch(*coder, LayoutOf<float>(), BytesOf(samples), std::nullopt, kTolerance);
      ExpectFirstByte<float>(encoded, FirstByte(axes, true));
      const double bound = coder->traits().bounds_every_level ? 3 * kTolerance : 1;
      ExpectKept(LayoutOf<float>(), samples, Decode(*coder, LayoutOf<float>(), encoded), bound);
    }
  }
}

TEST(Repeats, MasksNeedNotRepeat) {
  for (const CoderId id : {CoderId::kInterpolate, CoderId::kLossless}) {
    const PatchCoder& coder = *FindCoder(id);
    for (const Axes axes : kAllAxes) {
      std::vector<float> samples = Repeating<float>(axes);
      // The first sample of many lines is missing, and so are all samples of some.
      const auto missing = Field<float>(
          kShape, [](double x, double y, double z) { return x + y + z < 9 || (x > 12 && y > 7) ? 1 : 0; });
      for (std::size_t i = 0; i < samples.size(); ++i) {
        if (missing[i] != 0) samples[i] = std::numeric_limits<float>::infinity();
      }
      const EncodedPatch encoded =
          *EncodePatch(coder, LayoutOf<float>(), BytesOf(samples), std::nullopt, kTolerance);
      ExpectFirstByte<float>(encoded, FirstByte(axes, false));
      ExpectKept(LayoutOf<float>(), samples, Decode(coder, LayoutOf<float>(), encoded), kTolerance);
    }
  }
}

/// Where half of the lines have no valid sample, their neighbours would be coded again.
TEST(Repeats, AMaskThatDoesNotRepeatCostsNothing) {
  const Index3 shape = {32, 32, 8};
  std::mt19937 random(7);
  std::vector<float> samples = Repeating<float>({false, false, true}, 1, shape);
  const std::size_t plane = 32 * 32;
  for (std::size_t line = 0; line < plane; ++line) {
    if (random() % 2 == 0) continue;
    for (std::size_t at = line; at < samples.size(); at += plane)
      samples[at] = std::numeric_limits<float>::quiet_NaN();
  }
  const PatchCoder& coder = *FindCoder(CoderId::kLossless);
  const auto encode = [&] {
    return *EncodePatch(coder, LayoutOf<float>(shape), BytesOf(samples), std::nullopt, 0.0);
  };
  const EncodedPatch repeats = encode();
  ExpectFirstByte<float>(repeats, FirstByte({false, false, true}, true));
  const auto valid = std::ranges::find_if(samples, [](float sample) { return !std::isnan(sample); });
  *valid = std::numeric_limits<float>::quiet_NaN();
  const EncodedPatch other = encode();
  EXPECT_NE(other.levels.back()[sizeof(float) + 1], FirstByte({false, false, true}));
  EXPECT_LT(SizeOfAll(other.levels), SizeOfAll(repeats.levels) * 6 / 5);
}

TEST(Repeats, AFewValidSamplesAreNotCodedAsManyMore) {
  // Each valid sample is alone on its line along z.
  std::mt19937 random(4);
  auto samples = Field<float>(kShape, [&](double x, double y, double z) {
    return z == std::fmod(x + y, 9) && std::fmod(x + y, 4) == 0 ? static_cast<double>(random())
                                                                : std::numeric_limits<double>::quiet_NaN();
  });
  const EncodedPatch encoded =
      *EncodePatch(*FindCoder(CoderId::kLossless), LayoutOf<float>(), BytesOf(samples), std::nullopt, 0.0);
  EXPECT_NE(encoded.levels.back()[sizeof(float) + 1], FirstByte({false, false, true}));
  // Nor is that tried.
  std::vector<std::uint8_t> validity;
  for (const float sample : samples) validity.push_back(std::isnan(sample) ? 0 : 1);
  EXPECT_FALSE(repeats::FoldSameBits(LayoutOf<float>(), BytesOf(samples), validity));
}

TEST(Repeats, LayersRefineThePlane) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const std::vector<double> tolerances = {1e-1, 1e-3, 0};
  for (const Axes axes : kAllAxes) {
    const std::vector<double> samples = Repeating<double>(axes);
    const EncodedPatch encoded =
        *EncodePatch(coder, LayoutOf<double>(), BytesOf(samples), std::nullopt, tolerances);
    const CodedPatch alone = *coder.Encode({LayoutOf<double>(PlaneOf(axes)),
                                            BytesOf(Repeating<double>(axes, 1, PlaneOf(axes))),
                                            {},
                                            tolerances});
    EXPECT_EQ(SizeOfAll(encoded.levels), SizeOfAll(alone.levels) + 1);
    ExpectKept(LayoutOf<double>(), samples, Decode(coder, LayoutOf<double>(), encoded), 0);

    PatchReader reader(coder, LayoutOf<double>());
    std::vector<ByteSpan> added;
    for (int level = kLevels - 1; level >= 1; --level) {
      ASSERT_TRUE(reader.Advance(encoded.levels[encoded.parts.Of(0, level)], {}).ok());
      added.emplace_back(encoded.levels[encoded.parts.Of(1, level)]);
    }
    ASSERT_TRUE(reader.AddLayer(added).ok());
    std::vector<double> originals;
    CopyStrided(samples.data(), kShape, 2, &originals);
    const double* decoded = reinterpret_cast<const double*>(reader.samples().data());
    for (std::size_t i = 0; i < originals.size(); ++i) ASSERT_LE(std::abs(decoded[i] - originals[i]), 1e-3);
  }
}

TEST(Repeats, GoStraightToTheirPlace) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const SampleArray array_of = {nullptr, {{0, 0, 0}, {20, 20, 20}}, sizeof(float)};
  for (const Axes axes : kAllAxes) {
    const std::vector<float> samples = Repeating<float>(axes);
    const CodedPatch coded = *coder.Encode({LayoutOf<float>(), BytesOf(samples), {}, std::array{kTolerance}});
    std::vector<float> array(20 * 20 * 20, -1.0f);
    SampleArray whole = array_of;
    whole.samples = reinterpret_cast<std::byte*>(array.data());
    PatchReader reader(coder, LayoutOf<float>());
    ASSERT_TRUE(reader.Advance(coded.levels[2], {}).ok());
    ASSERT_TRUE(reader.Advance(coded.levels[1], {}).ok());
    ASSERT_TRUE(reader.AdvanceInto(coded.levels[0], {}, whole.PlaceOf({{2, 3, 4}, {19, 15, 13}})).ok());
    std::size_t i = 0;
    for (std::int64_t z = 0; z < 20; ++z) {
      for (std::int64_t y = 0; y < 20; ++y) {
        for (std::int64_t x = 0; x < 20; ++x) {
          const float got = array[static_cast<std::size_t>(x + 20 * (y + 20 * z))];
          const bool inside = x >= 2 && x < 19 && y >= 3 && y < 15 && z >= 4 && z < 13;
          ASSERT_NEAR(got, inside ? samples[i++] : -1.0f, kTolerance);
        }
      }
    }
  }
}

TEST(Repeats, ReferToThePlaneOfAnotherStep) {
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  const Axes along_y = {false, true, false};
  const PatchLayout layout = LayoutOf<float>();
  const std::vector<float> before = Repeating<float>(along_y);
  std::vector<float> now = before;
  for (float& sample : now) sample += 0.2f;
  for (const bool missing : {false, true}) {
    std::vector<float> first = before;
    if (missing) std::fill_n(first.begin(), 30, std::numeric_limits<float>::quiet_NaN());
    DecodedPatch reference;
    const EncodedPatch key =
        *EncodePatch(coder, layout, BytesOf(first), {.tolerances = std::array{1e-4}, .decoded = &reference});
    const EncodedPatch alone = *EncodePatch(coder, layout, BytesOf(now), std::nullopt, 1e-4);
    const EncodedPatch encoded =
        *EncodePatch(coder, layout, BytesOf(now), {.tolerances = std::array{1e-4}, .reference = &reference});
    EXPECT_TRUE(encoded.refers);
    EXPECT_EQ(encoded.levels.back().front(), FirstByte(along_y));
    EXPECT_LT(SizeOfAll(encoded.levels), 0.8 * static_cast<double>(SizeOfAll(alone.levels)));

    PatchReader reader(coder, layout, 1, {{}, {0}});
    for (std::size_t level = kLevels; level-- > 0;) {
      const ByteSpan payloads[] = {key.levels[level], encoded.levels[level]};
      const ByteSpan mask = missing ? ByteSpan(key.mask_levels[level]) : ByteSpan();
      const std::array<LevelParts, 2> parts = {LevelParts{{&payloads[0], 1}, mask},
                                               LevelParts{{&payloads[1], 1}, {}}};
      const Status status = reader.Advance(parts);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const float* decoded = reinterpret_cast<const float*>(reader.samples().data());
    for (std::size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(decoded[i], now[i], 1e-4);
  }
}

TEST(Repeats, ImpossibleOnesAreRefused) {
  const auto code = [](const PatchCoder& coder, const Index3& shape, std::uint8_t first, bool masked) {
    const std::vector<float> plane(4, 1.0f);
    Bytes payload =
        coder.Encode({{DataType::kFloat32, {2, 2, 1}, 1}, BytesOf(plane), {}, std::array{kTolerance}})
            ->levels.front();
    payload.insert(payload.begin(), std::byte{first});
    const std::vector<std::uint8_t> mask(masked ? static_cast<std::size_t>(Volume(shape)) : 0, 1);
    return coder.NewDecoder({DataType::kFloat32, shape, 1})->Advance({payload, mask}).status().code();
  };
  for (const PatchCoder* coder : FieldCoders()) {
    EXPECT_EQ(code(*coder, {2, 2, 5}, 0x20, false), StatusCode::kOk) << coder->name();
    EXPECT_EQ(code(*coder, {2, 2, 5}, 0x60, true), StatusCode::kOk) << coder->name();
    EXPECT_EQ(code(*coder, {2, 2, 5}, 0x60, false), StatusCode::kDataLoss) << "a mask without a mask";
    EXPECT_EQ(code(*coder, {2, 2, 1}, 0x20, false), StatusCode::kDataLoss) << "along an axis of one sample";
    EXPECT_EQ(code(*coder, {2, 2, 5}, 0x40, true), StatusCode::kDataLoss) << "along no axis";
    for (const int bit : {0x01, 0x02, 0x04, 0x80}) {
      EXPECT_EQ(code(*coder, {2, 2, 5}, static_cast<std::uint8_t>(0x20 | bit), false), StatusCode::kDataLoss)
          << coder->name() << ", " << bit;
    }
    const Bytes alone(1, std::byte{0x20});
    EXPECT_EQ(coder->NewDecoder({DataType::kFloat32, {2, 2, 5}, 1})->Advance({alone}).status().code(),
              StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace quarry
