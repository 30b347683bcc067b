#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "clients/cpp/answer_reader.h"
#include "clients/cpp/backends.h"
#include "clients/cpp/level_assembler.h"
#include "clients/cpp/payload_decoder.h"
#include "google/rpc/status_details.pb.h"
#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "quarry/format/proto_convert.h"
#include "quarry/v1/service.grpc.pb.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {
namespace {

namespace pb = ::quarry::v1;

/// Each answer of a quarry-server begins with it; what stands between does not know it.
constexpr const char* kRequestIdKey = "quarry-request-id";

/// The server's name of a request that has failed; empty where it sent none.
std::string RequestIdOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() == 0) return "";
  if (!details.details(0).UnpackTo(&info) || !info.metadata().contains("request_id")) return "";
  return info.metadata().at("request_id");
}

/// Errors that the user takes to the operator, who finds the request in the log.
bool IsForTheOperator(grpc::StatusCode code) {
  return code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
}

/// Our codes are gRPC's, and the server's message is already the line for the user.
Status FromGrpc(const grpc::Status& status, const ServerAddress& server) {
  const std::string& address = server.address;
  if (status.ok()) return Status::Ok();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return {StatusCode::kUnavailable,
            fmt::format("cannot reach the server {}: {}; check the address, that quarry-server runs, and {}",
                        address, status.error_message(),
                        server.tls ? "that it speaks TLS with a certificate that --ca (QUARRY_CA) vouches for"
                                   : "that it does not want grpcs://")};
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return {StatusCode::kDeadlineExceeded,
            fmt::format("the server {} did not answer in time; ask for less or allow more time", address)};
  }
  std::string message = status.error_message();
  if (const std::string id = RequestIdOf(status); !id.empty() && IsForTheOperator(status.error_code()))
    message += fmt::format(" (request {} of {})", id, address);
  return {static_cast<StatusCode>(status.error_code()), std::move(message)};
}

/// What HTTP does not let into a header would fail inside gRPC.
Status CheckToken(const std::string& token) {
  if (std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return Status::Ok();
  return InvalidArgument(
      "the token is not one word of ASCII letters, digits and signs; its file or variable should "
      "hold the token alone");
}

/// Of one server, or of all that are named.
bool IsOnThisMachine(const std::string& address) {
  for (std::size_t begin = 0; begin <= address.size();) {
    const std::size_t end = std::min(address.find(',', begin), address.size());
    const Result<HostPort> server = ParseHostPort(address.substr(begin, end - begin));
    if (!server.ok() || !IsLoopback(server->host)) return false;
    begin = end + 1;
  }
  return true;
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
          "the token would go to {} in plain text, for everybody on the way to read; write grpcs://, "
          "or leave the token out",
          server.address);
    }
    return grpc::InsecureChannelCredentials();
  }
  if (security.certificate_file.empty() != security.key_file.empty())
    return InvalidArgument("a client's certificate and its key go together; give both, or neither");
  grpc::SslCredentialsOptions options;
  QUARRY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(security.ca_file));
  QUARRY_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem(security.certificate_file));
  QUARRY_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem(security.key_file));
  return grpc::SslCredentials(options);
}

/// Samples come in messages of 256 KiB, but the record of a step with very many subfiles, and the payload of a
/// large patch, are larger.
constexpr int kLargestMessage = 64 << 20;

/// "HOST:PORT", or several IP addresses of servers with the same datasets, between commas, as gRPC wants them.
Result<std::string> ChannelTarget(const std::string& address, bool tls) {
  if (address.find(',') == std::string::npos) return address;
  if (tls) {
    return InvalidArgument(
        "\"{}\": a certificate is for one name; with grpcs://, give one name that resolves to all servers",
        address);
  }
  std::string target;
  for (std::size_t begin = 0; begin <= address.size();) {
    const std::size_t end = std::min(address.find(',', begin), address.size());
    QUARRY_ASSIGN_OR_RETURN(const HostPort server, ParseHostPort(address.substr(begin, end - begin)));
    in_addr any{};
    if (inet_pton(AF_INET, server.host.c_str(), &any) != 1) {
      return InvalidArgument(
          "\"{}\": of several servers, each has to be an IPv4 address with a port; or give one name that "
          "resolves to all of them",
          address);
    }
    target += fmt::format("{}{}:{}", target.empty() ? "ipv4:" : ",", server.host, server.port);
    begin = end + 1;
  }
  return target;
}

