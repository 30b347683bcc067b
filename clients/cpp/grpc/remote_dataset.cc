#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>

#include "clients/cpp/grpc/connection.h"
#include "clients/cpp/grpc/pages.h"
#include "clients/cpp/grpc/remote_reads.h"
#include "clients/cpp/transport.h"
#include "quarry/client_grpc.h"
#include "quarry/format/proto_convert.h"
#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {
namespace {

namespace pb = ::quarry::v1;

/// [bytes] Most of all pages of a list: a server without an end must not take all memory.
constexpr std::uint64_t kMostStepBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostListBytes = 64 << 20;
/// Datasets or steps of a page; a server may send fewer.
constexpr std::uint32_t kMostListed = 1000;
/// [bytes] The largest replies of methods whose replies are small: parsed, they may take forty times as much.
constexpr std::size_t kLargestList = 8 << 20;
constexpr std::size_t kLargestStatistics = 1 << 20;
constexpr std::size_t kLargestPoints = query::kMaxPoints * sizeof(double) + (64 << 10);

class RemoteDataset final : public Dataset {
 public:
  RemoteDataset(std::shared_ptr<const Connection> connection, std::string name, SharedDescription description)
      : connection_(std::move(connection)),
        name_(std::move(name)),
        opened_(std::move(description)),
        newest_(opened_),
        reads_(connection_, name_) {}

  const DatasetDescription& description() const override { return *opened_; }

  Result<std::vector<std::uint64_t>> StepNumbers(const CallOptions& call) const override {
    std::vector<std::uint64_t> numbers;
    pb::GetDatasetRequest request;
    request.set_numbers_only(true);
    QUARRY_RETURN_IF_ERROR(
        EachPage(std::move(request), call, [&](const pb::GetDatasetResponse& page, auto* pages) -> Status {
          for (const std::uint64_t number : page.step_numbers()) {
            QUARRY_RETURN_IF_ERROR(pages->TakeItem(number));
            numbers.push_back(number);
          }
          for (const pb::StepManifest& manifest : page.steps()) {  // an older server sends manifests
            QUARRY_RETURN_IF_ERROR(pages->TakeItem(manifest.step()));
            numbers.push_back(manifest.step());
          }
          return Status::Ok();
        }));
    return numbers;
  }

  Result<StepDescription> Step(std::uint64_t number, const CallOptions& call) const override {
    QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response, PageOf(number, {}, call));
    return format::FromProto(response.steps(0), *opened_);
  }

  /// From the record in the catalogue: the server reads no step.json.
  Result<bool> HasField(std::uint64_t number, const std::string& field,
                        const CallOptions& call) const override {
    pb::GetDatasetRequest request;
    request.set_without_subfiles(true);
    QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response, PageOf(number, request, call));
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, format::SummaryFromProto(response.steps(0), *opened_));
    return step.FindField(field) != nullptr;
  }

  Result<std::vector<StepSummary>> Steps(const CallOptions& call) const override {
    std::vector<StepSummary> steps;
    pb::GetDatasetRequest request;
    request.set_without_subfiles(true);
    request.set_page_size(kMostListed);
    QUARRY_RETURN_IF_ERROR(
        EachPage(std::move(request), call, [&](const pb::GetDatasetResponse& page, auto* pages) -> Status {
          for (const pb::StepManifest& manifest : page.steps()) {
            QUARRY_ASSIGN_OR_RETURN(StepSummary step, format::SummaryFromProto(manifest, *opened_));
            QUARRY_RETURN_IF_ERROR(pages->TakeItem(step.step));
            steps.push_back(std::move(step));
          }
          return Status::Ok();
        }));
    return steps;
  }

  Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest& request,
                                                      const CallOptions& call) const override {
    QUARRY_RETURN_IF_ERROR(CheckRequest(request));
    pb::PlanReadRequest message;
    *message.mutable_query() = wire::ToProto(name_, request);
    if (const auto path = connection_->PathFor(connection_->TransferOf(call.transfer).encoding, call.cancel))
      *message.mutable_path() = wire::ToProto(*path);
    QUARRY_ASSIGN_OR_RETURN(const pb::PlanReadResponse response,
                            connection_->Call<pb::PlanReadResponse>("PlanRead", message, call.cancel));
    QUARRY_ASSIGN_OR_RETURN(const auto described, DescriptionFor(request, call.cancel));
    std::vector<query::AnswerHeader> answers(1);
    QUARRY_ASSIGN_OR_RETURN(answers.front(), ParseHeader(*described, request, response.header()));
    for (const pb::ReadHeader& header : response.more_headers()) {
      QUARRY_ASSIGN_OR_RETURN(answers.emplace_back(), ParseHeader(*described, request, header));
    }
    return answers;
  }

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                    const CallOptions& call) const override {
    QUARRY_RETURN_IF_ERROR(CheckRequest(request));
    QUARRY_ASSIGN_OR_RETURN(const SharedDescription described, DescriptionFor(request, call.cancel));
    return reads_.Read(request, described, on_level, call);
  }

  Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest& request,
                                             const CallOptions& call) const override {
    QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
    const query::ReadRequest read = query::SamplesOf(request);
    QUARRY_RETURN_IF_ERROR(query::CheckLevels(read, read.field, LevelsOf(read.field)));
    QUARRY_ASSIGN_OR_RETURN(
        const pb::GetStatisticsResponse response,
        connection_->Call<pb::GetStatisticsResponse>("GetStatistics", wire::ToProto(name_, request),
                                                     call.cancel, kLargestStatistics));
    QUARRY_ASSIGN_OR_RETURN(query::StatisticsAnswer answer, wire::FromProto(response));
    if (request.scale != query::HistogramScale::kLinear && answer.statistics.histogram.edges.empty())
      return Unimplemented(
          "this server has only bins of equal width; leave the scale out, or update the server");
    const query::SeriesRequest samples{query::SamplesOf(request), {}, {}};
    QUARRY_ASSIGN_OR_RETURN(const auto described, DescriptionFor(samples, call.cancel));
    QUARRY_ASSIGN_OR_RETURN(answer.header, ParseHeader(*described, samples, response.header()));
    return answer;
  }

  Status WatchSteps(const WatchRequest& request, const StepCallback& on_step,
                    const CallOptions& call) const override {
    using Clock = std::chrono::steady_clock;
    std::optional<std::uint64_t> after = request.after;
    Clock::time_point heard = Clock::now();
    std::chrono::milliseconds pause = kFirstPause;
    while (true) {
      bool was_heard = false;
      QUARRY_ASSIGN_OR_RETURN(const std::optional<Status> lost,
                              WatchOnce(on_step, &after, &was_heard, call.cancel));
      if (!lost) return Status::Ok();
      if (was_heard) {
        heard = Clock::now();
        pause = kFirstPause;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          heard + std::chrono::milliseconds(request.patience_ms) - Clock::now());
      if (left.count() <= 0) return *lost;
      if (!Pause(std::min(pause, left), call.cancel))
        return {StatusCode::kCancelled, "the watching was cancelled"};
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 protected:
  Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest& request,
                                             const CallOptions& call) const override {
    QUARRY_ASSIGN_OR_RETURN(const pb::ReadPointsResponse response,
                            connection_->Call<pb::ReadPointsResponse>(
                                "ReadPoints", wire::ToProto(name_, request), call.cancel, kLargestPoints));
    query::PointsAnswer answer = wire::FromProto(response);
    const std::size_t expected = request.cost_only ? 0 : request.points.size();
    if (answer.values.size() == expected) return answer;
    return InternalError("the server {} answers {} points with {} values", connection_->server().address,
                         expected, answer.values.size());
  }

 private:
  /// A page with one step. @errors kNotFound: there is none of this number
  Result<pb::GetDatasetResponse> PageOf(std::uint64_t number, pb::GetDatasetRequest request,
                                        const CallOptions& call) const {
    request.set_dataset(name_);
    request.set_page_size(1);
    // The token is the step before.
    if (number > 0) request.set_page_token(std::to_string(number - 1));
    QUARRY_ASSIGN_OR_RETURN(pb::GetDatasetResponse response,
                            connection_->Call<pb::GetDatasetResponse>("GetDataset", request, call.cancel));
    if (response.steps_size() == 0 || response.steps(0).step() != number)
      return NotFound("there is no step {} in \"{}\"", number, name_);
    return response;
  }

  /// Calls back with each page of the steps. @param request  without the dataset
  template <typename Take>
  Status EachPage(pb::GetDatasetRequest request, const CallOptions& call, const Take& take) const {
    request.set_dataset(name_);
    Pages<std::uint64_t> pages(connection_->server().address, kMostStepBytes);
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse page,
                              connection_->Call<pb::GetDatasetResponse>("GetDataset", request, call.cancel));
      QUARRY_RETURN_IF_ERROR(take(page, &pages));
      QUARRY_ASSIGN_OR_RETURN(const bool more, pages.TakePage(page));
      if (!more) return Status::Ok();
      request.set_page_token(page.next_page_token());
    }
  }

  /// The dataset with all requested fields that it has: a running simulation may have added some since Open.
  Result<SharedDescription> DescriptionFor(const query::SeriesRequest& request,
                                           const CancelToken& cancel) const {
    const std::vector<std::string> fields =
        request.fields.empty() ? std::vector{request.read.field} : request.fields;
    {
      const std::lock_guard lock(mutex_);
      const auto known = [this](const std::string& field) {
        return field.empty() || newest_->FindField(field).has_value();
      };
      if (std::ranges::all_of(fields, known)) return newest_;
    }
    // Without the lock: a caller that waits for the server must not keep others from being cancelled.
    QUARRY_ASSIGN_OR_RETURN(SharedDescription newest, FetchDescription(*connection_, name_, cancel));
    const std::lock_guard lock(mutex_);
    return newest_ = std::move(newest);
  }

  /// Refuses impossible requests without asking the server.
  Status CheckRequest(const query::SeriesRequest& request) const {
    QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
    for (const std::string& field : request.fields.empty() ? std::vector{request.read.field} : request.fields)
      QUARRY_RETURN_IF_ERROR(query::CheckLevels(request.read, field, LevelsOf(field)));
    return Status::Ok();
  }

  /// Levels of a field; of one that has been added since, as many as there can be.
  int LevelsOf(const std::string& field) const {
    const std::optional<std::size_t> number = opened_->FindField(field);
    return number ? opened_->GridOf(*number).levels : format::kMaxLevels;
  }

  static constexpr std::chrono::milliseconds kFirstPause{100};
  static constexpr std::chrono::milliseconds kLongestPause{5000};

  /// Follows the steps for as long as a connection lasts.
  /// @param[in,out] after  the largest step of a callback
  /// @param[out] heard  true once the server has begun to answer
  /// @returns nothing when the callback wants no more, otherwise how the connection was lost
  Result<std::optional<Status>> WatchOnce(const StepCallback& on_step, std::optional<std::uint64_t>* after,
                                          bool* heard, const CancelToken& cancel) const {
    pb::WatchStepsRequest request;
    request.set_dataset(name_);
    if (*after) request.set_after(**after);
    request.set_without_subfiles(true);
    auto context = connection_->NewContext();
    context->set_deadline(std::chrono::system_clock::time_point::max());
    RemoteCall stream = connection_->Start("WatchSteps", request, std::move(context), cancel);
    *heard = stream.WaitForHeader(kRequestIdKey);
    grpc::ByteBuffer bytes;
    while (stream.Next(&bytes)) {
      pb::WatchStepsResponse message;
      grpc::ProtoBufferReader reader(&bytes);
      if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader))
        return InternalError("the server {} sends invalid steps", connection_->server().address);
      QUARRY_ASSIGN_OR_RETURN(const StepSummary step, format::SummaryFromProto(message.step(), *opened_));
      *after = std::max(after->value_or(0), step.step);
      if (!on_step(step)) return std::optional<Status>();
    }
    const grpc::Status finished = stream.Finish();
    if (cancel.cancelled()) return Status(StatusCode::kCancelled, "the watching was cancelled");
    const ServerAddress& server = connection_->server();
    // gRPC says CANCELLED for a call on a connection that just broke, and when a server cuts it.
    const bool cut = finished.ok() || finished.error_code() == grpc::StatusCode::CANCELLED;
    Status status = FromGrpc(finished, server);
    if (cut) {
      status = Unavailable("the connection to the server {} was cut; watch again", server.address);
    }
    if (status.code() != StatusCode::kUnavailable) return status;
    return std::optional(std::move(status));
  }

  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  const SharedDescription opened_;  ///< as of Open
  mutable std::mutex mutex_;
  mutable SharedDescription newest_;
  const RemoteReads reads_;
};

/// Reads without a description.
class RemoteReader final : public Reader {
 public:
  RemoteReader(std::shared_ptr<const Connection> connection, std::string name)
      : connection_(std::move(connection)), name_(std::move(name)), reads_(connection_, name_) {}

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                    const CallOptions& call) const override {
    QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
    return reads_.Read(request, nullptr, on_level, call);
  }
  Result<std::shared_ptr<const Dataset>> Open(const CancelToken& cancel) const override {
    QUARRY_ASSIGN_OR_RETURN(SharedDescription description, FetchDescription(*connection_, name_, cancel));
    return std::shared_ptr<const Dataset>(
        std::make_shared<const RemoteDataset>(connection_, name_, std::move(description)));
  }

 private:
  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  const RemoteReads reads_;
};

constexpr std::string_view kPlainScheme = "grpc://";
constexpr std::string_view kTlsScheme = "grpcs://";

struct RemoteTarget {
  ServerAddress server;
  std::string name;  ///< name of the dataset; may be empty

  std::string scheme() const { return std::string(server.tls ? kTlsScheme : kPlainScheme); }
};

/// @errors kInvalidArgument: no HOST:PORT
Result<RemoteTarget> SplitTarget(const std::string& target) {
  RemoteTarget remote;
  remote.server.tls = target.starts_with(kTlsScheme);
  const std::string rest = target.substr(remote.scheme().size());
  const std::size_t slash = rest.find('/');
  std::string& address = remote.server.address;
  address = rest.substr(0, slash);
  if (slash != std::string::npos) remote.name = rest.substr(slash + 1);
  while (!remote.name.empty() && remote.name.back() == '/') remote.name.pop_back();
  const std::size_t colon = address.rfind(':');
  if (colon != std::string::npos && colon > 0 && colon + 1 < address.size()) return remote;
  return InvalidArgument("\"{}\" is not a server address; write grpc://HOST:PORT/NAME", target);
}

/// The address and name of one dataset.
Result<RemoteTarget> DatasetTarget(const std::string& target) {
  QUARRY_ASSIGN_OR_RETURN(RemoteTarget remote, SplitTarget(target));
  if (!remote.name.empty()) return remote;
  return InvalidArgument("\"{}\" has no dataset name; write {}{}/NAME, or list the names with \"quarry ls\"",
                         target, remote.scheme(), remote.server.address);
}

Result<std::unique_ptr<Dataset>> OpenRemote(const std::string& target, const Options& options,
                                            const CancelToken& cancel) {
  QUARRY_ASSIGN_OR_RETURN(const RemoteTarget remote, DatasetTarget(target));
  QUARRY_ASSIGN_OR_RETURN(auto connection, Connection::Make(remote.server, options));
  QUARRY_ASSIGN_OR_RETURN(SharedDescription description, FetchDescription(*connection, remote.name, cancel));
  return std::unique_ptr<Dataset>(
      std::make_unique<RemoteDataset>(std::move(connection), remote.name, std::move(description)));
}

Result<std::unique_ptr<Reader>> ReachRemote(const std::string& target, const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const RemoteTarget remote, DatasetTarget(target));
  QUARRY_ASSIGN_OR_RETURN(auto connection, Connection::Make(remote.server, options));
  return std::unique_ptr<Reader>(std::make_unique<RemoteReader>(std::move(connection), remote.name));
}

Result<std::vector<DatasetSummary>> ListRemote(const std::string& target, const Options& options,
                                               const CancelToken& cancel) {
  QUARRY_ASSIGN_OR_RETURN(const RemoteTarget remote, SplitTarget(target));
  QUARRY_ASSIGN_OR_RETURN(const auto connection, Connection::Make(remote.server, options));
  std::vector<DatasetSummary> summaries;
  pb::ListDatasetsRequest request;
  request.set_page_size(kMostListed);
  Pages<std::string> pages(remote.server.address, kMostListBytes);
  for (bool more = true; more;) {
    QUARRY_ASSIGN_OR_RETURN(
        const pb::ListDatasetsResponse response,
        connection->Call<pb::ListDatasetsResponse>("ListDatasets", request, cancel, kLargestList));
    for (const pb::DatasetSummary& summary : response.datasets()) {
      std::vector<GridDescription> grids;
      for (const pb::Grid& grid : summary.grids()) {
        if (grid.patch().empty())
          return Unimplemented(
              "the server {0} is of an older release, whose lists this program cannot read; name "
              "the dataset, as {1}{0}/NAME, or use a program of that release",
              remote.server.address, remote.scheme());
        QUARRY_ASSIGN_OR_RETURN(grids.emplace_back(), format::FromProto(grid));
      }
      QUARRY_RETURN_IF_ERROR(pages.TakeItem(summary.name()));
      summaries.push_back(
          {summary.name(), std::move(grids), summary.steps(), summary.fields(), summary.late()});
    }
    QUARRY_ASSIGN_OR_RETURN(more, pages.TakePage(response));
    request.set_page_token(response.next_page_token());
  }
  if (remote.name.empty()) return summaries;
  std::erase_if(summaries, [&](const DatasetSummary& summary) {
    return summary.name != remote.name && summary.name + ".quarry" != remote.name;
  });
  if (!summaries.empty()) return summaries;
  return NotFound("the server {} has no dataset \"{}\"; list the names with \"quarry ls {}{}\"",
                  remote.server.address, remote.name, remote.scheme(), remote.server.address);
}

}  // namespace
}  // namespace quarry::client::internal

namespace quarry::client {

void EnableGrpc() {
  for (const char* scheme : {"grpc", "grpcs"})
    internal::RegisterTransport(scheme, {internal::OpenRemote, internal::ReachRemote, internal::ListRemote});
}

}  // namespace quarry::client
