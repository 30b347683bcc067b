#include "server/grpc_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "quarry/dataset/step_follower.h"
#include "quarry/format/proto_convert.h"
#include "quarry/wire/convert.h"

namespace quarry::server {

namespace pb = ::quarry::v1;

namespace {

constexpr std::uint32_t kDefaultPage = 100;
constexpr std::uint32_t kLargestPage = 1000;

/// Upper bound of the extent of a block in a message: six numbers and their frames.
constexpr std::size_t kBytesPerBlock = 48;

std::uint32_t PageSize(std::uint32_t asked) {
  return asked == 0 ? kDefaultPage : std::min(asked, kLargestPage);
}

/// Packs blocks into messages of about kMessageBytes and streams them. A client that is slow blocks here, and
/// with it the reading and decoding of its own read only.
class StreamSink final : public BlockSink {
 public:
  StreamSink(grpc::ServerWriter<pb::ReadResponse>* writer, std::size_t sample_size, Call* call)
      : writer_(writer), sample_size_(sample_size), call_(call) {}

  Status Block(int level, const Box& extent, ByteSpan samples) override {
    if (samples.size() <= kMessageBytes) return Add(level, extent, samples);
    // Halves along the slowest axis that can be cut are contiguous in memory.
    const Index3 shape = extent.shape();
    const std::size_t axis = shape[2] > 1 ? 2 : shape[1] > 1 ? 1 : 0;
    Box first = extent;
    Box second = extent;
    first.end[axis] = second.begin[axis] = extent.begin[axis] + shape[axis] / 2;
    const std::size_t bytes = static_cast<std::size_t>(first.volume()) * sample_size_;
    QUARRY_RETURN_IF_ERROR(Block(level, first, samples.first(bytes)));
    return Block(level, second, samples.subspan(bytes));
  }

  Status LevelEnd(const query::LevelExtent& level) override {
    QUARRY_RETURN_IF_ERROR(Flush());
    pb::ReadResponse message;
    message.mutable_level_end()->set_level(static_cast<std::uint32_t>(level.level));
    message.mutable_level_end()->set_max_error(level.max_error);
    message.mutable_level_end()->set_coverage(level.coverage);
    return Send(message);
  }

  Status Send(const pb::ReadResponse& message) {
    if (!writer_->Write(message)) return {StatusCode::kCancelled, "the client has gone"};
    call_->CountSent(message.ByteSizeLong());
    return Status::Ok();
  }

 private:
  Status Add(int level, const Box& extent, ByteSpan samples) {
    if (pending_bytes_ + samples.size() > kMessageBytes) QUARRY_RETURN_IF_ERROR(Flush());
    pending_bytes_ += samples.size() + kBytesPerBlock;
    pb::SampleBlocks* blocks = pending_.mutable_samples();
    blocks->set_level(static_cast<std::uint32_t>(level));
    wire::SetExtent(extent, blocks->add_blocks());
    blocks->mutable_data()->append(reinterpret_cast<const char*>(samples.data()), samples.size());
    return Status::Ok();
  }

  Status Flush() {
    if (pending_.samples().data().empty()) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(Send(pending_));
    pending_.mutable_samples()->Clear();
    pending_bytes_ = 0;
    return Status::Ok();
  }

