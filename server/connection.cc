#include "server/connection.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace quarry::server {
namespace {

/// [bytes] that have been read from a socket since it was connected; nothing if the kernel does not say. What
/// lies in its buffer has cost nothing yet: a busy machine lets much of it come together.
std::optional<std::uint64_t> BytesRead(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr std::size_t kEnd = offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  if (size < kEnd) return std::nullopt;
  int unread = 0;  // after the others: it may miss some that were read, and count none twice
  if (::ioctl(descriptor, SIOCINQ, &unread) != 0) return std::nullopt;
  const auto waiting = static_cast<std::uint64_t>(std::max(unread, 0));
  return info.tcpi_bytes_received - std::min<std::uint64_t>(waiting, info.tcpi_bytes_received);
}

}  // namespace

std::uint64_t InodeOf(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

bool Connection::IsOpen() const { return InodeOf(descriptor_) == inode_; }

Connection::Finding Connection::Inspect(RateLimit::Clock::time_point now) {
  if (!IsOpen()) return Finding::kClosed;
  if (!faults_limit_.Allow(now, faults_.exchange(0))) return Finding::kFaults;
  // In this order, as calls go on meanwhile: a question that has come since the bytes were counted adds none;
  // one that is not expected any more has been counted as progress.
  const std::optional<std::uint64_t> read = BytesRead(descriptor_);
  const auto expected = static_cast<std::uint64_t>(expected_.load());
  const bool progress = progress_.exchange(false);
  if (!taken_ && now - opened_ > rules_.taking && read.value_or(0) > rules_.idle_bytes)
    return Finding::kHoldsOthersUp;
  if (!read || progress) {
    worth_ = BytesRead(descriptor_).value_or(0);  // since then, more may have been read of what was worth it
    return Finding::kGood;
  }
  return *read > worth_ + rules_.idle_bytes + expected ? Finding::kFlood : Finding::kGood;
}

void Connection::Cut() const {
  // A file that has taken the place of the socket since then is no socket, or one whose client asks again.
  if (!IsOpen()) return;
  // The transport's close resets the connection, so that a client that still sends learns of it.
  constexpr linger kReset{1, 0};
  (void)::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &kReset, sizeof(kReset));
  (void)::shutdown(descriptor_, SHUT_RDWR);
}

}  // namespace quarry::server
