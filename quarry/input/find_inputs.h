#pragma once

#include <string>
#include <vector>

#include "quarry/input/input.h"

namespace quarry::input {

/// An input behind an argument.
struct FoundInput {
  std::string path;     ///< for OpenInputs
  std::string place;    ///< its list and line, for messages; empty: it is an argument
  std::string warning;  ///< names that are left out of its folder; empty: none
};

/// The inputs behind the arguments of a program, in their order. "@FILE" is a list: a path on each line, as
/// on the command line; blank lines, and those that begin with "#", are skipped. A pattern that no file is
/// called, and a folder, are their files in natural order, unless they are a stack of images. Both may end in
/// ":VARIABLE". An input that is missing is returned as it is: opening it gives the reason.
/// @errors kNotFound: no such list, or nothing matches a pattern; kInvalidArgument: a list is no text, names
/// nothing, or another list
Result<std::vector<FoundInput>> FindInputs(const std::vector<std::string>& arguments,
                                           const InputOptions& options);

}  // namespace quarry::input
