#include "quarry/codec/interpolate/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/level.h"
#include "tests/testing/generated_patch.h"
#include "tests/unit/codec/instruction_sets.h"

namespace quarry::interpolate {
namespace {

using testing::Random;

/// Every kernel against its definition, with every instruction set.
class KernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = FindKernels(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "this processor or build has no " << GetParam();
  }

  const Kernels* kernels_ = nullptr;
};

TEST_P(KernelsTest, ClassifyCountsThresholdsNotAboveTheActivity) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint16_t> thresholds;
    for (std::size_t bin = 1; bin < kFineBins && thresholds.size() + 1 < kMaxTables; ++bin) {
      if (random.OneIn(3)) thresholds.push_back(kBinBegin[bin]);
    }
    std::vector<std::uint16_t> activity(random.Below(200));
    for (std::uint16_t& a : activity) {
      a = random.OneIn(2) ? static_cast<std::uint16_t>(random.Below(65536))
                          : static_cast<std::uint16_t>(kBinBegin[random.Below(kFineBins)] - random.Below(2));
    }
    std::vector<std::uint8_t> tables(activity.size());

    kernels_->classify(activity.data(), activity.size(), thresholds, tables.data());

    for (std::size_t s = 0; s < activity.size(); ++s) {
      const auto expected = std::count_if(thresholds.begin(), thresholds.end(),
                                          [&](std::uint16_t threshold) { return threshold <= activity[s]; });
      ASSERT_EQ(tables[s], expected) << "activity " << activity[s] << ", sample " << s << " of "
                                     << activity.size();
    }
  }
}

TEST_P(KernelsTest, CompactKeepsValidBytesAndExpandPutsThemBack) {
  Random random(12);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t count = random.Below(100);
    std::vector<std::uint8_t> bytes(count);
    std::vector<std::uint8_t> valid(count);
    std::vector<std::uint8_t> expected;
    for (std::size_t s = 0; s < count; ++s) {
      bytes[s] = static_cast<std::uint8_t>(random.Below(256));
      valid[s] = random.OneIn(3) ? 0 : 1;
      if (valid[s] != 0) expected.push_back(bytes[s]);
    }
    std::vector<std::uint8_t> compact(count + 8);
    std::vector<std::uint8_t> expanded(count);

    const std::size_t kept = kernels_->compact(bytes.data(), valid.data(), count, compact.data());
    kernels_->expand(compact.data(), valid.data(), count, 77, expanded.data());

    compact.resize(kept);
    ASSERT_EQ(compact, expected);
    for (std::size_t s = 0; s < count; ++s) ASSERT_EQ(expanded[s], valid[s] != 0 ? bytes[s] : 77) << s;
  }
}

/// A band without one of its odd axes being odd: it has as many samples along it, or one more.
struct Source {
  Index3 shape{};
  PaddedArray<std::uint16_t> magnitudes;
};

TEST_P(KernelsTest, ActivityAddsTheNeighboursAlongOddAxes) {
  Random random(13);
  for (int i = 0; i < 1000; ++i) {
    ContextArgs args;
    args.band = random.Between(1, kBands - 1);
    std::array<Source, 3> sources;
    for (std::size_t a = 0; a < 3; ++a) args.shape[a] = random.Between(1, a == 0 ? 40 : 5);
    for (int axis = 0; axis < 3; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (!IsOdd(args.band, axis)) continue;
      Source& source = sources[a];
      source.shape = args.shape;
      source.shape[a] += random.Between(0, 1);
      source.magnitudes.Resize(static_cast<std::size_t>(Volume(source.shape)));
      for (std::size_t s = 0; s < source.magnitudes.size(); ++s)
        source.magnitudes.data()[s] = static_cast<std::uint16_t>(random.Below(kMaxMagnitude + 1));
      args.magnitudes[a] = source.magnitudes.data();
      args.source_shapes[a] = source.shape;
    }
    const std::int64_t z = random.Between(0, static_cast<int>(args.shape[2]) - 1);
    std::vector<std::uint16_t> activity(static_cast<std::size_t>(args.shape[0] * args.shape[1]) + kPadding);

    kernels_->activity(args, z, activity.data());

    for (std::int64_t y = 0; y < args.shape[1]; ++y) {
      for (std::int64_t x = 0; x < args.shape[0]; ++x) {
        int sum = 0;
        for (int axis = 0; axis < 3; ++axis) {
          const auto a = static_cast<std::size_t>(axis);
          if (!IsOdd(args.band, axis)) continue;
          const Index3& shape = sources[a].shape;
          Index3 at = {x, y, z};
          for (int side = 0; side < 2; ++side) {
            sum += sources[a].magnitudes.data()[(at[2] * shape[1] + at[1]) * shape[0] + at[0]];
            if (at[a] + 1 < shape[a]) ++at[a];
          }
        }
        ASSERT_EQ(activity[static_cast<std::size_t>(y * args.shape[0] + x)], sum * 6 / OddAxes(args.band))
            << "band " << args.band << ", shape " << ToString(args.shape) << ", sample " << x << ", " << y;
      }
    }
  }
}

