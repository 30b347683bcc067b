#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "quarry/base/status.h"

namespace quarry {

/// Standard output, for programs. A failed write is remembered instead of thrown: a conversion goes on
/// without a reader of its progress, and the end of the program reports the failure
/// (command_line::EndProgram).
void WriteOut(std::string_view text);

/// WriteOut of a formatted text.
template <typename... Args>
void PrintOut(fmt::format_string<Args...> text, Args&&... args) {
  WriteOut(fmt::format(text, std::forward<Args>(args)...));
}

/// Flushes everything printed so far.
/// @errors kInternal: not everything since the start could be written; kCancelled: the reader of the pipe has
/// gone
Status FlushOutput();

/// Writes a line to standard error; a failure is ignored, as there is no other place to report it.
void WriteError(std::string_view text);

}  // namespace quarry
