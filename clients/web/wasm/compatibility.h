// Included before every C++ source: what the coders use of C++20, and the standard library of
// emscripten 3.1.6 (libc++ 13) lacks. Only what they use of it; a newer library has its own.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <version>

namespace std {

#ifndef __cpp_lib_bit_cast
template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif

#ifndef __cpp_lib_smart_ptr_for_overwrite
template <typename Array>
unique_ptr<Array> make_unique_for_overwrite(size_t size) {
  return unique_ptr<Array>(new remove_extent_t<Array>[size]);
}
#endif

#ifndef __cpp_lib_ranges
namespace ranges {

template <typename Range>
constexpr auto max(const Range& range) {
  return *std::max_element(range.begin(), range.end());
}

template <typename Range, typename Value>
constexpr auto find(Range& range, const Value& value) {
  return std::find(range.begin(), range.end(), value);
}

template <typename Range, typename Less = std::less<>, typename Projection>
constexpr auto min_element(Range& range, Less less, Projection projection) {
  return std::min_element(range.begin(), range.end(), [&](const auto& a, const auto& b) {
    return less(std::invoke(projection, a), std::invoke(projection, b));
  });
}

template <typename Range, typename Out, typename Predicate>
constexpr Out copy_if(const Range& range, Out out, Predicate predicate) {
  return std::copy_if(range.begin(), range.end(), out,
                      [&](const auto& value) { return std::invoke(predicate, value); });
}

}  // namespace ranges
#endif

}  // namespace std
