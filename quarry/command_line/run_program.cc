#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "quarry/base/output.h"
#include "quarry/base/utf8.h"
#include "quarry/command_line/command_line.h"

namespace quarry::command_line {
namespace {

/// Ends a program that runs out of memory where no handler can catch it: before RunProgram, or in a thread.
/// Other uncaught exceptions are faults of the program, and abort it.
void EndWithoutMemory() {
  try {
    if (const std::exception_ptr uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const std::bad_alloc&) {
    // There is no memory for a message.
    const char* const program = program_invocation_short_name;
    constexpr std::string_view kMessage = ": out of memory\n";
    (void)!::write(STDERR_FILENO, program, std::strlen(program));
    (void)!::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    std::_Exit(ExitCode(Status(StatusCode::kInternal, "")));
  } catch (...) {  // NOLINT: aborts
  }
  std::abort();
}

/// A program that starts with closed standard streams (">&-") would reuse their numbers for the next opened
/// file, and print into that file. Occupies the numbers, so that using them fails as before.
bool OccupyStandardStreams() {
  bool closed = false;
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    closed = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) == stream || closed;
  }
  return closed;
}

/// Before main.
[[maybe_unused]] const std::terminate_handler before = std::set_terminate(EndWithoutMemory);
[[maybe_unused]] const bool streams_were_closed = OccupyStandardStreams();

/// The exit code that a shell shows for a program that the signal has ended: the usual end at a closed pipe,
/// also for a parent that has the signal ignored.
constexpr int kReaderHasGone = 128 + SIGPIPE;

}  // namespace

int EndProgram(const std::string& program, const Result<int>& outcome, bool speaks) {
  Status status = outcome.status();
  const Status output = FlushOutput();
  if (status.ok()) {
    if (output.ok()) return *outcome;
    if (output.code() == StatusCode::kCancelled) return kReaderHasGone;
    status = output;
  }
  if (speaks) WriteError(fmt::format("{}: {}\n", program, Printable(status.message())));
  return ExitCode(status);
}

int RunProgram(Parser* parser, int argc, const char* const* argv, const std::function<Result<int>()>& run,
               const std::string& out_of_memory) {
  Result<int> outcome = 0;
  try {
    const Result<std::optional<std::string>> answer = parser->Parse(argc, argv);
    if (!answer.ok()) {
      outcome = answer.status();
    } else if (*answer) {
      WriteOut(**answer);
    } else {
      outcome = run();
    }
  } catch (const std::bad_alloc&) {
    outcome = InternalError("out of memory{}{}", out_of_memory.empty() ? "" : "; ", out_of_memory);
  } catch (const std::exception& error) {
    outcome = InternalError("unexpected: {}", error.what());
  }
  return EndProgram(parser->program(), outcome);
}

}  // namespace quarry::command_line
