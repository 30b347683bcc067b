// Hostile bytes to a connection of the HTTP port, over the golden dataset: heads, bodies in chunks, requests
// that come together. The first byte says into how many pieces the bytes are cut.

#include <google/protobuf/stubs/logging.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "server/http/session.h"
#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {
namespace {

using server::http::Session;

struct Running {
  Running() {
    spdlog::set_level(spdlog::level::err);
    google::protobuf::SetLogHandler(nullptr);
    operations.limits.request_bytes = 64 << 20;
    operations.limits.calls = 4;
    service.emplace(
        server::DatasetCatalogOptions{std::string(QUARRY_GOLDEN), {}, std::filesystem::temp_directory_path()},
        server::EngineOptions{16 << 20, 1}, &operations, std::chrono::milliseconds(1));
    front.emplace(server::http::FrontOptions{}, server::http::Page(), &*service);
    context.io = &io;
    context.front = &*front;
    context.operations = &operations;
    context.workers = &workers;
    context.closed = [this](Session*) { closed = true; };
  }

  server::Operations operations;
  std::optional<server::Service> service;
  std::optional<server::http::Front> front;
  boost::asio::io_context io{1};
  /// A session whose call runs on another thread has nothing that waits here.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  server::Workers workers{4};
  server::http::SessionContext context;
  bool closed = false;
};

/// The client's end of a connection whose other end is a session.
class Client {
 public:
  Client() {
    std::array<int, 2> ends{};
    Require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
            "a socket");
    here_ = FileDescriptor(ends[0]);
    there_ = FileDescriptor(ends[1]);
  }
  FileDescriptor TakeServersEnd() { return std::move(there_); }

  void Send(std::string_view bytes) { (void)::send(here_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void EndSending() { (void)::shutdown(here_.get(), SHUT_WR); }
  void Take() {
    std::array<char, 1 << 16> buffer;
    ssize_t got = 0;
    while ((got = ::recv(here_.get(), buffer.data(), buffer.size(), 0)) > 0)
      if (answers_.size() < kEnough) answers_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::string& answers() const { return answers_; }

 private:
  static constexpr std::size_t kEnough = 1 << 16;

  FileDescriptor here_;
  FileDescriptor there_;
  std::string answers_;
};

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static fuzz::Running running;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = bytes.size() / (1 + data[0] % 8) + 1;

  fuzz::Client client;
  running.closed = false;
  boost::asio::post(running.io, [session = std::make_shared<server::http::Session>(
                                     &running.context, client.TakeServersEnd(), nullptr, "ipv4:127.0.0.1:1",
                                     nullptr)] { session->Start(); });
  for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
    client.Send(bytes.substr(begin, piece));
    running.io.poll();
    client.Take();
  }
  client.EndSending();
  while (!running.closed) {
    running.io.run_one_for(std::chrono::milliseconds(1));
    client.Take();
  }
  client.Take();
  running.io.poll();  // handlers that the closed session leaves behind

  fuzz::Require(client.answers().empty() || client.answers().starts_with("HTTP/1.1 "), "answers are of HTTP");
  fuzz::Require(running.operations.running == 0, "every call has ended");
  fuzz::Require(running.context.answering == 0, "no session waits for an answer");
  return 0;
}
