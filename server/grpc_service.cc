#include "server/grpc_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "quarry/dataset/step_follower.h"
#include "quarry/format/proto_convert.h"
#include "quarry/wire/convert.h"
#include "server/grpc_status.h"

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

/// No exception may leave a handler: gRPC would end the process.
template <typename Work>
grpc::Status Handle(const char* call, Work work) {
  Status status;
  try {
    status = work();
  } catch (const std::bad_alloc&) {
    status = {StatusCode::kResourceExhausted, "the server is out of memory; ask for less, or later"};
  } catch (const std::exception& error) {
    status = InternalError("unexpected: {}", error.what());
  }
  if (!status.ok() && status.code() != StatusCode::kCancelled) spdlog::warn("{}: {}", call, status.message());
  return ToGrpc(status);
}

/// Packs blocks into messages of about kMessageBytes and streams them. A client that is slow blocks here, and
/// with it the reading and decoding of its own read only.
class StreamSink final : public BlockSink {
 public:
  StreamSink(grpc::ServerWriter<pb::ReadResponse>* writer, std::size_t sample_size)
      : writer_(writer), sample_size_(sample_size) {}

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
    if (writer_->Write(message)) return Status::Ok();
    return {StatusCode::kCancelled, "the client has gone"};
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
  pb::ReadResponse pending_;
  std::size_t pending_bytes_ = 0;  ///< of samples and block extents: tiny blocks have more of the latter
};

}  // namespace

grpc::Status GrpcService::ListDatasets(grpc::ServerContext*, const pb::ListDatasetsRequest* request,
                                       pb::ListDatasetsResponse* response) {
  return Handle("ListDatasets", [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<FoundDataset> found, service_->catalogue().List());
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
    return Status::Ok();
  });
}

grpc::Status GrpcService::GetDataset(grpc::ServerContext*, const pb::GetDatasetRequest* request,
                                     pb::GetDatasetResponse* response) {
  return Handle("GetDataset", [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const auto served, service_->catalogue().Find(request->dataset()));
    const Dataset& dataset = *served->dataset;
    *response->mutable_manifest() = format::ToProto(dataset.description());
    if (request->manifest_only()) return Status::Ok();
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
    return Status::Ok();
  });
}

grpc::Status GrpcService::PlanRead(grpc::ServerContext*, const pb::PlanReadRequest* request,
                                   pb::PlanReadResponse* response) {
  return Handle("PlanRead", [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest question, wire::FromProto(request->query()));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(request->query().dataset(), question));
    *response->mutable_header() = wire::ToProto(read.header());
    return Status::Ok();
  });
}

grpc::Status GrpcService::Read(grpc::ServerContext* context, const pb::ReadRequest* request,
                               grpc::ServerWriter<pb::ReadResponse>* writer) {
  return Handle("Read", [&]() -> Status {
    const auto begin = std::chrono::steady_clock::now();
    QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest question, wire::FromProto(request->query()));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(request->query().dataset(), question));
    StreamSink sink(writer, SizeOf(read.plan.type));
    pb::ReadResponse message;
    *message.mutable_header() = wire::ToProto(read.header());
    QUARRY_RETURN_IF_ERROR(sink.Send(message));
    // True after a cancellation by the client, a passed deadline, or the end of a drain. gRPC takes tens of
    // microseconds for the answer, and a read asks between patches.
    static constexpr auto kAskEvery = std::chrono::milliseconds(2);
    const auto cancelled = [context, last = begin]() mutable {
      const auto now = std::chrono::steady_clock::now();
      if (now - last < kAskEvery) return false;
      last = now;
      return context->IsCancelled();
    };
    QUARRY_RETURN_IF_ERROR(service_->Read(read, cancelled, &sink));
    *message.mutable_read_end()->mutable_price() = wire::ToProto(read.plan.price);
    QUARRY_RETURN_IF_ERROR(sink.Send(message));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    spdlog::info(
        "read {} {} step {} box {} level {}: {} patches, {} bytes in {} reads, {} bytes sent, {:.3f} s",
        request->query().dataset(), question.field, read.plan.query.step, ToString(read.plan.query.box),
        read.plan.query.level, read.plan.price.patches, read.plan.price.bytes_read, read.plan.price.reads,
        read.plan.price.reply_bytes, seconds);
    return Status::Ok();
  });
}

grpc::Status GrpcService::WatchSteps(grpc::ServerContext* context, const pb::WatchStepsRequest* request,
                                     grpc::ServerWriter<pb::WatchStepsResponse>* writer) {
  return Handle("WatchSteps", [&]() -> Status {
    // By way of the catalogue: a name from outside never becomes part of a path.
    QUARRY_ASSIGN_OR_RETURN(const auto served, service_->catalogue().Find(request->dataset()));
    StepFollower follower(served->dataset->root(),
                          request->has_after() ? std::optional(request->after()) : std::nullopt);
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(const auto steps, follower.Poll());
      for (const auto& step : steps) {
        pb::WatchStepsResponse message;
        *message.mutable_step() = format::ToProto(*step);
        if (!writer->Write(message)) return {StatusCode::kCancelled, "the client has gone"};
      }
      const auto next = std::chrono::steady_clock::now() + look_every_;
      // Nothing signals a cancellation to a handler that is not sending, so it looks up from time to time.
      constexpr auto kLookUp = std::chrono::milliseconds(50);
      do {
        if (context->IsCancelled()) return {StatusCode::kCancelled, "the client has gone"};
        if (stopping_) return {StatusCode::kUnavailable, "the server is stopping; go on watching at another"};
        std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLookUp, look_every_));
      } while (std::chrono::steady_clock::now() < next);
    }
  });
}

}  // namespace quarry::server
