#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "quarry/base/data_type.h"

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

/// A number exactly as a sample of any type has it: float64, or an integer that float64 does not hold.
class SampleValue {
 public:
  SampleValue() = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  SampleValue(T value) : value_(static_cast<double>(value)) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
      if (!IsExact(value)) {
        bits_ = static_cast<std::uint64_t>(value);
        kind_ = value < 0 ? Kind::kNegative : Kind::kPositive;
      }
    }
  }

  /// The nearest float64.
  double nearest() const { return value_; }
  /// Whether float64 holds it.
  bool is_double() const { return kind_ == Kind::kDouble; }

  /// The sample of this type with this value; nothing if the type has none. NaN and infinity are values of
  /// floats.
  template <typename T>
  std::optional<T> As() const {
    if constexpr (std::is_floating_point_v<T>) {
      if (!is_double()) return std::nullopt;
      if (!std::isfinite(value_)) return static_cast<T>(value_);
      if (std::abs(value_) > static_cast<double>(std::numeric_limits<T>::max())) return std::nullopt;
    } else if (!is_double()) {
      if constexpr (sizeof(T) < 8) return std::nullopt;
      if (std::is_signed_v<T> && kind_ == Kind::kPositive && bits_ >> 63 != 0) return std::nullopt;
      if (!std::is_signed_v<T> && kind_ == Kind::kNegative) return std::nullopt;
      return static_cast<T>(bits_);
    } else {
      // The end behind the largest integer is a power of two, which float64 holds; the largest may not be.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value_ >= static_cast<double>(std::numeric_limits<T>::lowest()) && value_ < end))
        return std::nullopt;
    }
    const T sample = static_cast<T>(value_);
    return static_cast<double>(sample) == value_ ? std::optional(sample) : std::nullopt;
  }

  friend bool operator==(const SampleValue&, const SampleValue&) = default;

 private:
  enum class Kind : std::uint8_t { kDouble, kNegative, kPositive };

  template <typename T>
  static bool IsExact(T value) {
    const auto wide = static_cast<double>(value);
    return wide < std::ldexp(1.0, std::numeric_limits<T>::digits) && static_cast<T>(wide) == value;
  }

  double value_ = 0;
  std::uint64_t bits_ = 0;  ///< bits of an integer that float64 does not hold, in two's complement
  Kind kind_ = Kind::kDouble;
};

/// As numbers are written; integers that float64 does not hold with all their digits.
std::string ToString(const SampleValue& value);

/// Inverse of ToString for integers: decimal digits, with a minus or without.
std::optional<SampleValue> ParseInteger(std::string_view text);

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
