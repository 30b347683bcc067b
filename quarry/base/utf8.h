#pragma once

#include <string>
#include <string_view>

namespace quarry {

/// Whether `text` is well-formed UTF-8, as every string in a manifest must be.
/// @source RFC 3629, section 4
bool IsUtf8(std::string_view text);

/// `text` with a question mark for every byte outside printable ASCII, unless it is well-formed UTF-8: for
/// names that come from a file system, which may hold any bytes.
std::string ToUtf8(std::string text);

/// The beginning of a text, at most `most` bytes of it, without a part of a character at its end.
std::string_view Beginning(std::string_view text, std::size_t most);

/// Untrusted `text` for one line of a terminal or a log: control characters, line ends, changes of direction
/// and bytes that are not UTF-8 become visible, as \x1b or \u202e.
std::string Printable(std::string_view text);

}  // namespace quarry