  grpc::ServerWriter<pb::ReadResponse>* writer_;
  const std::size_t sample_size_;
  Call* call_;
  pb::ReadResponse pending_;
  std::size_t pending_bytes_ = 0;  ///< of samples and block extents: tiny blocks have more of the latter
};

/// The time limit counts for each step: a client that takes none is cut off, one that has none to take is not.
Status Send(const std::vector<std::shared_ptr<const StepDescription>>& steps, Call* call,
            grpc::ServerWriter<pb::WatchStepsResponse>* writer) {
  for (const auto& step : steps) {
    pb::WatchStepsResponse message;
    *message.mutable_step() = format::ToProto(*step);
    call->StartClock();
    if (!writer->Write(message)) return {StatusCode::kCancelled, "the client has gone"};
    call->StopClock();
    call->CountSent(message.ByteSizeLong());
  }
  return Status::Ok();
}

}  // namespace

template <typename Work>
grpc::Status GrpcService::Handle(grpc::ServerContext* context, const char* method, const std::string& dataset,
                                 Work work) {
  Call call(operations_, context, method, dataset);
  Status status;
  // No exception may leave a handler: gRPC would end the process.
  try {
    status = call.Admit(&service_->catalogue());
    if (status.ok()) status = work(&call);
  } catch (const std::bad_alloc&) {
    status = {StatusCode::kResourceExhausted, "the server is out of memory; ask for less, or later"};
  } catch (const std::exception& error) {
    status = InternalError("unexpected: {}", error.what());
  }
  return call.End(std::move(status));
}

grpc::Status GrpcService::ListDatasets(grpc::ServerContext* context, const pb::ListDatasetsRequest* request,
                                       pb::ListDatasetsResponse* response) {
  return Handle(context, "ListDatasets", "", [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(std::vector<FoundDataset> found, service_->catalogue().List());
    std::erase_if(found, [&](const FoundDataset& dataset) { return !call->Allows(dataset.name); });
    // The token is the last name of the page before, so that datasets may come and go in between.
    auto it =
        std::upper_bound(found.begin(), found.end(), request->page_token(),
                         [](const std::string& token, const FoundDataset& d) { return token < d.name; });
    if (request->page_token().empty()) it = found.begin();
    const std::uint32_t page = PageSize(request->page_size());
    for (; it != found.end() && response->datasets_size() < static_cast<int>(page); ++it) {
      pb::DatasetSummary* summary = response->add_datasets();
      summary->set_name(it->name);
      // A damaged dataset is listed by name: asking for it says what is wrong. The index is not needed to
      // list.
      const auto dataset = Dataset::Open(it->path);
      if (!dataset.ok()) {
        *summary->mutable_grid() = format::ToProto(GridDescription{});
        continue;
      }
      *summary->mutable_grid() = format::ToProto((*dataset)->description().grid);
      summary->set_steps((*dataset)->steps().size());
      summary->set_fields((*dataset)->description().fields.size());
    }
    if (it != found.end()) response->set_next_page_token(response->datasets().rbegin()->name());
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

grpc::Status GrpcService::GetDataset(grpc::ServerContext* context, const pb::GetDatasetRequest* request,
                                     pb::GetDatasetResponse* response) {
  return Handle(context, "GetDataset", request->dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const auto served, service_->catalogue().Find(request->dataset()));
    const Dataset& dataset = *served->dataset;
    *response->mutable_manifest() = format::ToProto(dataset.description());
    if (request->manifest_only()) {
      call->CountSent(response->ByteSizeLong());
      return Status::Ok();
    }
    // The token is the last step of the page before.
    auto it = dataset.steps().begin();
    if (const std::string& token = request->page_token(); !token.empty()) {
      std::uint64_t last = 0;
      const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), last);
      if (error != std::errc() || end != token.data() + token.size())
        return InvalidArgument("page token \"{}\" is none of this server; begin with an empty one", token);
      it = std::upper_bound(dataset.steps().begin(), dataset.steps().end(), last);
    }
    const std::uint32_t page = PageSize(request->page_size());
    std::size_t bytes = 0;
    for (; it != dataset.steps().end() && response->steps_size() < static_cast<int>(page) &&
           bytes < kMessageBytes;
         ++it) {
      QUARRY_ASSIGN_OR_RETURN(const auto step, dataset.Step(*it));
      *response->add_steps() = format::ToProto(*step);
      bytes += response->steps().rbegin()->ByteSizeLong();
    }
    if (it != dataset.steps().end()) response->set_next_page_token(std::to_string(*(it - 1)));
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

grpc::Status GrpcService::PlanRead(grpc::ServerContext* context, const pb::PlanReadRequest* request,
                                   pb::PlanReadResponse* response) {
  return Handle(context, "PlanRead", request->query().dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest question, wire::FromProto(request->query()));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(request->query().dataset(), question));
    *response->mutable_header() = wire::ToProto(read.header());
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

grpc::Status GrpcService::Read(grpc::ServerContext* context, const pb::ReadRequest* request,
                               grpc::ServerWriter<pb::ReadResponse>* writer) {
  return Handle(context, "Read", request->query().dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest question, wire::FromProto(request->query()));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(request->query().dataset(), question));
    QUARRY_RETURN_IF_ERROR(call->CheckPrice(read.plan));
    StreamSink sink(writer, SizeOf(read.plan.type), call);
    pb::ReadResponse message;
    *message.mutable_header() = wire::ToProto(read.header());
    QUARRY_RETURN_IF_ERROR(sink.Send(message));
    QUARRY_RETURN_IF_ERROR(service_->Read(
        read, [call] { return call->Cancelled(); }, &sink));
    call->CountPatches(read.plan.price.patches);
    *message.mutable_read_end()->mutable_price() = wire::ToProto(read.plan.price);
    QUARRY_RETURN_IF_ERROR(sink.Send(message));
    spdlog::debug("read {} {} step {} box {} level {}: {} patches, {} bytes in {} reads, {} bytes of samples",
                  request->query().dataset(), question.field, read.plan.query.step,
                  ToString(read.plan.query.box), read.plan.query.level, read.plan.price.patches,
                  read.plan.price.bytes_read, read.plan.price.reads, read.plan.price.reply_bytes);
    return Status::Ok();
  });
}

