#include "tests/testing/generated_patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace quarry::testing {
namespace {

/// Fields are integers of about this size before they become samples.
constexpr int kFieldBits = 60;

using Field = std::vector<std::int64_t>;

/// A wave of parabolas with period 2^21; values up to 2^20.
std::int64_t Wave(std::int64_t phase) {
  const std::int64_t p = (phase & ((1 << 21) - 1)) - (1 << 20);
  return p * ((1 << 20) - (p < 0 ? -p : p)) / (1 << 18);
}

/// Adds the product of one wave along each axis, amplitude 2^(60 - weaker), of about `cycles` / 8 periods.
void AddWave(const Index3& shape, std::uint64_t cycles, int weaker, Random* random, Field* field) {
  std::array<std::vector<std::int64_t>, 3> waves;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto extent = static_cast<std::uint64_t>(shape[axis]);
    const std::int64_t phase = static_cast<std::int64_t>(random->Below(1 << 21));
    const auto step = static_cast<std::int64_t>(((random->Below(cycles << 18) + (1 << 16)) / extent));
    waves[axis].resize(extent);
    for (std::uint64_t i = 0; i < extent; ++i)
      waves[axis][i] = Wave(phase + step * static_cast<std::int64_t>(i));
  }
  std::int64_t* out = field->data();
  const std::int64_t divisor = std::int64_t{1} << weaker;
  for (const std::int64_t z : waves[2]) {
    for (const std::int64_t y : waves[1]) {
      const std::int64_t zy = z * y / divisor;
      for (const std::int64_t x : waves[0]) *out++ += zy * x;
    }
  }
}

void AddWaves(const Index3& shape, int weaker, Random* random, Field* field) {
  for (int i = 0; i < 2; ++i) AddWave(shape, 1 + random->Below(24), weaker + 1, random, field);
}

std::int64_t Noise(Random* random) { return static_cast<std::int64_t>(random->Next()) >> 3; }

Field MakeField(const Index3& shape, Shape kind, Random* random) {
  Field field(static_cast<std::size_t>(Volume(shape)), 0);
  switch (kind) {
    case Shape::kSmooth:
      AddWaves(shape, 0, random, &field);
      break;
    case Shape::kRough:
      for (int octave = 0; octave < 6; ++octave)
        AddWave(shape, std::uint64_t{8} << octave, octave + 1, random, &field);
      break;
    case Shape::kNoise:
      for (std::int64_t& v : field) v = Noise(random);
      break;
    case Shape::kHeavyNoise: {
      const auto sizes = 2 + random->Below(40);
      for (std::int64_t& v : field) v = Noise(random) >> random->Below(sizes);
      break;
    }
    case Shape::kSmoothNoise: {
      AddWaves(shape, 0, random, &field);
      const int weaker = random->Between(2, 24);
      for (std::int64_t& v : field) v += Noise(random) >> weaker;
      break;
    }
    case Shape::kFronts: {
      AddWaves(shape, 0, random, &field);
      const int weaker = random->Between(1, 20);
      const std::int64_t jump = Noise(random);
      for (std::int64_t& v : field) v = (v >> weaker) + (v > 0 ? jump : -jump);
      break;
    }
    case Shape::kSpikes: {
      AddWaves(shape, random->Between(0, 30), random, &field);
      const std::uint64_t rare = std::uint64_t{4} << random->Below(12);
      for (std::int64_t& v : field) v = random->OneIn(rare) ? Noise(random) : v;
      break;
    }
    case Shape::kConstant:
      std::fill(field.begin(), field.end(), Noise(random));
      break;
    case Shape::kAllButOne:
      std::fill(field.begin(), field.end(), Noise(random));
      field[random->Below(field.size())] = Noise(random);
      break;
    case Shape::kLabels: {
      AddWaves(shape, 0, random, &field);
      const int dropped = random->Between(kFieldBits - 5, kFieldBits - 1);
      for (std::int64_t& v : field) v = v >> dropped << dropped;
      break;
    }
    case Shape::kRamp: {
      std::array<std::int64_t, 3> slope;
      for (std::int64_t& s : slope) s = Noise(random) >> 10;
      std::int64_t* out = field.data();
      for (std::int64_t z = 0; z < shape[2]; ++z)
        for (std::int64_t y = 0; y < shape[1]; ++y)
          for (std::int64_t x = 0; x < shape[0]; ++x) *out++ = x * slope[0] + y * slope[1] + z * slope[2];
      break;
    }
    case Shape::kMostlyZero: {
      const std::uint64_t rare = std::uint64_t{2} << random->Below(12);
      for (std::int64_t& v : field) v = random->OneIn(rare) ? Noise(random) : 0;
      break;
    }
    default: {  // kAlternating
      const std::int64_t height = Noise(random);
      std::int64_t* out = field.data();
      for (std::int64_t z = 0; z < shape[2]; ++z)
        for (std::int64_t y = 0; y < shape[1]; ++y)
          for (std::int64_t x = 0; x < shape[0]; ++x) *out++ = ((x ^ y ^ z) & 1) != 0 ? height : -height;
      break;
    }
  }
  return field;
}

