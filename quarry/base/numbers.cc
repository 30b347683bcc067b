#include "quarry/base/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace quarry {

template <typename T>
Result<T> ParseNumber(std::string_view text) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  std::string_view digits = text.substr(text.starts_with('+') && !text.starts_with("+-") ? 1 : 0);
  // Below what T holds, and not another kind of text.
  const bool below = std::is_unsigned_v<T> && digits.starts_with('-');
  if (below) digits.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
    return InvalidArgument("\"{}\" is not a {}number", text, kFloat ? "" : "whole ");
  if constexpr (kFloat) {
    if (error != std::errc())
      return InvalidArgument("{} is too large or too close to 0 for a number of {} bits", text,
                             8 * sizeof(T));
    if (!std::isfinite(value)) return InvalidArgument("{} is not a finite number", text);
  } else {
    if (error != std::errc() || below)
      return InvalidArgument("{} is not between {} and {}", text, std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max());
  }
  return value;
}

template Result<int> ParseNumber(std::string_view);
template Result<unsigned> ParseNumber(std::string_view);
template Result<std::int64_t> ParseNumber(std::string_view);
template Result<std::uint64_t> ParseNumber(std::string_view);
template Result<float> ParseNumber(std::string_view);
template Result<double> ParseNumber(std::string_view);

}  // namespace quarry
