#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "quarry/format/manifest.h"

/// The text of manifests: the JSON form of protobuf messages, with a checksum of its own.
namespace quarry::format {

inline constexpr std::size_t kChecksumDigits = 16;

/// Position of the sixteen digits of the file's own checksum; npos when they are absent.
std::size_t ChecksumPosition(std::string_view text);

/// Sixteen digits, of a text in which they are zeros themselves.
std::string OwnChecksum(std::string_view text);

enum class TextForm : std::uint8_t { kLines, kOneLine };

/// The JSON form of a message that this program has made: every string in it is checked UTF-8.
/// @errors throws std::bad_alloc
std::string PrintText(const google::protobuf::Message& message, TextForm form = TextForm::kLines);

/// Reads the JSON form of a message, after any check of its checksum. Unknown keys are ignored.
/// @param cancelled  asked from time to time; empty: never
/// @errors kDataLoss, kCancelled
Status ParseText(std::string_view text, const Cancelled& cancelled, google::protobuf::Message* message);

/// Checks a manifest's own checksum. @errors kDataLoss
Status CheckOwnChecksum(std::string text);

}  // namespace quarry::format
