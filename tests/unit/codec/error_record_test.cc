#include "quarry/codec/error_record/error_record.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "quarry/codec/wavelet_zfp/lifting.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

/// A value and its weight; weight 0: no value.
struct Point {
  long double value = 0;
  bool exists = false;
};

/// One level of a patch, extended as the header describes, in long double.
class Extended {
 public:
  template <typename T>
  Extended(const PatchLayout& layout, int level, const std::vector<T>& samples, Validity validity)
      : shape_(LevelShape(layout.shape, level)), level_(level) {
    for (long double& axis : spacing_) axis = static_cast<long double>(std::int64_t{1} << level);
    points_.resize(static_cast<std::size_t>((shape_[0] + 1) * (shape_[1] + 1) * (shape_[2] + 1)));
    for (std::int64_t z = 0; z < shape_[2]; ++z) {
      for (std::int64_t y = 0; y < shape_[1]; ++y) {
        for (std::int64_t x = 0; x < shape_[0]; ++x) {
          const auto fine = static_cast<std::size_t>(
              (x << level) + layout.shape[0] * ((y << level) + layout.shape[1] * (z << level)));
          const bool exists = validity.empty() || validity[fine] != 0;
          const auto coarse = static_cast<std::size_t>(x + shape_[0] * (y + shape_[1] * z));
          At(x, y, z) = {exists ? static_cast<long double>(samples[coarse]) : 0, exists};
        }
      }
    }
    for (std::size_t axis = 0; axis < 3; ++axis) Extend(axis);
  }

  Point Value(std::int64_t x, std::int64_t y, std::int64_t z) {
    long double sum = 0;
    long double weights = 0;
    for (int corner = 0; corner < 8; ++corner) {
      const auto [cx, wx] = Side(x, corner & 1);
      const auto [cy, wy] = Side(y, corner >> 1 & 1);
      const auto [cz, wz] = Side(z, corner >> 2 & 1);
      const Point& point = At(cx, cy, cz);
      const long double weight = wx * wy * wz;
      if (!point.exists) continue;
      sum += weight * point.value;
      weights += weight;
    }
    return weights > 0 ? Point{sum / weights, true} : Point{};
  }

 private:
  Point& At(std::int64_t x, std::int64_t y, std::int64_t z) {
    return points_[static_cast<std::size_t>(x + (shape_[0] + 1) * (y + (shape_[1] + 1) * z))];
  }

  void Extend(std::size_t axis) {
    Index3 end = {shape_[0] + (axis > 0 ? 1 : 0), shape_[1] + (axis > 1 ? 1 : 0), shape_[2]};
    end[axis] = 1;
    for (std::int64_t z = 0; z < end[2]; ++z) {
      for (std::int64_t y = 0; y < end[1]; ++y) {
        for (std::int64_t x = 0; x < end[0]; ++x) {
          Index3 at = {x, y, z};
          at[axis] = shape_[axis] - 1;
          const Point last = At(at[0], at[1], at[2]);
          at[axis] = shape_[axis] - 2;
          const Point before = at[axis] >= 0 ? At(at[0], at[1], at[2]) : Point{};
          at[axis] = shape_[axis];
          Point& out = At(at[0], at[1], at[2]);
          if (last.exists && before.exists) {
            out = {2 * last.value - before.value, true};
          } else {
            out = last.exists ? last : before;
          }
        }
      }
    }
  }

  std::pair<std::int64_t, long double> Side(std::int64_t position, int side) const {
    const long double t =
        static_cast<long double>(position & ((std::int64_t{1} << level_) - 1)) / spacing_[0];
    return {(position >> level_) + side, side == 1 ? t : 1 - t};
  }

  Index3 shape_;
  int level_;
  std::array<long double, 3> spacing_;
  std::vector<Point> points_;
};

