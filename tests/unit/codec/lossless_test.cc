#include "quarry/codec/lossless/lossless.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

const LosslessCoder kCoder;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kInt8,  DataType::kUint8,
                               DataType::kInt16,   DataType::kUint16,  DataType::kInt32, DataType::kUint32,
                               DataType::kInt64,   DataType::kUint64};

using Mask = std::vector<std::uint8_t>;

std::size_t Count(const Index3& shape) { return static_cast<std::size_t>(Volume(shape)); }

/// Every 2^level-th element of `bytes`; elements have `size` bytes.
template <typename Container>
Container Subsample(const Container& bytes, const Index3& shape, int level, std::size_t size) {
  Container result;
  const std::int64_t step = std::int64_t{1} << level;
  for (std::int64_t z = 0; z < shape[2]; z += step) {
    for (std::int64_t y = 0; y < shape[1]; y += step) {
      for (std::int64_t x = 0; x < shape[0]; x += step) {
        const auto at = bytes.begin() + ((z * shape[1] + y) * shape[0] + x) * static_cast<std::int64_t>(size);
        result.insert(result.end(), at, at + static_cast<std::int64_t>(size));
      }
    }
  }
  return result;
}

/// `bytes` with the missing samples zeroed, for comparing the others.
Bytes ValidOnly(ByteSpan bytes, const Mask& valid, std::size_t size) {
  Bytes result(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) std::memset(result.data() + i * size, 0, size);
  }
  return result;
}

std::size_t Size(const CodedPatch& coded) {
  std::size_t bytes = 0;
  for (const Bytes& level : coded.levels) bytes += level.size();
  return bytes;
}

/// Encodes, decodes every level, and compares it with every 2^l-th sample.
CodedPatch CheckRoundTrip(const PatchLayout& layout, const Bytes& samples, const Mask& valid) {
  const std::size_t size = SizeOf(layout.type);
  Result<CodedPatch> coded = kCoder.Encode({layout, samples, valid, kOneExactLayer});
  EXPECT_TRUE(coded.ok()) << coded.status().message();
  EXPECT_EQ(coded->levels.size(), static_cast<std::size_t>(layout.levels));
  const auto decoder = kCoder.NewDecoder(layout);
  EXPECT_EQ(decoder->level(), layout.levels);
  for (int l = layout.levels - 1; l >= 0; --l) {
    const Mask level_valid = valid.empty() ? Mask() : Subsample(valid, layout.shape, l, 1);
    const Status status =
        decoder->Advance({coded->levels[static_cast<std::size_t>(l)], level_valid}).status();
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) break;
    EXPECT_EQ(decoder->level(), l);
    const Bytes expected = Subsample(samples, layout.shape, l, size);
    EXPECT_EQ(ValidOnly(decoder->samples(), level_valid, size), ValidOnly(expected, level_valid, size))
        << Name(layout.type) << " " << ToString(layout.shape) << " level " << l << " of " << layout.levels;
    EXPECT_EQ(ValidOnly(coded->decoded[static_cast<std::size_t>(l)], level_valid, size),
              ValidOnly(expected, level_valid, size));
  }
  return std::move(*coded);
}

template <typename T>
Bytes AsBytes(const std::vector<T>& samples) {
  const ByteSpan bytes = std::as_bytes(std::span(samples));
  return Bytes(bytes.begin(), bytes.end());
}

template <typename T, typename Function>
std::vector<T> MakeSamples(const Index3& shape, Function value) {
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

Bytes RandomBytes(std::size_t count, std::mt19937* random) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)());
  return bytes;
}

template <typename Function>
Bytes MakeBytes(DataType type, const Index3& shape, Function value) {
  return DispatchType(type, [&](auto zero) { return AsBytes(MakeSamples<decltype(zero)>(shape, value)); });
}

