// Layers of accuracy: each refines the one before, and every layer keeps its tolerance at every level.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "quarry/codec/interpolate/interpolate.h"
#include "quarry/codec/lossless/lossless.h"
#include "quarry/geometry/patch_grid.h"
#include "tests/testing/generated_patch.h"
#include "tests/testing/random.h"

namespace quarry {
namespace {

const InterpolateCoder kCoder;

/// Every 2^level-th element along each axis.
template <typename U>
std::vector<U> AtLevel(const U* fine, const Index3& shape, int level) {
  const std::int64_t stride = std::int64_t{1} << level;
  std::vector<U> coarse;
  for (std::int64_t z = 0; z < shape[2]; z += stride)
    for (std::int64_t y = 0; y < shape[1]; y += stride)
      for (std::int64_t x = 0; x < shape[0]; x += stride)
        coarse.push_back(fine[static_cast<std::size_t>((z * shape[1] + y) * shape[0] + x)]);
  return coarse;
}

/// Largest error of the valid samples of a level; infinite where one is no number.
double ErrorOf(const PatchLayout& layout, ByteSpan decoded, ByteSpan samples, Validity validity, int level) {
  return DispatchType(layout.type, [&]<typename S>(S) {
    const std::vector<S> wanted = AtLevel(reinterpret_cast<const S*>(samples.data()), layout.shape, level);
    const std::vector<std::uint8_t> valid = validity.empty() ? std::vector<std::uint8_t>(wanted.size(), 1)
                                                             : AtLevel(validity.data(), layout.shape, level);
    const S* values = reinterpret_cast<const S*>(decoded.data());
    double largest = decoded.size() == wanted.size() * sizeof(S) ? 0 : 1e300;
    for (std::size_t i = 0; i < wanted.size() && largest < 1e300; ++i) {
      if (valid[i] == 0) continue;
      const double error = std::abs(static_cast<double>(values[i]) - static_cast<double>(wanted[i]));
      largest = std::max(largest, error <= 1e300 ? error : 1e301);
    }
    return largest;
  });
}

std::vector<std::unique_ptr<PatchDecoder>> NewDecoders(const PatchLayout& layout, std::size_t layers) {
  std::vector<std::unique_ptr<PatchDecoder>> decoders;
  for (std::size_t k = 0; k < layers; ++k) decoders.push_back(kCoder.NewDecoder(layout));
  return decoders;
}

std::vector<std::uint8_t> ValidityAt(const PatchLayout& layout, Validity validity, int level) {
  return validity.empty() ? std::vector<std::uint8_t>() : AtLevel(validity.data(), layout.shape, level);
}

void ExpectSame(ByteSpan decoded, const Bytes& expected, Validity validity, std::size_t size,
                const std::string& what) {
  ASSERT_EQ(decoded.size(), expected.size()) << what;
  for (std::size_t i = 0; i * size < expected.size(); ++i) {
    if (!validity.empty() && validity[i] == 0) continue;
    ASSERT_EQ(std::memcmp(decoded.data() + i * size, expected.data() + i * size, size), 0)
        << what << " " << i;
  }
}

/// Decodes all layers of a level before the next finer one, and then layer after layer.
void ExpectBothOrders(const PatchLayout& layout, const CodedPatch& coded, Validity validity,
                      std::size_t layers) {
  const std::size_t size = SizeOf(layout.type);
  const PatchParts parts{layout.levels, static_cast<int>(layers)};
  auto decoders = NewDecoders(layout, layers);
  const auto advance = [&](std::size_t k, int level) {
    const std::vector<std::uint8_t> valid = ValidityAt(layout, validity, level);
    const Bytes& payload = coded.levels[parts.Of(static_cast<int>(k), level)];
    const PatchDecoder* before = k == 0 ? nullptr : decoders[k - 1].get();
    return decoders[k]->Advance({.payload = payload, .validity = valid, .before = before}).status();
  };
  for (int level = layout.levels - 1; level >= 0; --level) {
    for (std::size_t k = 0; k < layers; ++k) {
      const Status status = advance(k, level);
      ASSERT_TRUE(status.ok()) << status.message();
      ExpectSame(decoders[k]->samples(), coded.decoded[parts.Of(static_cast<int>(k), level)],
                 ValidityAt(layout, validity, level), size, fmt::format("layer {} level {}", k, level));
    }
  }
  decoders = NewDecoders(layout, layers);
  for (std::size_t k = 0; k < layers; ++k) {
    for (int level = layout.levels - 1; level >= 0; --level) {
      const Status status = advance(k, level);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ExpectSame(decoders[k]->samples(), coded.decoded[parts.Of(static_cast<int>(k), 0)], validity, size,
               fmt::format("layer {} alone", k));
  }
}

TEST(LayersTest, EveryLayerKeepsItsToleranceAtEveryLevel) {
  testing::Random random(testing::SeedFromEnvironment());
  testing::GeneratedPatch patch;
  for (int i = 0; i < 400; ++i) {
    const DataType type = testing::kAllTypes[random.Below(std::size(testing::kAllTypes))];
    const testing::PatchSpec spec = testing::RandomSpec(type, 20000, &random);
    testing::Generate(spec, &patch);
    const double range = testing::ValueRange(type, patch);
    if (!(range > 0 && range < 1e300)) continue;
    std::vector<double> tolerances;
    double tolerance = range * std::pow(10, -random.Fraction());
    const std::size_t layers = 1 + random.Below(4);
    for (std::size_t k = 0; k < layers; ++k) {
      tolerances.push_back(tolerance);
      tolerance *= std::pow(10, -3 * random.Fraction() - 0.05);
    }
    if (random.OneIn(3)) tolerances.back() = 0;
    if (std::ranges::adjacent_find(tolerances) != tolerances.end())
      continue;  // tiny ones become 0 on the way
    std::vector<std::uint8_t> classified;
    const std::size_t valid = testing::ClassifySamples(type, patch.samples, patch.fill, &classified);
    if (valid == 0) continue;
    const Validity validity = valid < classified.size() ? Validity(classified) : Validity();
    const std::string what = fmt::format("{} {}", ToString(spec), fmt::join(tolerances, ", "));
    const Result<CodedPatch> coded = kCoder.Encode({spec.layout, patch.samples, validity, tolerances});
    ASSERT_TRUE(coded.ok()) << coded.status().message() << what;
    const PatchParts parts{spec.layout.levels, static_cast<int>(tolerances.size())};
    for (std::size_t k = 0; k < tolerances.size(); ++k) {
      for (int level = 0; level < spec.layout.levels; ++level) {
        ASSERT_LE(ErrorOf(spec.layout, coded->decoded[parts.Of(static_cast<int>(k), level)], patch.samples,
                          validity, level),
                  tolerances[k])
            << what << ", layer " << k << ", level " << level;
      }
    }
    ExpectBothOrders(spec.layout, *coded, validity, tolerances.size());
    if (HasFatalFailure()) FAIL() << what;
  }
}

/// A wave with noise in the bits that layers leave to an exact one.
std::vector<float> Wave(const Index3& shape) {
  std::vector<float> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[0]; ++x)
        samples.push_back(static_cast<float>(std::sin(0.2 * static_cast<double>(x + y)) +
                                             0.3 * std::cos(0.37 * static_cast<double>(z - y)) +
                                             2e-4 * std::sin(static_cast<double>(x * 79 + y * 83 + z * 89))));
  return samples;
}

std::vector<double> Widened(const std::vector<float>& samples) { return {samples.begin(), samples.end()}; }

template <typename T>
CodedPatch CodeLayers(const PatchLayout& layout, const std::vector<T>& samples, Validity validity,
                      const std::vector<double>& tolerances) {
  return *kCoder.Encode({layout, std::as_bytes(std::span(samples)), validity, tolerances});
}

std::size_t TotalSize(const CodedPatch& coded) {
  std::size_t bytes = 0;
  for (const Bytes& level : coded.levels) bytes += level.size();
  return bytes;
}

constexpr PatchLayout kFloat32Layout{DataType::kFloat32, {33, 20, 17}, 4};
constexpr PatchLayout kFloat64Layout{DataType::kFloat64, {33, 20, 17}, 4};
const std::vector<double> kExactLast = {1e-2, 1e-4, 0};

TEST(LayersTest, ExactFloat64LayersOfFloat32NumbersCostWhatTheseCost) {
  std::vector<float> narrow = Wave(kFloat32Layout.shape);
  narrow[5] = -0.0f;
  narrow[6] = std::numeric_limits<float>::denorm_min();
  std::vector<double> wide = Widened(narrow);
  const CodedPatch coded = CodeLayers(kFloat64Layout, wide, {}, kExactLast);
  EXPECT_EQ(TotalSize(coded), TotalSize(CodeLayers(kFloat32Layout, narrow, {}, kExactLast)));
  EXPECT_EQ(std::memcmp(coded.decoded[0].data(), wide.data(), coded.decoded[0].size()), 0);
  ExpectBothOrders(kFloat64Layout, coded, {}, kExactLast.size());

  // One sample between two float32 numbers, and nothing is coded as these.
  wide[1000] = std::nextafter(wide[1000], 2.0);
  const CodedPatch other = CodeLayers(kFloat64Layout, wide, {}, kExactLast);
  EXPECT_GT(TotalSize(other), 1.5 * static_cast<double>(TotalSize(coded)));
  EXPECT_EQ(std::memcmp(other.decoded[0].data(), wide.data(), other.decoded[0].size()), 0);
  ExpectBothOrders(kFloat64Layout, other, {}, kExactLast.size());

  // Nor is one beyond their range.
  wide[1000] = 1e300;
  const CodedPatch huge = CodeLayers(kFloat64Layout, wide, {}, kExactLast);
  EXPECT_EQ(std::memcmp(huge.decoded[0].data(), wide.data(), huge.decoded[0].size()), 0);
}

TEST(LayersTest, MissingFloat64SamplesMayBeAnything) {
  const std::vector<float> narrow = Wave(kFloat32Layout.shape);
  std::vector<double> wide = Widened(narrow);
  std::vector<std::uint8_t> validity(wide.size(), 1);
  for (std::size_t i = 0; i < wide.size(); i += 7) {
    validity[i] = 0;
    wide[i] = std::array{std::nan(""), 1e300, 0.1}[i % 3];
  }
  const CodedPatch coded = CodeLayers(kFloat64Layout, wide, validity, kExactLast);
  EXPECT_LT(TotalSize(coded),
            1.02 * static_cast<double>(TotalSize(CodeLayers(kFloat32Layout, narrow, validity, kExactLast))));
  ExpectSame(coded.decoded[0],
             Bytes(std::as_bytes(std::span(wide)).begin(), std::as_bytes(std::span(wide)).end()), validity,
             sizeof(double), "exact");
  ExpectBothOrders(kFloat64Layout, coded, validity, kExactLast.size());
}

/// Few numbers, far apart and in no order, each in cubes of 3^3: what is equal to a neighbour costs
/// `lossless` little, and no layer before says which number it is.
template <typename T>
std::vector<T> Cubes(const Index3& shape, double least, testing::Random* random) {
  std::vector<T> numbers(4000);
  for (T& number : numbers) number = static_cast<T>(least + random->Fraction());
  std::vector<T> samples;
  for (std::int64_t z = 0; z < shape[2]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[0]; ++x)
        samples.push_back(numbers[static_cast<std::size_t>((z / 3 * 40 + y / 3) * 40 + x / 3) * 37 % 4000]);
  return samples;
}

TEST(LayersTest, AnExactLayerIsNoLargerThanLossless) {
  testing::Random random(testing::SeedFromEnvironment());
  const auto samples = Cubes<double>(kFloat64Layout.shape, 0, &random);
  const CodedPatch coded = CodeLayers(kFloat64Layout, samples, {}, {0.3, 0});
  const CodedPatch lossless =
      *LosslessCoder().Encode({kFloat64Layout, std::as_bytes(std::span(samples)), {}, kOneExactLayer});
  std::size_t exact = 0;
  for (int level = 0; level < kFloat64Layout.levels; ++level)
    exact += coded.levels[PatchParts{kFloat64Layout.levels, 2}.Of(1, level)].size();
  EXPECT_EQ(exact, TotalSize(lossless) + 1);
  EXPECT_EQ(std::memcmp(coded.decoded[0].data(), samples.data(), coded.decoded[0].size()), 0);
  ExpectBothOrders(kFloat64Layout, coded, {}, 2);

  // The first layer is never coded so.
  const Bytes& coarsest = coded.levels[PatchParts{kFloat64Layout.levels, 2}.Of(1, kFloat64Layout.levels - 1)];
  EXPECT_EQ(kCoder.NewDecoder(kFloat64Layout)->Advance({coarsest}).status().code(), StatusCode::kDataLoss);
}

TEST(LayersTest, LayersAfterAnExactOneAreEmpty) {
  // Far from zero, 1e-3 is within the rounding of float32: the second layer is exact, and lossless is
  // smaller.
  testing::Random random(testing::SeedFromEnvironment());
  const auto samples = Cubes<float>(kFloat32Layout.shape, 1e5, &random);
  const std::vector<double> tolerances = {0.5, 1e-3, 0};
  CodedPatch coded = CodeLayers(kFloat32Layout, samples, {}, tolerances);
  const PatchParts parts{kFloat32Layout.levels, 3};
  const auto part = [&](int layer, int level) -> Bytes& { return coded.levels[parts.Of(layer, level)]; };
  const int coarsest = kFloat32Layout.levels - 1;
  EXPECT_EQ(part(1, coarsest).front(), std::byte{0x02});
  for (int level = 0; level <= coarsest; ++level) EXPECT_TRUE(part(2, level).empty());
  for (const int layer : {1, 2}) {
    const Bytes& decoded = coded.decoded[parts.Of(layer, 0)];
    EXPECT_EQ(std::memcmp(decoded.data(), samples.data(), decoded.size()), 0);
  }
  ExpectBothOrders(kFloat32Layout, coded, {}, tolerances.size());

  // Nothing else follows it.
  const auto decoders = NewDecoders(kFloat32Layout, 3);
  ASSERT_TRUE(decoders[0]->Advance({part(0, coarsest)}).ok());
  ASSERT_TRUE(decoders[1]->Advance({.payload = part(1, coarsest), .before = decoders[0].get()}).ok());
  EXPECT_EQ(decoders[2]->Advance({.payload = part(1, coarsest), .before = decoders[1].get()}).status().code(),
            StatusCode::kDataLoss);
  const auto others = NewDecoders(kFloat32Layout, 1);
  EXPECT_EQ(others[0]->Advance({.payload = part(0, coarsest), .before = decoders[1].get()}).status().code(),
            StatusCode::kDataLoss);
}

/// A wave of which each magnitude is one of a thousand, at uneven distances; zeros of both signs among them.
template <typename T>
std::vector<T> Repeated(const Index3& shape) {
  std::vector<T> samples;
  for (const float sample : Wave(shape)) {
    const double step = std::nearbyint(800 * static_cast<double>(sample));
    samples.push_back(static_cast<T>(std::copysign(std::expm1(std::abs(step) / 500), step)));
  }
  return samples;
}

constexpr std::byte kListed{0x04};

template <typename T>
void ExpectListed(const PatchLayout& layout, Validity validity) {
  const std::vector<T> samples = Repeated<T>(layout.shape);
  const CodedPatch coded = CodeLayers(layout, samples, validity, kExactLast);
  const PatchParts parts{layout.levels, 3};
  EXPECT_EQ(coded.levels[parts.Of(2, layout.levels - 1)].front(), kListed) << ToString(layout.shape);
  const ByteSpan bytes = std::as_bytes(std::span(samples));
  ExpectSame(coded.decoded[0], Bytes(bytes.begin(), bytes.end()), validity, sizeof(T), "exact");
  ExpectBothOrders(layout, coded, validity, 3);
  std::size_t exact = 0;
  for (int level = 0; level < layout.levels; ++level) exact += coded.levels[parts.Of(2, level)].size();
  EXPECT_LT(static_cast<double>(exact), 0.7 * static_cast<double>(TotalSize(*LosslessCoder().Encode(
                                                  {layout, bytes, validity, kOneExactLayer}))));
}

TEST(LayersTest, NumbersThatRepeatAreListed) {
  std::vector<std::uint8_t> validity(33 * 20 * 17, 1);
  for (std::size_t i = 0; i < validity.size(); i += 5) validity[i] = 0;
  for (std::size_t i = 0; i < 33 * 20 * 6; ++i) validity[i] = 0;
  for (const int levels : {1, 4, 7}) {
    for (const Validity valid : {Validity(), Validity(validity)}) {
      ExpectListed<double>({DataType::kFloat64, {33, 20, 17}, levels}, valid);
      ExpectListed<float>({DataType::kFloat32, {33, 20, 17}, levels}, valid);
    }
  }
  ExpectListed<double>({DataType::kFloat64, {160, 71, 1}, 3}, {});
}

/// Advances three layers to the coarsest level, the last one by `payload`.
Status AdvanceLast(const PatchLayout& layout, const CodedPatch& coded, ByteSpan payload) {
  const PatchParts parts{layout.levels, 3};
  const auto decoders = NewDecoders(layout, 3);
  const int coarsest = layout.levels - 1;
  QUARRY_RETURN_IF_ERROR(decoders[0]->Advance({coded.levels[parts.Of(0, coarsest)]}));
  QUARRY_RETURN_IF_ERROR(
      decoders[1]->Advance({.payload = coded.levels[parts.Of(1, coarsest)], .before = decoders[0].get()}));
  return decoders[2]->Advance({.payload = payload, .before = decoders[1].get()}).status();
}

TEST(LayersTest, DamagedListsAreRefused) {
  constexpr PatchLayout kLayout{DataType::kFloat64, {33, 20, 17}, 1};
  const CodedPatch coded = CodeLayers(kLayout, Repeated<double>(kLayout.shape), {}, kExactLast);
  const Bytes& sound = coded.levels[PatchParts{1, 3}.Of(2, 0)];
  ASSERT_EQ(sound.front(), kListed);
  ASSERT_TRUE(AdvanceLast(kLayout, coded, sound).ok());
  const auto expect_refused = [&](const Bytes& payload, const std::string& why) {
    const Status status = AdvanceLast(kLayout, coded, payload);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << why;
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  };
  for (std::size_t size = 1; size < sound.size(); size += 1 + size / 3)
    expect_refused({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)}, "");
  Bytes longer = sound;
  longer.push_back(std::byte{0});
  expect_refused(longer, "does not end where its samples do");
  const auto reaching = [&](float reach) {
    Bytes payload = sound;
    std::memcpy(payload.data() + 1, &reach, sizeof(reach));
    return payload;
  };
  expect_refused(reaching(-1), "reaches -1");
  expect_refused(reaching(std::nanf("")), "reaches nan");
  expect_refused(reaching(std::numeric_limits<float>::infinity()), "reaches inf");
  expect_refused(reaching(0), "as near to a sample");
  const Bytes reach(sound.begin() + 1, sound.begin() + 5);
  const auto listing = [&](std::initializer_list<int> rest) {
    Bytes payload = {kListed};
    payload.insert(payload.end(), reach.begin(), reach.end());
    for (const int byte : rest) payload.push_back(static_cast<std::byte>(byte));
    return payload;
  };
  // 11,221 of 11,220 samples, all of the distance 0.
  expect_refused(listing({0xd5, 0x57, 0, 0}), "lists 11221 values");
  expect_refused(listing({0}), "as near to a sample");
  expect_refused(listing({1, 0, 1, 65}), "65 bits");
  expect_refused(listing({1, 0, 1, 63, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "not finite");
  // Integers have no lists.
  constexpr PatchLayout kBytes{DataType::kUint8, {33, 20, 17}, 1};
  std::vector<std::uint8_t> bytes(33 * 20 * 17);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i % 251);
  EXPECT_EQ(AdvanceLast(kBytes, CodeLayers(kBytes, bytes, {}, {9, 2, 0}), sound).code(),
            StatusCode::kDataLoss);
}

TEST(LayersTest, NoMagnitudeIsListedTwice) {
  constexpr PatchLayout kLayout{DataType::kFloat64, {3, 1, 1}, 2};
  // Samples of 0, listed at both levels: a reach of 2^126, one magnitude of distance 0, places of two zeros.
  const auto bytes = [](std::initializer_list<int> values) {
    Bytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
  };
  const std::vector<double> samples = {1, 2, 3};
  const CodedPatch coded = CodeLayers(kLayout, samples, {}, {10, 1e-3});
  const PatchParts parts{2, 2};
  for (const bool again : {false, true}) {
    const auto decoders = NewDecoders(kLayout, 2);
    for (const int level : {1, 0}) ASSERT_TRUE(decoders[0]->Advance({coded.levels[parts.Of(0, level)]}).ok());
    ASSERT_TRUE(
        decoders[1]
            ->Advance({.payload = bytes({4, 0, 0, 0x80, 0x7e, 1, 0, 0, 0}), .before = decoders[0].get()})
            .ok());
    const Bytes finer = again ? bytes({0, 0, 0x80, 0x7e, 1, 0, 0, 0}) : bytes({0, 0, 0x80, 0x7e, 0, 1});
    EXPECT_EQ(decoders[1]->Advance({.payload = finer, .before = decoders[0].get()}).status().code(),
              again ? StatusCode::kDataLoss : StatusCode::kOk);
  }
}

TEST(LayersTest, LargeWholeNumbersStayFloat64) {
  // Float32 numbers all of them, but too large for its lattice.
  std::vector<double> samples;
  for (const float sample : Wave(kFloat64Layout.shape))
    samples.push_back(std::nearbyint(4e6 * static_cast<double>(sample)));
  const std::vector<double> tolerances = {1e4, 0};
  const CodedPatch coded = CodeLayers(kFloat64Layout, samples, {}, tolerances);
  const PatchParts parts{kFloat64Layout.levels, 2};
  EXPECT_EQ(coded.levels[parts.Of(0, kFloat64Layout.levels - 1)].front() & std::byte{0x80}, std::byte{0});
  EXPECT_EQ(std::memcmp(coded.decoded[0].data(), samples.data(), coded.decoded[0].size()), 0);
  ExpectBothOrders(kFloat64Layout, coded, {}, 2);
}

TEST(LayersTest, EitherAllLayersHaveFloat32NumbersOrNone) {
  constexpr auto kFlag = std::byte{0x80};
  std::vector<double> wide = Widened(Wave(kFloat64Layout.shape));
  CodedPatch coded = CodeLayers(kFloat64Layout, wide, {}, {1e-2, 0});
  const PatchParts parts{kFloat64Layout.levels, 2};
  const auto coarsest = [&](int layer) -> Bytes& {
    return coded.levels[parts.Of(layer, kFloat64Layout.levels - 1)];
  };
  EXPECT_EQ(coarsest(0).front() & kFlag, kFlag);
  EXPECT_EQ(coarsest(1).front() & kFlag, kFlag);

  // A layer of almost the same samples, of which one is no float32 number; it is sound where it belongs.
  wide[1000] = std::nextafter(wide[1000], 2.0);
  const CodedPatch other = CodeLayers(kFloat64Layout, wide, {}, {1e-2, 1e-4});
  const auto other_coarsest = [&](int layer) -> const Bytes& {
    return other.levels[parts.Of(layer, kFloat64Layout.levels - 1)];
  };
  const auto others = NewDecoders(kFloat64Layout, 2);
  ASSERT_TRUE(others[0]->Advance({other_coarsest(0)}).ok());
  ASSERT_TRUE(others[1]->Advance({.payload = other_coarsest(1), .before = others[0].get()}).ok());
  const auto decoders = NewDecoders(kFloat64Layout, 2);
  ASSERT_TRUE(decoders[0]->Advance({coarsest(0)}).ok());
  EXPECT_EQ(decoders[1]->Advance({.payload = other_coarsest(1), .before = decoders[0].get()}).status().code(),
            StatusCode::kDataLoss);

  // Only patches of float64 say so.
  const CodedPatch narrow = CodeLayers(kFloat32Layout, Wave(kFloat32Layout.shape), {}, {1e-2, 0});
  Bytes payload = narrow.levels[parts.Of(0, kFloat32Layout.levels - 1)];
  EXPECT_TRUE(kCoder.NewDecoder(kFloat32Layout)->Advance({payload}).ok());
  payload.front() |= kFlag;
  EXPECT_EQ(kCoder.NewDecoder(kFloat32Layout)->Advance({payload}).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry
