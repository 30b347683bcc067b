#include "server/http/session.h"

#include <array>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace quarry::server::http {
namespace {

using Clock = std::chrono::steady_clock;
using State = Transferred::State;
using boost::system::error_code;

constexpr std::size_t kRead = 16 << 10;
/// [bytes] that a client may still send after its request was refused.
constexpr std::size_t kMostSkipped = 64 << 10;
constexpr std::size_t kMostDiscarded = 256 << 10;

}  // namespace

Session::Session(SessionContext* context, FileDescriptor socket, const TlsContext* tls, std::string peer,
                 std::shared_ptr<Connection> connection)
    : context_(context),
      peer_(std::move(peer)),
      connection_(std::move(connection)),
      socket_(*context->io),
      channel_(tls != nullptr ? tls->MakeChannel(socket.get()) : MakePlainChannel(socket.get())),
      timer_(*context->io) {
  socket_.assign(socket.get());
  (void)socket.Release();
}

Session::~Session() = default;

void Session::Start() {
  greeted_ = channel_->is_established();
  NextRequest();
  if (!greeted_) Allow(context_->patience.head);
}

void Session::Cut() {
  const std::lock_guard lock(mutex_);
  if (!closed_) channel_->Cut();
}

// ---- A request

void Session::NextRequest() {
  request_ = std::make_unique<Request>();
  exchange_ = {};
  exchange_.request = request_.get();
  begun_ = !input_.empty();
  Allow(begun_ ? context_->patience.head : context_->patience.idle);
  if (!begun_ || !Parse()) ReadHead();
}

void Session::ReadHead() {
  while (true) {
    std::array<std::byte, kRead> buffer;
    const Transferred read = channel_->TryRead(buffer);
    if (!greeted_ && channel_->is_established()) {
      greeted_ = true;
      Allow(context_->patience.idle);
    }
    if (read.state == State::kClosed) return Close();
    if (read.state != State::kDone) return WaitAndGoOn(read.state, &Session::ReadHead);
    input_.append(reinterpret_cast<const char*>(buffer.data()), read.bytes);
    // However slowly the rest comes.
    if (!std::exchange(begun_, true)) Allow(context_->patience.head);
    if (Parse()) return;
  }
}

/// Returns whether the request needs no more to be answered.
bool Session::Parse() {
  const Result<std::size_t> used = request_->Put(input_);
  if (!used.ok()) {
    RefuseRequest(used.status());
    return true;
  }
  input_.erase(0, *used);
  if (!request_->has_head()) return false;
  Dispatch();
  return true;
}

void Session::Dispatch() {
  SetAnswering(true);
  exchange_.keep_alive = request_->keep_alive() && !context_->operations->draining;
  Result<std::string> path = PathOf(request_->target());
  if (!path.ok()) return SendAnswer(Answer::Say(400, path.status().message()));
  exchange_.path = *std::move(path);
  const std::optional<Answer> known =
      context_->front->AnswerNow(*request_, exchange_.path, &exchange_.headers);
  if (known) return SendAnswer(*known);
  BeginCall();
}

/// An invalid request ends the connection: the begin of the next one is unknown.
void Session::RefuseRequest(const Status& status) {
  SetAnswering(true);
  const int code = status.code() == StatusCode::kResourceExhausted ? 431
                   : status.code() == StatusCode::kUnimplemented   ? 501
                                                                   : 400;
  SendAnswer(Answer::Say(code, status.message()));
}

// ---- Answers that take a thread

void Session::BeginCall() {
  exchange_.channel = channel_.get();
  exchange_.input = &input_;
  exchange_.peer = peer_;
  exchange_.connection = connection_;
  timer_.cancel();
  expires_ = Clock::time_point::max();
  if (!context_->workers->Run([self = shared_from_this()] { self->RunCall(); }))
    SendAnswer(Answer::Say(503, "the system gives the server no thread for this; ask later"));
}

/// On a thread of its own. The others leave the session alone meanwhile.
void Session::RunCall() {
  try {
    context_->front->Run(&exchange_);
  } catch (const std::exception&) {  // no memory for an answer
    channel_->Cut();
    exchange_.keep_alive = false;
  }
  boost::asio::post(*context_->io, [self = shared_from_this()] { self->EndCall(); });
}

