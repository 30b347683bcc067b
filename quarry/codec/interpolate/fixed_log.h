#pragma once

#include <bit>
#include <cstdint>

namespace quarry::interpolate {

/// log2 of a positive, normal number, to about 0.01: for choices of the encoder, which must be the same with
/// every compiler and mathematics library.
inline float FixedLog2(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  const float m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f800000u) - 1.0f;
  return exponent + m + 0.34f * m * (1.0f - m);
}

/// 2^value, to about 1 %, for values between -100 and 100.
inline float FixedExp2(float value) {
  const float whole = static_cast<float>(static_cast<std::int32_t>(value + 128.0f) - 128);
  const float f = value - whole;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) + 127);
  return std::bit_cast<float>(exponent << 23) * (1.0f + f - 0.34f * f * (1.0f - f));
}

}  // namespace quarry::interpolate
