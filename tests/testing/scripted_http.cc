#include "tests/testing/scripted_http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace quarry::testing {

std::pair<std::size_t, std::size_t> HttpAsked::Range() const {
  const auto found = headers.find("range");
  std::size_t begin = 0, last = 0;
  if (found == headers.end() || std::sscanf(found->second.c_str(), "bytes=%zu-%zu", &begin, &last) != 2)
    return {0, 0};
  return {begin, last + 1};
}

HttpAnswer HttpAnswer::Of(const std::string& status, const std::string& body, const std::string& headers) {
  HttpAnswer answer;
  answer.bytes =
      fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), headers, body);
  return answer;
}

HttpAnswer HttpAnswer::RangeOf(const HttpAsked& asked, const std::string& object, const std::string& tag) {
  auto [begin, end] = asked.Range();
  end = std::min(end, object.size());
  if (begin >= end) return Of("416 Range Not Satisfiable", "");
  return Of("206 Partial Content", object.substr(begin, end - begin),
            fmt::format("ETag: {}\r\nContent-Range: bytes {}-{}/{}\r\n", tag, begin, end - 1, object.size()));
}

ScriptedHttp::ScriptedHttp(Script script) : script_(std::move(script)) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listening_, 128) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("ScriptedHttp");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

ScriptedHttp::~ScriptedHttp() {
  stopping_ = true;
  ::shutdown(listening_, SHUT_RDWR);
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  ::close(listening_);
}

std::string ScriptedHttp::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void ScriptedHttp::Accept() {
  while (true) {
    const int connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (stopping_ || connection < 0) {
      if (connection >= 0) ::close(connection);
      if (stopping_) return;
      continue;
    }
    const std::lock_guard lock(mutex_);
    open_.push_back(connection);
    threads_.emplace_back([this, connection] { Serve(connection); });
  }
}

void ScriptedHttp::Serve(int connection) {
  const int now = ++connections_;
  for (int seen = most_connections_; seen < now && !most_connections_.compare_exchange_weak(seen, now);)
    continue;
  std::string text;
  std::array<char, 4096> block;
  while (true) {
    HttpAsked asked;
    std::size_t end = std::string::npos, length = 0;
    while (end == std::string::npos || text.size() < end + 4 + length) {
      const ssize_t size = ::recv(connection, block.data(), block.size(), 0);
      if (size <= 0) break;
      text.append(block.data(), static_cast<std::size_t>(size));
      end = text.find("\r\n\r\n");
      const std::size_t at = text.find("Content-Length: ");
      length = at < end ? std::strtoul(text.c_str() + at + 16, nullptr, 10) : 0;
    }
    if (end == std::string::npos || text.size() < end + 4 + length) break;
    const std::size_t line = text.find("\r\n");
    const std::size_t first = text.find(' '), second = text.find(' ', first + 1);
    asked.method = text.substr(0, first);
    asked.target = text.substr(first + 1, second - first - 1);
    for (std::size_t at = line + 2; at < end;) {
      const std::size_t stop = text.find("\r\n", at), colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      asked.headers[name] = text.substr(colon + 2, stop - colon - 2);
      at = stop + 2;
    }
    asked.body = text.substr(end + 4, length);
    text.erase(0, end + 4 + length);
    asked.number = requests_++;
    if (!Answer(connection, script_(asked))) break;
  }
  --connections_;
  const std::lock_guard lock(mutex_);
  std::erase(open_, connection);
  ::close(connection);
}

/// @returns whether the connection stays open
bool ScriptedHttp::Answer(int connection, const HttpAnswer& answer) const {
  const std::size_t step = answer.slow_milliseconds > 0 ? 1 : answer.bytes.size();
  for (std::size_t at = 0; at < answer.bytes.size();) {
    const ssize_t sent =
        ::send(connection, answer.bytes.data() + at, std::min(step, answer.bytes.size() - at), MSG_NOSIGNAL);
    if (sent <= 0 || stopping_) return false;
    at += static_cast<std::size_t>(sent);
    if (answer.slow_milliseconds > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(answer.slow_milliseconds));
  }
  if (answer.reset) {
    const linger now{1, 0};
    ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  return !answer.close && !answer.reset;
}

}  // namespace quarry::testing
