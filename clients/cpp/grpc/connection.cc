#include "clients/cpp/grpc/connection.h"

#include <arpa/inet.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "clients/cpp/transport.h"
#include "google/rpc/status_details.pb.h"
#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "quarry/base/processors.h"
#include "quarry/base/split.h"
#include "quarry/query/encoding_choice.h"

namespace quarry::client::internal {
namespace {

/// The server's id of a failed request; empty if it sent none.
std::string RequestIdOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() == 0) return "";
  if (!details.details(0).UnpackTo(&info) || !info.metadata().contains("request_id")) return "";
  return info.metadata().at("request_id");
}

/// Errors that the user reports to the operator, who finds the request in the log.
bool IsForTheOperator(grpc::StatusCode code) {
  return code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
}

/// Characters that HTTP does not allow in a header would fail inside gRPC.
Status CheckToken(const std::string& token) {
  if (std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return Status::Ok();
  return InvalidArgument(
      "the token is not one word of ASCII letters, digits and signs; its file or variable should "
      "hold the token alone");
}

/// Whether the server, or all of several, are on this machine.
bool IsOnThisMachine(const std::string& address) {
  return std::ranges::all_of(Split(address, ','), [](std::string_view one) {
    const Result<HostPort> server = ParseHostPort(one);
    return server.ok() && IsLoopback(server->host);
  });
}

/// A file of Security; nothing for an empty path.
Result<std::string> ReadPem(const std::string& path) {
  constexpr std::uint64_t kLargestFile = 16 << 20;
  return path.empty() ? std::string() : ReadTextFile(path, kLargestFile);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ServerAddress& server,
                                                                  const Security& security) {
  QUARRY_RETURN_IF_ERROR(CheckToken(security.token));
  if (!server.tls) {
    if (!security.token.empty() && !IsOnThisMachine(server.address)) {
      return InvalidArgument(
          "the token would be sent to {} in plain text; write grpcs://, or leave the token out",
          server.address);
    }
    return grpc::InsecureChannelCredentials();
  }
  if (security.certificate_file.empty() != security.key_file.empty())
    return InvalidArgument("a client's certificate needs its key; give both, or neither");
  grpc::SslCredentialsOptions options;
  QUARRY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(security.ca_file));
  QUARRY_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem(security.certificate_file));
  QUARRY_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem(security.key_file));
  return grpc::SslCredentials(options);
}

/// "HOST:PORT", or comma-separated IP addresses of servers with the same datasets, as gRPC expects them.
Result<std::string> ChannelTarget(const std::string& address, bool tls) {
  if (address.find(',') == std::string::npos) {
    QUARRY_RETURN_IF_ERROR(ParseHostPort(address).status());  // gRPC would take any number as some port
    return address;
  }
  if (tls) {
    return InvalidArgument(
        "\"{}\": a certificate is for one name; with grpcs://, give one name that resolves to all servers",
        address);
  }
  std::string target;
  for (const std::string_view one : Split(address, ',')) {
    QUARRY_ASSIGN_OR_RETURN(const HostPort server, ParseHostPort(one));
    in_addr any{};
    if (inet_pton(AF_INET, server.host.c_str(), &any) != 1) {
      return InvalidArgument(
          "\"{}\": a list of servers needs IPv4 addresses with ports; or give one name that resolves to all "
          "of them",
          address);
    }
    target += fmt::format("{}{}:{}", target.empty() ? "ipv4:" : ",", server.host, server.port);
  }
  return target;
}

/// Calls go to all servers behind an address in turn. gRPC repeats a call that ends before any answer, at
/// another server if there is one: where no server is reached, and where one has too many calls at the
/// moment. A server says of each refusal whether and when to repeat the call.
constexpr const char* kServiceConfig = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [{"service": "quarry.v1.QuarryService"}],
    "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}
  }]
})";

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  // gRPC compares the length of a message with this before it decompresses it, and not again: a hostile
  // server could fill the memory.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  constexpr int kIdentityAlone = 1 << GRPC_COMPRESS_NONE;
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kIdentityAlone);
  arguments.SetServiceConfigJSON(kServiceConfig);
  // A client that waits for hours for the next step notices that the server has vanished, and soon finds it
  // again.
  constexpr int kPingEveryMs = 60'000;
  constexpr int kPingTimeoutMs = 20'000;
  constexpr int kLongestReconnectMs = 5'000;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

/// [bytes/s] of a path within this machine; 0 for an address of another.
double RateIfNear(const ServerAddress& server) {
  if (!IsOnThisMachine(server.address)) return 0;
  return server.tls ? query::kFastestWithTls : query::kFastest;
}

}  // namespace

Status FromGrpc(const grpc::Status& status, const ServerAddress& server) {
  const std::string& address = server.address;
  if (status.ok()) return Status::Ok();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return Unavailable("cannot reach the server {}: {}; check the address, that quarry-server runs, and {}",
                       address, status.error_message(),
                       server.tls ? "that it speaks TLS with a certificate that --ca (QUARRY_CA) vouches for"
                                  : "that it does not need grpcs://");
  }
  // Our own deadline has no message; the server's comes with its numbers.
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && RequestIdOf(status).empty()) {
    return {StatusCode::kDeadlineExceeded,
            fmt::format("the server {} did not answer in time; ask for less or allow more time", address)};
  }
  std::string message = status.error_message();
  if (const std::string id = RequestIdOf(status); !id.empty() && IsForTheOperator(status.error_code()))
    message += fmt::format(" (request {} of {})", id, address);
  return {static_cast<StatusCode>(status.error_code()), std::move(message)};
}