template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

/// 2^exponent, also for denormal results. Exact whenever representable, like ldexp.
double PowerOfTwo(int exponent) { return std::ldexp(1.0, exponent); }

template <typename T>
T Clamped(double value) {
  constexpr double kMost = static_cast<double>(std::numeric_limits<T>::max());
  constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::lowest());
  return static_cast<T>(std::clamp(value, kLeast, kMost));
}

/// Float from an integer, in order: consecutive integers give consecutive floats. Never infinite.
template <typename T>
T FromOrder(std::int64_t v) {
  using Bits = BitsOf<T>;
  constexpr Bits kLargest = std::bit_cast<Bits>(std::numeric_limits<T>::max());
  const bool negative = v < 0;
  const std::uint64_t size = (negative ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v))
                             << 3;
  const Bits magnitude =
      std::min(static_cast<Bits>(size >> (64 - 8 * sizeof(T)) & ~(Bits{1} << (8 * sizeof(T) - 1))), kLargest);
  const T value = std::bit_cast<T>(magnitude);
  return negative ? -value : value;
}

constexpr double kPowersOfTen[] = {1e-3, 1e-1, 10, 100, 1e3, 1e4, 1e6};

template <typename T>
void MakeFloats(const Field& field, Scale scale, Random* random, T* out) {
  constexpr int kDigits = std::numeric_limits<T>::digits;
  constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent;
  constexpr int kMinExponent = std::numeric_limits<T>::min_exponent;
  const double mantissa = 1 + random->Fraction();
  double offset = 0;
  int exponent = random->Between(-30, 30);
  switch (scale) {
    case Scale::kBase:
      offset = (random->OneIn(2) ? -1 : 1) * (1 + random->Fraction()) * PowerOfTwo(exponent);
      exponent -= random->Between(4, kDigits + 2);
      break;
    case Scale::kLattice: {
      const int dropped = kFieldBits - random->Between(1, kDigits + 2);
      if (random->OneIn(4)) exponent = random->Between(kMinExponent, kMaxExponent - kDigits);
      const double power = PowerOfTwo(exponent);
      for (const std::int64_t v : field) *out++ = Clamped<T>(static_cast<double>(v >> dropped) * power);
      return;
    }
    case Scale::kHuge:
      exponent = kMaxExponent - random->Between(1, 4);
      break;
    case Scale::kTiny:
      exponent = kMinExponent + random->Between(-kDigits, 12);
      if (random->OneIn(8)) offset = PowerOfTwo(kMinExponent);
      break;
    case Scale::kBits:
      for (const std::int64_t v : field) *out++ = FromOrder<T>(v);
      return;
    case Scale::kDecimal: {
      const int dropped = kFieldBits - random->Between(1, kDigits - 4);
      const double divisor = kPowersOfTen[random->Below(std::size(kPowersOfTen))];
      if (random->OneIn(3)) offset = static_cast<double>(random->Between(-1000, 1000)) + 0.15;
      for (const std::int64_t v : field)
        *out++ = static_cast<T>(offset + static_cast<double>(v >> dropped) / divisor);
      return;
    }
    default:
      break;
  }
  const double unit = mantissa * PowerOfTwo(-kFieldBits);
  const double power = PowerOfTwo(exponent);
  // In this order, so that no intermediate result is rounded to zero or infinity.
  for (const std::int64_t v : field) {
    const T sample = Clamped<T>(offset + static_cast<double>(v) * unit * power);
    *out++ = scale == Scale::kFloat32 ? static_cast<T>(static_cast<float>(sample)) : sample;
  }
}

