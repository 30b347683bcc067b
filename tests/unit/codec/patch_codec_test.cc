#include "quarry/codec/patch_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/codec/wavelet_zfp/wavelet_zfp.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

template <typename T>
constexpr DataType kType = std::is_same_v<T, float>           ? DataType::kFloat32
                           : std::is_same_v<T, double>        ? DataType::kFloat64
                           : std::is_same_v<T, std::int8_t>   ? DataType::kInt8
                           : std::is_same_v<T, std::uint8_t>  ? DataType::kUint8
                           : std::is_same_v<T, std::int16_t>  ? DataType::kInt16
                           : std::is_same_v<T, std::uint16_t> ? DataType::kUint16
                           : std::is_same_v<T, std::int32_t>  ? DataType::kInt32
                           : std::is_same_v<T, std::uint32_t> ? DataType::kUint32
                           : std::is_same_v<T, std::int64_t>  ? DataType::kInt64
                                                              : DataType::kUint64;

template <typename T>
ByteSpan AsBytes(const std::vector<T>& samples) {
  return std::as_bytes(std::span(samples));
}

template <typename T>
std::uint64_t BitsOf(T sample) {
  std::uint64_t bits = 0;
  if constexpr (std::endian::native == std::endian::big) {
    std::memcpy(reinterpret_cast<char*>(&bits) + sizeof(bits) - sizeof(T), &sample, sizeof(T));
  } else {
    std::memcpy(&bits, &sample, sizeof(T));
  }
  return bits;
}

float FromBits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

/// Number at level 0 of sample `i` of a level.
std::size_t Finest(const Index3& shape, int level, std::size_t number) {
  const Index3 coarse = LevelShape(shape, level);
  const auto i = static_cast<std::int64_t>(number);
  const std::int64_t x = i % coarse[0] << level;
  const std::int64_t y = i / coarse[0] % coarse[1] << level;
  const std::int64_t z = i / coarse[0] / coarse[1] << level;
  return static_cast<std::size_t>(x + shape[0] * (y + shape[1] * z));
}

/// Stores the valid samples that each level adds to the coarser one unchanged, and overwrites the missing
/// ones: so a reader's missing samples cannot come from here. Refuses input that EncodePatch must not pass.
class PlainCoder final : public PatchCoder {
 public:
  explicit PlainCoder(bool lossless, double error = 0) : error_(error) { traits_.is_lossless = lossless; }

  const CoderTraits& traits() const override { return traits_; }
  bool Supports(DataType) const override { return true; }
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override {
    return std::make_unique<Decoder>(layout);
  }

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override {
    const auto& [layout, samples, validity, tolerances, reference] = request;
    const std::size_t size = SizeOf(layout.type);
    if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) * size)
      return InvalidArgument("wrong size");
    if (!validity.empty() && validity.size() != samples.size() / size)
      return InvalidArgument("wrong validity");
    if (!validity.empty() && std::find(validity.begin(), validity.end(), 1) == validity.end())
      return InvalidArgument("no sample is valid");
    for (std::size_t i = 0; i < samples.size(); i += size) {
      if (!Finite(layout.type, samples.data() + i)) return InvalidArgument("a sample is not finite");
    }
    CodedPatch coded;
    coded.levels.resize(static_cast<std::size_t>(layout.levels));
    for (int level = 0; level < layout.levels; ++level) {
      const auto l = static_cast<std::size_t>(level);
      const auto count = static_cast<std::size_t>(Volume(LevelShape(layout.shape, level)));
      Bytes decoded;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t finest = Finest(layout.shape, level, i);
        const bool valid = validity.empty() || validity[finest] != 0;
        const ByteSpan sample = samples.subspan(finest * size, size);
        if (valid && IsNew(layout, level, i))
          coded.levels[l].insert(coded.levels[l].end(), sample.begin(), sample.end());
        for (std::size_t b = 0; b < size; ++b) decoded.push_back(valid ? sample[b] : std::byte{0x5a});
      }
      if (error_ != 0) AddTo(layout.type, &decoded);
      coded.decoded.push_back(std::move(decoded));
    }
    return coded;
  }

 private:
  static bool Finite(DataType type, const std::byte* sample) {
    double value = 0;
    if (type == DataType::kFloat64) std::memcpy(&value, sample, sizeof(value));
    if (type == DataType::kFloat32) {
      float narrow = 0;
      std::memcpy(&narrow, sample, sizeof(narrow));
      value = static_cast<double>(narrow);
    }
    return std::isfinite(value);
  }

  static bool IsNew(const PatchLayout& layout, int level, std::size_t i) {
    if (level == layout.levels - 1) return true;
    const Index3 shape = LevelShape(layout.shape, level);
    const auto n = static_cast<std::int64_t>(i);
    return (n % shape[0] | n / shape[0] % shape[1] | n / shape[0] / shape[1]) % 2 != 0;
  }

  void AddTo(DataType type, Bytes* samples) const {
    ASSERT_EQ(type, DataType::kFloat32);
    for (std::size_t i = 0; i < samples->size(); i += 4) {
      float value = 0;
      std::memcpy(&value, samples->data() + i, 4);
      value += static_cast<float>(error_);
      std::memcpy(samples->data() + i, &value, 4);
    }
  }

  class Decoder final : public PatchDecoder {
   public:
    explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}
    int level() const override { return level_; }
    ByteSpan samples() const override { return samples_; }
    std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
    std::uint64_t memory() const override { return samples_.size(); }
    Result<bool> Advance(const LevelInput& input) override {
      ByteSpan payload = input.payload;
      const Validity validity = input.validity;
      if (level_ == 0) return InternalError("no finer level");
      --level_;
      const std::size_t size = SizeOf(layout_.type);
      const auto count = static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level_)));
      if (!validity.empty() && validity.size() != count) return InternalError("wrong validity");
      const Bytes coarse = std::move(samples_);
      samples_ = Bytes();
      std::size_t next_coarse = 0;
      for (std::size_t i = 0; i < count; ++i) {
        ByteSpan sample;
        const bool is_new = IsNew(layout_, level_, i);
        if (!is_new) sample = ByteSpan(coarse).subspan(next_coarse++ * size, size);
        const bool valid = validity.empty() || validity[i] != 0;
        if (is_new && valid) {
          if (payload.size() < size) return DataLoss("too short");
          sample = payload.first(size);
          payload = payload.subspan(size);
        }
        for (std::size_t b = 0; b < size; ++b) samples_.push_back(valid ? sample[b] : std::byte{0x5a});
      }
      if (!payload.empty()) return DataLoss("too long");
      return false;
    }

   private:
    PatchLayout layout_;
    int level_;
    Bytes samples_;
  };

  CoderTraits traits_{.id = static_cast<CoderId>(200), .name = "plain"};  // unused id: its capabilities count
  double error_;
};

