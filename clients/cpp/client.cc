#include "quarry/client.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <thread>

#include "clients/cpp/transport.h"
#include "quarry/base/numbers.h"
#include "quarry/base/status.h"
#include "quarry/remote/url.h"

namespace quarry::client {
namespace {

/// "grpc" of "grpc://..."; empty for a path.
std::string SchemeOf(const std::string& target) {
  const std::size_t end = target.find("://");
  return end == std::string::npos ? "" : target.substr(0, end);
}

/// Whether the files of a dataset are read by this process: from a directory, a web server or a store.
bool IsRead(const std::string& target) { return SchemeOf(target).empty() || remote::IsUrl(target); }

struct Transports {
  std::mutex mutex;
  std::map<std::string, internal::Transport> by_scheme;
};
Transports& AllTransports() {
  static auto& transports = *new Transports;  // never destroyed: threads may call while the process ends
  return transports;
}

Result<internal::Transport> FindTransport(const std::string& target) {
  Transports& transports = AllTransports();
  const std::lock_guard lock(transports.mutex);
  const auto found = transports.by_scheme.find(SchemeOf(target));
  if (found != transports.by_scheme.end()) return found->second;
  if (SchemeOf(target) == "grpc" || SchemeOf(target) == "grpcs")
    return InvalidArgument(
        "\"{}\" is a server, and this program has no gRPC; link quarry::client_grpc and call EnableGrpc() "
        "first",
        target);
  return InvalidArgument(
      "\"{}\" is neither a directory nor a URL of a dataset; give a NAME.quarry directory, "
      "grpc://HOST:PORT/NAME, "
      "grpcs://HOST:PORT/NAME, https://HOST/NAME.quarry or s3://BUCKET/NAME.quarry",
      target);
}

/// "2x", or an error in the unit of the field.
Result<query::Recode> ParseRecode(const std::string& text) {
  const bool factor = text.ends_with('x');
  const Result<double> number =
      ParseNumber<double>(std::string_view(text).substr(0, text.size() - (factor ? 1 : 0)));
  if (!number.ok() || *number < (factor ? 1 : 0)) {
    return InvalidArgument(
        "--recode \"{}\" is neither a factor from 1x on, like 2x, nor an error from 0 on, like 0.01", text);
  }
  query::Recode recode;
  (factor ? recode.factor : recode.error) = *number;
  return recode;
}

/// Keeps the last level of a read.
LevelCallback KeepIn(LevelSamples* last) {
  return [last](LevelSamples* samples, const ReadCost&) {
    *last = std::move(*samples);
    return Status::Ok();
  };
}

/// Reads from a dataset that is open.
class OpenReader final : public Reader {
 public:
  explicit OpenReader(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                    const CallOptions& call) const override {
    return dataset_->ReadSeries(request, on_level, call);
  }
  Result<std::shared_ptr<const Dataset>> Open(const CancelToken& /*cancel*/) const override {
    return dataset_;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
};

}  // namespace

void internal::RegisterTransport(const std::string& scheme, Transport transport) {
  Transports& transports = AllTransports();
  const std::lock_guard lock(transports.mutex);
  transports.by_scheme.insert_or_assign(scheme, std::move(transport));
}

bool internal::Pause(std::chrono::milliseconds time, const CancelToken& cancel) {
  constexpr auto kAskEvery = std::chrono::milliseconds(20);
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (cancel.cancelled()) return false;
    std::this_thread::sleep_for(kAskEvery);
  }
  return true;
}

Result<Transfer> ParseTransfer(const std::string& encoding, const std::string& recode) {
  static constexpr std::array<std::pair<std::string_view, Encoding>, 4> kEncodings{
      {{"auto", Encoding::kAuto},
       {"samples", Encoding::kSamples},
       {"patches", Encoding::kPatches},
       {"coded", Encoding::kCoded}}};
  const auto* const found =
      std::ranges::find(kEncodings, encoding, [](const auto& one) { return one.first; });
  if (found == kEncodings.end())
    return InvalidArgument("--encoding \"{}\" is none of auto, samples, patches and coded", encoding);
  Transfer transfer{found->second, {}};
  if (recode.empty()) return transfer;
  if (transfer.encoding != Encoding::kCoded)
    return InvalidArgument("--recode is for --encoding coded; give both");
  QUARRY_ASSIGN_OR_RETURN(transfer.recode, ParseRecode(recode));
  return transfer;
}

Result<std::unique_ptr<Dataset>> Dataset::Open(const std::string& target, const Options& options,
                                               const CancelToken& cancel) {
  if (IsRead(target)) return internal::OpenLocal(target, options);
  QUARRY_ASSIGN_OR_RETURN(const internal::Transport transport, FindTransport(target));
  return transport.open(target, options, cancel);
}

Result<std::unique_ptr<Reader>> Reader::At(const std::string& target, const Options& options) {
  if (IsRead(target)) {
    QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, internal::OpenLocal(target, options));
    return std::unique_ptr<Reader>(std::make_unique<OpenReader>(std::move(dataset)));
  }
  QUARRY_ASSIGN_OR_RETURN(const internal::Transport transport, FindTransport(target));
  return transport.reach(target, options);
}

Result<LevelSamples> Reader::Read(const query::ReadRequest& request, const CallOptions& call) const {
  LevelSamples last;
  QUARRY_RETURN_IF_ERROR(ReadSeries({request, {}, {}}, KeepIn(&last), call));
  return last;
}

Result<std::vector<DatasetSummary>> ListDatasets(const std::string& target, const Options& options,
                                                 const CancelToken& cancel) {
  if (IsRead(target)) return internal::ListLocal(target, options);
  QUARRY_ASSIGN_OR_RETURN(const internal::Transport transport, FindTransport(target));
  return transport.list(target, options, cancel);
}

Result<query::PointsAnswer> Dataset::ReadPoints(const query::PointsRequest& request,
                                                const CallOptions& call) const {
  if (request.points.size() <= query::kMaxPoints) return ReadSomePoints(request, call);
  query::PointsAnswer all;
  query::PointsRequest some = request;
  for (std::size_t begin = 0; begin < request.points.size(); begin += query::kMaxPoints) {
    const std::size_t end = std::min(begin + query::kMaxPoints, request.points.size());
    some.points.assign(request.points.begin() + static_cast<std::ptrdiff_t>(begin),
                       request.points.begin() + static_cast<std::ptrdiff_t>(end));
    QUARRY_ASSIGN_OR_RETURN(const query::PointsAnswer answer, ReadSomePoints(some, call));
    all.step = answer.step;
    some.step = answer.step;  // all points are of one step, even if another is published meanwhile
    all.max_error = std::max(all.max_error, answer.max_error);
    all.cost += answer.cost;
    all.values.insert(all.values.end(), answer.values.begin(), answer.values.end());
  }
  return all;
}

Result<bool> Dataset::HasField(std::uint64_t number, const std::string& field,
                               const CallOptions& call) const {
  QUARRY_ASSIGN_OR_RETURN(const StepDescription step, Step(number, call));
  return step.FindField(field) != nullptr;
}

Result<query::AnswerHeader> Dataset::PlanRead(const query::ReadRequest& request,
                                              const CallOptions& call) const {
  QUARRY_ASSIGN_OR_RETURN(std::vector<query::AnswerHeader> answers, PlanSeries({request, {}, {}}, call));
  return std::move(answers.front());
}

Status Dataset::ReadLevels(const query::ReadRequest& request, const LevelCallback& on_level,
                           const CallOptions& call) const {
  return ReadSeries({request, {}, {}}, on_level, call);
}

Result<LevelSamples> Dataset::Read(const query::ReadRequest& request, const CallOptions& call) const {
  LevelSamples last;
  QUARRY_RETURN_IF_ERROR(ReadLevels(request, KeepIn(&last), call));
  return last;
}

}  // namespace quarry::client
