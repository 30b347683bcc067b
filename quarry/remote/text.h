#pragma once

#include <string>
#include <string_view>

namespace quarry::remote {

/// Without white space at its begin and end.
inline std::string Trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kWhite);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kWhite) + 1 - begin));
}

}  // namespace quarry::remote
