#include "server/grpc_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "quarry/base/units.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/format/proto_convert.h"
#include "quarry/wire/convert.h"

namespace quarry::server {

namespace pb = ::quarry::v1;

namespace {

constexpr std::uint32_t kDefaultPage = 100;
constexpr std::uint32_t kLargestPage = 1000;
constexpr std::size_t kPageBytes = 1 << 20;
/// In which the question of an admitted Read has to come.
constexpr auto kQuestionTime = std::chrono::seconds(10);

std::uint32_t PageSize(std::uint32_t asked) {
  return asked == 0 ? kDefaultPage : std::min(asked, kLargestPage);
}

Status NotOurPosition() {
  return InvalidArgument("the position to resume after is none of an answer to this query; leave it out");
}

/// Where an earlier answer to the same query ended.
/// @param answers  to the query
Result<pb::ReadPosition> ParsePosition(const std::string& token, std::size_t answers) {
  pb::ReadPosition position;
  if (token.empty()) return position;
  const bool ours =
      position.ParseFromString(token) && position.fingerprint() != 0 && position.answers() < answers;
  if (!ours) return NotOurPosition();
  return position;
}

/// Whether an answer can go on at a position in it.
Status CheckPosition(const pb::ReadPosition& position, const query::ReadPlan& plan) {
  if (position.fingerprint() == 0) return Status::Ok();  // the beginning
  if (position.fingerprint() != query::Fingerprint(plan)) {
    return {StatusCode::kFailedPrecondition,
            "the query or the data behind it are others than when the answer began; ask again from the start"};
  }
  const bool inside = position.levels() <= plan.levels.size() && position.patches() <= plan.patches.size();
  return inside ? Status::Ok() : NotOurPosition();
}

query::AnswerHeader HeaderOf(const query::ReadPlan& plan, const Series& series, std::size_t number) {
  query::AnswerHeader header = query::HeaderOf(plan);
  header.number = number;
  header.count = series.questions.size();
  return header;
}

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

GrpcService::GrpcService(QueryService* service, Operations* operations, std::chrono::milliseconds look_every)
    : service_(service), operations_(operations), look_every_(look_every) {
  // Read answers with messages that were put together by hand: gRPC's own way for that, a handler of byte
  // buffers in the place of the generated one.
  using Stream = grpc::ServerSplitStreamer<pb::ReadRequest, grpc::ByteBuffer>;
  using Handler = grpc::internal::SplitServerStreamingHandler<pb::ReadRequest, grpc::ByteBuffer>;
  const auto answer = [this](grpc::ServerContext* context, Stream* stream) {
    // gRPC calls such a handler before the question is there: whoever may not ask is not waited for, and
    // nobody for long.
    return Handle(context, "Read", "", [&](Call* call) -> Status {
      pb::ReadRequest request;
      {
        const auto limit = operations_->deadlines.Add(std::chrono::steady_clock::now() + kQuestionTime,
                                                      [context] { context->TryCancel(); });
        if (!stream->Read(&request)) return InternalError("the question is no ReadRequest, or did not come");
      }
      QUARRY_RETURN_IF_ERROR(call->AskFor(request.query().dataset(), &service_->catalogue()));
      return Read(request, call,
                  [stream](const grpc::ByteBuffer& message) { return stream->Write(message); });
    });
  };
  const auto* described = pb::ReadRequest::descriptor()->file()->FindServiceByName("QuarryService");
  MarkMethodStreamed(described->FindMethodByName("Read")->index(), new Handler(answer));
}

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
           bytes < kPageBytes;
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
    QUARRY_ASSIGN_OR_RETURN(const query::SeriesRequest question, wire::FromProto(request->query()));
    QUARRY_ASSIGN_OR_RETURN(const Series series, service_->Expand(request->query().dataset(), question));
    const std::uint64_t limit = operations_->limits.plan_bytes;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < series.questions.size(); ++i) {
      if (call->Cancelled()) return {StatusCode::kCancelled, "the planning was cancelled"};
      QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(series, i));
      pb::ReadHeader* const header = i == 0 ? response->mutable_header() : response->add_more_headers();
      *header = wire::ToProto(HeaderOf(read.plan, series, i));
      bytes += header->ByteSizeLong();
      if (limit > 0 && bytes > limit) {
        return {StatusCode::kResourceExhausted,
                fmt::format("the plan of {} of {} answers is more than {}; ask for fewer steps or fields at a "
                            "time",
                            i + 1, series.questions.size(), FormatBytes(limit))};
      }
    }
    call->CountSent(response->ByteSizeLong());
    return Status::Ok();
  });
}

/// Refuses what is too much for the server or for the client, before anything is fetched.
/// @param first  the answer that the stream begins with, prepared already: `read`
Result<query::Price> GrpcService::AdmitSeries(const Series& series, std::size_t first,
                                              const PreparedRead& read, Call* call) {
  if (series.questions.size() == 1) {
    QUARRY_RETURN_IF_ERROR(call->CheckPrice(read.plan));
    return read.plan.price;
  }
  query::Price sum = read.plan.price;
  for (std::size_t i = 0; i < series.questions.size(); ++i) {
    if (i == first) continue;
    if (call->Cancelled()) return Status(StatusCode::kCancelled, "the planning was cancelled");
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead planned, service_->Prepare(series, i));
    sum += planned.plan.price;
  }
  QUARRY_RETURN_IF_ERROR(call->CheckPrice(sum.bytes, sum.reply_bytes, "fewer steps or fields at a time"));
  return sum;
}