/// Kinds of patches for different paths through the coder; values stay between 0 and 100.
Bytes MakePatch(DataType type, const Index3& shape, int kind, std::mt19937* random) {
  const auto noise = [&](double scale) { return scale * static_cast<double>((*random)() % 1000) / 1000; };
  switch (kind) {
    case 0:
      return RandomBytes(Count(shape) * SizeOf(type), random);
    case 1:
      return MakeBytes(type, shape, [&](double x, double y, double z) {
        return 50 + 30 * std::sin(0.2 * x + 0.1 * y) * std::cos(0.3 * z);
      });
    case 2:
      return MakeBytes(type, shape, [&](double x, double y, double z) {
        return 10 + 0.5 * x + 0.3 * y + 0.2 * z + noise(3);
      });
    case 3:  // labels
      return MakeBytes(type, shape, [&](double x, double y, double z) {
        return std::floor(x / 5) * 7 + std::floor(y / 4) + 3 * std::floor(z / 7);
      });
    case 4:  // multiples of four
      return MakeBytes(type, shape,
                       [&](double x, double y, double) { return 4 * std::floor(noise(5) + x / 9 + y / 8); });
    case 5:
      return MakeBytes(type, shape, [](double, double, double) { return 42; });
    default:  // rows that repeat
      return MakeBytes(type, shape, [&](double x, double, double) { return std::fmod(x * x * 31, 97); });
  }
}
constexpr int kKinds = 7;

Mask MakeMask(const Index3& shape, int kind, std::mt19937* random) {
  Mask valid;
  if (kind == 0) return valid;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x)
        valid.push_back(kind == 1 ? (*random)() % 3 != 0 : kind == 2 ? x + y > z + 3 : 0);
    }
  }
  valid[(*random)() % valid.size()] = 1;
  return valid;
}
constexpr int kMasks = 4;

TEST(Lossless, EveryTypeComesBackBitByBitAtEveryLevel) {
  std::mt19937 random(1);
  for (const DataType type : kTypes) {
    for (int i = 0; i < 150; ++i) {
      const auto extent = [&] {
        return random() % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 24);
      };
      const PatchLayout layout{type, {extent(), extent(), extent()}, 1 + static_cast<int>(random() % 6)};
      const int kind = i % kKinds;
      const Bytes samples = MakePatch(type, layout.shape, kind, &random);
      CheckRoundTrip(layout, samples, MakeMask(layout.shape, i / kKinds % kMasks, &random));
      ASSERT_FALSE(HasFailure()) << "kind " << kind << " mask " << i / kKinds % kMasks;
    }
  }
}

TEST(Lossless, LargePatchesComeBackWithAllLevelsAndWithOne) {
  std::mt19937 random(2);
  for (const DataType type : kTypes) {
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const int levels : {1, 7}) {
        const PatchLayout layout{type, {64, 61, 33}, levels};
        const Bytes samples = MakePatch(type, layout.shape, kind, &random);
        CheckRoundTrip(layout, samples, MakeMask(layout.shape, (kind + levels) % 3, &random));
        ASSERT_FALSE(HasFailure()) << "kind " << kind;
      }
    }
  }
}

template <typename F>
std::vector<F> SpecialValues() {
  using Limits = std::numeric_limits<F>;
  std::vector<F> values = {F(0),
                           -F(0),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::max(),
                           Limits::lowest(),
                           Limits::denorm_min(),
                           -Limits::denorm_min(),
                           Limits::min(),
                           F(1),
                           -F(1)};
  // Quiet and signalling NaNs with payloads, of both signs.
  using Word = std::conditional_t<sizeof(F) == 4, std::uint32_t, std::uint64_t>;
  const Word infinity = std::bit_cast<Word>(Limits::infinity());
  for (const Word payload :
       {Word{1}, Word{0x1234}, static_cast<Word>(std::bit_cast<Word>(Limits::quiet_NaN()) | 77)}) {
    values.push_back(std::bit_cast<F>(static_cast<Word>(infinity | payload)));
    values.push_back(
        std::bit_cast<F>(static_cast<Word>(infinity | payload | Word{1} << (8 * sizeof(F) - 1))));
  }
  return values;
}

