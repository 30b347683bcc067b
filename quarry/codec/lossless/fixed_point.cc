#include "quarry/codec/lossless/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quarry::lossless {
namespace {

template <typename F>
struct Format {
  using Word = std::make_unsigned_t<IntegerOf<F>>;
  static constexpr int kMantissaBits = std::numeric_limits<F>::digits - 1;
  static constexpr int kMaxField = 2 * std::numeric_limits<F>::max_exponent - 1;  // infinity and NaN
  static constexpr int kMinExponent = std::numeric_limits<F>::min_exponent - std::numeric_limits<F>::digits;
  static constexpr int kMaxExponent = std::numeric_limits<F>::max_exponent - 1;
};

/// |sample| = significand * 2^exponent.
template <typename F>
struct Parts {
  typename Format<F>::Word significand;
  int exponent;
  bool negative;
};

/// @param sample  finite
template <typename F>
Parts<F> Split(F sample) {
  using Word = typename Format<F>::Word;
  const Word bits = std::bit_cast<Word>(sample);
  const int field = static_cast<int>(bits >> Format<F>::kMantissaBits) & Format<F>::kMaxField;
  const Word mantissa = bits & ((Word{1} << Format<F>::kMantissaBits) - 1);
  const bool normal = field != 0;
  return {normal ? mantissa | Word{1} << Format<F>::kMantissaBits : mantissa,
          Format<F>::kMinExponent + std::max(field, 1) - 1, std::signbit(sample)};
}

}  // namespace

template <typename F>
std::optional<int> FindExponent(std::span<const F> samples) {
  using Word = typename Format<F>::Word;
  int lowest = std::numeric_limits<int>::max();   // exponent of the lowest bit that is set in any sample
  int highest = std::numeric_limits<int>::min();  // and of the highest
  for (const F sample : samples) {
    if (!(sample - sample == 0)) return {};
    const Parts<F> parts = Split(sample);
    if (parts.significand == 0) {
      if (parts.negative) return {};
      continue;
    }
    lowest = std::min(lowest, parts.exponent + std::countr_zero(parts.significand));
    highest = std::max(highest, parts.exponent + static_cast<int>(std::bit_width(parts.significand)) - 1);
    if (highest - lowest >= static_cast<int>(8 * sizeof(Word)) - 1) return {};
  }
  if (highest < lowest) return 0;
  return lowest;
}

template <typename F>
bool IsExponent(int exponent) {
  return exponent >= Format<F>::kMinExponent && exponent <= Format<F>::kMaxExponent;
}

template <typename F>
void ToIntegers(std::span<const F> samples, int exponent, IntegerOf<F>* integers) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    integers[i] = 0;
    const Parts<F> parts = Split(samples[i]);
    if (parts.significand == 0) continue;
    const int shift = parts.exponent - exponent;
    const auto magnitude =
        static_cast<IntegerOf<F>>(shift >= 0 ? parts.significand << shift : parts.significand >> -shift);
    integers[i] = parts.negative ? -magnitude : magnitude;
  }
}

template <typename F>
void FromIntegers(std::span<const IntegerOf<F>> integers, int exponent, F* samples) {
  const F unit = std::ldexp(F{1}, exponent);  // exact
  for (std::size_t i = 0; i < integers.size(); ++i) samples[i] = static_cast<F>(integers[i]) * unit;
}

#define QUARRY_INSTANTIATE(F)                                          \
  template std::optional<int> FindExponent<F>(std::span<const F>);     \
  template bool IsExponent<F>(int);                                    \
  template void ToIntegers<F>(std::span<const F>, int, IntegerOf<F>*); \
  template void FromIntegers<F>(std::span<const IntegerOf<F>>, int, F*)
QUARRY_INSTANTIATE(float);
QUARRY_INSTANTIATE(double);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
