#pragma once

#include <string>
#include <string_view>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// A text as its differences to another one with much the same lines, such as step.json to that of another
/// step. docs/format.md, "Packs".
namespace quarry::format {

/// Never much longer than the text.
Bytes EncodeDifference(std::string_view text, std::string_view from);

/// @param size  of the text; the caller bounds it
/// @errors kDataLoss: the pieces leave one of the texts
Result<std::string> DecodeDifference(ByteSpan difference, std::string_view from, std::uint64_t size);

}  // namespace quarry::format