void Session::EndCall() {
  unsent_ = std::exchange(exchange_.unsent, {});
  Allow(context_->operations->limits.stall);
  WriteMore();
}

// ---- Answers that are known

void Session::SendAnswer(const Answer& answer) {
  unsent_ = ToOutgoing(answer, exchange_);
  Allow(context_->operations->limits.stall);
  WriteMore();
}

void Session::WriteMore() {
  while (!unsent_.empty()) {
    const Transferred written = channel_->TryWrite(unsent_.left());
    if (written.state == State::kClosed) return Close();
    if (written.state != State::kDone) return WaitAndGoOn(written.state, &Session::WriteMore);
    unsent_.Sent(written.bytes);
    Allow(context_->operations->limits.stall);
  }
  Answered();
}

void Session::Answered() {
  unsent_ = {};
  SetAnswering(false);
  if (connection_) connection_->Progress();
  if (!exchange_.keep_alive || context_->operations->draining) return Linger();
  if (!request_->is_done()) {
    if (request_->content_length().value_or(0) > kMostSkipped) return Linger();
    request_->LimitBody(kMostSkipped);
    Allow(context_->patience.body);
    return SkipBody();
  }
  // Not from here: requests that have come together would be answered one inside the other.
  boost::asio::post(*context_->io, [self = shared_from_this()] {
    if (!self->closed_) self->NextRequest();
  });
}

/// Skips the body of a request that was answered without it.
void Session::SkipBody() {
  while (true) {
    const Result<std::size_t> used = request_->Put(input_);
    if (!used.ok()) return Linger();
    input_.erase(0, *used);
    if (request_->is_done()) return Answered();
    std::array<std::byte, kRead> buffer;
    const Transferred read = channel_->TryRead(buffer);
    if (read.state == State::kClosed) return Close();
    if (read.state != State::kDone) return WaitAndGoOn(read.state, &Session::SkipBody);
    input_.append(reinterpret_cast<const char*>(buffer.data()), read.bytes);
  }
}

// ---- The end

/// A socket that is closed with bytes to read resets the connection, and the client loses the answer.
void Session::Linger() {
  channel_->EndWriting();
  if (request_->is_done() && input_.empty()) return Close();
  input_ = {};
  Allow(context_->patience.linger);
  Discard();
}

void Session::Discard() {
  std::array<std::byte, kRead> buffer;
  while (discarded_ < kMostDiscarded) {
    const Transferred read = channel_->TryRead(buffer);
    if (read.state == State::kDone) {
      discarded_ += read.bytes;
      continue;
    }
    if (read.state == State::kClosed) break;
    return WaitAndGoOn(read.state, &Session::Discard);
  }
  Close();
}

void Session::Close() {
  SetAnswering(false);
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    error_code ignored;
    socket_.close(ignored);
  }
  timer_.cancel();
  context_->closed(this);
}

void Session::SetAnswering(bool answering) {
  if (answering_.exchange(answering) != answering) context_->answering += answering ? 1 : -1;
}

// ---- Waiting

void Session::WaitAndGoOn(State state, Step step) {
  using Wait = boost::asio::posix::stream_descriptor::wait_type;
  socket_.async_wait(state == State::kWantRead ? Wait::wait_read : Wait::wait_write,
                     [self = shared_from_this(), step](const error_code& error) {
                       if (!error && !self->closed_) (self.get()->*step)();
                     });
}

/// Closes the connection if nothing else is allowed before this time has passed. 0: never.
void Session::Allow(std::chrono::milliseconds time) {
  if (time.count() == 0) {
    expires_ = Clock::time_point::max();
    timer_.cancel();
    return;
  }
  expires_ = Clock::now() + time;
  timer_.expires_at(expires_);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    // It may have been set anew while this waited for its turn.
    if (!error && !self->closed_ && Clock::now() >= self->expires_) self->Close();
  });
}

}  // namespace quarry::server::http