template <typename T>
void MakeIntegers(const Field& field, Scale scale, Random* random, T* out) {
  constexpr int kBits = static_cast<int>(8 * sizeof(T));
  constexpr std::int64_t kLeast = std::numeric_limits<T>::min();
  constexpr std::int64_t kMost = std::numeric_limits<T>::max();
  constexpr std::int64_t kMiddle = std::is_signed_v<T> ? 0 : std::int64_t{1} << (kBits - 1);
  int kept = random->Between(1, kBits);
  std::int64_t offset = kMiddle;
  if (scale == Scale::kHuge) kept = kBits + 1;
  if (scale == Scale::kLattice) kept = random->Between(1, 3);
  if (scale == Scale::kBase) {
    kept = random->Between(1, kBits / 2);
    offset = random->OneIn(2) ? kLeast : kMost - (std::int64_t{1} << kept) / 2;
  }
  const int dropped = kFieldBits + 1 - kept;
  for (const std::int64_t v : field)
    *out++ = static_cast<T>(std::clamp((v >> dropped) + offset, kLeast, kMost));
}

/// Zeros of both signs.
template <typename T>
void SignZeros(std::span<T> samples, Random* random) {
  for (T& sample : samples) {
    if (sample == 0 && random->OneIn(2)) sample = -sample;
  }
}

std::vector<std::uint8_t> MakeMissing(const Index3& shape, Missing kind, Random* random) {
  const auto count = static_cast<std::size_t>(Volume(shape));
  std::vector<std::uint8_t> missing(count, 0);
  switch (kind) {
    case Missing::kRandom: {
      const std::uint64_t threshold = random->Next() >> random->Below(12);
      for (std::uint8_t& m : missing) m = random->Next() < threshold ? 1 : 0;
      break;
    }
    case Missing::kCoast: {
      Field height = MakeField(shape, random->OneIn(2) ? Shape::kSmooth : Shape::kRough, random);
      const std::int64_t level = Noise(random) >> 2;
      for (std::size_t i = 0; i < count; ++i) missing[i] = height[i] < level ? 1 : 0;
      break;
    }
    case Missing::kBox: {
      Index3 begin;
      Index3 end;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const auto extent = static_cast<std::uint64_t>(shape[axis]);
        begin[axis] = static_cast<std::int64_t>(random->Below(extent));
        end[axis] = begin[axis] + 1 + static_cast<std::int64_t>(random->Below(extent));
      }
      std::size_t i = 0;
      for (std::int64_t z = 0; z < shape[2]; ++z)
        for (std::int64_t y = 0; y < shape[1]; ++y)
          for (std::int64_t x = 0; x < shape[0]; ++x)
            missing[i++] =
                x >= begin[0] && x < end[0] && y >= begin[1] && y < end[1] && z >= begin[2] && z < end[2];
      break;
    }
    case Missing::kPlanes: {
      const std::size_t axis = random->Below(3);
      const auto period = static_cast<std::int64_t>(1 + random->Below(5));
      const auto phase = static_cast<std::int64_t>(random->Below(static_cast<std::uint64_t>(period)));
      std::size_t i = 0;
      for (std::int64_t z = 0; z < shape[2]; ++z)
        for (std::int64_t y = 0; y < shape[1]; ++y)
          for (std::int64_t x = 0; x < shape[0]; ++x)
            missing[i++] = Index3{x, y, z}[axis] % period == phase ? 1 : 0;
      break;
    }
    case Missing::kOne:
      missing[random->Below(count)] = 1;
      break;
    case Missing::kAllButOne:
      std::fill(missing.begin(), missing.end(), std::uint8_t{1});
      missing[random->Below(count)] = 0;
      break;
    case Missing::kAll:
      std::fill(missing.begin(), missing.end(), std::uint8_t{1});
      break;
    default:
      break;
  }
  return missing;
}

