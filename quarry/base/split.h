#pragma once

#include <string_view>
#include <vector>

namespace quarry {

/// The parts of a text around each `separator`, empty ones included; an empty text is one empty part. They
/// are views of the text.
/// Example: "a,,b" -> "a" "" "b"
inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;; text.remove_prefix(parts.back().size() + 1)) {
    parts.push_back(text.substr(0, text.find(separator)));
    if (parts.back().size() == text.size()) return parts;
  }
}

}  // namespace quarry
