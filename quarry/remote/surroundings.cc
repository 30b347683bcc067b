#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "quarry/base/file.h"
#include "quarry/remote/credentials.h"

extern char** environ;

namespace quarry::remote {
namespace {

constexpr std::size_t kMostText = 1 << 20;
/// A person may have to confirm a login meanwhile.
constexpr std::chrono::seconds kCommandPatience{60};

/// A pipe and the file actions of a child whose output goes there.
struct OutputPipe {
  FileDescriptor read, write;
  posix_spawn_file_actions_t actions{};

  OutputPipe() { posix_spawn_file_actions_init(&actions); }
  ~OutputPipe() { posix_spawn_file_actions_destroy(&actions); }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  bool Open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = FileDescriptor(ends[0]);
    write = FileDescriptor(ends[1]);
    return posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
           posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0;
  }
};

/// All that a child prints. @errors kUnavailable: it is late, or prints too much
Result<std::string> ReadOutput(int fd, std::chrono::steady_clock::time_point end) {
  std::string text;
  std::array<char, 4096> block;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      return Unavailable("it has not ended after {} s", kCommandPatience.count());
    const ssize_t size = ::read(fd, block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(size));
    if (text.size() > kMostText) return Unavailable("it prints more than 1 MiB");
  }
}

Result<std::string> RunCommand(const std::string& command) {
  OutputPipe pipe;
  if (!pipe.Open()) return Unavailable("no pipe: {}", ErrnoText(errno));
  std::string shell = "/bin/sh", option = "-c", text = command;
  std::array<char*, 4> arguments{shell.data(), option.data(), text.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, "/bin/sh", &pipe.actions, nullptr, arguments.data(), environ);
  if (error != 0) return Unavailable("it does not start: {}", ErrnoText(error));
  pipe.write = FileDescriptor();
  Result<std::string> output =
      ReadOutput(pipe.read.get(), std::chrono::steady_clock::now() + kCommandPatience);
  if (!output.ok()) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (output.ok() && status != 0)
    return Unavailable("it ended with {}", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return output;
}

}  // namespace

Surroundings ThisProcess(std::function<Result<std::string>(const SmallRequest& request)> fetch) {
  Surroundings world;
  world.variable = [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
  };
  world.file = [](const std::string& path) { return ReadTextFile(path, kMostText); };
  world.fetch = std::move(fetch);
  world.run = RunCommand;
  world.now = [] { return std::chrono::system_clock::now(); };
  return world;
}

}  // namespace quarry::remote