/// Calls go to all servers behind an address in turn. One that ends before anything was answered is made again
/// by gRPC, at another server where there is one.
constexpr const char* kServiceConfig = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [{"service": "quarry.v1.QuarryService"}],
    "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]}
  }]
})";

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  arguments.SetServiceConfigJSON(kServiceConfig);
  // Who waits for hours for the next step notices that the server has vanished, and soon finds it again.
  constexpr int kPingEveryMs = 60'000;
  constexpr int kPingTimeoutMs = 20'000;
  constexpr int kLongestReconnectMs = 5'000;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

/// A stub with its address, for messages.
class Connection {
 public:
  static Result<std::shared_ptr<const Connection>> Make(const ServerAddress& server, const Options& options) {
    QUARRY_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(server, options.security));
    QUARRY_ASSIGN_OR_RETURN(const std::string target, ChannelTarget(server.address, server.tls));
    return std::make_shared<const Connection>(server, options, NewChannel(target, credentials));
  }

  Connection(ServerAddress server, Options options, std::shared_ptr<grpc::Channel> channel)
      : server_(std::move(server)),
        options_(std::move(options)),
        channel_(std::move(channel)),
        stub_(pb::QuarryService::NewStub(channel_)),
        read_("/quarry.v1.QuarryService/Read", grpc::internal::RpcMethod::SERVER_STREAMING, channel_) {}

  std::unique_ptr<grpc::ClientContext> NewContext() const {
    auto context = std::make_unique<grpc::ClientContext>();
    if (options_.timeout_ms > 0)
      context->set_deadline(std::chrono::system_clock::now() +
                            std::chrono::milliseconds(options_.timeout_ms));
    if (!options_.security.token.empty())
      context->AddMetadata("authorization", "Bearer " + options_.security.token);
    return context;
  }

  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (pb::QuarryService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                        Response*),
                        const Request& request) const {
    Response response;
    const auto context = NewContext();
    QUARRY_RETURN_IF_ERROR(FromGrpc((stub_.get()->*method)(context.get(), request, &response), server_));
    return response;
  }

  /// Read with messages as bytes, which a generated stub does not offer: it would copy samples into strings.
  std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> Read(grpc::ClientContext* context,
                                                             const pb::ReadRequest& request) const {
    using Factory = grpc::internal::ClientReaderFactory<grpc::ByteBuffer>;
    return std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>>(
        Factory::Create(channel_.get(), read_, context, request));
  }

  /// Waits longer each time. False when it is time to give up.
  /// @param failures  in a row, without anything received in between
  bool WaitBeforeRetry(int failures) const {
    constexpr auto kFirst = std::chrono::milliseconds(50);
    constexpr auto kLookUp = std::chrono::milliseconds(50);
    if (failures > options_.retries) return false;
    const auto until = std::chrono::steady_clock::now() + kFirst * (1 << std::min(failures, 6));
    while (std::chrono::steady_clock::now() < until) {
      if (cancelled()) return false;
      std::this_thread::sleep_for(kLookUp);
    }
    return true;
  }

  bool can_be_cancelled() const { return options_.cancelled != nullptr; }
  bool wants_patches() const {
    if (options_.encoding != Encoding::kAuto) return options_.encoding == Encoding::kPatches;
    return !IsOnThisMachine(server_.address);
  }
  int threads() const { return options_.threads; }

  const ServerAddress& server() const { return server_; }
  pb::QuarryService::Stub* stub() const { return stub_.get(); }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

 private:
  const ServerAddress server_;
  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::QuarryService::Stub> stub_;
  const grpc::internal::RpcMethod read_;
};

