#include "quarry/codec/mask/validity_coder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string_view>

#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

const ValidityCoder kCoder;

PatchLayout MaskLayout(const Index3& shape, int levels) { return {DataType::kUint8, shape, levels}; }

template <typename Predicate>
Bytes MakeMask(const Index3& shape, const Predicate& is_valid) {
  Bytes mask;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        mask.push_back(static_cast<std::byte>(is_valid(x, y, z) ? 1 : 0));
      }
    }
  }
  return mask;
}

/// Every 2^level-th sample: the expected level of a mask.
Bytes EveryNth(const Bytes& mask, const Index3& shape, int level) {
  return MakeMask(LevelShape(shape, level), [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    const std::int64_t i = (x << level) + shape[0] * ((y << level) + shape[1] * (z << level));
    return mask[static_cast<std::size_t>(i)] == std::byte{1};
  });
}

std::size_t Size(const CodedPatch& coded) {
  std::size_t bytes = 0;
  for (const Bytes& level : coded.levels) bytes += level.size();
  return bytes;
}

Bytes ToBytes(ByteSpan span) { return Bytes(span.begin(), span.end()); }

/// Encodes, decodes, and compares every level with every 2^l-th sample.
void ExpectRoundTrip(const PatchLayout& layout, const Bytes& mask, CodedPatch* coded) {
  Result<CodedPatch> result = kCoder.Encode({layout, mask, {}, kOneExactLayer});
  ASSERT_TRUE(result.ok()) << result.status().message();
  *coded = *std::move(result);
  ASSERT_EQ(coded->levels.size(), static_cast<std::size_t>(layout.levels));
  ASSERT_EQ(coded->decoded.size(), coded->levels.size());
  const auto decoder = kCoder.NewDecoder(layout);
  EXPECT_EQ(decoder->level(), layout.levels);
  for (int level = layout.levels - 1; level >= 0; --level) {
    const Status status = decoder->Advance({coded->levels[static_cast<std::size_t>(level)]}).status();
    ASSERT_TRUE(status.ok()) << status.message();
    const Bytes expected = EveryNth(mask, layout.shape, level);
    ASSERT_EQ(decoder->level(), level);
    ASSERT_EQ(ToBytes(decoder->samples()), expected)
        << "shape " << ToString(layout.shape) << " level " << level << " of " << layout.levels;
    ASSERT_EQ(coded->decoded[static_cast<std::size_t>(level)], expected);
  }
  EXPECT_FALSE(decoder->Advance({}).ok());
}

/// Kinds of masks: half-spaces, balls, depth layers, noise of several densities, single samples.
Bytes MakeKind(const Index3& shape, int kind, std::mt19937* random) {
  const auto uniform = [&](double limit) { return limit * static_cast<double>((*random)()) / 4294967296.0; };
  const double density = std::pow(10.0, -uniform(4));
  const double radius = 1 + uniform(12);
  const double center[3] = {uniform(static_cast<double>(shape[0])), uniform(static_cast<double>(shape[1])),
                            uniform(static_cast<double>(shape[2]))};
  const bool inverse = (*random)() % 2 == 0;
  return MakeMask(shape, [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    const double dx = static_cast<double>(x) - center[0];
    const double dy = static_cast<double>(y) - center[1];
    const double dz = static_cast<double>(z) - center[2];
    switch (kind) {
      case 0:
        return (uniform(1) < density) != inverse;
      case 1:
        return (dx + 0.5 * dy - 0.25 * dz > 0) != inverse;
      case 2:
        return (dx * dx + dy * dy + dz * dz < radius * radius) != inverse;
      case 3:
        return (dz > 3 * std::sin(0.3 * dx) * std::cos(0.2 * dy)) != inverse;
      case 4:
        return ((x ^ y ^ z) & 1) != 0;
      default:
        return inverse;
    }
  });
}

TEST(ValidityCoder, ReturnsEveryLevelOfEveryKindOfMask) {
  std::mt19937 random(1);
  for (int i = 0; i < 1500; ++i) {
    const auto extent = [&] { return random() % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % 40); };
    Index3 shape = {extent(), extent(), extent()};
    if (i % 10 == 0) shape[random() % 3] = 60 + static_cast<std::int64_t>(random() % 90);
    const PatchLayout layout = MaskLayout(shape, 1 + static_cast<int>(random() % 7));
    CodedPatch coded;
    ExpectRoundTrip(layout, MakeKind(shape, static_cast<int>(random() % 6), &random), &coded);
    if (HasFatalFailure()) return;
  }
}