Status GrpcService::SendAnswer(const PreparedRead& read, pb::Encoding encoding, const pb::ReadPosition& from,
                               Call* call, AnswerStream* stream) {
  const auto cancelled = [call] { return call->Cancelled(); };
  const query::Position begin{from.levels(), from.patches()};
  const std::size_t message_bytes = MessageBytesFor(service_->store().state().total);
  if (encoding == pb::ENCODING_PATCHES) {
    PayloadStreamSink sink(stream, message_bytes, read.plan, from);
    QUARRY_RETURN_IF_ERROR(service_->ReadPayloads(read, cancelled, &sink, begin));
  } else {
    SampleSink sink(stream, message_bytes, SizeOf(read.plan.type), from);
    QUARRY_RETURN_IF_ERROR(service_->Read(read, cancelled, &sink, begin));
  }
  const query::Price& price = read.plan.price;
  call->CountPatches(price.patches);
  spdlog::debug("read {} {} step {} box {} level {}: {} patches, {} bytes in {} reads, {} bytes of samples",
                read.served->name, read.plan.field, read.plan.query.step, ToString(read.plan.query.box),
                read.plan.query.level, price.patches, price.bytes_read, price.reads, price.reply_bytes);
  return Status::Ok();
}

Status GrpcService::Read(const pb::ReadRequest& request, Call* call, const AnswerStream::Writer& write) {
  if (!pb::Encoding_IsValid(request.encoding()))
    return InvalidArgument("encoding {} is not known; ask for samples or patches",
                           static_cast<int>(request.encoding()));
  QUARRY_ASSIGN_OR_RETURN(const query::SeriesRequest question, wire::FromProto(request.query()));
  QUARRY_ASSIGN_OR_RETURN(const Series series, service_->Expand(request.query().dataset(), question));
  QUARRY_ASSIGN_OR_RETURN(pb::ReadPosition from,
                          ParsePosition(request.resume_after(), series.questions.size()));
  AnswerStream stream(write, call);
  pb::ReadResponse end;
  for (std::size_t i = from.answers(); i < series.questions.size(); ++i) {
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read, service_->Prepare(series, i));
    QUARRY_RETURN_IF_ERROR(CheckPosition(from, read.plan));
    if (!end.has_read_end()) {  // the first of this stream
      QUARRY_ASSIGN_OR_RETURN(const query::Price price, AdmitSeries(series, i, read, call));
      *end.mutable_read_end()->mutable_price() = wire::ToProto(price);
    }
    QUARRY_RETURN_IF_ERROR(stream.Begin(HeaderOf(read.plan, series, i), query::Fingerprint(read.plan), from));
    QUARRY_RETURN_IF_ERROR(SendAnswer(read, request.encoding(), from, call, &stream));
    from.Clear();  // the next one begins at its beginning
  }
  return stream.Send(end);
}

grpc::Status GrpcService::GetStatistics(grpc::ServerContext* context, const pb::GetStatisticsRequest* request,
                                        pb::GetStatisticsResponse* response) {
  return Handle(context, "GetStatistics", request->query().dataset(), [&](Call* call) -> Status {
    QUARRY_ASSIGN_OR_RETURN(const query::StatisticsRequest question, wire::FromProto(*request));
    QUARRY_ASSIGN_OR_RETURN(const PreparedRead read,
                            service_->Prepare(request->query().dataset(), query::SamplesOf(question)));
    // No samples are sent.
    QUARRY_RETURN_IF_ERROR(
        call->CheckPrice(read.plan.price.bytes, 0, "a smaller box, or for a coarser level"));
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
      if (operations_->draining)
        return {StatusCode::kUnavailable, "the server is stopping; go on watching at another"};
      if (call->Cancelled()) return {StatusCode::kCancelled, "the client has gone"};
      const auto steps = follower.Poll();
      if (steps.status().code() == StatusCode::kNotFound) {
        return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again when it is there",
                        served->name);
      }
      QUARRY_RETURN_IF_ERROR(steps.status());
      QUARRY_RETURN_IF_ERROR(Send(*steps, call, writer));
      if (steps->empty()) Rest(call);
      // A token that was taken out of the file opens nothing any more, and this call may last for days.
      QUARRY_RETURN_IF_ERROR(call->CheckAccess(&service_->catalogue()));
    }
  });
}

void GrpcService::Rest(Call* call) const {
  const auto next = std::chrono::steady_clock::now() + look_every_;
  // Nothing wakes a handler that is not sending, so it looks up from time to time.
  constexpr auto kLookUp = std::chrono::milliseconds(200);
  do {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLookUp, look_every_));
  } while (std::chrono::steady_clock::now() < next && !operations_->draining && !call->Cancelled());
}

}  // namespace quarry::server