const PlainCoder kLossy(false);
const PlainCoder kLossless(true);

ByteSpan MaskPayload(const EncodedPatch& encoded, int level) {
  return encoded.mask_levels.empty() ? ByteSpan() : encoded.mask_levels[static_cast<std::size_t>(level)];
}

/// Reads every level and compares it bit by bit with every 2^l-th original sample, validity as well.
template <typename T>
void ExpectExact(const PatchCoder& coder, const PatchLayout& layout, const std::vector<T>& samples,
                 const std::vector<bool>& valid, const EncodedPatch& encoded) {
  PatchReader reader(coder, layout);
  EXPECT_EQ(reader.level(), layout.levels);
  ASSERT_EQ(encoded.levels.size(), static_cast<std::size_t>(layout.levels));
  const bool masked = std::find(valid.begin(), valid.end(), false) != valid.end();
  ASSERT_EQ(encoded.mask_levels.size(), masked ? encoded.levels.size() : 0u);
  for (int level = layout.levels - 1; level >= 0; --level) {
    const Status status =
        reader.Advance(encoded.levels[static_cast<std::size_t>(level)], MaskPayload(encoded, level));
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(reader.level(), level);
    const auto count = static_cast<std::size_t>(Volume(LevelShape(layout.shape, level)));
    ASSERT_EQ(reader.samples().size(), count * sizeof(T));
    ASSERT_EQ(reader.validity().size(), masked ? count : 0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t finest = Finest(layout.shape, level, i);
      ASSERT_EQ(std::memcmp(reader.samples().data() + i * sizeof(T), &samples[finest], sizeof(T)), 0)
          << "level " << level << " sample " << i << " shape " << ToString(layout.shape);
      ASSERT_EQ(!masked || reader.validity()[i] != 0, valid[finest]);
    }
  }
  EXPECT_FALSE(reader.Advance(ByteSpan(), ByteSpan()).ok());
}

