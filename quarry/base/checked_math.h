#pragma once

#include <concepts>
#include <cstdint>

namespace quarry {

/// a + b into `*sum`; false when it does not fit. Every offset and size that comes from a file or a request
/// is added this way.
template <std::integral T>
[[nodiscard]] constexpr bool CheckedAdd(T a, T b, T* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/// a * b into `*product`; false when it does not fit.
template <std::integral T>
[[nodiscard]] constexpr bool CheckedMultiply(T a, T b, T* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Quotient rounded up, for a >= 0 and b > 0, without overflow in between.
template <std::integral T>
constexpr T CeilDivide(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace quarry
