// Included before every C++ source: what the rooms use of C++20, and the standard library of emscripten 3.1.6
// (libc++ 13) lacks. Only what they use of it; a newer library has its own.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
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

#ifndef __cpp_lib_jthread
/// There are no threads: code that could start one compiles, and does not run here.
class jthread {
 public:
  template <typename Call>
  explicit jthread(Call&&) {
    __builtin_trap();
  }
};
#endif

#ifndef __cpp_lib_to_chars
/// As from_chars of doubles, of a text without a sign in front of it but "-".
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  const size_t digits = text.starts_with('-') ? 1 : 0;
  const bool begins = digits < text.size() && text.find_first_of(" \t\n\v\f\r+-", digits) != digits &&
                      !text.substr(digits).starts_with("0x") && !text.substr(digits).starts_with("0X");
  char* end = nullptr;
  const double parsed = begins ? strtod(text.c_str(), &end) : 0;
  if (!begins || end == text.c_str()) return {first, errc::invalid_argument};
  const bool out_of_range = parsed == __builtin_huge_val() || parsed == -__builtin_huge_val();
  if (out_of_range && text.find_first_of("iI") == string::npos)
    return {first + (end - text.c_str()), errc::result_out_of_range};
  value = parsed;
  return {first + (end - text.c_str()), errc()};
}
inline from_chars_result from_chars(const char* first, const char* last, float& value) {
  double wide = 0;
  const from_chars_result read = from_chars(first, last, wide);
  if (read.ec == errc()) value = static_cast<float>(wide);
  return read;
}
#endif

#ifndef __cpp_lib_ranges
namespace ranges {

/// A projection that changes nothing.
struct Itself {
  template <typename Value>
  constexpr Value&& operator()(Value&& value) const noexcept {
    return std::forward<Value>(value);
  }
};
using Less = std::less<>;

/// A predicate of what a projection makes of a value.
template <typename Predicate, typename Projection>
constexpr auto Of(Predicate& predicate, Projection& projection) {
  return [&](const auto& value) -> bool {
    return static_cast<bool>(std::invoke(predicate, std::invoke(projection, value)));
  };
}

/// An order, or an equality, of what a projection makes of two values.
template <typename Compare, typename Projection>
constexpr auto OfBoth(Compare& compare, Projection& projection) {
  return [&](const auto& a, const auto& b) -> bool {
    return static_cast<bool>(std::invoke(compare, std::invoke(projection, a), std::invoke(projection, b)));
  };
}

template <typename Range>
constexpr auto max(const Range& range) {
  return *std::max_element(std::begin(range), std::end(range));
}

template <typename Range, typename Value, typename Projection = Itself>
constexpr auto find(Range&& range, const Value& value, Projection projection = {}) {
  return std::find_if(std::begin(range), std::end(range),
                      [&](const auto& one) -> bool { return std::invoke(projection, one) == value; });
}

template <typename Range, typename Predicate, typename Projection = Itself>
constexpr auto find_if(Range&& range, Predicate predicate, Projection projection = {}) {
  return std::find_if(std::begin(range), std::end(range), Of(predicate, projection));
}

template <typename Range, typename Predicate, typename Projection = Itself>
constexpr auto find_if_not(Range&& range, Predicate predicate, Projection projection = {}) {
  return std::find_if_not(std::begin(range), std::end(range), Of(predicate, projection));
}

template <typename Range, typename Predicate, typename Projection = Itself>
constexpr bool all_of(const Range& range, Predicate predicate, Projection projection = {}) {
  return std::all_of(std::begin(range), std::end(range), Of(predicate, projection));
}

template <typename Range, typename Predicate, typename Projection = Itself>
constexpr bool any_of(const Range& range, Predicate predicate, Projection projection = {}) {
  return std::any_of(std::begin(range), std::end(range), Of(predicate, projection));
}

template <typename Range, typename Predicate, typename Projection = Itself>
constexpr bool none_of(const Range& range, Predicate predicate, Projection projection = {}) {
  return std::none_of(std::begin(range), std::end(range), Of(predicate, projection));
}

template <typename Range, typename Value>
constexpr auto count(const Range& range, const Value& value) {
  return std::count(std::begin(range), std::end(range), value);
}

template <typename Range>
constexpr auto adjacent_find(Range&& range) {
  return std::adjacent_find(std::begin(range), std::end(range));
}

template <typename A, typename B, typename Equal = std::equal_to<>, typename ProjectionA = Itself,
          typename ProjectionB = Itself>
constexpr bool equal(const A& a, const B& b, Equal equal = {}, ProjectionA of_a = {}, ProjectionB of_b = {}) {
  const auto same = [&](const auto& x, const auto& y) -> bool {
    return std::invoke(equal, std::invoke(of_a, x), std::invoke(of_b, y));
  };
  return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), same);
}

template <typename Range, typename Compare = Less, typename Projection = Itself>
constexpr void sort(Range&& range, Compare compare = {}, Projection projection = {}) {
  std::sort(std::begin(range), std::end(range), OfBoth(compare, projection));
}

template <typename Range, typename Compare = Less, typename Projection = Itself>
void stable_sort(Range&& range, Compare compare = {}, Projection projection = {}) {
  std::stable_sort(std::begin(range), std::end(range), OfBoth(compare, projection));
}

template <typename Range, typename Compare = Less, typename Projection = Itself>
constexpr auto min_element(Range&& range, Compare compare = {}, Projection projection = {}) {
  return std::min_element(std::begin(range), std::end(range), OfBoth(compare, projection));
}

template <typename Range, typename Value, typename Compare = Less, typename Projection = Itself>
constexpr auto lower_bound(Range&& range, const Value& value, Compare compare = {},
                           Projection projection = {}) {
  return std::partition_point(std::begin(range), std::end(range), [&](const auto& one) -> bool {
    return std::invoke(compare, std::invoke(projection, one), value);
  });
}

template <typename Range, typename Value, typename Compare = Less, typename Projection = Itself>
constexpr auto upper_bound(Range&& range, const Value& value, Compare compare = {},
                           Projection projection = {}) {
  return std::partition_point(std::begin(range), std::end(range), [&](const auto& one) -> bool {
    return !std::invoke(compare, value, std::invoke(projection, one));
  });
}

template <typename Range, typename Value>
constexpr bool binary_search(const Range& range, const Value& value) {
  return std::binary_search(std::begin(range), std::end(range), value);
}

template <typename Range, typename Predicate>
constexpr auto partition_point(Range&& range, Predicate predicate) {
  return std::partition_point(std::begin(range), std::end(range), predicate);
}

template <typename Range, typename Out>
constexpr auto copy(const Range& range, Out out) {
  return std::copy(std::begin(range), std::end(range), out);
}

template <typename Range, typename Out, typename Predicate>
constexpr Out copy_if(const Range& range, Out out, Predicate predicate) {
  return std::copy_if(std::begin(range), std::end(range), out,
                      [&](const auto& value) -> bool { return std::invoke(predicate, value); });
}

}  // namespace ranges
#endif

}  // namespace std
