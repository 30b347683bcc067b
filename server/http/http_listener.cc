#include "server/http/http_listener.h"

#include <spdlog/spdlog.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "server/http/session.h"

namespace quarry::server {

namespace asio = boost::asio;

namespace {

/// Threads beyond those for the calls that may run: they refuse the others.
constexpr int kSpareWorkers = 16;

Status CheckOrigins(const char* option, const std::vector<std::string>& origins, bool may_be_all) {
  for (const std::string& origin : origins)
    if (!(may_be_all && origin == "*") && !http::IsOrigin(origin))
      return InvalidArgument(
          "{} \"{}\" is not an origin; write for example https://quarry.example.org, without a path", option,
          origin);
  return Status::Ok();
}

}  // namespace

struct HttpListener::State {
  State(http::FrontOptions options, http::Page page, Service* service_of)
      : service(service_of),
        front(std::move(options), std::move(page), service_of),
        work(asio::make_work_guard(io)) {}

  void Open(int socket);
  void CutSessions(bool answering_only);
  void RunIo();
  bool IsAnswering() const { return service->operations()->running > 0 || context.answering > 0; }

  Service* const service;
  http::Front front;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::shared_ptr<Acceptor> acceptor;
  std::unique_ptr<Workers> workers;
  http::SessionContext context;
  std::mutex mutex;
  std::shared_ptr<const http::TlsContext> tls;  ///< guarded by mutex, as the next
  std::map<http::Session*, std::shared_ptr<http::Session>> sessions;
  std::thread thread;
};

Result<std::unique_ptr<HttpListener>> HttpListener::Start(const HttpOptions& options, Service* service) {
  QUARRY_RETURN_IF_ERROR(
      CheckPlainText("--http", options.address, options.insecure || options.tls.has_value()));
  QUARRY_RETURN_IF_ERROR(CheckOrigins("--http-cors", options.cors, /*may_be_all=*/true));
  QUARRY_RETURN_IF_ERROR(CheckOrigins("--http-connect", options.sources, /*may_be_all=*/false));
  http::Page page;
  if (!options.page.empty()) {
    QUARRY_ASSIGN_OR_RETURN(page, http::Page::Load(options.page, options.sources));
  }
  QUARRY_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(options.address));
  auto state =
      std::make_unique<State>(http::FrontOptions{options.tls && !options.tls->client_authority.empty(),
                                                 IsLoopback(parsed.host), options.grpc_port, options.cors},
                              std::move(page), service);
  if (options.tls) {
    QUARRY_ASSIGN_OR_RETURN(state->tls, http::TlsContext::Make(*options.tls));
  }
  QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                          Acceptor::Listen(options.address, options.connections));
  state->acceptor = std::move(acceptor);
  Operations* const operations = service->operations();
  state->workers = std::make_unique<Workers>(ThreadsFor(operations->limits.calls) + kSpareWorkers);
  state->context.io = &state->io;
  state->context.front = &state->front;
  state->context.operations = operations;
  state->context.workers = state->workers.get();
  state->context.patience.idle = options.idle;
  state->context.patience.head = options.head;
  state->context.closed = [s = state.get()](http::Session* session) {
    const std::lock_guard lock(s->mutex);
    s->sessions.erase(session);
  };
  State* const started = state.get();
  std::unique_ptr<HttpListener> listener(new HttpListener(std::move(state)));  // ends the threads that start
  started->thread = std::thread([started] { started->RunIo(); });
  started->acceptor->Start([started](int, int socket) { started->Open(socket); });
  return listener;
}

HttpListener::HttpListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

/// No exception ends the process: a failure stays with its connection.
void HttpListener::State::RunIo() {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      spdlog::error("a connection of the HTTP port has failed: {}", error.what());
    }
  }
}

/// On the acceptor's thread.
void HttpListener::State::Open(int socket) {
  FileDescriptor owned(socket);
  try {
    const std::string peer = PeerNameOf(socket);
    std::shared_ptr<http::Session> session;
    {
      const std::lock_guard lock(mutex);
      session =
          std::make_shared<http::Session>(&context, std::move(owned), tls.get(), peer, acceptor->Find(peer));
      sessions[session.get()] = session;
    }
    asio::post(io, [session] { session->Start(); });
  } catch (const std::exception& error) {
    spdlog::warn("a connection is closed: {}", error.what());
  }
}

void HttpListener::State::CutSessions(bool answering_only) {
  const std::lock_guard lock(mutex);
  for (const auto& [pointer, session] : sessions)
    if (!answering_only || session->is_answering()) session->Cut();
}

const std::string& HttpListener::address() const { return state_->acceptor->address(); }
std::shared_ptr<const Acceptor> HttpListener::acceptor() const { return state_->acceptor; }

Status HttpListener::SetCertificate(const Pem& pem) {
  QUARRY_ASSIGN_OR_RETURN(auto tls, http::TlsContext::Make(pem));
  const std::lock_guard lock(state_->mutex);
  state_->tls = std::move(tls);
  return Status::Ok();
}

void HttpListener::Drain(std::chrono::milliseconds time, const std::function<bool()>& hurry) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLookUp = std::chrono::milliseconds(5);
  constexpr auto kCutCallsEnd = std::chrono::milliseconds(500);
  state_->service->operations()->draining = true;
  const Clock::time_point end = Clock::now() + time;
  while (state_->IsAnswering() && Clock::now() < end && !(hurry && hurry()))
    std::this_thread::sleep_for(kLookUp);
  const Clock::time_point last = Clock::now() + kCutCallsEnd;
  state_->CutSessions(true);
  while (state_->context.answering > 0 && Clock::now() < last) std::this_thread::sleep_for(kLookUp);
}

HttpListener::~HttpListener() {
  state_->acceptor->Stop();
  // Nothing begins any more; a call whose connection is cut ends soon.
  state_->io.stop();
  if (state_->thread.joinable()) state_->thread.join();
  state_->CutSessions(false);
  state_->workers.reset();
  // Sessions belong to the io_context, as does what waits in it.
  state_->sessions.clear();
}

}  // namespace quarry::server