template <typename F>
void CheckSpecialValues(DataType type) {
  std::mt19937 random(3);
  const std::vector<F> special = SpecialValues<F>();
  for (const int one_in : {1, 3, 100}) {
    const PatchLayout layout{type, {21, 18, 9}, 4};
    const std::vector<F> samples = MakeSamples<F>(layout.shape, [&](double x, double y, double z) {
      return random() % static_cast<unsigned>(one_in) == 0 ? special[random() % special.size()]
                                                           : static_cast<F>(std::sin(0.1 * (x + y)) + z);
    });
    CheckRoundTrip(layout, AsBytes(samples), {});
    CheckRoundTrip(layout, AsBytes(samples), MakeMask(layout.shape, 1, &random));
  }
}

TEST(Lossless, KeepsSpecialValuesOfFloat32) { CheckSpecialValues<float>(DataType::kFloat32); }
TEST(Lossless, KeepsSpecialValuesOfFloat64) { CheckSpecialValues<double>(DataType::kFloat64); }

TEST(Lossless, ConstantPatchesCostOneSample) {
  for (const DataType type : kTypes) {
    const PatchLayout layout{type, {64, 64, 64}, 7};
    std::mt19937 random(4);
    EXPECT_EQ(Size(CheckRoundTrip(layout, MakePatch(type, layout.shape, 5, &random), {})), 1 + SizeOf(type));
  }
  // The same NaN everywhere, and missing samples that differ.
  const std::vector<float> samples(64 * 64, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Size(CheckRoundTrip({DataType::kFloat32, {64, 64, 1}, 3}, AsBytes(samples), {})), 5u);
  std::vector<float> holes(64 * 64, 7);
  Mask valid(holes.size(), 1);
  holes[100] = 8;
  valid[100] = 0;
  EXPECT_EQ(Size(CheckRoundTrip({DataType::kFloat32, {64, 64, 1}, 3}, AsBytes(holes), valid)), 5u);
}

TEST(Lossless, FloatsThatAreIntegersCostWhatIntegersCost) {
  std::mt19937 random(5);
  const Index3 shape = {64, 64, 64};
  const std::vector<std::int32_t> integers = MakeSamples<std::int32_t>(
      shape, [&](double x, double y, double) { return 300 * std::sin(0.1 * x) * y + random() % 8; });
  std::vector<float> scaled;
  for (const std::int32_t value : integers) scaled.push_back(static_cast<float>(value) / 1024);

  const std::size_t of_integers = Size(CheckRoundTrip({DataType::kInt32, shape, 3}, AsBytes(integers), {}));
  const std::size_t of_floats = Size(CheckRoundTrip({DataType::kFloat32, shape, 3}, AsBytes(scaled), {}));
  EXPECT_LE(of_floats, of_integers + 16);
}

TEST(Lossless, UnpackedFloatsCostWhatTheirIntegersCost) {
  std::mt19937 random(21);
  const Index3 shape = {64, 48, 40};
  const std::vector<std::int32_t> packed =
      MakeSamples<std::int32_t>(shape, [&](double x, double y, double z) {
        return 9000 + 5000 * std::sin(0.1 * x) * std::cos(0.1 * y) + 5 * z + random() % 8;
      });
  // Decimals, integers of a file with scale and offset, and negative ones.
  for (const float offset : {0.0f, -10.0f, -273.15f}) {
    const float scale = 0.0007f;
    std::vector<float> unpacked;
    for (const std::int32_t value : packed) unpacked.push_back(static_cast<float>(value) * scale + offset);
    for (const int mask : {0, 2}) {
      const Mask valid = MakeMask(shape, mask, &random);
      const std::size_t of_integers =
          Size(CheckRoundTrip({DataType::kInt32, shape, 4}, AsBytes(packed), valid));
      const CodedPatch coded = CheckRoundTrip({DataType::kFloat32, shape, 4}, AsBytes(unpacked), valid);
      EXPECT_EQ(coded.levels.back().front(), std::byte{4}) << offset;
      EXPECT_LE(Size(coded), of_integers + 200) << offset;
    }
    // One sample that is another number, and they are no multiples.
    unpacked[12345] = std::nextafter(unpacked[12345], 100.0f);
    const CodedPatch other = CheckRoundTrip({DataType::kFloat32, shape, 4}, AsBytes(unpacked), {});
    EXPECT_NE(other.levels.back().front(), std::byte{4});
  }
}

