#include "server/guard/connection.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace quarry::server {
namespace {

/// Nothing if the kernel does not say.
std::optional<tcp_info> InfoOf(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr std::size_t kEnd = offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  if (size < kEnd) return std::nullopt;
  return info;
}

/// [bytes] received since the socket was connected; nothing if the kernel does not say.
std::optional<std::uint64_t> BytesReceived(int descriptor) {
  const std::optional<tcp_info> info = InfoOf(descriptor);
  return info ? std::optional<std::uint64_t>(info->tcpi_bytes_received) : std::nullopt;
}

/// [bytes] received, and read by nobody yet: they have cost nothing. A busy machine lets many come together.
std::uint64_t BytesWaiting(int descriptor) {
  int waiting = 0;
  return ::ioctl(descriptor, SIOCINQ, &waiting) == 0 ? static_cast<std::uint64_t>(waiting) : 0;
}

/// [bytes] At most what has been read from the socket when this returns; nothing if the kernel does not say.
std::optional<std::uint64_t> LeastRead(int descriptor) {
  const std::optional<std::uint64_t> received = BytesReceived(descriptor);
  const std::uint64_t waiting = BytesWaiting(descriptor);
  if (!received) return std::nullopt;
  return *received - std::min(waiting, *received);
}

/// [bytes] At least what had been read when this was called.
std::uint64_t MostRead(int descriptor) {
  const std::uint64_t waiting = BytesWaiting(descriptor);
  const std::uint64_t received = BytesReceived(descriptor).value_or(0);
  return received - std::min(waiting, received);
}

}  // namespace

std::uint64_t InodeOf(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

bool Connection::IsOpen() const { return InodeOf(descriptor_) == inode_; }

Connection::Finding Connection::Inspect(RateLimit::Clock::time_point now) {
  const Finding finding = found_ ? Finding::kGood : Judge(now);
  if (finding != Finding::kGood) {
    found_ = true;
    Cut();
    return finding;
  }
  return IsOpen() ? Finding::kGood : Finding::kClosed;
}

/// Whether a rule was broken since the last time.
Connection::Finding Connection::Judge(RateLimit::Clock::time_point now) {
  if (!faults_limit_.Allow(now, faults_.exchange(0))) return Finding::kFaults;
  if (!IsOpen()) return Finding::kGood;
  if (HasVanished(now)) return Finding::kVanished;
  // In this order, as calls go on meanwhile: a question that has come since the bytes were counted adds none;
  // one that is not expected any more has been counted as progress.
  const std::optional<std::uint64_t> read = LeastRead(descriptor_);
  const auto pinned = static_cast<std::uint64_t>(pinned_.load());
  const auto expected = static_cast<std::uint64_t>(expected_.load());
  const bool progress = progress_.exchange(false);
  if (!taken_ && now - opened_ > rules_.taking && read.value_or(0) > rules_.idle_bytes)
    return Finding::kHoldsOthersUp;
  if (!read || progress) {
    has_progressed_ = true;
    excess_ = 0;
    worth_ = MostRead(descriptor_);  // since then, more may have been read of what was worth it
    return Finding::kGood;
  }
  const std::uint64_t since = *read - std::min(worth_, *read);
  excess_ = since - std::min(pinned, since);
  const std::uint64_t idle =
      has_progressed_ ? rules_.idle_bytes : std::min(rules_.first_bytes, rules_.idle_bytes);
  return since > idle + std::max(pinned, std::min(expected, rules_.question_bytes)) ? Finding::kFlood
                                                                                    : Finding::kGood;
}

/// Whether the client's machine has acknowledged nothing for half a minute, though bytes were sent again.
/// That of a client that takes nothing acknowledges all that it has room for.
bool Connection::HasVanished(RateLimit::Clock::time_point now) {
  constexpr auto kAskEvery = std::chrono::seconds(1);
  constexpr std::uint32_t kSilentMs = 30'000;
  if (now - heard_ < kAskEvery) return false;
  heard_ = now;
  const std::optional<tcp_info> info = InfoOf(descriptor_);
  return info && info->tcpi_retransmits > 0 && info->tcpi_last_ack_recv > kSilentMs;
}

void Connection::Cut() {
  cut_ = true;
  // A file that has taken the place of the socket since then is no socket, or one whose client asks again.
  if (!IsOpen()) return;
  // Unlike shutdown, it discards what has arrived and was not read yet: the transport has nothing more to
  // parse. The client gets a reset, so that one that still sends learns of it. By number, as thread
  // sanitizers take `connect` for the making of a descriptor.
  constexpr sockaddr kNobody{AF_UNSPEC, {}};
  (void)::syscall(SYS_connect, descriptor_, &kNobody, sizeof(kNobody));
}

}  // namespace quarry::server
