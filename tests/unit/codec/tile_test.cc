#include "quarry/codec/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "quarry/base/checksum.h"
#include "quarry/base/missing.h"
#include "quarry/codec/sample_span.h"
#include "tests/testing/generated_patch.h"
#include "tests/testing/random.h"

namespace quarry {
namespace {

using testing::GeneratedPatch;
using testing::PatchSpec;
using testing::Random;

constexpr std::size_t kChecksum = 8;

/// Decodes into an array that is larger than the tile, and checks that nothing else in it changes.
Result<Bytes> Decode(const TileLayout& layout, ByteSpan coded) {
  constexpr auto kUntouched = std::byte{0x5a};
  const std::size_t size = SizeOf(layout.type);
  const auto [nx, ny, nz] = layout.shape;
  const std::size_t row = static_cast<std::size_t>(nx + 3) * size;
  const std::size_t plane = row * static_cast<std::size_t>(ny + 2);
  const std::size_t first = plane + row + size;
  Bytes array(plane * static_cast<std::size_t>(nz + 2), kUntouched);
  std::ranges::fill(array, kUntouched);
  QUARRY_RETURN_IF_ERROR(DecodeTile(layout, coded, {array.data() + first, row, plane}));
  Bytes samples;
  for (std::int64_t z = 0; z < nz; ++z) {
    for (std::int64_t y = 0; y < ny; ++y) {
      std::byte* const begin =
          array.data() + first + static_cast<std::size_t>(z) * plane + static_cast<std::size_t>(y) * row;
      samples.insert(samples.end(), begin, begin + static_cast<std::size_t>(nx) * size);
      std::fill_n(begin, static_cast<std::size_t>(nx) * size, kUntouched);
    }
  }
  if (!std::ranges::all_of(array, [](std::byte b) { return b == kUntouched; }))
    return InternalError("bytes outside the tile have changed");
  return samples;
}

/// The first broken promise of a decoded tile, or nothing.
template <typename T>
std::string BrokenPromise(ByteSpan before, ByteSpan after, const TileCoding& coding, double bound) {
  const std::span<const T> original = SamplesOf<T>(before);
  const std::span<const T> decoded = SamplesOf<T>(after);
  for (std::size_t i = 0; i < original.size(); ++i) {
    const bool same = SampleBits(original[i]) == SampleBits(decoded[i]);
    if (same) continue;
    if (bound == 0) return fmt::format("sample {} is another", i);
    if (IsMissing(original[i], coding.fill)) return fmt::format("missing sample {} is another", i);
    const double error = std::abs(static_cast<double>(original[i]) - static_cast<double>(decoded[i]));
    if (!(error <= bound)) return fmt::format("sample {} has an error of {}, not {}", i, error, bound);
    const bool signs = coding.field == CoderId::kInterpolateSigns;
    if ((signs || coding.field == CoderId::kInterpolateZeros) && original[i] == 0 && decoded[i] != 0)
      return fmt::format("zero {} is not kept", i);
    if (signs && ((original[i] < 0) != (decoded[i] < 0) || (original[i] > 0) != (decoded[i] > 0)))
      return fmt::format("the sign of sample {} is not kept", i);
  }
  return "";
}

/// Codes, decodes and compares. @returns what is wrong, or nothing
std::string Check(const TileLayout& layout, ByteSpan samples, const TileCoding& coding) {
  const Result<Bytes> coded = EncodeTile(layout, samples, coding);
  if (!coded.ok()) return coded.status().message();
  const Result<Bytes> decoded = Decode(layout, *coded);
  if (!decoded.ok()) return decoded.status().message();
  const double bound = TileError(layout.type, coding.field, coding.error);
  if (bound > coding.error) return "the bound is above the wish";
  return DispatchType(layout.type, [&](auto zero) {
    return BrokenPromise<decltype(zero)>(samples, *decoded, coding, bound);
  });
}

/// 0, a fraction of the range, or an error at the ends of what is possible.
double RandomError(double range, Random* random) {
  constexpr std::array kEnds = {std::numeric_limits<double>::denorm_min(), 1e-300, 0.5, 1.0, 1e300,
                                std::numeric_limits<double>::infinity()};
  if (random->OneIn(4)) return 0;
  if (random->OneIn(6)) return kEnds[random->Below(kEnds.size())];
  return range * std::pow(10, -9 * random->Fraction());
}

Bytes BytesOf(const std::vector<float>& samples) {
  const ByteSpan bytes = std::as_bytes(std::span(samples));
  return {bytes.begin(), bytes.end()};
}

/// A plane with a few missing samples.
std::vector<float> SomePlane(const Index3& shape) {
  std::vector<float> samples;
  for (std::int64_t i = 0; i < Volume(shape); ++i)
    samples.push_back(i % 37 == 5 ? NAN : std::sin(static_cast<float>(i) * 0.05F));
  return samples;
}

/// The checksum of a tile, written from docs/protocol.md: type, sides, content.
Bytes Sealed(const TileLayout& layout, ByteSpan content) {
  Bytes all;
  all.push_back(static_cast<std::byte>(layout.type));
  for (const std::int64_t side : layout.shape) PutLittleEndian(&all, side);
  all.insert(all.end(), content.begin(), content.end());
  Bytes coded(content.begin(), content.end());
  PutLittleEndian(&coded, Checksum(all));
  return coded;
}

TEST(TileTest, KeepsItsPromiseForRandomTiles) {
  Random random(testing::SeedFromEnvironment());
  GeneratedPatch patch;
  for (int i = 0; i < 4000; ++i) {
    const DataType type = testing::kAllTypes[random.Below(std::size(testing::kAllTypes))];
    PatchSpec spec = testing::RandomSpec(type, i % 100 == 0 ? kMaxTileSamples : 4000, &random);
    spec.layout.levels = 1;
    testing::Generate(spec, &patch);
    const CoderId field = FieldCoders()[random.Below(FieldCoders().size())]->id();
    const double error = RandomError(testing::ValueRange(type, patch), &random);

    const std::string broken = Check({type, spec.layout.shape}, patch.samples, {field, error, patch.fill});

    ASSERT_EQ(broken, "") << i << ": " << testing::ToString(spec) << ", field " << Name(field) << ", error "
                          << error;
  }
}

TEST(TileTest, KeepsItsPromiseForSmallShapes) {
  Random random(2);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kUint8, DataType::kInt16,
                              DataType::kInt64, DataType::kUint64}) {
    for (std::int64_t volume = 0; volume < 4 * 4 * 4; ++volume) {
      const Index3 shape{1 + volume % 4, 1 + volume / 4 % 4, 1 + volume / 16};
      Bytes samples(static_cast<std::size_t>(Volume(shape)) * SizeOf(type));
      for (std::byte& byte : samples) byte = static_cast<std::byte>(random.Below(256));
      // Random bits: every number, infinities and NaN among them.
      for (const double error : {0.0, 1e-3, 3.0}) {
        ASSERT_EQ(Check({type, shape}, samples, {CoderId::kInterpolate, error, {}}), "")
            << Name(type) << " " << ToString(shape) << " within " << error;
      }
      std::ranges::fill(samples, std::byte{0});
      // All samples are missing.
      ASSERT_EQ(Check({type, shape}, samples, {CoderId::kInterpolate, 1, 0}), "") << ToString(shape);
    }
  }
}