TEST(Lossless, ZerosOfBothSignsAreNoMultiples) {
  const Index3 shape = {32, 32, 16};
  std::vector<float> decimals = MakeSamples<float>(shape, [&](double x, double y, double z) {
    return std::nearbyint(1000 * std::sin(0.1 * x) * std::cos(0.1 * y + 0.01 * z)) / 1000;
  });
  for (float& sample : decimals) sample = sample == 0 ? 0.0f : sample;
  const PatchLayout layout{DataType::kFloat32, shape, 2};
  EXPECT_EQ(CheckRoundTrip(layout, AsBytes(decimals), {}).levels.back().front(), std::byte{4});
  decimals[77] = -0.0f;
  EXPECT_NE(CheckRoundTrip(layout, AsBytes(decimals), {}).levels.back().front(), std::byte{4});
}

TEST(Lossless, UnitsThatAreNoneAreRefused) {
  const PatchLayout layout{DataType::kFloat32, {1, 1, 1}, 1};
  const auto advance = [&](double unit, double offset) {
    Bytes payload = {std::byte{4}};
    PutLittleEndian(&payload, unit);
    PutLittleEndian(&payload, offset);
    // A base grid of one word: planes of four bytes, all zero.
    for (int i = 0; i < 5; ++i) payload.push_back(std::byte{0});
    return kCoder.NewDecoder(layout)->Advance({payload}).status().code();
  };
  EXPECT_EQ(advance(-0.25, 7), StatusCode::kOk);
  for (const double bad : {0.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(advance(bad, 7), StatusCode::kDataLoss) << bad;
    EXPECT_EQ(advance(0.25, bad), bad == 0 ? StatusCode::kOk : StatusCode::kDataLoss) << bad;
  }
  EXPECT_EQ(kCoder.NewDecoder(layout)->Advance({Bytes(10, std::byte{4})}).status().code(),
            StatusCode::kDataLoss)
      << "too short";
}

TEST(Lossless, DoublesThatAreFloatsCostWhatFloatsCost) {
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  const Index3 shape = {64, 64, 32};
  const std::vector<float> floats = MakeSamples<float>(
      shape, [&](double x, double y, double z) { return std::sin(0.1 * x) * y + z + 0.1 * normal(random); });
  const std::vector<double> doubles(floats.begin(), floats.end());

  const std::size_t of_floats = Size(CheckRoundTrip({DataType::kFloat32, shape, 3}, AsBytes(floats), {}));
  const std::size_t of_doubles = Size(CheckRoundTrip({DataType::kFloat64, shape, 3}, AsBytes(doubles), {}));
  EXPECT_LE(static_cast<double>(of_doubles), 1.02 * static_cast<double>(of_floats));
}

TEST(Lossless, FloatsOfFewDifferentValuesCostWhatTheirRanksCost) {
  const Index3 shape = {64, 64, 64};
  std::mt19937 random(15);
  std::normal_distribution<double> normal;
  const std::vector<std::int32_t> packed =
      MakeSamples<std::int32_t>(shape, [&](double x, double y, double z) {
        return 2000 + 500 * std::sin(0.1 * x) * std::cos(0.1 * y) + 5 * z + 3 * normal(random);
      });
  std::vector<float> unpacked;
  for (const std::int32_t value : packed) unpacked.push_back(static_cast<float>(value) * 0.00037f - 1.7234f);
  const PatchLayout layout{DataType::kFloat32, shape, 4};

  const std::size_t of_integers = Size(CheckRoundTrip({DataType::kInt32, shape, 4}, AsBytes(packed), {}));
  EXPECT_LE(Size(CheckRoundTrip(layout, AsBytes(unpacked), {})), of_integers + 10000);
  const Mask valid = MakeMask(shape, 2, &random);
  const std::size_t of_valid = Size(CheckRoundTrip({DataType::kInt32, shape, 4}, AsBytes(packed), valid));
  EXPECT_LE(Size(CheckRoundTrip(layout, AsBytes(unpacked), valid)), of_valid + 10000);
}

TEST(Lossless, LabelsCostLittleMoreThanTheirBorders) {
  const Index3 shape = {64, 64, 64};
  // Balls in a background; 5 % of the samples have a neighbour of another label.
  const std::vector<std::uint32_t> labels =
      MakeSamples<std::uint32_t>(shape, [](double x, double y, double z) {
        const auto distance = [](double v) { return std::abs(std::fmod(v, 21.3) - 10.65); };
        const bool inside = std::hypot(distance(x), distance(y), distance(z)) < 8;
        return inside ? 1e5 + 7919 * std::floor(x / 21.3) + 104729 * std::floor(y / 21.3) +
                            1299709 * std::floor(z / 21.3)
                      : 0;
      });
  std::mt19937 random(16);
  const double raw = 4.0 * 64 * 64 * 64;
  EXPECT_LE(static_cast<double>(Size(CheckRoundTrip({DataType::kUint32, shape, 4}, AsBytes(labels), {}))),
            raw / 80);
  CheckRoundTrip({DataType::kUint32, shape, 4}, AsBytes(labels), MakeMask(shape, 1, &random));
}

TEST(Lossless, SizeHardlyDependsOnTheNumberOfLevels) {
  std::mt19937 random(7);
  const std::vector<float> samples = MakeSamples<float>(
      {64, 64, 64}, [&](double x, double y, double z) { return std::sin(0.05 * x * y) + 0.01 * z * x; });
  const auto size = [&](int levels) {
    return static_cast<double>(
        Size(CheckRoundTrip({DataType::kFloat32, {64, 64, 64}, levels}, AsBytes(samples), {})));
  };
  EXPECT_NEAR(size(1), size(4), 0.001 * size(4));
  EXPECT_NEAR(size(7), size(4), 0.001 * size(4));
}

TEST(Lossless, MissingSamplesCostNothing) {
  std::mt19937 random(8);
  const Index3 shape = {64, 64, 32};
  const auto noise = [&](double, double, double) { return std::ldexp(static_cast<double>(random()), -20); };
  const std::vector<float> samples = MakeSamples<float>(shape, noise);
  Mask valid(samples.size());
  for (std::size_t i = 0; i < valid.size(); ++i) valid[i] = i / 16 % 4 == 0;

  const double all =
      static_cast<double>(Size(CheckRoundTrip({DataType::kFloat32, shape, 3}, AsBytes(samples), {})));
  const double quarter =
      static_cast<double>(Size(CheckRoundTrip({DataType::kFloat32, shape, 3}, AsBytes(samples), valid)));
  EXPECT_NEAR(quarter, all / 4, 0.05 * all);
}

TEST(Lossless, SmallRepetitivePatchesAreOneStream) {
  const PatchLayout layout{DataType::kFloat64, {64, 64, 64}, 7};
  // Rows that repeat, but not one after the other.
  const Bytes samples = MakeBytes(layout.type, layout.shape, [](double x, double y, double z) {
    return std::fmod(x * x * 31 + 7 * std::fmod(y + z, 5), 97);
  });
  const CodedPatch coded = CheckRoundTrip(layout, samples, {});
  EXPECT_LE(Size(coded), 4096u);
  for (std::size_t l = 0; l + 1 < coded.levels.size(); ++l) EXPECT_TRUE(coded.levels[l].empty());
}

TEST(Lossless, BytesDependOnValidSamplesAlone) {
  std::mt19937 random(10);
  const PatchLayout layout{DataType::kFloat32, {33, 30, 17}, 4};
  const Mask valid = MakeMask(layout.shape, 1, &random);
  Bytes samples = MakePatch(layout.type, layout.shape, 2, &random);
  const Result<CodedPatch> first = kCoder.Encode({layout, samples, valid, kOneExactLayer});
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) samples[4 * i + random() % 4] ^= static_cast<std::byte>(random());
  }
  EXPECT_EQ(kCoder.Encode({layout, samples, valid, std::array{1e9}})->levels, first->levels);
}

