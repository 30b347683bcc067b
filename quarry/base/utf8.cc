#include "quarry/base/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace quarry {
namespace {

struct Character {
  std::uint32_t point;
  std::size_t length;  ///< in bytes
};

/// The character that `text`, which is not empty, begins with; nothing if it is not well-formed.
std::optional<Character> FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80         ? 1
                             : lead >> 5 == 0x6  ? 2
                             : lead >> 4 == 0xe  ? 3
                             : lead >> 3 == 0x1e ? 4
                                                 : 0;
  if (length == 0 || length > text.size()) return std::nullopt;
  std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    const auto next = static_cast<unsigned char>(text[k]);
    if (next >> 6 != 0x2) return std::nullopt;
    point = point << 6 | (next & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < kSmallest[length] || point > 0x10ffff || surrogate) return std::nullopt;
  return Character{point, length};
}

/// Control characters, ends of lines and paragraphs, and those that change the direction of text.
bool Commands(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
         (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<Character> first = FirstOf(text);
    if (!first) return false;
    text.remove_prefix(first->length);
  }
  return true;
}

std::string ToUtf8(std::string text) {
  if (IsUtf8(text)) return text;
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

std::string_view Beginning(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  // At most three bytes back: text that is not UTF-8 is cut anywhere.
  for (std::size_t back = 0; back < 3 && end > 0; ++back) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80) break;
    --end;
  }
  return text.substr(0, end);
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Character> first = FirstOf(text);
    const std::size_t length = first ? first->length : 1;
    if (first && !Commands(first->point)) {
      out += text.substr(0, length);
    } else if (first && first->point >= 0x80) {
      out += fmt::format("\\u{:04x}", first->point);
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace quarry