TEST(TileTest, IsExactWhereAnErrorWouldBreakAPromise) {
  using enum CoderId;
  const auto coder = [](DataType type, CoderId field, double error) {
    return TileCoder(type, field, error).id();
  };

  EXPECT_EQ(coder(DataType::kFloat32, kInterpolate, 0), kLossless);
  EXPECT_EQ(coder(DataType::kFloat32, kInterpolate, 1), kInterpolate);
  EXPECT_EQ(coder(DataType::kFloat64, kWaveletZfp, 1), kInterpolate);
  EXPECT_EQ(coder(DataType::kFloat32, kLossless, 1), kInterpolate);
  EXPECT_EQ(coder(DataType::kUint16, kLossless, 0), kLossless);
  EXPECT_EQ(coder(DataType::kUint16, kInterpolate, 0), kInterpolate);
  EXPECT_EQ(coder(DataType::kInt64, kLossless, 1), kLossless);
  EXPECT_EQ(coder(DataType::kFloat32, kInterpolateZeros, 1), kInterpolateZeros);
  EXPECT_EQ(coder(DataType::kFloat32, kInterpolateSigns, 0), kLossless);
  EXPECT_EQ(coder(DataType::kFloat64, kInterpolateRelative, 1), kLossless);
  EXPECT_EQ(coder(DataType::kFloat32, static_cast<CoderId>(77), 1), kLossless);
  EXPECT_EQ(TileError(DataType::kFloat64, kInterpolateRelative, 1), 0);
  EXPECT_EQ(TileError(DataType::kFloat32, kInterpolate, 0.5), 0.5);
}

TEST(TileTest, CodesAPlaneInFewBytes) {
  const Index3 shape{512, 512, 1};
  std::vector<float> plane;
  for (std::int64_t y = 0; y < shape[1]; ++y) {
    for (std::int64_t x = 0; x < shape[0]; ++x)
      plane.push_back(std::sin(static_cast<float>(x) * 0.05F) * std::cos(static_cast<float>(y) * 0.03F));
  }

  const Result<Bytes> coded =
      EncodeTile({DataType::kFloat32, shape}, BytesOf(plane), {CoderId::kInterpolate, 1e-4, {}});

  ASSERT_TRUE(coded.ok()) << coded.status().message();
  EXPECT_LT(coded->size(), plane.size() * sizeof(float) / 20);
}