/// Asks Options::cancelled while a call waits for its next message, which may be hours.
class CancelWhenAsked {
 public:
  CancelWhenAsked(const Connection* connection, grpc::ClientContext* context)
      : thread_([this, connection, context](const std::stop_token& stop) {
          constexpr auto kAskEvery = std::chrono::milliseconds(100);
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, stop, kAskEvery, [] { return false; }) && !stop.stop_requested()) {
            if (connection->cancelled()) context->TryCancel();
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

/// Puts an answer together, however many streams it comes in.
class AnswerReceiver final : public AnswerHandler {
 public:
  AnswerReceiver(const DatasetDescription& dataset, const query::ReadRequest& request,
                 const LevelCallback& on_level, DecodePool* pool)
      : dataset_(dataset), request_(request), on_level_(on_level), pool_(pool) {}

  Status Take(const grpc::ByteBuffer& message) {
    QUARRY_RETURN_IF_ERROR(ParseAnswer(message, this));
    if (!assembler_) return InternalError("the server's answer does not begin with a header");
    return Status::Ok();
  }

  const std::string& position() const { return position_; }
  bool ended() const { return ended_; }
  Status CheckComplete() const { return assembler_->CheckComplete(); }

  /// Whether a stream that broke can be followed by another one: a position vouches for what came before.
  bool CanGoOn() const { return !position_.empty() || !begun_; }

  Status Header(const pb::ReadHeader& message) override {
    QUARRY_ASSIGN_OR_RETURN(query::AnswerHeader header, wire::FromProto(message));
    QUARRY_RETURN_IF_ERROR(CheckHeader(header));
    if (begun_) {
      const auto same = [](const query::LevelExtent& a, const query::LevelExtent& b) {
        return a.level == b.level && a.extent == b.extent && a.spacing == b.spacing;
      };
      const bool goes_on = header.type == header_.type && header.step == header_.step &&
                           std::ranges::equal(header.levels, header_.levels, same);
      return goes_on ? Status::Ok() : InternalError("the server goes on with another answer");
    }
    header_ = header;
    assembler_.emplace(std::move(header), on_level_);
    return Status::Ok();
  }

  Status Samples(const pb::SampleBlocks& part, MessageData* data) override {
    if (!assembler_) return Status::Ok();
    begun_ = true;
    bytes_received_ += data->size();
    const auto read = [data](std::byte* to, std::size_t bytes) { return data->Read(to, bytes); };
    for (const pb::BlockExtent& block : part.blocks()) {
      QUARRY_ASSIGN_OR_RETURN(const Box extent, wire::GetExtent(block));
      std::optional<int> shown;
      if (block.has_shown_level()) shown = static_cast<int>(block.shown_level());
      QUARRY_RETURN_IF_ERROR(assembler_->AddBlock(static_cast<int>(part.level()), extent, read, shown));
    }
    return Status::Ok();
  }

  Status Patches(const pb::PatchPayloads& part, MessageData* data) override {
    if (!assembler_) return Status::Ok();
    begun_ = true;
    bytes_received_ += data->size();
    if (!decoder_) {
      QUARRY_ASSIGN_OR_RETURN(decoder_, PayloadDecoder::Make(dataset_, request_, header_, pool_));
    }
    return decoder_->Add(part, data, &*assembler_);
  }

  Status LevelEnd(const pb::LevelEnd& end) override {
    if (!assembler_) return Status::Ok();
    begun_ = true;
    if (decoder_) QUARRY_RETURN_IF_ERROR(decoder_->EndLevel(&*assembler_));
    return assembler_->EndLevel(static_cast<int>(end.level()), {header_.price, bytes_received_});
  }

  Status ReadEnd() override {
    ended_ = true;
    return Status::Ok();
  }

  void Position(std::string position) override { position_ = std::move(position); }

 private:
  /// Whatever a server says, memory is taken for parts of this grid only.
  Status CheckHeader(const query::AnswerHeader& header) const {
    int finer_than = dataset_.levels;
    for (const query::LevelExtent& level : header.levels) {
      const bool known = level.level >= 0 && level.level < finer_than && SpacingFits(level);
      if (!known || !SpacedBox({{0, 0, 0}, dataset_.grid.dims}, level.spacing).Contains(level.extent)) {
        return InternalError("the server announces {} of level {}, which is not in this dataset",
                             ToString(level.extent), level.level);
      }
      finer_than = level.level;
    }
    if (request_.stride && header.levels.size() > 1)
      return InternalError("the server announces {} levels for a stride", header.levels.size());
    return Status::Ok();
  }

  /// Samples of an answer are samples of its level.
  bool SpacingFits(const query::LevelExtent& level) const {
    const std::int64_t step = std::int64_t{1} << level.level;
    if (!request_.stride) return level.spacing == Index3{step, step, step};
    bool fits = level.spacing == *request_.stride;
    for (std::size_t a = 0; a < 3; ++a)
      fits = fits && (dataset_.grid.dims[a] == 1 || level.spacing[a] % step == 0);
    return fits;
  }

  const DatasetDescription& dataset_;
  const query::ReadRequest& request_;
  const LevelCallback& on_level_;
  DecodePool* const pool_;
  query::AnswerHeader header_;
  std::optional<LevelAssembler> assembler_;
  std::unique_ptr<PayloadDecoder> decoder_;
  std::string position_;
  std::uint64_t bytes_received_ = 0;
  bool begun_ = false;  ///< something came after the header
  bool ended_ = false;
};

class RemoteDataset final : public Dataset {
 public:
  RemoteDataset(std::shared_ptr<const Connection> connection, std::string name,
                DatasetDescription description)
      : connection_(std::move(connection)),
        name_(std::move(name)),
        description_(std::move(description)),
        pool_(connection_->threads()) {}

  const DatasetDescription& description() const override { return description_; }

  Result<std::vector<StepDescription>> Steps() const override {
    std::vector<StepDescription> steps;
    pb::GetDatasetRequest request;
    request.set_dataset(name_);
    do {
      QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response,
                              connection_->Call(&pb::QuarryService::Stub::GetDataset, request));
      for (const pb::StepManifest& manifest : response.steps()) {
        QUARRY_ASSIGN_OR_RETURN(StepDescription step, format::FromProto(manifest, description_.grid));
        steps.push_back(std::move(step));
      }
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return steps;
  }

  Result<query::AnswerHeader> PlanRead(const query::ReadRequest& request) const override {
    QUARRY_RETURN_IF_ERROR(query::CheckLevels(request, description_.levels));
    pb::PlanReadRequest message;
    *message.mutable_query() = wire::ToProto(name_, request);
    QUARRY_ASSIGN_OR_RETURN(const pb::PlanReadResponse response,
                            connection_->Call(&pb::QuarryService::Stub::PlanRead, message));
    return wire::FromProto(response.header());
  }

  Status ReadLevels(const query::ReadRequest& request, const LevelCallback& on_level) const override {
    QUARRY_RETURN_IF_ERROR(query::CheckLevels(request, description_.levels));
    pb::ReadRequest message;
    *message.mutable_query() = wire::ToProto(name_, request);
    // The payload of a patch comes in one message.
    constexpr std::int64_t kLargestPatch = kLargestMessage / 2;
    const bool fits = Volume(description_.patch) * static_cast<std::int64_t>(sizeof(double)) <= kLargestPatch;
    message.set_encoding(connection_->wants_patches() && fits ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES);
    AnswerReceiver receiver(description_, request, on_level, &pool_);
    int failures = 0;
    while (true) {
      message.set_resume_after(receiver.position());
      QUARRY_ASSIGN_OR_RETURN(const std::optional<Status> broken, ReadOnce(message, &receiver));
      if (!broken) return receiver.CheckComplete();
      failures = receiver.position() != message.resume_after() ? 1 : failures + 1;
      if (!receiver.CanGoOn() || !connection_->WaitBeforeRetry(failures)) {
        if (connection_->cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
        return *broken;
      }
    }
  }

  Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest& request) const override {
    QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
    QUARRY_RETURN_IF_ERROR(query::CheckLevels(query::SamplesOf(request), description_.levels));
    QUARRY_ASSIGN_OR_RETURN(
        const pb::GetStatisticsResponse response,
        connection_->Call(&pb::QuarryService::Stub::GetStatistics, wire::ToProto(name_, request)));
    return wire::FromProto(response);
  }

  Status WatchSteps(const WatchRequest& request, const StepCallback& on_step) const override {
    using Clock = std::chrono::steady_clock;
    std::optional<std::uint64_t> after = request.after;
    Clock::time_point heard = Clock::now();
    std::chrono::milliseconds pause = kFirstPause;
    while (true) {
      bool was_heard = false;
      QUARRY_ASSIGN_OR_RETURN(const std::optional<Status> lost, WatchOnce(on_step, &after, &was_heard));
      if (!lost) return Status::Ok();
      if (was_heard) {
        heard = Clock::now();
        pause = kFirstPause;
      }
      if (Clock::now() + pause - heard > std::chrono::milliseconds(request.patience_ms)) return *lost;
      if (!Pause(pause)) return {StatusCode::kCancelled, "the watching was cancelled"};
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 protected:
  Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest& request) const override {
    QUARRY_ASSIGN_OR_RETURN(
        const pb::ReadPointsResponse response,
        connection_->Call(&pb::QuarryService::Stub::ReadPoints, wire::ToProto(name_, request)));
    query::PointsAnswer answer = wire::FromProto(response);
    const std::size_t expected = request.price_only ? 0 : request.points.size();
    if (answer.values.size() == expected) return answer;
    return InternalError("the server {} answers {} points with {} values", connection_->server().address,
                         expected, answer.values.size());
  }

 private:
  static constexpr std::chrono::milliseconds kFirstPause{100};
  static constexpr std::chrono::milliseconds kLongestPause{5000};

  /// Follows the steps for as long as a connection lasts.
  /// @param[in,out] after  the largest step that was called back for
  /// @param[out] heard  true where the server has begun to answer
  /// @returns nothing when the callback has enough, otherwise how the connection was lost
  Result<std::optional<Status>> WatchOnce(const StepCallback& on_step, std::optional<std::uint64_t>* after,
                                          bool* heard) const {
    pb::WatchStepsRequest request;
    request.set_dataset(name_);
    if (*after) request.set_after(**after);
    const auto context = connection_->NewContext();
    context->set_deadline(std::chrono::system_clock::time_point::max());
    const auto stream = connection_->stub()->WatchSteps(context.get(), request);
    const CancelWhenAsked cancel(connection_.get(), context.get());
    stream->WaitForInitialMetadata();
    *heard = context->GetServerInitialMetadata().contains(kRequestIdKey);
    pb::WatchStepsResponse message;
    while (stream->Read(&message)) {
      const Result<StepDescription> step = format::FromProto(message.step(), description_.grid);
      if (step.ok()) *after = std::max(after->value_or(0), step->step);
      if (step.ok() && on_step(*step)) continue;
      context->TryCancel();
      stream->Finish();
      QUARRY_RETURN_IF_ERROR(step.status());
      return std::optional<Status>();
    }
    const grpc::Status finished = stream->Finish();
    if (connection_->cancelled()) return Status(StatusCode::kCancelled, "the watching was cancelled");
    const ServerAddress& server = connection_->server();
    // gRPC says CANCELLED for a call on a connection that has just broken, and where a server cuts it.
    const bool cut = finished.ok() || finished.error_code() == grpc::StatusCode::CANCELLED;
    Status status = FromGrpc(finished, server);
    if (cut) {
      status = {StatusCode::kUnavailable,
                fmt::format("the connection to the server {} was cut; watch again", server.address)};
    }
    if (status.code() != StatusCode::kUnavailable) return status;
    return std::optional(std::move(status));
  }

  /// False when it was cancelled.
  bool Pause(std::chrono::milliseconds time) const {
    constexpr auto kAskEvery = std::chrono::milliseconds(50);
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      if (connection_->cancelled()) return false;
      std::this_thread::sleep_for(kAskEvery);
    }
    return true;
  }

  /// From the position that the request names to the end.
  /// @returns nothing, or how the stream broke before
  Result<std::optional<Status>> ReadOnce(const pb::ReadRequest& request, AnswerReceiver* receiver) const {
    const auto context = connection_->NewContext();
    const auto stream = connection_->Read(context.get(), request);
    std::optional<CancelWhenAsked> cancel;
    if (connection_->can_be_cancelled()) cancel.emplace(connection_.get(), context.get());
    grpc::ByteBuffer message;
    while (stream->Read(&message)) {
      Status status = connection_->cancelled() ? Status(StatusCode::kCancelled, "the read was cancelled")
                                               : receiver->Take(message);
      if (status.ok()) continue;
      context->TryCancel();
      (void)stream->Finish();
      return status;
    }
    grpc::Status finished = stream->Finish();
    if (connection_->cancelled()) return Status(StatusCode::kCancelled, "the read was cancelled");
    // gRPC says CANCELLED for a call on a connection that has just broken.
    if (finished.error_code() == grpc::StatusCode::CANCELLED)
      finished = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke");
    Status status = FromGrpc(finished, connection_->server());
    if (status.code() == StatusCode::kUnavailable) return std::optional(std::move(status));
    QUARRY_RETURN_IF_ERROR(status);
    if (receiver->ended()) return std::optional<Status>();
    return std::optional(
        Status(StatusCode::kUnavailable,
               fmt::format("the answer of {} ended early; ask again", connection_->server().address)));
  }

  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  const DatasetDescription description_;
  mutable DecodePool pool_;  ///< for answers in patches
};

}  // namespace

Result<std::unique_ptr<Dataset>> OpenRemote(const ServerAddress& server, const std::string& name,
                                            const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(auto connection, Connection::Make(server, options));
  pb::GetDatasetRequest request;
  request.set_dataset(name);
  request.set_manifest_only(true);
  QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response,
                          connection->Call(&pb::QuarryService::Stub::GetDataset, request));
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, format::FromProto(response.manifest()));
  return std::unique_ptr<Dataset>(
      std::make_unique<RemoteDataset>(std::move(connection), name, std::move(description)));
}

Result<std::vector<DatasetSummary>> ListRemote(const ServerAddress& server, const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto connection, Connection::Make(server, options));
  std::vector<DatasetSummary> summaries;
  pb::ListDatasetsRequest request;
  do {
    QUARRY_ASSIGN_OR_RETURN(const pb::ListDatasetsResponse response,
                            connection->Call(&pb::QuarryService::Stub::ListDatasets, request));
    for (const pb::DatasetSummary& summary : response.datasets()) {
      QUARRY_ASSIGN_OR_RETURN(GridDescription grid, format::FromProto(summary.grid()));
      summaries.push_back({summary.name(), std::move(grid), summary.steps(), summary.fields()});
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return summaries;
}

}  // namespace quarry::client::internal
