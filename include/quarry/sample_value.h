#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace quarry {

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

}  // namespace quarry
