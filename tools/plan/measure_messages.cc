#include "tools/plan/measure_messages.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "quarry/base/file.h"
#include "tools/plan/stopwatch.h"

namespace quarry::plan {
namespace {

struct PipeEnds {
  FileDescriptor read;
  FileDescriptor write;
};

Result<PipeEnds> OpenPipe() {
  int ends[2];
  if (pipe(ends) != 0) return ErrnoStatus(errno, "open", "a pipe");
  return PipeEnds{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool ReadAll(int fd, void* to, std::size_t bytes) {
  for (auto* at = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* from, std::size_t bytes) {
  for (const auto* at = static_cast<const std::byte*>(from); bytes > 0;) {
    const ssize_t put = write(fd, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

constexpr std::size_t kMessageBytes = 1 << 20;
constexpr int kMessages = 128;
constexpr int kPings = 2000;

/// The other end: answers small messages, receives large ones into fresh memory, reports how long that took.
void Answer(int in, int out) {
  char ping = 0;
  for (int i = 0; i < kPings; ++i) {
    if (!ReadAll(in, &ping, 1) || !WriteAll(out, &ping, 1)) return;
  }
  const double begin = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<Bytes> received;
  for (int i = 0; i < kMessages; ++i) {
    received.emplace_back(kMessageBytes);
    if (!ReadAll(in, received.back().data(), kMessageBytes)) return;
  }
  const double seconds = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  WriteAll(out, &seconds, sizeof(seconds));
}

Result<MessageCosts> TalkTo(int in, int out) {
  const Status broken = InternalError("the process that measures messages ended early; run it again");
  MessageCosts costs;
  char ping = 0;
  const double begin = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < kPings; ++i) {
    if (!WriteAll(out, &ping, 1) || !ReadAll(in, &ping, 1)) return broken;
  }
  const double talked = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  // A ping is one message out and one in.
  costs.overhead_s = (talked - begin) / (2 * kPings);
  const Bytes message(kMessageBytes, std::byte{1});
  const double sending = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < kMessages; ++i) {
    if (!WriteAll(out, message.data(), message.size())) return broken;
  }
  const double bytes = static_cast<double>(kMessageBytes) * kMessages;
  costs.send_s_per_byte = (CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - sending) / bytes;
  double received = 0;
  if (!ReadAll(in, &received, sizeof(received))) return broken;
  costs.receive_s_per_byte = received / bytes;
  return costs;
}

}  // namespace

Result<MessageCosts> MeasureMessages() {
  QUARRY_ASSIGN_OR_RETURN(PipeEnds there, OpenPipe());
  QUARRY_ASSIGN_OR_RETURN(PipeEnds back, OpenPipe());
  fcntl(there.write.get(), F_SETPIPE_SZ, 1 << 20);  // as much as is allowed; the default does as well
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "start", "a second process");
  if (child == 0) {
    // Ends with this process in any case.
    close(there.write.Release());
    close(back.read.Release());
    Answer(there.read.get(), back.write.get());
    _exit(0);
  }
  there.read = FileDescriptor();
  back.write = FileDescriptor();
  Result<MessageCosts> costs = TalkTo(back.read.get(), there.write.get());
  there.write = FileDescriptor();
  waitpid(child, nullptr, 0);
  return costs;
}

}  // namespace quarry::plan
