#include "server/http/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace quarry::server::http {
namespace {

using State = Transferred::State;

Transferred FailedRead() {
  return {errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? State::kWantRead : State::kClosed};
}

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(int descriptor) : Channel(descriptor) {}

  Transferred TryRead(std::span<std::byte> buffer) override {
    const ssize_t got = ::recv(descriptor(), buffer.data(), buffer.size(), 0);
    if (got < 0) return FailedRead();
    return {got == 0 ? State::kClosed : State::kDone, static_cast<std::size_t>(got)};
  }

  Transferred TryWrite(std::span<const SharedBytes> pieces) override {
    constexpr std::size_t kMostPieces = 64;
    std::array<iovec, kMostPieces> parts;
    const std::size_t count = std::min(pieces.size(), kMostPieces);
    for (std::size_t i = 0; i < count; ++i)
      parts[i] = {const_cast<std::byte*>(pieces[i].bytes.data()), pieces[i].bytes.size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(descriptor(), &message, MSG_NOSIGNAL);
    if (sent > 0) return {State::kDone, static_cast<std::size_t>(sent)};
    return {errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? State::kWantWrite : State::kClosed};
  }

  void EndWriting() override { (void)::shutdown(descriptor(), SHUT_WR); }
};

}  // namespace

std::unique_ptr<Channel> MakePlainChannel(int descriptor) {
  return std::make_unique<PlainChannel>(descriptor);
}

void Outgoing::Sent(std::size_t bytes) {
  while (bytes > 0) {
    SharedBytes& piece = pieces_[first_];
    const std::size_t part = std::min(bytes, piece.bytes.size());
    piece.bytes = piece.bytes.subspan(part);
    bytes -= part;
    if (!piece.bytes.empty()) return;
    piece.owner = nullptr;
    ++first_;
  }
}

bool Channel::WaitFor(State state) const {
  // A client that closes its end wakes the poll as well, and so does Cut.
  pollfd polled{descriptor_, static_cast<short>((state == State::kWantRead ? POLLIN : POLLOUT) | POLLRDHUP),
                0};
  while (!cut_) {
    const int ready = ::poll(&polled, 1, -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || (polled.revents & (POLLERR | POLLNVAL)) != 0) return false;
    // Bytes that came before the end can still be read; the peer takes none.
    return state == State::kWantRead || (polled.revents & (POLLRDHUP | POLLHUP)) == 0;
  }
  return false;
}

bool Channel::WaitAndRead(std::string* to, std::size_t most) {
  std::array<std::byte, 16 << 10> buffer;
  while (!cut_) {
    const Transferred read = TryRead(std::span(buffer).first(std::min(most, buffer.size())));
    if (read.state == State::kDone) {
      to->append(reinterpret_cast<const char*>(buffer.data()), read.bytes);
      return true;
    }
    if (read.state == State::kClosed || !WaitFor(read.state)) return false;
  }
  return false;
}

bool Channel::WaitAndWrite(Outgoing* outgoing) {
  while (!outgoing->empty() && !cut_) {
    const Transferred written = TryWrite(outgoing->left());
    if (written.state == State::kDone) {
      outgoing->Sent(written.bytes);
    } else if (written.state == State::kClosed || !WaitFor(written.state)) {
      return false;
    }
  }
  return outgoing->empty();
}

bool Channel::IsGone() const {
  pollfd polled{descriptor_, POLLRDHUP, 0};
  return cut_ || ::poll(&polled, 1, 0) != 0;
}

void Channel::Cut() {
  cut_ = true;
  (void)::shutdown(descriptor_, SHUT_RDWR);
}

}  // namespace quarry::server::http