template <typename T>
LevelError Reference(const PatchLayout& layout, int level, const std::vector<T>& original, Validity validity,
                     const std::vector<T>& decoded) {
  Extended extended(layout, level, decoded, validity);
  long double largest = 0;
  long double squares = 0;
  long double valid = 0;
  long double covered = 0;
  std::size_t i = 0;
  for (std::int64_t z = 0; z < layout.shape[2]; ++z) {
    for (std::int64_t y = 0; y < layout.shape[1]; ++y) {
      for (std::int64_t x = 0; x < layout.shape[0]; ++x, ++i) {
        if (!validity.empty() && validity[i] == 0) continue;
        ++valid;
        const Point point = extended.Value(x, y, z);
        if (!point.exists) continue;
        ++covered;
        const long double error = std::abs(point.value - static_cast<long double>(original[i]));
        largest = std::max(largest, error);
        squares += error * error;
      }
    }
  }
  if (covered == 0) return {0, 0, 0};
  return {static_cast<double>(largest), static_cast<double>(std::sqrt(squares / covered)),
          static_cast<double>(covered / valid)};
}

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
Bytes ToBytes(const std::vector<T>& samples) {
  Bytes bytes(samples.size() * sizeof(T));
  std::memcpy(bytes.data(), samples.data(), bytes.size());
  return bytes;
}

/// A patch, its validity, and a possible output of a lossy coder for its levels.
template <typename T>
struct Case {
  PatchLayout layout;
  std::vector<T> original;
  std::vector<std::uint8_t> validity;
  std::vector<std::vector<T>> levels;

  std::vector<LevelError> Record() const {
    std::vector<Bytes> decoded;
    for (const std::vector<T>& level : levels) decoded.push_back(ToBytes(level));
    return RecordErrors(layout, std::as_bytes(std::span(original)), validity, decoded);
  }
};

