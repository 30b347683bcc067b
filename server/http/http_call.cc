#include "server/http/http_call.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/http/grpc_web.h"
#include "server/status_details.h"

namespace quarry::server::http {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t SizeOf(const Message& message) {
  std::size_t size = 0;
  for (const SharedBytes& piece : message) size += piece.bytes.size();
  return size;
}

}  // namespace

Headers GrpcWebHeaders() {
  return {{"content-type", std::string(kGrpcWebType)},
          {"cache-control", "no-store"},
          {"x-content-type-options", "nosniff"}};
}

bool HttpPeer::Write(Outgoing* outgoing) {
  if (!exchange_->channel->WaitAndWrite(outgoing)) {
    exchange_->keep_alive = false;
    return false;
  }
  if (exchange_->connection) exchange_->connection->Progress();
  return true;
}

HttpCall::HttpCall(Exchange* exchange, Operations* operations) : HttpPeer(exchange), operations_(operations) {
  const auto header = exchange->request->Header("grpc-timeout");
  const auto timeout = header ? ParseTimeout(*header) : std::nullopt;
  if (!timeout) return;
  client_deadline_ = Clock::now() + *timeout;
  // For a client that then takes not even the status.
  constexpr auto kGrace = std::chrono::seconds(1);
  deadline_ = operations_->deadlines.Add(*client_deadline_ + kGrace, [this] { Cut(); });
}

bool HttpCall::PastDeadline() const { return client_deadline_ && Clock::now() >= *client_deadline_; }

Result<std::string> HttpCall::Receive(std::size_t most) {
  const auto expected = static_cast<std::int64_t>(most);
  Connection* const connection = exchange()->connection.get();
  if (connection != nullptr) (void)connection->BeginQuestion(expected);
  Result<std::string> question = ReceiveFrame(most);
  if (connection != nullptr) connection->EndQuestion(expected, question.ok());
  return question;
}

Result<std::string> HttpCall::ReceiveFrame(std::size_t most) {
  Request& request = *exchange()->request;
  const auto too_long = [&](std::uint64_t size) -> Status {
    exchange()->keep_alive = false;
    return ResourceExhausted(
        "the question has {} bytes, and this method accepts at most {}; ask for less at a time", size, most);
  };
  const std::uint64_t announced = request.content_length().value_or(0);
  if (announced > most + kFrameHead) return too_long(announced - kFrameHead);
  if (!ReadBody(most)) {
    if (Gone()) return Status(StatusCode::kCancelled, "the question did not arrive in time");
    exchange()->keep_alive = false;
    return InvalidArgument("the body of the request is broken, or longer than {} bytes", most + kFrameHead);
  }
  std::string question = std::move(request.body());
  if (question.size() < kFrameHead) return InvalidArgument("the call ended without a question");
  const Frame frame = ParseFrame(question);
  if (frame.flags != 0)
    return Unimplemented(
        "the question is a frame with the flags {}; this server accepts only uncompressed messages",
        frame.flags);
  if (frame.size != question.size() - kFrameHead)
    return InvalidArgument("the question announces {} bytes and has {}; send one message", frame.size,
                           question.size() - kFrameHead);
  question.erase(0, kFrameHead);
  return question;
}

/// Reads the rest of the body. False: it did not arrive, is broken, or is too long.
bool HttpCall::ReadBody(std::size_t most) {
  Request& request = *exchange()->request;
  std::string& input = *exchange()->input;
  request.LimitBody(most + kFrameHead);
  if (request.Header("expect") && !request.is_done() && input.empty()) {
    Outgoing go_on;
    go_on.Add(std::string("HTTP/1.1 100 Continue\r\n\r\n"));
    if (!Write(&go_on)) return false;
  }
  while (!request.is_done()) {
    const Result<std::size_t> used = request.Put(input);
    if (!used.ok()) return false;
    input.erase(0, *used);
    constexpr std::size_t kRead = 16 << 10;
    if (!request.is_done() && !exchange()->channel->WaitAndRead(&input, kRead)) return false;
  }
  return true;
}

/// The head, if it has not been sent.
std::string HttpCall::Head() {
  if (std::exchange(begun_, true)) return "";
  Headers headers = GrpcWebHeaders();
  headers.emplace_back("date", HttpDate(std::time(nullptr)));
  headers.insert(headers.end(), exchange()->headers.begin(), exchange()->headers.end());
  // Clients of HTTP/1.0 know the end of an answer by the end of the connection.
  if (exchange()->request->is_old()) {
    exchange()->keep_alive = false;
  } else {
    headers.emplace_back("transfer-encoding", "chunked");
  }
  headers.emplace_back("connection", exchange()->keep_alive ? "keep-alive" : "close");
  return HeadOf(200, headers);
}

void HttpCall::AddChunk(const Message& content, std::size_t size, Outgoing* outgoing) const {
  const bool chunked = !exchange()->request->is_old();
  if (chunked) outgoing->Add(fmt::format("{:x}\r\n", size));
  outgoing->Add(content);
  if (chunked) outgoing->Add(std::string("\r\n"));
}

void HttpCall::SendHeaders() {
  Outgoing outgoing;
  outgoing.Add(Head());
  (void)Write(&outgoing);
}

bool HttpCall::Send(const Message& message, Follows follows) {
  if (follows == Follows::kStatus) {
    last_ = message;
    return !Gone();
  }
  if (PastDeadline()) return false;
  Outgoing outgoing;
  outgoing.Add(Head());
  Message framed = {OwnBytes(FrameHead(SizeOf(message)))};
  framed.insert(framed.end(), message.begin(), message.end());
  AddChunk(framed, SizeOf(framed), &outgoing);
  return Write(&outgoing);
}

bool HttpCall::Finish(const Status& status, const std::string& request_id) {
  // The deadline has passed, not the client disconnected.
  const bool late = status.code() == StatusCode::kCancelled && PastDeadline();
  const Status said =
      late ? Status(StatusCode::kDeadlineExceeded, "the time that the client allows has passed") : status;
  Outgoing outgoing;
  outgoing.Add(Head());
  Message frames;
  if (last_ && said.ok()) {
    frames = std::move(*last_);
    frames.insert(frames.begin(), OwnBytes(FrameHead(SizeOf(frames))));
  }
  frames.push_back(OwnBytes(TrailerFrame(said, request_id)));
  AddChunk(frames, SizeOf(frames), &outgoing);
  if (!exchange()->request->is_old()) outgoing.Add(std::string("0\r\n\r\n"));
  return Write(&outgoing);
}

void HttpCall::Refuse(const Status& status, const std::string& request_id) {
  const std::string body = TrailerFrame(status, request_id);
  Headers headers = GrpcWebHeaders();
  headers.insert(headers.end(), exchange()->headers.begin(), exchange()->headers.end());
  if (status.code() == StatusCode::kResourceExhausted)
    headers.emplace_back("grpc-retry-pushback-ms", std::to_string(RetryAfter().count()));
  headers.emplace_back("date", HttpDate(std::time(nullptr)));
  headers.emplace_back("content-length", std::to_string(body.size()));
  headers.emplace_back("connection", exchange()->keep_alive ? "keep-alive" : "close");
  exchange()->unsent.Add(HeadOf(200, headers) + body);
}

}  // namespace quarry::server::http
