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

}  // namespace quarry