TEST(Lossless, TruncatedPayloadsAreDataLoss) {
  std::mt19937 random(11);
  for (int kind = 0; kind < kKinds; ++kind) {
    const PatchLayout layout{DataType::kFloat32, {17, 9, 6}, 3};
    const CodedPatch coded = CheckRoundTrip(layout, MakePatch(layout.type, layout.shape, kind, &random), {});
    for (std::size_t cut = 0; cut < coded.levels.size(); ++cut) {
      for (std::size_t size = 0; size < coded.levels[cut].size(); size += 1 + size / 16) {
        const auto decoder = kCoder.NewDecoder(layout);
        Status status;
        for (std::size_t l = coded.levels.size(); l-- > 0 && status.ok();) {
          const ByteSpan payload(coded.levels[l]);
          status = decoder->Advance({l == cut ? payload.first(size) : payload}).status();
        }
        EXPECT_EQ(status.code(), StatusCode::kDataLoss)
            << "kind " << kind << " level " << cut << " size " << size;
      }
    }
  }
}

TEST(Lossless, BytesAfterThePayloadAreDataLoss) {
  std::mt19937 random(12);
  for (int kind = 0; kind < kKinds; ++kind) {
    const PatchLayout layout{DataType::kInt16, {17, 9, 6}, 2};
    const CodedPatch coded = CheckRoundTrip(layout, MakePatch(layout.type, layout.shape, kind, &random), {});
    for (std::size_t longer = 0; longer < 2; ++longer) {
      const auto decoder = kCoder.NewDecoder(layout);
      Status status;
      for (std::size_t l = 2; l-- > 0 && status.ok();) {
        Bytes payload = coded.levels[l];
        if (l == longer) payload.push_back(std::byte{0});
        status = decoder->Advance({payload}).status();
      }
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << "kind " << kind << " level " << longer;
    }
  }
}

