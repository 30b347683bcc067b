#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

/// Integers of 64 bits in float64, which does not hold all of them. The functions take samples of any type,
/// and do no more than a conversion for the others.
namespace quarry {

template <typename T>
inline constexpr bool kIsWideInteger = std::is_integral_v<T> && sizeof(T) == 8;

/// a - b, rounded once. Integers of 64 bits are subtracted in halves, each exact in float64: converted as a
/// whole, large ones that differ little would be equal.
template <typename Real, typename T>
[[gnu::always_inline]] inline Real Difference(T a, T b) {
  if constexpr (kIsWideInteger<T>) {
    constexpr auto kLow = static_cast<T>(0xffffffff);
    constexpr auto kHigh = static_cast<T>(~kLow);
    const Real high = static_cast<Real>(a & kHigh) - static_cast<Real>(b & kHigh);
    return high + (static_cast<Real>(a & kLow) - static_cast<Real>(b & kLow));
  } else {
    return static_cast<Real>(a) - static_cast<Real>(b);
  }
}

/// The largest float64 that is not above a sample.
template <typename T>
double RoundedDown(T sample) {
  const auto near = static_cast<double>(sample);
  if constexpr (kIsWideInteger<T>) {
    // Behind the end of the type there is no way back.
    if (near >= std::ldexp(1.0, std::numeric_limits<T>::digits) || static_cast<T>(near) > sample)
      return std::nextafter(near, -std::numeric_limits<double>::infinity());
  }
  return near;
}

/// The smallest float64 that is not below a sample.
template <typename T>
double RoundedUp(T sample) {
  const auto near = static_cast<double>(sample);
  if constexpr (kIsWideInteger<T>) {
    if (near < std::ldexp(1.0, std::numeric_limits<T>::digits) && static_cast<T>(near) < sample)
      return std::nextafter(near, std::numeric_limits<double>::infinity());
  }
  return near;
}

/// The largest difference between a sample of this magnitude and its float64.
template <typename T>
double RoundingOfConversion(double magnitude) {
  constexpr double kExact = 0x1p53;
  return kIsWideInteger<T> && magnitude >= kExact ? std::ldexp(magnitude, -52) : 0;
}

}  // namespace quarry
