#include "server/guard/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "quarry/base/address.h"

namespace quarry::server {
namespace {

/// How often connections are looked at.
constexpr auto kInspectEvery = std::chrono::milliseconds(10);

struct PeerAddress {
  std::string name;  ///< as gRPC writes it
  std::string host;
};

/// "ipv4:127.0.0.1:50123", "ipv6:%5B::1%5D:50123".
PeerAddress PeerOf(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {fmt::format("ipv4:{}:{}", text.data(), ntohs(v4.sin_port)), text.data()};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    constexpr std::size_t kPrefix = 12;  // bytes before the IPv4 address
    ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + kPrefix, text.data(), text.size());
    return {fmt::format("ipv4:{}:{}", text.data(), ntohs(v6.sin6_port)), text.data()};
  }
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return {fmt::format("ipv6:%5B{}%5D:{}", text.data(), ntohs(v6.sin6_port)), text.data()};
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<sockaddr_in6&>(address).sin6_port);
}

void SetOption(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

/// A client that has vanished is noticed within half a minute where nothing is being sent;
/// Connection::Inspect notices it elsewhere. Not by TCP_USER_TIMEOUT, which also ends connections of clients
/// that take nothing for a while: these have --stall, and no second clock.
void SetConnectionOptions(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

const char* ReasonOf(Connection::Finding finding) {
  if (finding == Connection::Finding::kFlood) return "it sent much without asking anything";
  if (finding == Connection::Finding::kHoldsOthersUp)
    return "it sent so much as soon as it was open that no other could be taken";
  if (finding == Connection::Finding::kVanished) return "its client has not been heard of for half a minute";
  return "too many calls were cancelled at once, or had a wrong token or method";
}

/// Whether the client has closed a connection that nobody reads yet. What it has sent before does not matter.
bool HasEnded(int socket) {
  pollfd polled{socket, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) != 0;
}

FileDescriptor Spare() { return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

Status CannotListen(const std::string& address, const std::string& why) {
  return Unavailable("cannot listen on {} ({}); choose a free port of this machine, or port 0", address, why);
}

}  // namespace

Status CheckPlainText(const std::string& what, const std::string& address, bool insecure) {
  QUARRY_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  if (insecure || IsLoopback(parsed.host)) return Status::Ok();
  const std::string_view instead =
      what == "--listen" || what == "--http" ? ", give --tls-cert and --tls-key," : "";
  return InvalidArgument(
      "{} {} would send data in plain text to other machines; listen on 127.0.0.1{} or say --insecure where "
      "everybody on the network is trusted",
      what, address, instead);
}

std::string PeerNameOf(int connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return PeerOf(address).name;
}

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, const ConnectionLimits& limits,
                                                   const ConnectionRules& rules) {
  QUARRY_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  std::unique_ptr<Acceptor> acceptor(new Acceptor(limits, rules));
  acceptor->wake_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (acceptor->wake_.get() < 0) return CannotListen(address, std::strerror(errno));
  QUARRY_RETURN_IF_ERROR(acceptor->Bind(parsed));
  acceptor->spare_ = Spare();
  return acceptor;
}

/// Listens on every address of the host, on one port.
Status Acceptor::Bind(const HostPort& address) {
  const std::string written = fmt::format("{}:{}", address.host, address.port);
  std::string host = address.host;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return CannotListen(written, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
  int port = address.port;
  int error = 0;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    FileDescriptor listener(::socket(it->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    SetOption(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    // Connections inherit it. Questions are short, and a flood fills it before its connection is cut.
    constexpr int kReceiveBytes = 128 << 10;
    SetOption(listener.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
    auto* const at = it->ai_addr;
    (at->sa_family == AF_INET ? reinterpret_cast<sockaddr_in*>(at)->sin_port
                              : reinterpret_cast<sockaddr_in6*>(at)->sin6_port) =
        htons(static_cast<std::uint16_t>(port));
    if (listener.get() < 0 || ::bind(listener.get(), at, it->ai_addrlen) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0) {
      error = errno;
      continue;
    }
    port = PortOf(listener.get());
    listeners_.push_back(std::move(listener));
  }
  if (listeners_.empty()) return CannotListen(written, std::strerror(error));
  address_ = fmt::format("{}:{}", address.host, port);
  return Status::Ok();
}

void Acceptor::Start(Take take) {
  take_ = std::move(take);
  accept_thread_ = std::thread([this] { Accept(); });
  watch_thread_ = std::thread([this] { Watch(); });
}

void Acceptor::Stop() {
  stopping_ = true;
  ::eventfd_write(wake_.get(), 1);
  if (accept_thread_.joinable()) accept_thread_.join();
  // Only now: a connection that is just being taken may have to be cut.
  {
    const std::lock_guard lock(mutex_);
    watching_ = false;
  }
  changed_.notify_all();
  if (watch_thread_.joinable()) watch_thread_.join();
  listeners_.clear();
  hosts_.clear();
}

void Acceptor::Accept() {
  std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
  for (const FileDescriptor& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
  while (!stopping_) {
    (void)::poll(polled.data(), polled.size(), MillisecondsToNext());
    TakeWaiting();
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      while (!stopping_ && AcceptOne(polled[i].fd)) {
      }
    }
  }
}

/// On a thread of its own: a flood may hold up the one that hands connections over (ConnectionRules::taking).
void Acceptor::Watch() {
  std::unique_lock lock(mutex_);
  while (watching_) {
    if (connections_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, kInspectEvery, [this] { return !watching_; });
    }
    InspectAll();
  }
}

/// Returns whether there may be more.
bool Acceptor::AcceptOne(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  FileDescriptor socket(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.get() < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      RefuseForDescriptors(listener, std::strerror(errno));
      return false;
    }
    return errno == EINTR || errno == ECONNABORTED;
  }
  const PeerAddress peer = PeerOf(address);
  SetConnectionOptions(socket.get());
  Arrival arrival{listener, std::move(socket), nullptr};
  {
    const std::lock_guard lock(mutex_);
    // A peer that is here again has closed its connection before.
    Remove(peer.name);
    if (const std::string reason = Excess(peer.host); !reason.empty()) {
      ++state_.refused;
      LogRefusal(fmt::format("connections from {} are refused: {}", peer.host, reason));
      return true;
    }
    ++state_.accepted;
    ++state_.open;
    const int descriptor = arrival.socket.get();
    arrival.connection = std::make_shared<Connection>(descriptor, InodeOf(descriptor), peer.name, rules_);
    connections_[peer.name] = {arrival.connection, peer.host};
    Host& host = hosts_.try_emplace(peer.host, rules_).first->second;
    ++host.connections;
    if (Clock::now() < host.suspicious || !host.waiting.empty()) {
      ++state_.waiting;
      host.waiting.push_back(std::move(arrival));
      return true;
    }
  }
  HandOver(std::move(arrival));
  return true;
}

void Acceptor::HandOver(Arrival arrival) {
  changed_.notify_all();
  take_(arrival.listener, arrival.socket.Release());
  arrival.connection->Taken();
}

/// Hands over those that have waited long enough.
void Acceptor::TakeWaiting() {
  while (!stopping_) {
    std::optional<Arrival> next = NextWaiting(Clock::now());
    if (!next) return;
    HandOver(*std::move(next));
  }
}

std::optional<Acceptor::Arrival> Acceptor::NextWaiting(Clock::time_point now) {
  // Gathered clients do not come at once when the suspicion is over.
  constexpr auto kLater = std::chrono::milliseconds(50);
  const std::lock_guard lock(mutex_);
  for (auto& [name, host] : hosts_) {
    while (!host.waiting.empty() && host.next <= now) {
      Arrival arrival = std::move(host.waiting.front());
      host.waiting.pop_front();
      --state_.waiting;
      if (HasEnded(arrival.socket.get())) continue;  // its client has given up
      host.next = now + (now < host.suspicious ? rules_.pause : kLater);
      return arrival;
    }
  }
  return std::nullopt;
}

/// For poll: -1 if nobody waits. Forgets addresses that are no longer suspicious.
int Acceptor::MillisecondsToNext() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  std::erase_if(hosts_, [now](const auto& entry) {
    const Host& host = entry.second;
    return host.connections == 0 && host.suspicious <= now && host.wasted.IsFull(now);
  });
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [name, host] : hosts_)
    if (!host.waiting.empty()) next = std::min(next, host.next);
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

/// A connection of this address was cut.
void Acceptor::Suspect(Host* host, Clock::time_point now) const {
  host->suspicious = now + rules_.probation;
  host->next = std::max(host->next, now + rules_.pause);
}

/// Without a descriptor a connection cannot even be refused, and would wait until its client gives up.
void Acceptor::RefuseForDescriptors(int listener, const std::string& why) {
  spare_ = FileDescriptor();
  { const FileDescriptor refused(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)); }
  spare_ = Spare();
  {
    const std::lock_guard lock(mutex_);
    ++state_.refused;
    LogRefusal(
        fmt::format("connections are refused: {}; raise the limit on open files (ulimit -n), or lower "
                    "--connections",
                    why));
  }
  // Others may need the descriptor more than the next client.
  if (spare_.get() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Why a connection from a host is one too many; empty if it is not.
std::string Acceptor::Excess(const std::string& host) const {
  if (state_.open >= static_cast<std::uint64_t>(limits_.total))
    return fmt::format("{} are open, the most that --connections allows", limits_.total);
  const auto its = hosts_.find(host);
  if (its == hosts_.end() || its->second.connections < limits_.per_address) return "";
  return fmt::format("{} of this address are open, the most for one", its->second.connections);
}

void Acceptor::Remove(const std::string& peer) {
  const auto it = connections_.find(peer);
  if (it == connections_.end()) return;
  --hosts_.at(it->second.host).connections;
  connections_.erase(it);
  --state_.open;
}

void Acceptor::InspectAll() {
  const Clock::time_point now = Clock::now();
  std::vector<std::string> closed;
  for (const auto& [peer, entry] : connections_) {
    const Connection::Finding finding = entry.connection->Inspect(now);
    if (finding == Connection::Finding::kGood) continue;
    if (finding == Connection::Finding::kClosed) {
      Host& host = hosts_.at(entry.host);
      if (!host.wasted.Allow(now, static_cast<double>(entry.connection->excess()))) Suspect(&host, now);
      closed.push_back(peer);
      continue;
    }
    ++state_.cut;
    if (finding != Connection::Finding::kVanished) Suspect(&hosts_.at(entry.host), now);
    LogRefusal(fmt::format("the connection from {} is cut: {}", peer, ReasonOf(finding)));
  }
  for (const std::string& peer : closed) Remove(peer);
  DismissSome(now);
}

/// Where all connections together have sent too much of which nothing came: those that have sent most of it.
void Acceptor::DismissSome(Clock::time_point now) {
  std::uint64_t all = 0;
  for (const auto& [peer, entry] : connections_) all += entry.connection->excess();
  while (all > rules_.all_bytes) {
    const auto most = std::ranges::max_element(
        connections_, {}, [](const auto& entry) { return entry.second.connection->excess(); });
    all -= most->second.connection->excess();
    most->second.connection->Dismiss();
    ++state_.cut;
    Suspect(&hosts_.at(most->second.host), now);
    LogRefusal(
        fmt::format("the connection from {} is cut: many send much without asking anything", most->first));
  }
}

/// One line a second, whatever strangers do.
void Acceptor::LogRefusal(const std::string& what) {
  if (!log_limit_.Allow(Clock::now())) {
    ++unlogged_;
    return;
  }
  const std::uint64_t others = std::exchange(unlogged_, 0);
  spdlog::warn("{}{}", what, others == 0 ? "" : fmt::format(" ({} more like this before)", others));
}

std::shared_ptr<Connection> Acceptor::Find(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  const auto it = connections_.find(peer);
  return it == connections_.end() ? nullptr : it->second.connection;
}

Acceptor::State Acceptor::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

}  // namespace quarry::server
