#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "quarry/data_type.h"
#include "quarry/sample_value.h"

/// Which samples are missing: those that are not finite, and those equal to the fill value of their field,
/// bit by bit.
namespace quarry {

/// The bits of a sample as an unsigned integer of its size.
template <typename T>
std::uint64_t SampleBits(T sample) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<std::uint64_t>(sample);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<std::uint32_t>(sample);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<std::uint16_t>(sample);
  } else {
    return std::bit_cast<std::uint8_t>(sample);
  }
}

/// @param fill  bits of the fill value, or nothing
template <typename T>
bool IsMissing(T sample, std::optional<std::uint64_t> fill) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(sample)) return true;
  }
  return fill && SampleBits(sample) == *fill;
}

/// Whether a sample of this type can have exactly this value.
inline bool CanHold(DataType type, const SampleValue& value) {
  return DispatchType(type, [&](auto sample) { return value.As<decltype(sample)>().has_value(); });
}

/// The bits of a sample of this type with a value that it can hold.
inline std::uint64_t BitsOf(DataType type, const SampleValue& value) {
  return DispatchType(type, [&](auto sample) {
    return SampleBits(value.As<decltype(sample)>().value_or(static_cast<decltype(sample)>(0)));
  });
}

}  // namespace quarry

/// As ToString.
template <>
struct fmt::formatter<quarry::SampleValue> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const quarry::SampleValue& value, Context& context) const {
    return fmt::formatter<std::string_view>::format(quarry::ToString(value), context);
  }
};
