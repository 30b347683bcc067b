#pragma once

#include <charconv>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry {

/// Whether a text is a number as std::from_chars reads it, which T holds, and nothing else.
template <typename T>
bool ReadNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

/// A text that is a number and nothing else: decimal, with a sign or not, floating point with or without an
/// exponent. A number that T cannot hold is an error, never the nearest one that it can: neither 2^64 for 64
/// bits, nor 1e999, nor 1e-999. T: int, unsigned, std::int64_t, std::uint64_t, float, double.
/// @errors kInvalidArgument: what is wrong with the text, NaN and infinity included
template <typename T>
Result<T> ParseNumber(std::string_view text);

}  // namespace quarry