TEST(Lossless, DamagedPayloadsNeverReadOutOfBounds) {
  std::mt19937 random(13);
  int decoded = 0;
  for (int i = 0; i < 4000; ++i) {
    const DataType type = kTypes[random() % std::size(kTypes)];
    const PatchLayout layout{type, {15, 8, 6}, 1 + static_cast<int>(random() % 3)};
    const Mask valid = MakeMask(layout.shape, static_cast<int>(random() % 3), &random);
    CodedPatch coded =
        *kCoder.Encode({layout, MakePatch(type, layout.shape, static_cast<int>(random() % kKinds), &random),
                        valid, kOneExactLayer});
    const auto decoder = kCoder.NewDecoder(layout);
    for (int l = layout.levels - 1; l >= 0; --l) {
      Bytes& payload = coded.levels[static_cast<std::size_t>(l)];
      for (unsigned n = random() % 3; n > 0 && !payload.empty(); --n)
        payload[random() % (random() % 2 == 0 ? std::min<std::size_t>(payload.size(), 12) : payload.size())] =
            static_cast<std::byte>(random());
      const Mask level_valid = valid.empty() ? Mask() : Subsample(valid, layout.shape, l, 1);
      if (!decoder->Advance({payload, level_valid}).ok()) break;
      ASSERT_EQ(decoder->samples().size(), Count(LevelShape(layout.shape, l)) * SizeOf(type));
      ++decoded;
    }
  }
  EXPECT_GT(decoded, 1000);
}

/// Damages only the finest level, so that the decoder gets that far.
void CheckDamageOfFinestLevel(const PatchLayout& layout, const Bytes& samples, unsigned kind,
                              std::mt19937* random) {
  const Mask valid = MakeMask(layout.shape, 2, random);
  const CodedPatch coded = *kCoder.Encode({layout, samples, valid, kOneExactLayer});
  ASSERT_EQ(std::to_integer<unsigned>(coded.levels[0][0]) & 7u, kind);
  for (int i = 0; i < 300; ++i) {
    Bytes damaged = coded.levels[0];
    if (i % 4 == 0) damaged.resize((*random)() % damaged.size());
    for (unsigned n = (*random)() % 3; n > 0 && !damaged.empty(); --n) {
      const std::size_t place =
          (*random)() % ((*random)() % 2 == 0 ? std::min<std::size_t>(damaged.size(), 24) : damaged.size());
      damaged[place] = static_cast<std::byte>((*random)());
    }
    const auto decoder = kCoder.NewDecoder(layout);
    ASSERT_TRUE(decoder->Advance({coded.levels[1], Subsample(valid, layout.shape, 1, 1)}).ok());
    const Status status = decoder->Advance({damaged, valid}).status();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDataLoss);
  }
}

