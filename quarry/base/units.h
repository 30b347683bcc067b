#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry {

/// "512 B", "1.50 KiB", "2.00 GiB": three significant digits, binary units.
std::string FormatBytes(std::uint64_t bytes);

/// "2GiB", "512 MiB", "1000000", "1.5G" (binary) to bytes. @errors kInvalidArgument
Result<std::uint64_t> ParseBytes(std::string_view text);

}  // namespace quarry
