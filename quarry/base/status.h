#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "quarry/result.h"

/// Errors with a message in the style of fmt, and those of the system.
namespace quarry {

template <typename... Args>
Status InvalidArgument(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status NotFound(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kNotFound, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status Unavailable(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kUnavailable, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status DataLoss(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kDataLoss, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status AlreadyExists(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kAlreadyExists, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status ResourceExhausted(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kResourceExhausted, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status FailedPrecondition(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kFailedPrecondition, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status Unimplemented(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kUnimplemented, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status InternalError(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kInternal, fmt::format(text, std::forward<Args>(args)...)};
}

/// The system's text for `error_number`, e.g. "No space left on device".
std::string ErrnoText(int error_number);

/// Maps an errno to a Status: a missing file is kNotFound, everything else kInternal.
Status ErrnoStatus(int error_number, std::string_view action, std::string_view path);

/// Whether the same call may succeed later: nobody answered, or nobody wanted the answer. It says nothing of
/// the data.
inline bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

/// Exit code of every Quarry program for this status: 0 done, 2 bad usage, 3 not found, 4 damaged data,
/// 5 cannot reach or refused, 6 out of space or other I/O error. (1, a failed check, is not a Status.)
int ExitCode(const Status& status);

}  // namespace quarry
