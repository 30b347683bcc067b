#pragma once

#include <map>

#include "quarry/base/file.h"

namespace quarry::input::internal {

/// Where the samples of each variable of a classic NetCDF file end, by its name: the file must be this long.
/// The library itself reads zeros beyond the end of a truncated file.
/// @returns nothing for a file of another kind
/// @errors kDataLoss: the header is damaged
/// @source NetCDF Classic Format Specification: CDF-1, CDF-2 (64-bit offset), CDF-5 (64-bit data)
Result<std::map<std::string, std::uint64_t>> ClassicVariableEnds(const RandomAccessFile& file);

}  // namespace quarry::input::internal
