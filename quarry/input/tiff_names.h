#pragma once

#include <string>
#include <vector>

#include "quarry/base/status.h"

/// Structure of a stack from the names of its images. Pure functions of names.
namespace quarry::input::internal {

/// Checks that images are numbered as one stack is: by one number, which grows by one.
/// @param names  of files without their folder, in natural order
/// @returns a sentence about numbers that are missing, or nothing
/// @errors kInvalidArgument: the names count along two numbers (channels, times), or are of several series
Result<std::vector<std::string>> CheckImageNames(const std::vector<std::string>& names,
                                                 const std::string& path);

}  // namespace quarry::input::internal