/// A field of one type with missing samples of several kinds.
template <typename T>
void CheckRoundTrips(unsigned seed, const PatchCoder& coder) {
  std::mt19937 random(seed);
  for (int i = 0; i < 250; ++i) {
    const auto extent = [&] { return random() % 5 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 20); };
    const PatchLayout layout{kType<T>, {extent(), extent(), extent()}, 1 + static_cast<int>(random() % 5)};
    const T fill = static_cast<T>(random() % 2 == 0 ? 77 : 0);
    const std::uint32_t kind = random() % 5;  // how much is missing, and how
    std::vector<T> samples;
    std::vector<bool> valid;
    T min = std::numeric_limits<T>::max();
    T max = std::numeric_limits<T>::lowest();
    for (std::int64_t s = 0; s < Volume(layout.shape); ++s) {
      T sample = static_cast<T>(random() % 70 + 1);
      bool missing = kind == 1 ? random() % 3 == 0 : kind == 2 ? s % 40 > 20 : kind >= 3;
      if (kind == 4 && s == Volume(layout.shape) / 2) missing = false;
      if (missing) sample = fill;
      if constexpr (std::is_floating_point_v<T>) {
        if (missing && random() % 4 == 0) sample = std::numeric_limits<T>::quiet_NaN();
        if (missing && random() % 4 == 0) sample = -std::numeric_limits<T>::infinity();
        if (!missing && random() % 9 == 0 && BitsOf(fill) != BitsOf(T(-0.0))) sample = T(-0.0);
      }
      samples.push_back(sample);
      valid.push_back(!missing);
      if (!missing) min = std::min(min, sample);
      if (!missing) max = std::max(max, sample);
    }
    const Result<EncodedPatch> encoded = EncodePatch(coder, layout, AsBytes(samples), BitsOf(fill), 0);
    ASSERT_TRUE(encoded.ok()) << encoded.status().message();
    const auto count = static_cast<std::uint64_t>(std::count(valid.begin(), valid.end(), true));
    EXPECT_EQ(encoded->valid, count);
    EXPECT_EQ(encoded->min, count > 0 ? static_cast<double>(min) : std::numeric_limits<double>::infinity());
    EXPECT_EQ(encoded->max, count > 0 ? static_cast<double>(max) : -std::numeric_limits<double>::infinity());
    ASSERT_EQ(encoded->errors.size(), static_cast<std::size_t>(layout.levels));
    EXPECT_EQ(encoded->errors[0].max_error, 0);
    EXPECT_EQ(encoded->errors[0].coverage, 1);
    ExpectExact(coder, layout, samples, valid, *encoded);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Samples are looked at in blocks and lanes: no place is special.
TEST(EncodePatch, FindsMissingSamplesAndTheRangeAtEveryPlace) {
  const PatchLayout layout{DataType::kFloat32, {16, 16, 33}, 2};
  const auto count = static_cast<std::size_t>(Volume(layout.shape));
  for (const std::size_t place : {0u, 7u, 15u, 16u, 4095u, 4096u, 8191u, 8192u, 8447u}) {
    std::vector<float> samples(count, 5.0f);
    samples[place] = std::numeric_limits<float>::quiet_NaN();
    const Result<EncodedPatch> missing = EncodePatch(kLossy, layout, AsBytes(samples), std::nullopt, 0);
    samples[place] = -3.0f;
    samples[count - 1 - place] = 8.0f;
    const Result<EncodedPatch> valid = EncodePatch(kLossy, layout, AsBytes(samples), std::nullopt, 0);

    ASSERT_TRUE(missing.ok() && valid.ok()) << place;
    EXPECT_EQ(missing->valid, count - 1) << place;
    EXPECT_EQ(missing->min, 5) << place;
    EXPECT_EQ(missing->max, 5) << place;
    EXPECT_EQ(valid->valid, count) << place;
    EXPECT_EQ(valid->min, -3) << place;
    EXPECT_EQ(valid->max, 8) << place;
  }
}

TEST(EncodePatch, RestoresEveryTypeBitByBit) {
  CheckRoundTrips<float>(1, kLossy);
  CheckRoundTrips<double>(2, kLossy);
  CheckRoundTrips<std::int8_t>(3, kLossy);
  CheckRoundTrips<std::uint8_t>(4, kLossy);
  CheckRoundTrips<std::int16_t>(5, kLossy);
  CheckRoundTrips<std::uint16_t>(6, kLossy);
  CheckRoundTrips<std::int32_t>(7, kLossy);
  CheckRoundTrips<std::uint32_t>(8, kLossy);
}

TEST(EncodePatch, RestoresEveryTypeThroughALosslessCoder) {
  CheckRoundTrips<float>(9, kLossless);
  CheckRoundTrips<std::int16_t>(10, kLossless);
  CheckRoundTrips<std::int64_t>(11, kLossless);
  CheckRoundTrips<std::uint64_t>(12, kLossless);
}

TEST(EncodePatch, RangesOfLargeIntegersAreRoundedOutwards) {
  const PatchLayout layout{DataType::kInt64, {4, 4, 4}, 2};
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // float64 has the numbers before and behind it
  std::vector<std::int64_t> samples(64, large);
  const Result<EncodedPatch> around = EncodePatch(kLossless, layout, AsBytes(samples), std::nullopt, 0);
  samples[9] = -large;
  const Result<EncodedPatch> both = EncodePatch(kLossless, layout, AsBytes(samples), std::nullopt, 0);
  std::vector<std::uint64_t> most(64, std::numeric_limits<std::uint64_t>::max());
  const Result<EncodedPatch> largest =
      EncodePatch(kLossless, {DataType::kUint64, {4, 4, 4}, 2}, AsBytes(most), std::nullopt, 0);

  ASSERT_TRUE(around.ok() && both.ok() && largest.ok());
  EXPECT_EQ(around->min, 0x1p53);
  EXPECT_EQ(around->max, 0x1p53 + 2);
  EXPECT_EQ(both->min, -(0x1p53 + 2));
  EXPECT_EQ(largest->min, std::nextafter(0x1p64, 0));
  EXPECT_EQ(largest->max, 0x1p64);
}

TEST(EncodePatch, TheFillValueOfLargeIntegersIsNoneOfItsNeighbours) {
  const PatchLayout layout{DataType::kUint64, {4, 4, 4}, 1};
  const std::uint64_t fill = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> samples(64, fill - 1);  // float64 rounds both to 2^64
  samples[3] = fill;
  const Result<EncodedPatch> encoded = EncodePatch(kLossless, layout, AsBytes(samples), fill, 0);

  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->valid, 63u);
}

