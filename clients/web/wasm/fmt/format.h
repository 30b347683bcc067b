#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

// Takes the place of the library fmt, of whose code every page would load a fifth of the decoder's size. Has
// what the messages of the coders need: texts, integers and numbers, as {} or {:#x}. Another form does not
// compile.
namespace fmt {

struct Argument {
  enum class Kind { kText, kSigned, kUnsigned, kNumber } kind;
  std::string_view text;
  std::uint64_t bits = 0;
  double number = 0;

  template <typename T>
  static Argument Of(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      return {Kind::kText, std::string_view(value)};
    } else if constexpr (std::floating_point<T>) {
      return {Kind::kNumber, {}, 0, static_cast<double>(value)};
    } else {
      static_assert(std::integral<T>);
      return {
          std::signed_integral<T> ? Kind::kSigned : Kind::kUnsigned, {}, static_cast<std::uint64_t>(value)};
    }
  }
};

std::string Format(std::string_view form, const Argument* arguments);

/// Arguments of a form; -1 where it has parts that Format does not know.
constexpr int CountArguments(std::string_view form) {
  int count = 0;
  while (!form.empty()) {
    if (form.starts_with("{}")) {
      ++count;
      form.remove_prefix(2);
    } else if (form.starts_with("{:#x}")) {
      ++count;
      form.remove_prefix(5);
    } else if (form[0] == '{' || form[0] == '}') {
      return -1;
    } else {
      form.remove_prefix(1);
    }
  }
  return count;
}

template <typename... Args>
struct Form {
  template <typename Text>
  consteval Form(const Text& form) : text(form) {  // NOLINT: implicit, as in fmt
    if (CountArguments(form) != static_cast<int>(sizeof...(Args)))
      throw "another form, or number of arguments";
  }
  std::string_view text;
};

template <typename... Args>
using format_string = Form<std::type_identity_t<Args>...>;

template <typename... Args>
std::string format(format_string<Args...> form, Args&&... args) {
  const std::array<Argument, sizeof...(Args) + 1> arguments = {Argument::Of(args)...};
  return Format(form.text, arguments.data());
}

}  // namespace fmt