grpc::Status GrpcService::GetStatistics(grpc::ServerContext* context, const pb::GetStatisticsRequest* request,
                                        pb::GetStatisticsResponse* response) {
  return Handle(context, "GetStatistics", request->query().dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::StatisticsRequest question, wire::FromProto(*request));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read,
                            service_->Prepare(request->query().dataset(), query::SamplesOf(question)));
    QUARRY_RETURN_IF_ERROR(call->CheckPrice(read.plan));
    QUARRY_ASSIGN_OR_RETURN(const query::StatisticsAnswer answer,
                            service_->Statistics(read, question, [call] { return call->Cancelled(); }));
    call->CountPatches(read.plan.price.patches);
    *response = wire::ToProto(answer);
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

grpc::Status GrpcService::ReadPoints(grpc::ServerContext* context, const pb::ReadPointsRequest* request,
                                     pb::ReadPointsResponse* response) {
  return Handle(context, "ReadPoints", request->dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::PointsRequest question, wire::FromProto(*request));
    QUARRY_ASSIGN_OR_RETURN(PreparedPoints points, service_->PreparePoints(request->dataset(), question));
    const query::Price price = points.plan.price_only ? query::Price{} : points.plan.read.price;
    QUARRY_RETURN_IF_ERROR(call->CheckPrice(price.bytes, price.reply_bytes, "fewer points at a time"));
    QUARRY_ASSIGN_OR_RETURN(
        const query::PointsAnswer answer,
        service_->ReadPoints(std::move(points), [call] { return call->Cancelled(); }));
    call->CountPatches(price.patches);
    *response = wire::ToProto(answer);
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

grpc::Status GrpcService::WatchSteps(grpc::ServerContext* context, const pb::WatchStepsRequest* request,
                                     grpc::ServerWriter<pb::WatchStepsResponse>* writer) {
  return Handle(context, "WatchSteps", request->dataset(), [&](Call* call) -> Status {
    call->StopClock();
    // By way of the catalogue: a name from outside never becomes part of a path.
    QUARRY_ASSIGN_OR_RETURN(const auto served, service_->catalogue().Find(request->dataset()));
    StepFollower follower(served->dataset->root(),
                          request->has_after() ? std::optional(request->after()) : std::nullopt);
    // Now, as the first step may be hours away: the client learns that it is being heard.
    writer->SendInitialMetadata();
    while (true) {
      const auto steps = follower.Poll();
      if (steps.status().code() == StatusCode::kNotFound) {
        return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again when it is there",
                        served->name);
      }
      QUARRY_RETURN_IF_ERROR(steps.status());
      QUARRY_RETURN_IF_ERROR(Send(*steps, call, writer));
      QUARRY_RETURN_IF_ERROR(Rest(call));
      // A token that was taken out of the file opens nothing any more, and this call may last for days.
      QUARRY_RETURN_IF_ERROR(call->CheckAccess(&service_->catalogue()));
    }
  });
}

Status GrpcService::Rest(Call* call) const {
  const auto next = std::chrono::steady_clock::now() + look_every_;
  // Nothing wakes a handler that is not sending, so it looks up from time to time.
  constexpr auto kLookUp = std::chrono::milliseconds(200);
  do {
    if (operations_->draining)
      return {StatusCode::kUnavailable, "the server is stopping; go on watching at another"};
    if (call->Cancelled()) return {StatusCode::kCancelled, "the client has gone"};
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLookUp, look_every_));
  } while (std::chrono::steady_clock::now() < next);
  return Status::Ok();
}

}  // namespace quarry::server