TEST(EncodePatch, WithoutMissingSamplesHasTheBytesOfTheCoder) {
  const PatchLayout layout{DataType::kFloat32, {7, 5, 3}, 3};
  std::vector<float> samples;
  for (int i = 0; i < 7 * 5 * 3; ++i) samples.push_back(static_cast<float>(std::sin(i)));
  const EncodedPatch encoded = *EncodePatch(kLossy, layout, AsBytes(samples), BitsOf(-1e10f), 0);
  EXPECT_TRUE(encoded.mask_levels.empty());
  EXPECT_EQ(encoded.mask_size(), 0u);
  EXPECT_EQ(encoded.valid, samples.size());
  EXPECT_EQ(encoded.levels, kLossy.Encode({layout, AsBytes(samples), {}, kOneExactLayer})->levels);

  const WaveletZfpCoder wavelet;
  EXPECT_EQ(EncodePatch(wavelet, layout, AsBytes(samples), {}, 1e-3)->levels,
            wavelet.Encode({layout, AsBytes(samples), {}, std::array{1e-3}})->levels);
}

TEST(EncodePatch, OfOneFillValueCostsItsBitsOnce) {
  const PatchLayout layout{DataType::kFloat32, {8, 8, 1}, 3};
  std::vector<float> samples(64);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = i % 8 < 4 ? -1e10f : static_cast<float>(i);
  const EncodedPatch encoded = *EncodePatch(kLossy, layout, AsBytes(samples), BitsOf(-1e10f), 0);
  EXPECT_EQ(encoded.levels[2].size(), 4u + 1 + 2 * 4);  // value, no exceptions, valid samples of 2 x 2
  EXPECT_EQ(encoded.levels[1].size(), 1u + 6 * 4);
  EXPECT_EQ(encoded.levels[0].size(), 1u + 24 * 4);
  EXPECT_EQ(encoded.levels[2][0], std::byte{0xf9});
  EXPECT_EQ(encoded.levels[2][4], std::byte{0});
}

TEST(EncodePatch, WithoutValidSamplesNeverReachesTheCoder) {
  const PatchLayout layout{DataType::kFloat32, {9, 4, 2}, 3};
  std::vector<float> samples(72, kNan);
  const EncodedPatch encoded = *EncodePatch(kLossy, layout, AsBytes(samples), {}, 0);
  EXPECT_EQ(encoded.levels[2].size(), 4u);
  EXPECT_EQ(encoded.size(), 4u);
  EXPECT_EQ(encoded.mask_size(), 1u);
  EXPECT_EQ(encoded.valid, 0u);
  EXPECT_EQ(encoded.errors[1].max_error, 0);
  ExpectExact(kLossy, layout, samples, std::vector<bool>(72, false), encoded);

  samples[71] = -1e10f;
  samples[40] = FromBits(0x7fc00123);
  const EncodedPatch with_exceptions = *EncodePatch(kLossy, layout, AsBytes(samples), BitsOf(-1e10f), 0);
  ExpectExact(kLossy, layout, samples, std::vector<bool>(72, false), with_exceptions);
}

TEST(EncodePatch, KeepsPayloadsOfNanAndManyMissingValues) {
  std::mt19937 random(11);
  const PatchLayout layout{DataType::kFloat32, {20, 20, 20}, 4};
  std::vector<float> samples;
  std::vector<bool> valid;
  for (int i = 0; i < 8000; ++i) {
    valid.push_back(random() % 2 == 0);
    const std::uint32_t payload = 0x7f800000u | (random() & 0x807fffff);
    samples.push_back(valid.back() ? static_cast<float>(i) : FromBits(payload));
  }
  const EncodedPatch encoded = *EncodePatch(kLossy, layout, AsBytes(samples), {}, 0);
  ExpectExact(kLossy, layout, samples, valid, encoded);
  EXPECT_LT(encoded.size() + encoded.mask_size(), 8000u * 4 + 8000 / 2 + 8000 / 8 + 64);
}

