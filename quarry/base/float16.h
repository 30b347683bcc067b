#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Numbers of IEEE 754 with 16 bits, which are stored as float32: that holds all of them, NaNs with their
/// bits.
namespace quarry {

inline float FloatOfHalf(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
  const std::uint32_t exponent = half >> 10 & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float subnormal = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -subnormal : subnormal;
}

/// Inverse of FloatOfHalf; of other numbers the one towards zero, and of too large ones infinity.
inline std::uint16_t HalfOfFloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t exponent = bits >> 23 & 0xffU;
  const std::uint32_t mantissa = bits & 0x7fffffU;
  std::uint32_t half = 0;
  if (exponent == 0xff) {
    // A NaN whose bits lie below those of float16 stays one.
    half = 0x7c00U | mantissa >> 13 | (mantissa != 0 && mantissa >> 13 == 0 ? 1U : 0U);
  } else if (exponent >= 143) {
    half = 0x7c00U;
  } else if (exponent > 112) {
    half = (exponent - 112) << 10 | mantissa >> 13;
  } else if (exponent > 102) {
    half = (mantissa | 0x800000U) >> (126 - exponent);
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace quarry
