#include "quarry/base/output.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace quarry {
namespace {

/// The first error of standard output, 0: none. The stream itself remembers only that there was one.
std::atomic<int> first_error = 0;

void Remember(int error_number) {
  int none = 0;
  first_error.compare_exchange_strong(none, error_number == 0 ? EIO : error_number);
}

/// Network file systems tell that a disk is full, or a quota, when a descriptor is closed.
bool CloseACopy() {
  const int copy = ::dup(STDOUT_FILENO);
  return copy < 0 || ::close(copy) == 0;
}

}  // namespace

void WriteOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) Remember(errno);
}

Status FlushOutput() {
  if (std::fflush(stdout) != 0) Remember(errno);
  if (std::ferror(stdout) != 0) Remember(EIO);
  if (!CloseACopy()) Remember(errno);
  const int error = first_error;
  if (error == 0) return Status::Ok();
  if (error == EPIPE) return {StatusCode::kCancelled, "standard output is closed by its reader"};
  return InternalError(
      "cannot write to standard output: {}; part of the output is lost; redirect it elsewhere",
      ErrnoText(error));
}

void WriteError(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace quarry
