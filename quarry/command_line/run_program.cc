#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "quarry/base/utf8.h"
#include "quarry/command_line/command_line.h"

namespace quarry::command_line {
namespace {

/// The end of a program whose memory runs out where nobody can catch that: before RunProgram, or in a thread.
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

/// Before main.
[[maybe_unused]] const std::terminate_handler before = std::set_terminate(EndWithoutMemory);

}  // namespace

int RunProgram(Parser* parser, int argc, const char* const* argv, const std::function<Result<int>()>& run,
               const std::string& out_of_memory) {
  Status status;
  try {
    const Result<std::optional<std::string>> answer = parser->Parse(argc, argv);
    if (answer.ok() && *answer) {
      fmt::print("{}", **answer);
      return 0;
    }
    const Result<int> code = answer.ok() ? run() : Result<int>(answer.status());
    if (code.ok()) return *code;
    status = code.status();
  } catch (const std::bad_alloc&) {
    status = InternalError("out of memory{}{}", out_of_memory.empty() ? "" : "; ", out_of_memory);
  } catch (const std::exception& error) {
    status = InternalError("unexpected: {}", error.what());
  }
  fmt::print(stderr, "{}: {}\n", parser->program(), Printable(status.message()));
  return ExitCode(status);
}

}  // namespace quarry::command_line