/// Bits of commonly used fill values.
template <typename T>
BitsOf<T> FillBits(Random* random) {
  using Bits = BitsOf<T>;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kFills[] = {T(-9999),
                            T(1e30),
                            T(0),
                            T(-0.0),
                            std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::denorm_min()};
    return random->OneIn(8) ? static_cast<Bits>(random->Next())
                            : std::bit_cast<Bits>(kFills[random->Below(std::size(kFills))]);
  } else {
    constexpr T kFills[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1)};
    return random->OneIn(4) ? static_cast<Bits>(random->Next())
                            : static_cast<Bits>(kFills[random->Below(std::size(kFills))]);
  }
}

template <typename T>
BitsOf<T> NanBits(bool with_payload, Random* random) {
  using Bits = BitsOf<T>;
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  if (!with_payload) return std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  // Any sign and any payload, quiet or signalling; few different values or many.
  const Bits payload = static_cast<Bits>(random->OneIn(2) ? random->Next() : 1 + random->Below(3));
  const Bits sign = static_cast<Bits>(payload & 1) << (8 * sizeof(T) - 1);
  return static_cast<Bits>(payload | kInfinity | sign);
}

template <typename T>
void PutMissing(const PatchSpec& spec, Random* random, GeneratedPatch* patch) {
  using Bits = BitsOf<T>;
  const std::vector<std::uint8_t> missing = MakeMissing(spec.layout.shape, spec.missing, random);
  MissingValue kind = spec.missing_value;
  if constexpr (!std::is_floating_point_v<T>) kind = MissingValue::kFill;
  const Bits fill = FillBits<T>(random);
  const bool has_fill = kind == MissingValue::kFill || kind == MissingValue::kFillAndNan || random->OneIn(8);
  if (has_fill) patch->fill = fill;
  std::byte* sample = patch->samples.data();
  for (std::size_t i = 0; i < missing.size(); ++i, sample += sizeof(T)) {
    if (missing[i] == 0) continue;
    Bits bits = fill;
    if constexpr (std::is_floating_point_v<T>) {
      if (kind == MissingValue::kInfinities) {
        const T infinity = std::numeric_limits<T>::infinity();
        bits = std::bit_cast<Bits>(random->OneIn(2) ? infinity : -infinity);
      } else if (kind == MissingValue::kNan || kind == MissingValue::kNanPayloads ||
                 (kind == MissingValue::kFillAndNan && random->OneIn(16))) {
        bits = NanBits<T>(kind != MissingValue::kNan, random);
      }
    }
    std::memcpy(sample, &bits, sizeof(bits));
  }
}

constexpr std::array<const char*, static_cast<std::size_t>(Shape::kCount)> kShapeNames = {
    "smooth",      "rough",  "noise", "smooth noise", "fronts",      "spikes",     "constant",
    "all but one", "labels", "ramp",  "mostly zero",  "alternating", "heavy noise"};
constexpr std::array<const char*, static_cast<std::size_t>(Scale::kCount)> kScaleNames = {
    "unit", "base", "lattice", "huge", "tiny", "bits", "decimal", "float32"};
constexpr std::array<const char*, static_cast<std::size_t>(Missing::kCount)> kMissingNames = {
    "none", "random", "coast", "box", "planes", "one", "all but one", "all"};
constexpr std::array<const char*, static_cast<std::size_t>(MissingValue::kCount)> kMissingValueNames = {
    "nan", "nan payloads", "infinities", "fill", "fill and nan"};

template <typename Enum>
Enum AnyOf(Random* random) {
  return static_cast<Enum>(random->Below(static_cast<std::uint64_t>(Enum::kCount)));
}

/// 1 to 128; small and odd sizes are as frequent as those of real patches.
std::int64_t RandomExtent(Random* random) {
  switch (random->Below(6)) {
    case 0:
      return 1;
    case 1:
      return 1 + static_cast<std::int64_t>(random->Below(9));
    case 2:
      return std::int64_t{1} << random->Below(8);
    case 3:
      return (std::int64_t{1} << random->Between(1, 7)) + random->Between(-1, 0);
    default:
      return 1 + static_cast<std::int64_t>(random->Below(128));
  }
}

}  // namespace

std::string_view Name(Shape shape) { return kShapeNames[static_cast<std::size_t>(shape)]; }

