#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <thread>

#include "clients/cpp/backends.h"
#include "clients/cpp/level_assembler.h"
#include "quarry/base/checked_math.h"
#include "quarry/format/proto_convert.h"
#include "quarry/v1/service.grpc.pb.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {
namespace {

namespace pb = ::quarry::v1;

/// Our codes are gRPC's, and the server's message is already the line for the user.
Status FromGrpc(const grpc::Status& status, const std::string& address) {
  if (status.ok()) return Status::Ok();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return {StatusCode::kUnavailable,
            fmt::format("cannot reach the server {}: {}; check the address and that quarry-server runs",
                        address, status.error_message())};
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return {StatusCode::kDeadlineExceeded,
            fmt::format("the server {} did not answer in time; ask for less or allow more time", address)};
  }
  return {static_cast<StatusCode>(status.error_code()), status.error_message()};
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  // Samples come in messages of about 1 MiB, but the record of a step with very many subfiles may be larger.
  constexpr int kLargestMessage = 64 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

/// A stub with its address, for messages.
class Connection {
 public:
  Connection(std::string address, Options options)
      : address_(std::move(address)),
        options_(std::move(options)),
        stub_(pb::QuarryService::NewStub(NewChannel(address_))) {}

  std::unique_ptr<grpc::ClientContext> NewContext() const {
    auto context = std::make_unique<grpc::ClientContext>();
    if (options_.timeout_ms > 0)
      context->set_deadline(std::chrono::system_clock::now() +
                            std::chrono::milliseconds(options_.timeout_ms));
    return context;
  }

  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (pb::QuarryService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                        Response*),
                        const Request& request) const {
    Response response;
    const auto context = NewContext();
    QUARRY_RETURN_IF_ERROR(FromGrpc((stub_.get()->*method)(context.get(), request, &response), address_));
    return response;
  }

  pb::QuarryService::Stub* stub() const { return stub_.get(); }
  const std::string& address() const { return address_; }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

 private:
  const std::string address_;
  const Options options_;
  const std::unique_ptr<pb::QuarryService::Stub> stub_;
};

