#include "quarry/codec/safeguards/logarithm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quarry/codec/instruction_sets.h"

namespace quarry::safeguards {
namespace {

/// Codes below 2^30, so that a coder's additions fit 32 bits.
constexpr int kCodeBits = 30;
/// Units of the bound beyond which a finer scale gains nothing: rounding takes half a unit of it.
constexpr double kEnoughUnits = 1024;
/// Error bound of logarithm and power, far above their rounding errors.
constexpr double kArithmeticError = 1e-12;
constexpr double kLog2OfE = 1.4426950408889634;
constexpr double kLnOf2 = 0.6931471805599453;
constexpr double kSqrt2 = 1.4142135623730951;

QUARRY_INLINE double PowerOfTwo(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// @param x  positive and finite
QUARRY_INLINE double Log2(double x) {
  constexpr double kLeastNormal = 0x1p-1022;
  constexpr std::uint64_t kSqrtHalf = std::bit_cast<std::uint64_t>(0.70710678118654752);
  const bool subnormal = x < kLeastNormal;
  const auto bits = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  const std::int64_t e = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(e) << 52));
  // ln m = 2 artanh z with |z| < 0.172: the first term left out is below 1e-15.
  const double z = (m - 1) / (m + 1);
  const double w = z * z;
  double sum = 1.0 / 19;
  for (const double term : {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0})
    sum = sum * w + term;
  return static_cast<double>(e - (subnormal ? 54 : 0)) + 2 * z * sum * kLog2OfE;
}

/// 2 to the power of `exponent + fraction`.
/// @param fraction  in [0, 1)
QUARRY_INLINE double Exp2(std::int64_t exponent, double fraction) {
  // e^x with |x| < 0.347: the first term left out is below 1e-16.
  const double x = (fraction - 0.5) * kLnOf2;
  double sum = 1.0;
  for (const double divisor : {13., 12., 11., 10., 9., 8., 7., 6., 5., 4., 3., 2., 1.})
    sum = 1 + sum * x * (1 / divisor);
  // In two steps, so that a subnormal number is rounded once.
  const std::int64_t half = exponent >> 1;
  return kSqrt2 * sum * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

template <typename T>
struct CodeSamples {
  QUARRY_INLINE static void Run(const LogScale& scale, const T* samples, std::size_t count,
                                std::int32_t* codes) {
    const double units = PowerOfTwo(scale.bits);
    const double offset = scale.offset;
    for (std::size_t i = 0; i < count; ++i) {
      const double log = Log2(std::abs(static_cast<double>(samples[i])));
      codes[i] = static_cast<std::int32_t>((log - offset) * units + 0.5);  // NOLINT: vectors know no lround
    }
  }
};

template <typename T>
struct RestoreMagnitudes {
  QUARRY_INLINE static void Run(const LogScale& scale, const std::int32_t* codes, std::size_t count,
                                T* magnitudes) {
    constexpr std::int32_t kMost = 1100;         // beyond all numbers
    constexpr std::int32_t kMostCode = 1 << 16;  // beyond kMost with any offset, so that a sum fits
    const double unit = PowerOfTwo(-scale.bits);
    const std::int32_t mask = (std::int32_t{1} << scale.bits) - 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t whole = std::clamp(codes[i] >> scale.bits, -kMostCode, kMostCode) + scale.offset;
      const double fraction = static_cast<double>(codes[i] & mask) * unit;
      magnitudes[i] = static_cast<T>(Exp2(std::clamp(whole, -kMost, kMost), fraction));
    }
  }
};

}  // namespace

LogScale ChooseScale(double least, double most, double relative) {
  LogScale scale;
  scale.offset = std::ilogb(least);
  const auto octaves = static_cast<unsigned>(std::ilogb(most) + 1 - scale.offset);
  scale.bits = kCodeBits - static_cast<int>(std::bit_width(octaves));
  const double bound = Log2(1 + relative);
  while (scale.bits > 0 && bound * PowerOfTwo(scale.bits - 1) >= kEnoughUnits) --scale.bits;
  return scale;
}

std::int64_t CodeTolerance(const LogScale& scale, double relative, double type_epsilon) {
  // x (1 - R) is further away than x / (1 + R): the bound above a sample is the narrower one.
  const double bound = Log2(1 + relative) - type_epsilon * kLog2OfE - kArithmeticError;
  return static_cast<std::int64_t>(std::floor(bound * PowerOfTwo(scale.bits) - 0.5));
}

template <typename T>
void ToCodes(const LogScale& scale, const T* samples, std::size_t count, std::int32_t* codes) {
  RunOnBestInstructionSet<CodeSamples<T>, const LogScale&>(scale, samples, count, codes);
}

template <typename T>
void ToMagnitudes(const LogScale& scale, const std::int32_t* codes, std::size_t count, T* magnitudes) {
  RunOnBestInstructionSet<RestoreMagnitudes<T>, const LogScale&>(scale, codes, count, magnitudes);
}

template void ToCodes(const LogScale&, const float*, std::size_t, std::int32_t*);
template void ToCodes(const LogScale&, const double*, std::size_t, std::int32_t*);
template void ToMagnitudes(const LogScale&, const std::int32_t*, std::size_t, float*);
template void ToMagnitudes(const LogScale&, const std::int32_t*, std::size_t, double*);

}  // namespace quarry::safeguards