Result<std::shared_ptr<const Connection>> Connection::Make(const ServerAddress& server,
                                                           const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(server, options.security));
  QUARRY_ASSIGN_OR_RETURN(const std::string target, ChannelTarget(server.address, server.tls));
  return std::make_shared<const Connection>(server, options, NewChannel(target, credentials));
}

Connection::Connection(ServerAddress server, Options options, std::shared_ptr<grpc::Channel> channel)
    : server_(std::move(server)),
      options_(std::move(options)),
      channel_(std::move(channel)),
      path_(SeenPath::To(server_.address, RateIfNear(server_))),
      stub_(channel_) {}

std::unique_ptr<grpc::ClientContext> Connection::NewContext() const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (options_.timeout_ms > 0)
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options_.timeout_ms));
  if (!options_.security.token.empty())
    context->AddMetadata("authorization", "Bearer " + options_.security.token);
  return context;
}

std::optional<query::Path> Connection::PathFor(Encoding encoding, const CancelToken& cancel) const {
  if (encoding != Encoding::kAuto) return std::nullopt;
  if (!path_->path()) Connect(cancel);
  std::optional<query::Path> path = path_->path();
  if (path) path->threads = options_.threads > 0 ? options_.threads : UsableProcessors();
  return path;
}

/// Connects before the first call, which would wait for it anyway, and takes the time: the path is then known
/// before the first question. A call finds out what is wrong with a server that is not reached.
void Connection::Connect(const CancelToken& cancel) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kLongestMs = 2000;
  constexpr auto kLookEvery = std::chrono::milliseconds(20);
  std::unique_lock lock(path_->connecting(), std::defer_lock);
  while (!lock.try_lock_for(kLookEvery)) {
    if (cancel.cancelled()) return;
  }
  if (path_->path()) return;
  const auto begin = Clock::now();
  const auto end =
      begin + std::chrono::milliseconds(options_.timeout_ms > 0 ? std::min(options_.timeout_ms, kLongestMs)
                                                                : kLongestMs);
  grpc_connectivity_state state = channel_->GetState(true);
  const bool begun = state != GRPC_CHANNEL_IDLE;
  while ((state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) && Clock::now() < end &&
         !cancel.cancelled()) {
    (void)channel_->WaitForStateChange(state, std::chrono::system_clock::now() + kLookEvery);
    state = channel_->GetState(true);
  }
  if (begun || state != GRPC_CHANNEL_READY) return;
  // TCP, TLS and the settings of HTTP/2; beside them, what all of it takes inside one machine.
  const double trips = server_.tls ? 3 : 2;
  const double starting = server_.tls ? 6e-3 : 1e-3;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  path_->Answered(std::max(0.0, seconds - starting) / trips);
}

Status Connection::CallOnce(const std::string& method, const google::protobuf::MessageLite& question,
                            const CancelToken& cancel, std::size_t most,
                            google::protobuf::MessageLite* response) const {
  Status asked_to_end(StatusCode::kCancelled, "the call was cancelled");
  if (cancel.cancelled()) return asked_to_end;
  std::unique_ptr<grpc::ClientContext> context = NewContext();  // its deadline counts from here
  (void)PathFor(options_.encoding, cancel);  // the first call would hide how long a round trip takes
  RemoteCall call = Start(method, question, std::move(context), cancel);
  CallTimes times(path_.get());
  grpc::ByteBuffer message;
  const bool answered = times.Next([&] { return call.Next(&message); });
  // The status comes only when nothing is left to read.
  if (grpc::ByteBuffer more; answered && call.Next(&more))
    return InternalError("the server {} answers {} with more than one message", server_.address, method);
  const grpc::Status status = call.Finish();
  if (!status.ok() && cancel.cancelled()) return asked_to_end;
  QUARRY_RETURN_IF_ERROR(FromGrpc(status, server_));
  if (answered && message.Length() > most)
    return InternalError("the server {} answers {} with {} bytes, more than the possible {}", server_.address,
                         method, message.Length(), most);
  grpc::ProtoBufferReader reader(&message);
  if (answered && reader.status().ok() && response->ParseFromZeroCopyStream(&reader)) return Status::Ok();
  return InternalError("the server {} answers {} with another message", server_.address, method);
}

bool Connection::WaitBeforeRetry(int failures, const CancelToken& cancel) const {
  constexpr auto kFirst = std::chrono::milliseconds(50);
  return failures <= options_.retries && Pause(kFirst * (1 << std::min(failures, 6)), cancel);
}

Transfer Connection::TransferOf(const std::optional<Transfer>& wanted) const {
  Transfer transfer = wanted.value_or(Transfer{options_.encoding, options_.recode});
  if (transfer.encoding != Encoding::kCoded) transfer.recode = {};
  return transfer;
}

}  // namespace quarry::client::internal