TEST(Lossless, DamagedRanksNeverReadOutOfBounds) {
  std::mt19937 random(18);
  const PatchLayout layout{DataType::kFloat32, {32, 32, 32}, 2};
  const std::vector<float> samples = MakeSamples<float>(layout.shape, [&](double x, double y, double z) {
    return 1 / (1 + std::abs(std::floor(300 * std::sin(0.1 * x) + 20 * y + z + random() % 7)));
  });
  CheckDamageOfFinestLevel(layout, AsBytes(samples), 6, &random);
}

TEST(Lossless, DamagedLabelsNeverReadOutOfBounds) {
  std::mt19937 random(19);
  const PatchLayout layout{DataType::kInt16, {32, 32, 32}, 2};
  const std::vector<std::int16_t> samples =
      MakeSamples<std::int16_t>(layout.shape, [&](double x, double y, double z) {
        return random() % 100 == 0 ? random() % 30000
                                   : std::floor(x / 5 + y / 9) * 777 + std::floor(z / 6 + y / 7) * 1234;
      });
  CheckDamageOfFinestLevel(layout, AsBytes(samples), 7, &random);
}

TEST(Lossless, RandomPayloadsAreNotDecodedOutOfBounds) {
  std::mt19937 random(14);
  for (int i = 0; i < 20000; ++i) {
    const PatchLayout layout{kTypes[random() % std::size(kTypes)], {9, 7, 5}, 2};
    const auto decoder = kCoder.NewDecoder(layout);
    Bytes payload = RandomBytes(random() % 40, &random);
    if (!payload.empty()) payload[0] = static_cast<std::byte>(random() % 5);
    if (decoder->Advance({payload}).ok()) {
      (void)decoder->Advance({RandomBytes(random() % 600, &random)});
    }
  }
}

TEST(Lossless, PatchesWithMissingValuesComeBackBitByBit) {
  std::mt19937 random(17);
  const PatchLayout layout{DataType::kFloat32, {40, 31, 22}, 4};
  std::vector<float> samples = MakeSamples<float>(layout.shape, [&](double x, double y, double z) {
    return x + y + z < 25 ? -1e10 : std::sin(0.1 * x) * y + z;
  });
  samples[777] = std::numeric_limits<float>::quiet_NaN();
  const auto fill = std::bit_cast<std::uint32_t>(-1e10f);
  const Result<EncodedPatch> encoded = EncodePatch(kCoder, layout, AsBytes(samples), fill, 0);
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  EXPECT_EQ(encoded->errors[0].max_error, 0);

  PatchReader reader(kCoder, layout);
  for (int l = layout.levels - 1; l >= 0; --l) {
    const auto level = static_cast<std::size_t>(l);
    const Status status = reader.Advance(encoded->levels[level], encoded->mask_levels[level]);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(Bytes(reader.samples().begin(), reader.samples().end()),
              Subsample(AsBytes(samples), layout.shape, l, sizeof(float)));
  }
}

TEST(Lossless, MistakesOfCallersAreRefused) {
  const PatchLayout layout{DataType::kFloat32, {4, 4, 4}, 2};
  const Bytes samples(4 * 64);
  EXPECT_EQ(kCoder.Encode({layout, ByteSpan(samples).first(100), {}, kOneExactLayer}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(kCoder.Encode({layout, samples, Mask(63, 1), kOneExactLayer}).status().code(),
            StatusCode::kInvalidArgument);

  const auto decoder = kCoder.NewDecoder({DataType::kFloat32, {4, 4, 4}, 1});
  const CodedPatch coded = CheckRoundTrip({DataType::kFloat32, {4, 4, 4}, 1}, samples, {});
  ASSERT_TRUE(decoder->Advance({coded.levels[0]}).ok());
  EXPECT_EQ(decoder->Advance({}).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace quarry