/// Levels are subsamples with noise of this amplitude; missing samples are garbage.
template <typename T, typename Function>
Case<T> MakeCase(const Index3& shape, int levels, Function field, double noise, double missing,
                 unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Case<T> out{{kType<T>, shape, levels}, {}, {}, {}};
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        out.original.push_back(static_cast<T>(
            field(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z), uniform(random))));
        if (missing > 0) out.validity.push_back(uniform(random) * 0.5 + 0.5 >= missing ? 1 : 0);
      }
    }
  }
  if (missing > 0) out.validity[random() % out.validity.size()] = 1;
  for (int l = 0; l < levels; ++l) {
    std::vector<T> level;
    for (std::int64_t z = 0; z < shape[2]; z += std::int64_t{1} << l) {
      for (std::int64_t y = 0; y < shape[1]; y += std::int64_t{1} << l) {
        for (std::int64_t x = 0; x < shape[0]; x += std::int64_t{1} << l) {
          const auto i = static_cast<std::size_t>(x + shape[0] * (y + shape[1] * z));
          level.push_back(static_cast<T>(static_cast<double>(out.original[i]) + noise * uniform(random)));
          if constexpr (std::is_floating_point_v<T>) {
            if (missing > 0 && out.validity[i] == 0) level.back() = std::numeric_limits<T>::quiet_NaN();
          }
        }
      }
    }
    out.levels.push_back(level);
  }
  if constexpr (std::is_floating_point_v<T>) {
    for (std::size_t i = 0; i < out.validity.size(); ++i) {
      if (out.validity[i] == 0) out.original[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  return out;
}

template <typename T>
void CheckAgainstReference(const Case<T>& patch) {
  const std::vector<LevelError> record = patch.Record();
  ASSERT_EQ(record.size(), static_cast<std::size_t>(patch.layout.levels));
  EXPECT_EQ(record[0].coverage, 1);
  for (int l = 0; l < patch.layout.levels; ++l) {
    SCOPED_TRACE(testing::Message() << ToString(patch.layout.shape) << " level " << l);
    const auto i = static_cast<std::size_t>(l);
    const LevelError expected =
        Reference<T>(patch.layout, l, patch.original, patch.validity, patch.levels[i]);
    // The reference has one rounding more than exact arithmetic.
    const double largest = expected.max_error * (1 - 1e-15);
    EXPECT_GE(record[i].max_error, largest);
    double scale = 0;
    for (std::size_t s = 0; s < patch.original.size(); ++s) {
      if (patch.validity.empty() || patch.validity[s] != 0)
        scale = std::max(scale, std::abs(static_cast<double>(patch.original[s])));
    }
    EXPECT_LE(record[i].max_error, expected.max_error * 1.126 + 1e-12 * scale);
    EXPECT_NEAR(record[i].rmse, expected.rmse, expected.rmse * 2e-5 + 1e-13 * scale);
    EXPECT_DOUBLE_EQ(record[i].coverage, expected.coverage);
  }
}

template <typename T>
void CheckManyPatches(unsigned seed, double unit, double offset) {
  std::mt19937 random(seed);
  for (int i = 0; i < 40; ++i) {
    const auto extent = [&](int most) {
      return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
    };
    const Index3 shape = {random() % 5 == 0 ? 1 : extent(150), extent(40),
                          random() % 3 == 0 ? 1 : extent(20)};
    const auto field = [&](double x, double y, double z, double noise) {
      return offset + unit * (std::sin(x * 0.1) * std::cos(y * 0.2) + 0.02 * z + 0.2 * noise);
    };
    const double missing = i % 2 == 0 ? 0.0 : i % 4 == 1 ? 0.1 : 0.7;
    CheckAgainstReference(
        MakeCase<T>(shape, 1 + static_cast<int>(random() % 7), field, unit * 0.01, missing, random()));
  }
}

TEST(RecordErrors, AgreesWithTheDefinitionForFloat32) { CheckManyPatches<float>(1, 1, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForFloat64) { CheckManyPatches<double>(2, 1, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForInt8) { CheckManyPatches<std::int8_t>(3, 50, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForUint8) { CheckManyPatches<std::uint8_t>(4, 50, 100); }
TEST(RecordErrors, AgreesWithTheDefinitionForInt16) { CheckManyPatches<std::int16_t>(5, 10000, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForUint16) { CheckManyPatches<std::uint16_t>(6, 10000, 30000); }
TEST(RecordErrors, AgreesWithTheDefinitionForInt32) { CheckManyPatches<std::int32_t>(7, 5e8, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForUint32) { CheckManyPatches<std::uint32_t>(8, 5e8, 2e9); }
TEST(RecordErrors, AgreesWhenSmallVariationsRideOnALargeOffset) { CheckManyPatches<float>(9, 100, 1e8); }
TEST(RecordErrors, AgreesWithTheDefinitionForInt64) { CheckManyPatches<std::int64_t>(14, 5e8, 0); }
TEST(RecordErrors, AgreesWithTheDefinitionForUint64) { CheckManyPatches<std::uint64_t>(15, 1e18, 8e18); }

/// The record of samples that float64 does not hold is that of the same samples around zero.
TEST(RecordErrors, LargeIntegersThatDifferLittleDoNotBecomeEqual) {
  const auto field = [](double x, double y, double z, double noise) {
    return std::floor(10 * std::sin(x * 0.1) + y - 3 * z + 4 * noise);
  };
  for (const double missing : {0.0, 0.3}) {
    const auto small = MakeCase<std::int64_t>({37, 21, 9}, 4, field, 0, missing, 5);
    auto large = small;
    constexpr std::int64_t kOffset = (std::int64_t{1} << 62) + 12345;
    for (std::int64_t& sample : large.original) sample += kOffset;
    for (auto& level : large.levels) {
      for (std::int64_t& sample : level) sample += kOffset;
    }
    const std::vector<LevelError> expected = small.Record();
    const std::vector<LevelError> record = large.Record();
    for (std::size_t l = 0; l < record.size(); ++l) {
      EXPECT_DOUBLE_EQ(record[l].max_error, expected[l].max_error) << l;
      EXPECT_DOUBLE_EQ(record[l].rmse, expected[l].rmse) << l;
    }
    EXPECT_GT(record[1].max_error, 1);
  }
}

TEST(RecordErrors, AgreesForHugeAndTinyUnits) {
  CheckManyPatches<float>(10, 1e37, 0);
  CheckManyPatches<float>(11, 1e-37, 0);
  CheckManyPatches<double>(12, 1e300, 0);
  CheckManyPatches<double>(13, 1e-300, 0);
}

TEST(RecordErrors, AgreesWhenLevelsShowNothingOfTheSamplesBetween) {
  // One sample that is in no coarse level, of any size, among zeros.
  for (const float spike : {1.0F, 1e30F, 1e-30F, 1e-42F}) {
    Case<float> patch = MakeCase<float>(
        {9, 9, 9}, 4, [](double, double, double, double) { return 0.0; }, 0, 0, 1);
    patch.original[1 + 9 * (3 + 9 * 5)] = spike;
    const std::vector<LevelError> record = patch.Record();
    for (std::size_t l = 1; l < 4; ++l) {
      EXPECT_GE(record[l].max_error, static_cast<double>(spike));
      EXPECT_LE(record[l].max_error, static_cast<double>(spike) * 1.126);
    }
  }
}

TEST(RecordErrors, IsExactAtLevelZero) {
  std::mt19937 random(3);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Case<float> patch = MakeCase<float>(
        {40, 40, 20}, 1, [](double x, double y, double, double noise) { return 1e3 + x * y + noise; }, 1e-2,
        0, seed);
    double largest = 0;
    for (std::size_t i = 0; i < patch.original.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(patch.original[i]) -
                                           static_cast<double>(patch.levels[0][i])));
    }
    EXPECT_EQ(patch.Record()[0].max_error, largest);
  }
}

TEST(RecordErrors, OfAConstantPatchIsZero) {
  const Case<float> patch = MakeCase<float>(
      {64, 33, 7}, 6, [](double, double, double, double) { return 293.15; }, 0, 0, 1);
  for (const LevelError& error : patch.Record()) {
    EXPECT_EQ(error.max_error, 0);
    EXPECT_EQ(error.rmse, 0);
    EXPECT_EQ(error.coverage, 1);
  }
}

TEST(RecordErrors, IsTheInverseWaveletWithoutDetails) {
  const Case<double> patch = MakeCase<double>(
      {37, 26, 11}, 5, [](double x, double y, double z, double noise) { return x - y * z + noise; }, 0.1, 0,
      4);
  const std::vector<LevelError> record = patch.Record();
  for (int level = 1; level < 5; ++level) {
    std::vector<double> current = patch.levels[static_cast<std::size_t>(level)];
    for (int l = level - 1; l >= 0; --l) {
      const Index3 shape = LevelShape(patch.layout.shape, l);
      std::vector<double> finer(static_cast<std::size_t>(Volume(shape)));
      wavelet_zfp::Inverse<double>(current.data(), nullptr, shape, finer.data());
      current.swap(finer);
    }
    const LevelError expected = CompareSamples<double>(patch.original, current);
    const LevelError& actual = record[static_cast<std::size_t>(level)];
    EXPECT_NEAR(actual.max_error, expected.max_error, 1e-11 * expected.max_error);
    EXPECT_NEAR(actual.rmse, expected.rmse, 1e-11 * expected.rmse);
  }
}

TEST(RecordErrors, TakesMissingSamplesByTheRules) {
  // Eight samples in a row, level 1 on samples 0, 2, 4, 6; 4 is missing, and so is 7.
  Case<float> patch{
      {DataType::kFloat32, {8, 1, 1}, 2}, {0, 1, 2, 3, 99, 5, 6, 99}, {1, 1, 1, 1, 0, 1, 1, 0}, {}};
  patch.levels = {patch.original, {0, 2, 99, 6}};

  // 1 lies between 0 and 2; 3 is a copy of 2, and 5 of 6.
  EXPECT_NEAR(patch.Record()[1].max_error, 1, 1e-4);
  EXPECT_NEAR(patch.Record()[1].rmse, std::sqrt(2.0 / 6), 1e-4);
  EXPECT_EQ(patch.Record()[1].coverage, 1);

  // After the last: now 7 is valid, and 6 is the only valid one of the last two.
  patch.validity[7] = 1;
  patch.original[7] = 10;
  patch.levels[0] = patch.original;
  EXPECT_NEAR(patch.Record()[1].max_error, 4, 1e-4);

  // Now 4 is valid, and lies on a level sample: level 1 extrapolates 6 + (6 - 4) / 2.
  patch.validity[4] = 1;
  patch.original[4] = 4;
  patch.levels = {patch.original, {0, 2, 4, 6}};
  EXPECT_NEAR(patch.Record()[1].max_error, 3, 1e-4);
}

TEST(RecordErrors, CountsWhatALevelCannotShow) {
  // Level 1 lies on samples 0, 2, 4; 0 and 2 are both missing.
  Case<float> patch{{DataType::kFloat32, {5, 1, 1}, 2}, {9, 1, 9, 3, 4}, {0, 1, 0, 1, 1}, {}};
  patch.levels = {patch.original, {9, 9, 4}};
  EXPECT_DOUBLE_EQ(patch.Record()[1].coverage, 2.0 / 3);
  EXPECT_NEAR(patch.Record()[1].max_error, 1, 1e-4);

  patch.validity = {0, 1, 0, 1, 0};
  EXPECT_EQ(patch.Record()[1].coverage, 0);
  EXPECT_EQ(patch.Record()[1].max_error, 0);
  EXPECT_EQ(patch.Record()[0].coverage, 1);
}

TEST(RecordErrors, NeverHidesANumberThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::size_t level = 0; level < 3; ++level) {
      Case<float> patch = MakeCase<float>(
          {20, 20, 9}, 3, [](double x, double, double, double) { return x; }, 0, 0, 1);
      patch.levels[level][patch.levels[level].size() / 2] = bad;
      const std::vector<LevelError> record = patch.Record();
      for (std::size_t l = 0; l < 3; ++l) {
        EXPECT_EQ(std::isfinite(record[l].max_error), l != level) << "level " << l;
        EXPECT_EQ(record[l].max_error <= 1e30, l != level);
      }
    }
  }
}

// The bits of a record are part of a dataset: the same on every machine and instruction set.
TEST(RecordErrors, HasTheSameBitsEverywhere) {
  std::vector<float> original;
  std::vector<std::uint8_t> validity;
  std::uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
  };
  const PatchLayout layout{DataType::kFloat32, {70, 37, 19}, 5};
  for (std::int64_t i = 0; i < Volume(layout.shape); ++i) {
    original.push_back(static_cast<float>(next()) * 0x1p-20F + static_cast<float>(i % 70));
    validity.push_back(next() % 4 != 0 ? 1 : 0);
  }
  std::vector<Bytes> decoded;
  for (int l = 0; l < layout.levels; ++l) {
    std::vector<float> level;
    for (std::int64_t i = 0; i < Volume(LevelShape(layout.shape, l)); ++i)
      level.push_back(static_cast<float>(next()) * 0x1p-20F + 30);
    decoded.push_back(ToBytes(level));
  }

  std::vector<double> bits;
  for (const Validity mask : {Validity(), Validity(validity)}) {
    for (const LevelError& error : RecordErrors(layout, std::as_bytes(std::span(original)), mask, decoded)) {
      bits.insert(bits.end(), {error.max_error, error.rmse});
    }
  }
  const std::vector<double> expected = {
      0x1.b5e862p+5,        0x1.5ae2c4b3bea37p+4, 0x1.db9af26d76502p+5, 0x1.56bcc00685559p+4,
      0x1.ecfbc6e4db1cp+5,  0x1.56ae06ad9777fp+4, 0x1.001cce563b164p+6, 0x1.5f3a757873bfep+4,
      0x1.96940ca90dee7p+5, 0x1.3f015d93c29e1p+4, 0x1.b5e862p+5,        0x1.5ab313f5a6586p+4,
      0x1.cc5faabb069cp+5,  0x1.5749b0fc312abp+4, 0x1.ec7f329ff3649p+5, 0x1.55fe771e8c4edp+4,
      0x1.bd98e884d4da5p+5, 0x1.675fa1add9b41p+4, 0x1.91746b99ce836p+5, 0x1.3d7448842bbc5p+4,
  };
  EXPECT_EQ(bits, expected);
}

}  // namespace
}  // namespace quarry