TEST(TileTest, RefusesEveryTruncationAndEveryChangedByte) {
  const TileLayout layout{DataType::kFloat32, {19, 7, 3}};
  const Bytes coded =
      *EncodeTile(layout, BytesOf(SomePlane(layout.shape)), {CoderId::kInterpolate, 1e-2, {}});
  ASSERT_TRUE(Decode(layout, coded).ok());

  for (std::size_t size = 0; size < coded.size(); ++size) {
    const Status status = Decode(layout, ByteSpan(coded).first(size)).status();
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size << ": " << status.message();
  }
  for (std::size_t i = 0; i < coded.size(); ++i) {
    Bytes changed = coded;
    changed[i] ^= std::byte{0x10};
    ASSERT_EQ(Decode(layout, changed).status().code(), StatusCode::kDataLoss) << i;
  }
  Bytes longer = coded;
  longer.push_back(std::byte{0});
  EXPECT_EQ(Decode(layout, longer).status().code(), StatusCode::kDataLoss);
}

TEST(TileTest, RefusesAnotherShapeOrType) {
  const TileLayout layout{DataType::kFloat32, {12, 6, 1}};
  const Bytes coded =
      *EncodeTile(layout, BytesOf(SomePlane(layout.shape)), {CoderId::kInterpolate, 1e-2, {}});

  for (const TileLayout& other :
       {TileLayout{DataType::kFloat32, {6, 12, 1}}, TileLayout{DataType::kInt32, {12, 6, 1}}}) {
    const Status status = Decode(other, coded).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("checksum"), std::string::npos) << status.message();
  }
}

/// The checksum is no defence against somebody who computes it.
TEST(TileTest, SurvivesHostileBytesWithTheirChecksum) {
  Random random(testing::SeedFromEnvironment());
  GeneratedPatch patch;
  int refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const DataType type = testing::kAllTypes[random.Below(std::size(testing::kAllTypes))];
    PatchSpec spec = testing::RandomSpec(type, 600, &random);
    spec.layout.levels = 1;
    testing::Generate(spec, &patch);
    const TileLayout layout{type, spec.layout.shape};
    const CoderId field = FieldCoders()[random.Below(FieldCoders().size())]->id();
    const double error = RandomError(testing::ValueRange(type, patch), &random);
    Bytes content = *EncodeTile(layout, patch.samples, {field, error, patch.fill});
    content.resize(content.size() - kChecksum);
    for (int changes = random.Between(1, 4); changes > 0; --changes) {
      // The first bytes, which say how the others are read, more often.
      const std::size_t at =
          random.Below(random.OneIn(2) ? content.size() : std::min<std::size_t>(8, content.size()));
      content[at] = static_cast<std::byte>(random.Below(256));
    }
    if (random.OneIn(3)) content.resize(random.Below(content.size() + 1));

    const Result<Bytes> decoded = Decode(layout, Sealed(layout, content));

    if (decoded.ok()) continue;
    ++refused;
    ASSERT_EQ(decoded.status().code(), StatusCode::kDataLoss) << decoded.status().message();
  }
  EXPECT_GT(refused, 1000);
}

TEST(TileTest, NamesOnlyCodersOfFields) {
  const TileLayout layout{DataType::kUint8, {8, 1, 1}};
  for (const int id :
       {0, static_cast<int>(CoderId::kValidity), static_cast<int>(CoderId::kInterpolateRelative), 200}) {
    const Status status = Decode(layout, Sealed(layout, Bytes(4, static_cast<std::byte>(id)))).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("impossible coder"), std::string::npos) << status.message();
  }
}

TEST(TileTest, RefusesImpossibleTiles) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const Index3& shape : {Index3{0, 1, 1}, Index3{-4, -4, 1}, Index3{kMaxTileSamples, 2, 1},
                              Index3{kMost, kMost, kMost}, Index3{1, 1, kMaxTileSamples + 1}}) {
    const TileLayout layout{DataType::kUint8, shape};
    EXPECT_EQ(EncodeTile(layout, {}, {}).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DecodeTile(layout, {}, {}).code(), StatusCode::kInvalidArgument);
  }
  const Bytes samples(32);
  for (const double error : {-1.0, static_cast<double>(NAN)}) {
    EXPECT_EQ(EncodeTile({DataType::kFloat32, {8, 1, 1}}, samples, {CoderId::kInterpolate, error, {}})
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(EncodeTile({DataType::kFloat32, {9, 1, 1}}, samples, {}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quarry