class RemoteDataset final : public Dataset {
 public:
  RemoteDataset(std::shared_ptr<const Connection> connection, std::string name,
                DatasetDescription description)
      : connection_(std::move(connection)), name_(std::move(name)), description_(std::move(description)) {}

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
    const auto context = connection_->NewContext();
    const auto stream = connection_->stub()->Read(context.get(), message);
    bool stream_ended = false;
    const Status status = Receive(stream.get(), on_level, &stream_ended);
    // An error of ours ends the stream; when the server has ended it, Finish knows its reason.
    if (!stream_ended) context->TryCancel();
    const Status finished = FromGrpc(stream->Finish(), connection_->address());
    return stream_ended && !finished.ok() ? finished : status;
  }

  Status WatchSteps(std::optional<std::uint64_t> after, const StepCallback& on_step) const override {
    pb::WatchStepsRequest request;
    request.set_dataset(name_);
    if (after) request.set_after(*after);
    const auto context = connection_->NewContext();
    const auto stream = connection_->stub()->WatchSteps(context.get(), request);
    const CancelWhenAsked cancel(connection_.get(), context.get());
    pb::WatchStepsResponse message;
    while (stream->Read(&message)) {
      Result<StepDescription> step = format::FromProto(message.step(), description_.grid);
      if (step.ok() && on_step(*step)) continue;
      context->TryCancel();
      stream->Finish();
      return step.ok() ? Status::Ok() : std::move(step).status();
    }
    const grpc::Status finished = stream->Finish();
    if (connection_->cancelled()) return {StatusCode::kCancelled, "the watching was cancelled"};
    if (finished.ok())
      return {StatusCode::kUnavailable, fmt::format("{} has ended the watching; watch again", connection_->address())};
    return FromGrpc(finished, connection_->address());
  }

 private:
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

  /// @param[out] stream_ended  true when there is nothing more to receive
  Status Receive(grpc::ClientReader<pb::ReadResponse>* stream, const LevelCallback& on_level,
                 bool* stream_ended) const {
    std::optional<LevelAssembler> assembler;
    ReadCost cost;
    pb::ReadResponse message;
    bool ended = false;
    std::size_t sample_size = 0;
    while (stream->Read(&message)) {
      if (connection_->cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
      if (message.part_case() == pb::ReadResponse::kHeader && !assembler) {
        QUARRY_ASSIGN_OR_RETURN(query::AnswerHeader header, wire::FromProto(message.header()));
        QUARRY_RETURN_IF_ERROR(CheckHeader(header));
        cost.price = header.price;
        sample_size = SizeOf(header.type);
        assembler.emplace(std::move(header), on_level);
      } else if (!assembler) {
        return InternalError("the server's answer does not begin with a header");
      } else if (message.part_case() == pb::ReadResponse::kSamples) {
        cost.bytes_received += message.samples().data().size();
        QUARRY_RETURN_IF_ERROR(AddBlocks(message.samples(), sample_size, &*assembler));
      } else if (message.part_case() == pb::ReadResponse::kLevelEnd) {
        QUARRY_RETURN_IF_ERROR(assembler->EndLevel(static_cast<int>(message.level_end().level()), cost));
      } else if (message.part_case() == pb::ReadResponse::kReadEnd) {
        ended = true;
      }
    }
    *stream_ended = true;
    if (!ended)
      return {StatusCode::kUnavailable,
              fmt::format("the answer of {} ended early; ask again", connection_->address())};
    return assembler->CheckComplete();
  }

  /// Whatever a server says, memory is taken for parts of this grid only.
  Status CheckHeader(const query::AnswerHeader& header) const {
    for (const query::LevelExtent& level : header.levels) {
      const bool known = level.level >= 0 && level.level < description_.levels;
      if (!known || !Box{{0, 0, 0}, LevelShape(description_.grid.dims, level.level)}.Contains(level.extent)) {
        return InternalError("the server announces {} of level {}, which is not in this dataset",
                             ToString(level.extent), level.level);
      }
    }
    return Status::Ok();
  }

  static Status AddBlocks(const pb::SampleBlocks& message, std::size_t sample_size,
                          LevelAssembler* assembler) {
    const auto* data = reinterpret_cast<const std::byte*>(message.data().data());
    ByteSpan rest(data, message.data().size());
    for (const pb::BlockExtent& block : message.blocks()) {
      QUARRY_ASSIGN_OR_RETURN(const Box extent, wire::GetExtent(block));
      std::int64_t bytes = static_cast<std::int64_t>(sample_size);
      bool fits = true;
      for (const std::int64_t n : extent.shape()) fits = fits && CheckedMultiply(bytes, n, &bytes);
      if (!fits || static_cast<std::size_t>(bytes) > rest.size())
        return InternalError("a message of the server is too short for its block {}", ToString(extent));
      QUARRY_RETURN_IF_ERROR(assembler->AddBlock(static_cast<int>(message.level()), extent,
                                                 rest.first(static_cast<std::size_t>(bytes))));
      rest = rest.subspan(static_cast<std::size_t>(bytes));
    }
    return Status::Ok();
  }

  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  const DatasetDescription description_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> OpenRemote(const std::string& address, const std::string& name,
                                            const Options& options) {
  auto connection = std::make_shared<const Connection>(address, options);
  pb::GetDatasetRequest request;
  request.set_dataset(name);
  request.set_manifest_only(true);
  QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response,
                          connection->Call(&pb::QuarryService::Stub::GetDataset, request));
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, format::FromProto(response.manifest()));
  return std::unique_ptr<Dataset>(
      std::make_unique<RemoteDataset>(std::move(connection), name, std::move(description)));
}

Result<std::vector<DatasetSummary>> ListRemote(const std::string& address, const Options& options) {
  const Connection connection(address, options);
  std::vector<DatasetSummary> summaries;
  pb::ListDatasetsRequest request;
  do {
    QUARRY_ASSIGN_OR_RETURN(const pb::ListDatasetsResponse response,
                            connection.Call(&pb::QuarryService::Stub::ListDatasets, request));
    for (const pb::DatasetSummary& summary : response.datasets()) {
      QUARRY_ASSIGN_OR_RETURN(GridDescription grid, format::FromProto(summary.grid()));
      summaries.push_back({summary.name(), std::move(grid), summary.steps(), summary.fields()});
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return summaries;
}

}  // namespace quarry::client::internal
