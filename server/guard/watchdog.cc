#include "server/guard/watchdog.h"

#include <netdb.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "quarry/base/address.h"
#include "quarry/base/file.h"

namespace quarry::server {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);

/// Sends a line of state to systemd; does nothing where another program has started the server.
void Notify(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract address
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

/// A third of the time in which systemd wants to hear of the server.
std::chrono::milliseconds Interval() {
  constexpr std::chrono::milliseconds kDefault = std::chrono::seconds(10);
  const char* const text = std::getenv("WATCHDOG_USEC");
  const long long microseconds = text == nullptr ? 0 : std::atoll(text);
  if (microseconds <= 0) return kDefault;
  return std::chrono::milliseconds(std::max(1LL, microseconds / 3000));
}

bool WaitFor(int socket, short event, std::chrono::milliseconds time) {
  pollfd polled{socket, event, 0};
  return ::poll(&polled, 1, static_cast<int>(time.count())) == 1;
}

}  // namespace

bool Answers(const std::string& address, std::chrono::milliseconds patience) {
  const auto parsed = ParseHostPort(address);
  if (!parsed.ok()) return false;
  std::string host = parsed->host;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
  const FileDescriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) return false;
  if (!WaitFor(socket.get(), POLLOUT, patience)) return false;
  // Nothing follows: the server closes the connection, perhaps after a greeting.
  if (::shutdown(socket.get(), SHUT_WR) != 0) return false;
  return WaitFor(socket.get(), POLLIN, patience);
}

Watchdog::Watchdog(std::string address) : address_(std::move(address)) {
  Notify("READY=1");
  thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  Notify("STOPPING=1");
}

void Watchdog::Run() {
  const auto interval = Interval();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stopping_; })) {
    lock.unlock();
    if (Answers(address_, kPatience)) {
      Notify("WATCHDOG=1");
    } else {
      spdlog::error("the server does not answer connections to its own port {} (waited {} s)", address_,
                    kPatience.count());
    }
    lock.lock();
  }
}

}  // namespace quarry::server