std::string ToString(const PatchSpec& spec) {
  std::string text =
      fmt::format("{} {}, {} levels, {}, {}", Name(spec.layout.type), quarry::ToString(spec.layout.shape),
                  spec.layout.levels, Name(spec.shape), kScaleNames[static_cast<std::size_t>(spec.scale)]);
  if (spec.missing != Missing::kNone)
    text += fmt::format(", missing: {}, {}", kMissingNames[static_cast<std::size_t>(spec.missing)],
                        kMissingValueNames[static_cast<std::size_t>(spec.missing_value)]);
  return text;
}

void Generate(const PatchSpec& spec, GeneratedPatch* patch) {
  Random random(spec.seed);
  const Field field = MakeField(spec.layout.shape, spec.shape, &random);
  patch->samples.resize(field.size() * SizeOf(spec.layout.type));
  patch->fill.reset();
  DispatchType(spec.layout.type, [&]<typename T>(T) {
    T* samples = reinterpret_cast<T*>(patch->samples.data());
    if constexpr (std::is_floating_point_v<T>) {
      MakeFloats<T>(field, spec.scale, &random, samples);
      if (spec.shape == Shape::kMostlyZero || spec.shape == Shape::kLabels)
        SignZeros<T>(std::span(samples, field.size()), &random);
    } else {
      MakeIntegers<T>(field, spec.scale, &random, samples);
    }
    if (spec.missing != Missing::kNone) PutMissing<T>(spec, &random, patch);
  });
}

PatchSpec RandomSpec(DataType type, std::int64_t max_volume, Random* random) {
  PatchSpec spec;
  spec.layout.type = type;
  Index3& shape = spec.layout.shape;
  for (std::int64_t& extent : shape) extent = RandomExtent(random);
  // Every other patch is cut to a small one, so that there are many kinds.
  const std::int64_t limit = random->OneIn(2) ? std::min<std::int64_t>(max_volume, 4096) : max_volume;
  while (Volume(shape) > limit) {
    std::int64_t& largest = *std::max_element(shape.begin(), shape.end());
    largest = std::max<std::int64_t>(1, largest / 2);
  }
  spec.layout.levels = random->Between(1, 8);
  spec.shape = AnyOf<Shape>(random);
  spec.scale = random->OneIn(2) ? Scale::kUnit : AnyOf<Scale>(random);
  spec.missing = random->OneIn(3) ? AnyOf<Missing>(random) : Missing::kNone;
  spec.missing_value = AnyOf<MissingValue>(random);
  spec.seed = random->Next();
  return spec;
}

std::size_t ClassifySamples(DataType type, ByteSpan samples, std::optional<std::uint64_t> fill,
                            std::vector<std::uint8_t>* validity) {
  return DispatchType(type, [&]<typename T>(T) {
    using Bits = BitsOf<T>;
    const std::size_t count = samples.size() / sizeof(T);
    validity->resize(count);
    std::size_t valid = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Bits bits;
      std::memcpy(&bits, samples.data() + i * sizeof(T), sizeof(T));
      bool missing = fill.has_value() && *fill == bits;
      if constexpr (std::is_floating_point_v<T>) {
        // All bits of the exponent are set, in infinities and NaNs alike.
        constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
        missing |= (bits & kInfinity) == kInfinity;
      }
      (*validity)[i] = missing ? 0 : 1;
      valid += missing ? 0 : 1;
    }
    return valid;
  });
}

double ValueRange(DataType type, const GeneratedPatch& patch) {
  std::vector<std::uint8_t> validity;
  ClassifySamples(type, patch.samples, patch.fill, &validity);
  return DispatchType(type, [&]<typename T>(T) {
    const T* samples = reinterpret_cast<const T*>(patch.samples.data());
    double least = std::numeric_limits<double>::max();
    double most = std::numeric_limits<double>::lowest();
    for (std::size_t i = 0; i < validity.size(); ++i) {
      if (validity[i] == 0) continue;
      least = std::min(least, static_cast<double>(samples[i]));
      most = std::max(most, static_cast<double>(samples[i]));
    }
    if (least > most) return 0.0;
    return std::min(most - least, std::numeric_limits<double>::max());
  });
}

}  // namespace quarry::testing