TEST(ValidityCoder, CodesRowsOfManyWords) {
  std::mt19937 random(2);
  for (const Index3& shape : {Index3{64, 3, 2}, Index3{65, 2, 3}, Index3{127, 5, 1}, Index3{128, 1, 5},
                              Index3{129, 3, 3}, Index3{1000, 2, 1}, Index3{1, 1, 777}, Index3{1, 300, 4}}) {
    for (int kind = 0; kind < 6; ++kind) {
      for (const int levels : {1, 2, 9}) {
        CodedPatch coded;
        ExpectRoundTrip(MaskLayout(shape, levels), MakeKind(shape, kind, &random), &coded);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ValidityCoder, AllValidCostsNothing) {
  const Index3 shape = {64, 64, 27};
  CodedPatch coded;
  ExpectRoundTrip(MaskLayout(shape, 7), MakeMask(shape, [](auto...) { return true; }), &coded);
  EXPECT_EQ(Size(coded), 0u);
}

TEST(ValidityCoder, AllMissingCostsOneByteInTheCoarsestLevel) {
  const Index3 shape = {64, 64, 27};
  CodedPatch coded;
  ExpectRoundTrip(MaskLayout(shape, 7), MakeMask(shape, [](auto...) { return false; }), &coded);
  EXPECT_EQ(coded.levels.back().size(), 1u);
  EXPECT_EQ(Size(coded), 1u);
  EXPECT_TRUE(ValidityCoder::SaysAllMissing(coded.levels.back()));
}

TEST(ValidityCoder, LevelsAsPredictedCostNothing) {
  // The new samples of a level follow known ones; with a border at a multiple of 32 they all equal these.
  const Index3 shape = {64, 64, 64};
  CodedPatch coded;
  ExpectRoundTrip(MaskLayout(shape, 7), MakeMask(shape, [](auto x, auto, auto) { return x < 32; }), &coded);
  for (std::size_t level = 0; level < 5; ++level) EXPECT_TRUE(coded.levels[level].empty()) << level;
  EXPECT_FALSE(coded.levels[5].empty());
  EXPECT_EQ(coded.levels[6].size(), 1u);
}

TEST(ValidityCoder, OneMissingSampleCostsOneLevelAFewBytesAndTheFinerOnesNothing) {
  const Index3 shape = {64, 64, 64};
  CodedPatch coded;
  ExpectRoundTrip(MaskLayout(shape, 7),
                  MakeMask(shape, [](auto x, auto y, auto z) { return x != 12 || y != 40 || z != 20; }),
                  &coded);
  EXPECT_FALSE(ValidityCoder::SaysAllMissing(coded.levels.back()));
  EXPECT_EQ(coded.levels[6].size(), 1u);  // not empty: the patch is masked
  EXPECT_GT(coded.levels[2].size(), 0u);  // 12, 40, 20 are multiples of 4
  EXPECT_LT(Size(coded), 40u);
}

TEST(ValidityCoder, NoiseCostsABitASample) {
  std::mt19937 random(3);
  const Index3 shape = {64, 64, 64};
  CodedPatch coded;
  ExpectRoundTrip(MaskLayout(shape, 7), MakeMask(shape, [&](auto...) { return random() % 2 == 0; }), &coded);
  EXPECT_LE(Size(coded), 64u * 64 * 64 / 8 + 8);
  EXPECT_EQ(coded.levels[0].size(), 7u * 32 * 32 * 32 / 8);
}

TEST(ValidityCoder, OneCoarsestLevelOfEverythingCostsLittleMore) {
  const Index3 shape = {64, 64, 64};
  const auto ball = [](auto x, auto y, auto z) {
    return (x - 30) * (x - 30) + (y - 20) * (y - 20) + (z - 40) * (z - 40) > 15 * 15;
  };
  CodedPatch one;
  CodedPatch seven;
  ExpectRoundTrip(MaskLayout(shape, 1), MakeMask(shape, ball), &one);
  ExpectRoundTrip(MaskLayout(shape, 7), MakeMask(shape, ball), &seven);
  EXPECT_LE(Size(one), Size(seven));
  EXPECT_LT(Size(seven), 700u);
}

/// The mask of the World Ocean climatology: 20 x 180 x 360 big-endian float32 at byte 5712 of the file.
TEST(ValidityCoder, OceanCostsLessThanATenthOfABitASample) {
  std::ifstream file(QUARRY_SHARED_DATA "/levitus_climatology.cdf", std::ios::binary);
  const char* required = std::getenv("QUARRY_REQUIRE_DATA");
  if (!file && required != nullptr && std::string_view(required) == "1")
    FAIL() << "no levitus_climatology.cdf in " QUARRY_SHARED_DATA
              ", and QUARRY_REQUIRE_DATA=1 allows no skips";
  if (!file) GTEST_SKIP() << "no levitus_climatology.cdf in " QUARRY_SHARED_DATA;
  const PatchGrid grid = *PatchGrid::Create({360, 180, 20}, {64, 64, 64});
  std::vector<char> samples(static_cast<std::size_t>(Volume(grid.dims())) * 4);
  file.seekg(5712);
  ASSERT_TRUE(file.read(samples.data(), static_cast<std::streamsize>(samples.size())));
  std::size_t bytes = 0;
  std::size_t valid = 0;
  for (std::int64_t patch = 0; patch < grid.patch_count(); ++patch) {
    const Box box = grid.PatchBox(patch);
    const Bytes mask = MakeMask(box.shape(), [&](std::int64_t x, std::int64_t y, std::int64_t z) {
      const std::int64_t i = box.begin[0] + x + 360 * (box.begin[1] + y + 180 * (box.begin[2] + z));
      return std::memcmp(&samples[static_cast<std::size_t>(i) * 4], "\xd0\x15\x02\xf9", 4) != 0;  // -1e10
    });
    valid += static_cast<std::size_t>(std::count(mask.begin(), mask.end(), std::byte{1}));
    CodedPatch coded;
    ExpectRoundTrip(MaskLayout(box.shape(), 7), mask, &coded);
    bytes += Size(coded);
  }
  EXPECT_EQ(valid, 718725u);  // 55.5 %
  EXPECT_LT(bytes, 10000u);
}

TEST(ValidityCoder, BytesDependOnTheMaskAlone) {
  std::mt19937 random(4);
  const PatchLayout layout = MaskLayout({30, 20, 10}, 4);
  const Bytes mask = MakeKind(layout.shape, 3, &random);
  const CodedPatch first = *kCoder.Encode({layout, mask, {}, kOneExactLayer});
  (void)*kCoder.Encode({layout, MakeKind(layout.shape, 0, &random), {}, std::array{1.0}});

  EXPECT_EQ(first.levels, kCoder.Encode({layout, mask, {}, std::array{2.0}})->levels);
}

// The example of docs/format.md. If this fails, masks on disk no longer decode.
TEST(ValidityCoder, BytesAreThoseOfTheFormat) {
  const PatchLayout layout = MaskLayout({9, 6, 4}, 3);
  const Bytes mask = MakeMask(layout.shape, [](auto x, auto y, auto z) { return x + 2 * y > 3 + z; });
  const CodedPatch coded = *kCoder.Encode({layout, mask, {}, kOneExactLayer});
  const auto hex = [](const Bytes& bytes) {
    std::string text;
    for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
    return text;
  };
  EXPECT_EQ(hex(coded.levels[2]), "011f");
  EXPECT_EQ(hex(coded.levels[1]), "feb1ff");
  EXPECT_EQ(hex(coded.levels[0]), "0004fc186d6c579a9ee4");
}

TEST(ValidityCoder, RefusesWhatIsNoMask) {
  const PatchLayout layout = MaskLayout({2, 2, 1}, 1);
  const auto encode = [&](const PatchLayout& given, std::initializer_list<int> samples) {
    Bytes mask;
    for (const int sample : samples) mask.push_back(static_cast<std::byte>(sample));
    return kCoder.Encode({given, mask, {}, kOneExactLayer}).status().code();
  };
  EXPECT_EQ(encode(layout, {0, 1, 1, 0}), StatusCode::kOk);
  EXPECT_EQ(encode(layout, {0, 1, 2, 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(encode(layout, {0, 1, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(encode({DataType::kInt8, {2, 2, 1}, 1}, {0, 1, 1, 0}), StatusCode::kInvalidArgument);
  EXPECT_TRUE(kCoder.Supports(DataType::kUint8));
  EXPECT_FALSE(kCoder.Supports(DataType::kFloat32));
}

TEST(ValidityCoder, RefusesPayloadsThatCannotBe) {
  const PatchLayout layout = MaskLayout({4, 4, 4}, 2);  // 8 samples, then 56 more: at most 1 + 1 and 7 bytes
  const auto advance = [&](std::initializer_list<std::size_t> sizes, std::byte mode) {
    const auto decoder = kCoder.NewDecoder(layout);
    StatusCode last = StatusCode::kOk;
    bool first = true;
    for (const std::size_t size : sizes) {
      Bytes payload(size);
      std::fill(payload.begin(), payload.end(), std::byte{0x5a});
      if (first && size > 0) payload[0] = mode;
      first = false;
      last = decoder->Advance({payload}).status().code();
      if (last == StatusCode::kOk) {
        for (const std::byte sample : decoder->samples()) EXPECT_LE(std::to_integer<int>(sample), 1);
      }
    }
    return last;
  };
  EXPECT_EQ(advance({2, 7}, std::byte{1}), StatusCode::kOk);
  EXPECT_EQ(advance({2, 3}, std::byte{2}), StatusCode::kOk);
  EXPECT_EQ(advance({3}, std::byte{1}), StatusCode::kDataLoss);
  EXPECT_EQ(advance({2, 8}, std::byte{1}), StatusCode::kDataLoss);
  EXPECT_EQ(advance({1}, std::byte{3}), StatusCode::kDataLoss);  // no such mode
  EXPECT_EQ(advance({2}, std::byte{0}), StatusCode::kDataLoss);  // all missing, and more
  EXPECT_EQ(advance({1, 1}, std::byte{0}), StatusCode::kDataLoss);
  EXPECT_EQ(advance({0, 1}, std::byte{0}), StatusCode::kDataLoss);  // all valid, and more
  EXPECT_EQ(advance({0, 0}, std::byte{0}), StatusCode::kOk);
}

TEST(ValidityCoder, AnyPayloadIsAnErrorOrAMask) {
  std::mt19937 random(5);
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto extent = [&] { return 1 + static_cast<std::int64_t>(random() % 12); };
    const PatchLayout layout = MaskLayout({random() % 8 == 0 ? 100 + extent() : extent(), extent(), extent()},
                                          1 + static_cast<int>(random() % 5));
    const auto decoder = kCoder.NewDecoder(layout);
    for (int level = layout.levels - 1; level >= 0; --level) {
      const auto volume = static_cast<std::size_t>(Volume(LevelShape(layout.shape, level)));
      Bytes payload(random() % (volume / 8 + 3));
      for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
      if (level == layout.levels - 1 && !payload.empty()) payload[0] = static_cast<std::byte>(random() % 4);
      if (!decoder->Advance({payload}).ok()) break;
      ++accepted;
      ASSERT_EQ(decoder->samples().size(), volume);
      for (const std::byte sample : decoder->samples()) ASSERT_LE(std::to_integer<int>(sample), 1);
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(ValidityCoder, EveryTruncationIsHandled) {
  std::mt19937 random(6);
  const PatchLayout layout = MaskLayout({20, 15, 9}, 3);
  const CodedPatch coded = *kCoder.Encode({layout, MakeKind(layout.shape, 2, &random), {}, kOneExactLayer});
  for (std::size_t cut = 0; cut < coded.levels.size(); ++cut) {
    for (std::size_t length = 0; length < coded.levels[cut].size(); ++length) {
      const auto decoder = kCoder.NewDecoder(layout);
      for (std::size_t level = coded.levels.size(); level-- > 0;) {
        const ByteSpan payload = coded.levels[level];
        if (!decoder->Advance({level == cut ? payload.first(length) : payload}).ok()) break;
        EXPECT_EQ(decoder->samples().size(),
                  static_cast<std::size_t>(Volume(LevelShape(layout.shape, static_cast<int>(level)))));
      }
    }
  }
}

}  // namespace
}  // namespace quarry
