#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include "clients/cpp/answer_receiver.h"
#include "clients/cpp/connection.h"
#include "quarry/format/proto_convert.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {
namespace {

namespace pb = ::quarry::v1;

Result<DatasetDescription> FetchDescription(const Connection& connection, const std::string& dataset) {
  pb::GetDatasetRequest request;
  request.set_dataset(dataset);
  request.set_manifest_only(true);
  QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response,
                          connection.Call(&pb::QuarryService::Stub::GetDataset, request));
  return format::FromProto(response.manifest());
}

class RemoteDataset final : public Dataset {
 public:
  RemoteDataset(std::shared_ptr<const Connection> connection, std::string name,
                DatasetDescription description)
      : connection_(std::move(connection)),
        name_(std::move(name)),
        description_(std::move(description)),
        newest_(std::make_shared<const DatasetDescription>(description_)),
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

  Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest& request) const override {
    QUARRY_RETURN_IF_ERROR(CheckRequest(request));
    pb::PlanReadRequest message;
    *message.mutable_query() = wire::ToProto(name_, request);
    QUARRY_ASSIGN_OR_RETURN(const pb::PlanReadResponse response,
                            connection_->Call(&pb::QuarryService::Stub::PlanRead, message));
    QUARRY_ASSIGN_OR_RETURN(const auto described, DescriptionFor(request));
    std::vector<query::AnswerHeader> answers(1);
    QUARRY_ASSIGN_OR_RETURN(answers.front(), ParseHeader(*described, request, response.header()));
    for (const pb::ReadHeader& header : response.more_headers()) {
      QUARRY_ASSIGN_OR_RETURN(answers.emplace_back(), ParseHeader(*described, request, header));
    }
    return answers;
  }

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level) const override {
    QUARRY_RETURN_IF_ERROR(CheckRequest(request));
    pb::ReadRequest message;
    *message.mutable_query() = wire::ToProto(name_, request);
    // The payload of a patch comes in one message.
    constexpr std::int64_t kLargestPatch = kLargestMessage / 2;
    const bool fits = Volume(description_.patch) * static_cast<std::int64_t>(sizeof(double)) <= kLargestPatch;
    message.set_encoding(connection_->wants_patches() && fits ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES);
    QUARRY_ASSIGN_OR_RETURN(const auto described, DescriptionFor(request));
    AnswerReceiver receiver(*described, request, on_level, &pool_);
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
    QUARRY_ASSIGN_OR_RETURN(query::StatisticsAnswer answer, wire::FromProto(response));
    const query::SeriesRequest samples{query::SamplesOf(request), {}, {}};
    QUARRY_ASSIGN_OR_RETURN(const auto described, DescriptionFor(samples));
    QUARRY_ASSIGN_OR_RETURN(answer.header, ParseHeader(*described, samples, response.header()));
    return answer;
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
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          heard + std::chrono::milliseconds(request.patience_ms) - Clock::now());
      if (left.count() <= 0) return *lost;
      if (!connection_->Pause(std::min(pause, left)))
        return {StatusCode::kCancelled, "the watching was cancelled"};
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
  /// The dataset with all fields that are asked for, as far as it has them: a simulation that runs may have
  /// added some since it was opened.
  Result<std::shared_ptr<const DatasetDescription>> DescriptionFor(const query::SeriesRequest& request) const {
    const std::vector<std::string> fields =
        request.fields.empty() ? std::vector{request.read.field} : request.fields;
    const std::lock_guard lock(mutex_);
    const auto known = [this](const std::string& field) { return newest_->FindField(field).has_value(); };
    if (!std::ranges::all_of(fields, known)) {
      QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, FetchDescription(*connection_, name_));
      newest_ = std::make_shared<const DatasetDescription>(std::move(description));
    }
    return newest_;
  }

  /// What needs no server to be refused.
  Status CheckRequest(const query::SeriesRequest& request) const {
    QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
    return query::CheckLevels(request.read, description_.levels);
  }

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
    const bool broke = status.code() == StatusCode::kUnavailable;
    if (!broke) QUARRY_RETURN_IF_ERROR(status);
    if (receiver->ended()) return std::optional<Status>();
    if (broke) return std::optional(std::move(status));
    return std::optional(
        Status(StatusCode::kUnavailable,
               fmt::format("the answer of {} ended early; ask again", connection_->server().address)));
  }

  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  const DatasetDescription description_;  ///< as of Open
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const DatasetDescription> newest_;
  mutable DecodePool pool_;  ///< for answers in patches
};

}  // namespace

Result<std::unique_ptr<Dataset>> OpenRemote(const ServerAddress& server, const std::string& name,
                                            const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(auto connection, Connection::Make(server, options));
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, FetchDescription(*connection, name));
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
