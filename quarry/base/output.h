#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "quarry/base/status.h"

namespace quarry {

/// Standard output, for programs. What could not be written is remembered instead of thrown: a conversion
/// goes on when nobody reads its progress, and the end of the program tells (command_line::EndProgram).
void WriteOut(std::string_view text);

/// WriteOut of a formatted text.
template <typename... Args>
void PrintOut(fmt::format_string<Args...> text, Args&&... args) {
  WriteOut(fmt::format(text, std::forward<Args>(args)...));
}

/// Hands everything printed so far to the system.
/// @errors kInternal: not everything since the start could be written; kCancelled: the reader of the pipe has
/// gone
Status FlushOutput();

/// A line for people on standard error; when that fails, there is nobody left to tell.
void WriteError(std::string_view text);

}  // namespace quarry