/// Symbols with their low bits, and the samples that they stand for.
template <typename T>
struct CodedPlane {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> tables;
  LowBits low_bits;
  Bytes bytes;
  std::vector<T> predicted;
  std::vector<T> samples;
  std::vector<std::uint16_t> magnitudes;

  CodedPlane(std::size_t count, int widest, T step, Random* random) {
    for (std::size_t t = 0; t < kMaxTables; ++t)
      low_bits.widths[t] = static_cast<std::uint8_t>(random->Below(static_cast<std::size_t>(widest) + 1));
    std::vector<bool> bits;
    for (std::size_t s = 0; s < count; ++s) {
      const bool coded = !random->OneIn(4);
      symbols.push_back(static_cast<std::uint8_t>(coded ? random->Below(entropy::kLargestSymbol + 1) : 0));
      tables.push_back(static_cast<std::uint8_t>(coded ? random->Below(kMaxTables) : kNoTable));
      const int width = low_bits.widths[tables.back()];
      const int high = symbols.back() % 2 == 0 ? symbols.back() / 2 : -(symbols.back() + 1) / 2;
      std::int32_t index = high * (1 << width) - (width > 0 ? 1 << (width - 1) : 0);
      for (int bit = 0; bit < width; ++bit) {
        bits.push_back(random->OneIn(2));
        if (bits.back()) index += 1 << bit;
      }
      predicted.push_back(static_cast<T>(random->Between(-1000, 1000)) / 7);
      samples.push_back(predicted.back() + static_cast<T>(index) * step);
      magnitudes.push_back(static_cast<std::uint16_t>(std::min(std::abs(index), int{kMaxMagnitude})));
    }
    bytes.assign((bits.size() + 7) / 8 + kLowBitsPadding, std::byte{0});
    for (std::size_t b = 0; b < bits.size(); ++b) {
      if (bits[b]) bytes[b / 8] |= static_cast<std::byte>(1 << (b % 8));
    }
    low_bits.bytes = bytes.data();
    low_bits.limit = bits.size();
  }
};

template <typename T>
void ExpectReconstructed(void (*reconstruct)(const ReconstructArgs<T>&), std::uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 500; ++i) {
    const int widest = i % (entropy::kMaxShift + 1);
    CodedPlane<T> plane(1 + random.Below(600), widest, T(0.125), &random);
    std::vector<T> decoded(plane.symbols.size());
    std::vector<std::uint16_t> magnitudes(plane.symbols.size());
    ReconstructArgs<T> args;
    args.step = T(0.125);
    args.count = plane.symbols.size();
    args.symbols = plane.symbols.data();
    args.tables = plane.tables.data();
    args.low_bits = widest > 0 ? &plane.low_bits : nullptr;
    args.predicted = plane.predicted.data();
    args.decoded = decoded.data();
    args.magnitudes = random.OneIn(4) ? nullptr : magnitudes.data();
    LowBits short_by_one = plane.low_bits;
    --short_by_one.limit;

    reconstruct(args);

    ASSERT_EQ(decoded, plane.samples) << "widths up to " << widest;
    if (args.magnitudes != nullptr) {
      ASSERT_EQ(magnitudes, plane.magnitudes) << "widths up to " << widest;
    }
    EXPECT_EQ(plane.low_bits.position, plane.low_bits.limit);
    if (plane.low_bits.limit == 0) continue;
    args.low_bits = &short_by_one;
    reconstruct(args);
    EXPECT_GT(short_by_one.position, short_by_one.limit) << "a missing bit is not noticed";
  }
}

TEST_P(KernelsTest, ReconstructReadsSymbolsAndLowBits) {
  ExpectReconstructed<float>(kernels_->reconstruct_f32, 14);
  ExpectReconstructed<double>(kernels_->reconstruct_f64, 15);
}

constexpr auto kName = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Plain, KernelsTest, ::testing::Values("scalar"), kName);
INSTANTIATE_TEST_SUITE_P(Vectors, KernelsTest, ::testing::ValuesIn(testing::kVectorSets), kName);

}  // namespace
}  // namespace quarry::interpolate