TEST(EncodePatch, SeveralMissingValuesInRunsAreCheap) {
  const PatchLayout layout{DataType::kFloat32, {64, 64, 8}, 4};
  std::vector<float> samples;
  std::vector<bool> valid;
  for (int i = 0; i < 64 * 64 * 8; ++i) {
    const int x = i % 64;
    samples.push_back(x < 20 ? -1e10f : x < 32 ? kNan : 1.0f);
    valid.push_back(x >= 32);
  }
  const EncodedPatch encoded = *EncodePatch(kLossless, layout, AsBytes(samples), BitsOf(-1e10f), 0);
  ExpectExact(kLossless, layout, samples, valid, encoded);
  const auto count = static_cast<std::size_t>(std::count(valid.begin(), valid.end(), true));
  EXPECT_LT(encoded.size() - count * 4, 600u);  // 12288 exceptions
}

TEST(EncodePatch, TakesTheMostFrequentMissingValueAsTheCommonOne) {
  const PatchLayout layout{DataType::kFloat32, {5, 1, 1}, 1};
  const std::vector<float> samples = {kNan, kInfinity, 1, kInfinity, kNan};
  const EncodedPatch encoded = *EncodePatch(kLossy, layout, AsBytes(samples), {}, 0);
  // Equally frequent: the smaller bits are those of infinity, 7f800000. Then two exceptions in 2 + 8 bytes,
  // uncompressed: at place 0, and two further on, at place 3.
  const std::vector<int> expected = {0,    0,    0x80, 0x7f, 2,    10,   10, 0, 2,    0,   0,
                                     0xc0, 0x7f, 0,    0,    0xc0, 0x7f, 0,  0, 0x80, 0x3f};
  std::vector<int> bytes;
  for (const std::byte byte : encoded.levels[0]) bytes.push_back(std::to_integer<int>(byte));
  EXPECT_EQ(bytes, expected);
}

TEST(EncodePatch, GivesCodersFiniteSamplesOnly) {
  // PlainCoder refuses other samples, also in the places of missing ones.
  const PatchLayout layout{DataType::kFloat64, {3, 2, 2}, 2};
  std::vector<double> samples(12, 4.0);
  samples[0] = samples[5] = std::numeric_limits<double>::quiet_NaN();
  samples[11] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(EncodePatch(kLossy, layout, AsBytes(samples), {}, 0).ok());
  EXPECT_FALSE(kLossy.Encode({layout, AsBytes(samples), {}, kOneExactLayer}).ok());
}

TEST(EncodePatch, RefusesCodersThatBreakTheTolerance) {
  const PatchLayout layout{DataType::kFloat32, {4, 4, 4}, 2};
  std::vector<float> samples(64, 1.0f);
  const PlainCoder wrong(false, 0.5);
  EXPECT_EQ(EncodePatch(wrong, layout, AsBytes(samples), {}, 0.25).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(EncodePatch(wrong, layout, AsBytes(samples), {}, 0.5).ok());
  samples[9] = kNan;
  EXPECT_EQ(EncodePatch(wrong, layout, AsBytes(samples), {}, 0.25).status().code(), StatusCode::kInternal);
  const EncodedPatch encoded = *EncodePatch(wrong, layout, AsBytes(samples), {}, 0.5);
  EXPECT_EQ(encoded.errors[0].max_error, 0.5);
  EXPECT_EQ(encoded.valid, 63u);
}

TEST(EncodePatch, HoldsACoderThatSaysItIsLosslessToNoErrorAtAll) {
  const PatchLayout layout{DataType::kFloat32, {4, 4, 4}, 2};
  const std::vector<float> samples(64, 1.0f);

  EXPECT_EQ(EncodePatch(PlainCoder(true, 0.5), layout, AsBytes(samples), {}, 0.5).status().code(),
            StatusCode::kInternal);
  EXPECT_TRUE(EncodePatch(PlainCoder(true), layout, AsBytes(samples), {}, -1).ok())
      << "ignores the tolerance";
}

TEST(EncodePatch, RefusesBadArguments) {
  const PatchLayout layout{DataType::kInt16, {2, 2, 1}, 1};
  const std::vector<std::int16_t> samples = {1, 2, 3, -4};
  EXPECT_TRUE(EncodePatch(kLossy, layout, AsBytes(samples), 0xffffu, 0).ok());
  const Result<EncodedPatch> wide = EncodePatch(kLossy, layout, AsBytes(samples), 0x10000u, 0);
  EXPECT_EQ(wide.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(wide.status().message().find("0x10000"), std::string::npos) << wide.status().message();
  EXPECT_EQ(EncodePatch(kLossy, layout, AsBytes(samples).first(6), {}, 0).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(EncodePatch, HoldsTheToleranceOfWaveletZfpOnValidSamples) {
  const WaveletZfpCoder wavelet;
  const PatchLayout layout{DataType::kFloat32, {40, 33, 20}, 5};
  std::vector<float> samples;
  std::vector<bool> valid;
  for (std::int64_t i = 0; i < Volume(layout.shape); ++i) {
    const double x = static_cast<double>(i % 40);
    const double y = static_cast<double>(i / 40 % 33);
    const double z = static_cast<double>(i / 40 / 33);
    valid.push_back(z < 10 + 5 * std::sin(0.2 * x) + 3 * std::cos(0.3 * y));
    samples.push_back(valid.back() ? static_cast<float>(20 - z + std::sin(0.1 * x * y))
                                   : (i % 7 == 0 ? kNan : -1e10f));
  }
  const EncodedPatch encoded = *EncodePatch(wavelet, layout, AsBytes(samples), BitsOf(-1e10f), 1e-2);
  EXPECT_LE(encoded.errors[0].max_error, 1e-2);
  EXPECT_LE(encoded.max, 22);
  PatchReader reader(wavelet, layout);
  for (int level = layout.levels - 1; level >= 0; --level) {
    ASSERT_TRUE(
        reader.Advance(encoded.levels[static_cast<std::size_t>(level)], MaskPayload(encoded, level)).ok());
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    float decoded = 0;
    std::memcpy(&decoded, reader.samples().data() + i * 4, 4);
    if (valid[i]) {
      ASSERT_LE(std::abs(static_cast<double>(decoded) - static_cast<double>(samples[i])), 1e-2);
    } else {
      ASSERT_EQ(BitsOf(decoded), BitsOf(samples[i]));
    }
  }
}

TEST(PatchReaderClone, GoesOnByItselfFromAnyLevel) {
  std::mt19937 random(4);
  for (const PatchCoder* field_coder : FieldCoders()) {
    for (const bool missing : {false, true}) {
      const PatchCoder& coder = *field_coder;
      const PatchLayout layout{DataType::kFloat32, {19, 16, 11}, 4};
      std::vector<float> samples;
      for (std::int64_t i = 0; i < Volume(layout.shape); ++i) {
        const float noise = static_cast<float>(random() % 1000) * 1e-4f;
        samples.push_back(missing && i % 5 == 0 ? kNan : noise + std::sin(0.01f * static_cast<float>(i)));
      }
      const EncodedPatch encoded = *EncodePatch(coder, layout, AsBytes(samples), std::nullopt, 1e-3);
      const auto advance = [&](PatchReader* reader) {
        const int level = reader->level() - 1;
        ASSERT_TRUE(
            reader->Advance(encoded.levels[static_cast<std::size_t>(level)], MaskPayload(encoded, level))
                .ok());
      };
      PatchReader whole(coder, layout);
      while (whole.level() > 0) advance(&whole);
      PatchReader original(coder, layout);
      for (int level = layout.levels; level >= 0; --level) {
        PatchReader clone = original.Clone();
        EXPECT_EQ(clone.level(), level);
        while (clone.level() > 0) advance(&clone);
        EXPECT_TRUE(std::ranges::equal(clone.samples(), whole.samples()))
            << coder.name() << " from " << level;
        EXPECT_TRUE(std::ranges::equal(clone.validity(), whole.validity()));
        EXPECT_GE(clone.memory(), clone.samples().size());
        EXPECT_EQ(original.level(), level) << "left where it was";
        if (level > 0) advance(&original);
      }
    }
  }
}

enum class ArrayKind : std::uint8_t { kSmall, kLarge, kUnaligned };

/// The samples of a level by AdvanceInto, in a larger array whose other bytes stay as they are.
Bytes AdvancedInto(const PatchReader& coarser, const PatchLayout& layout, const EncodedPatch& encoded,
                   ArrayKind kind) {
  constexpr std::byte kGuard{0xa5};
  const int level = coarser.level() - 1;
  const std::size_t size = SizeOf(layout.type);
  const Index3 shape = LevelShape(layout.shape, level);
  const Box part{{3, 2, 1}, {3 + shape[0], 2 + shape[1], 1 + shape[2]}};
  const Box whole{{0, 0, 0}, {part.end[0] + 2, part.end[1] + 1, part.end[2] + 1}};
  const std::size_t before = kind == ArrayKind::kUnaligned ? 1 : 0;
  Bytes array(before + static_cast<std::size_t>(whole.volume()) * size, kGuard);
  SamplePlace place = SampleArray{array.data() + before, whole, size}.PlaceOf(part);
  place.streamed = kind == ArrayKind::kLarge;
  PatchReader reader = coarser.Clone();
  const Status status =
      reader.AdvanceInto(encoded.levels[static_cast<std::size_t>(level)], MaskPayload(encoded, level), place);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(reader.Advance(ByteSpan(), ByteSpan()).ok()) << "it ends there";
  Bytes samples;
  const std::size_t row = static_cast<std::size_t>(shape[0]) * size;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      samples.insert(samples.end(), place.Row(y, z), place.Row(y, z) + row);
      std::fill_n(place.Row(y, z), row, kGuard);
    }
  }
  EXPECT_TRUE(std::ranges::all_of(array, [&](std::byte b) { return b == kGuard; }));
  return samples;
}

TEST(PatchReaderInto, PutsTheSamplesOfAnyLevelIntoALargerArray) {
  std::mt19937 random(5);
  for (const PatchCoder* coder : FieldCoders()) {
    for (const Index3 shape : {Index3{19, 16, 11}, Index3{64, 9, 1}, Index3{1, 1, 7}}) {
      for (const int kind : {0, 1, 2}) {  // noise, missing samples, one value
        const PatchLayout layout{DataType::kFloat32, shape, 4};
        std::vector<float> samples;
        for (std::int64_t i = 0; i < Volume(shape); ++i) {
          const float noise = static_cast<float>(random() % 1000) * 1e-4f;
          const float smooth = noise + std::sin(0.01f * static_cast<float>(i));
          samples.push_back(kind == 1 && i % 5 == 2 ? kNan : kind == 2 ? 1.5f : smooth);
        }
        const EncodedPatch encoded = *EncodePatch(*coder, layout, AsBytes(samples), std::nullopt, 1e-3);
        PatchReader reader(*coder, layout);
        while (reader.level() > 0) {
          const int level = reader.level() - 1;
          std::vector<Bytes> arrays;
          for (const ArrayKind array : {ArrayKind::kSmall, ArrayKind::kLarge, ArrayKind::kUnaligned})
            arrays.push_back(AdvancedInto(reader, layout, encoded, array));
          ASSERT_TRUE(
              reader.Advance(encoded.levels[static_cast<std::size_t>(level)], MaskPayload(encoded, level))
                  .ok());
          for (const Bytes& into : arrays) {
            EXPECT_TRUE(std::ranges::equal(into, reader.samples()))
                << coder->name() << " level " << level << " of " << ToString(shape) << " kind " << kind;
          }
        }
      }
    }
  }
}

class PatchReaderOfDamage : public ::testing::Test {
 protected:
  PatchReaderOfDamage() {
    std::mt19937 random(12);
    for (std::int64_t i = 0; i < Volume(layout_.shape); ++i) {
      const bool missing = i % 13 < 5 || random() % 8 == 0;
      samples_.push_back(!missing            ? static_cast<float>(i)
                         : random() % 3 == 0 ? FromBits(0x7fc00000 | (random() & 0xff))
                                             : -1e10f);
    }
    encoded_ = *EncodePatch(kLossy, layout_, AsBytes(samples_), BitsOf(-1e10f), 0);
  }

  /// Reads until the first error.
  StatusCode Read(const std::vector<Bytes>& levels, const std::vector<Bytes>& masks) const {
    PatchReader reader(kLossy, layout_);
    for (std::size_t level = levels.size(); level-- > 0;) {
      const Status status = reader.Advance(levels[level], masks[level]);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
        // After an error, every further call fails.
        EXPECT_EQ(reader.Advance(levels[level], masks[level]).code(), StatusCode::kInternal);
        return status.code();
      }
      EXPECT_EQ(reader.samples().size(),
                static_cast<std::size_t>(Volume(LevelShape(layout_.shape, static_cast<int>(level)))) * 4);
      EXPECT_TRUE(reader.validity().empty() || reader.validity().size() * 4 == reader.samples().size());
    }
    return StatusCode::kOk;
  }

  const PatchLayout layout_{DataType::kFloat32, {13, 9, 6}, 3};
  std::vector<float> samples_;
  EncodedPatch encoded_;
};

TEST_F(PatchReaderOfDamage, HandlesEveryTruncation) {
  ASSERT_EQ(Read(encoded_.levels, encoded_.mask_levels), StatusCode::kOk);
  for (std::size_t level = 0; level < encoded_.levels.size(); ++level) {
    for (std::size_t length = 0; length < encoded_.levels[level].size(); ++length) {
      std::vector<Bytes> levels = encoded_.levels;
      levels[level].resize(length);
      EXPECT_EQ(Read(levels, encoded_.mask_levels), StatusCode::kDataLoss) << level << " " << length;
    }
    for (std::size_t length = 0; length < encoded_.mask_levels[level].size(); ++length) {
      std::vector<Bytes> masks = encoded_.mask_levels;
      masks[level].resize(length);
      (void)Read(encoded_.levels, masks);
    }
  }
}

TEST_F(PatchReaderOfDamage, HandlesEveryChangedByte) {
  std::mt19937 random(13);
  for (std::size_t level = 0; level < encoded_.levels.size(); ++level) {
    for (std::size_t i = 0; i < encoded_.levels[level].size(); ++i) {
      std::vector<Bytes> levels = encoded_.levels;
      levels[level][i] ^= static_cast<std::byte>(1 + random() % 255);
      (void)Read(levels, encoded_.mask_levels);
    }
    for (std::size_t i = 0; i < encoded_.mask_levels[level].size(); ++i) {
      std::vector<Bytes> masks = encoded_.mask_levels;
      masks[level][i] ^= static_cast<std::byte>(1 + random() % 255);
      (void)Read(encoded_.levels, masks);
    }
  }
}

TEST_F(PatchReaderOfDamage, HandlesRandomBytes) {
  std::mt19937 random(14);
  for (int i = 0; i < 5000; ++i) {
    std::vector<Bytes> levels(3);
    std::vector<Bytes> masks = encoded_.mask_levels;
    if (i % 4 == 0) masks = {Bytes(), Bytes(), Bytes(1)};
    if (i % 4 == 0) masks[2][0] = std::byte{0};
    for (Bytes& payload : levels) {
      payload.resize(random() % 60);
      for (std::byte& byte : payload)
        byte = static_cast<std::byte>(random() % 2 == 0 ? random() % 12 : random());
    }
    (void)Read(levels, masks);
  }
}

TEST_F(PatchReaderOfDamage, RefusesSectionsThatCannotBe) {
  // A patch of 4 samples, all missing; the exceptions of its one level.
  const PatchLayout layout{DataType::kFloat32, {4, 1, 1}, 1};
  const auto read = [&](std::vector<int> section) {
    Bytes payload(4);
    std::fill(payload.begin(), payload.end(), std::byte{0x11});
    for (const int byte : section) payload.push_back(static_cast<std::byte>(byte));
    Bytes mask(1);
    mask[0] = std::byte{0};
    PatchReader reader(kLossy, layout);
    const Status status = reader.Advance(payload, mask);
    if (!status.ok()) return std::string(status.message());
    EXPECT_EQ(status.code(), StatusCode::kOk);
    std::string values;
    for (std::size_t i = 0; i < 16; i += 4) {
      values += fmt::format("{:x} ", std::to_integer<int>(reader.samples()[i]));
    }
    return values;
  };
  EXPECT_EQ(read({}), "11 11 11 11 ");
  EXPECT_EQ(read({0}), "11 11 11 11 ");
  EXPECT_EQ(read({1, 5, 5, 3, 7, 7, 7, 7}), "11 11 11 7 ");
  EXPECT_EQ(read({2, 10, 10, 0, 1, 7, 7, 7, 7, 8, 8, 8, 8}), "7 11 8 11 ");
  EXPECT_NE(read({1, 5, 5, 4, 7, 7, 7, 7}).find("position 4 of 4"), std::string::npos);
  EXPECT_NE(read({2, 10, 10, 3, 0, 7, 7, 7, 7, 8, 8, 8, 8}).find("position 4 of 4"), std::string::npos);
  EXPECT_NE(read({5, 25, 25}).find("5 exceptions among 4"), std::string::npos);
  EXPECT_NE(read({1, 4, 4, 0, 7, 7, 7}).find("1 missing values has 4 bytes"), std::string::npos);
  EXPECT_NE(read({1, 10, 10}).find("1 missing values has 10 bytes"), std::string::npos);
  EXPECT_NE(read({1, 5, 6, 3, 7, 7, 7, 7, 7}).find("stored in 6 bytes"), std::string::npos);
  EXPECT_NE(read({1, 5, 5, 3, 7, 7, 7}).find("stored in 5 bytes"), std::string::npos);
  EXPECT_NE(read({1, 5, 2, 0, 0}).find("zstd"), std::string::npos);
  EXPECT_NE(read({1, 6, 6, 3, 7, 7, 7, 7, 7}).find("1 missing values in 5 bytes"), std::string::npos);
  EXPECT_NE(read({1, 5, 5, 0x83, 0, 7, 7, 7}).find("1 missing values in 3 bytes"), std::string::npos);
  EXPECT_NE(read({0x80, 0x80, 0x80, 0x80, 0x80, 0}).find("malformed"), std::string::npos);
  EXPECT_NE(read({0, 0}).find("without valid samples has 1 bytes"), std::string::npos);
}

TEST_F(PatchReaderOfDamage, RefusesAMaskThatTheCoarsestLevelDidNotAnnounce) {
  PatchReader reader(kLossy, layout_);
  const CodedPatch coded =
      *kLossy.Encode({layout_, AsBytes(std::vector<float>(13 * 9 * 6, 1.0f)), {}, kOneExactLayer});
  ASSERT_TRUE(reader.Advance(coded.levels[2], {}).ok());
  EXPECT_EQ(reader.Advance(coded.levels[1], encoded_.mask_levels[1]).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry
