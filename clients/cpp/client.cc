#include "clients/cpp/client.h"

#include <algorithm>

#include "clients/cpp/backends.h"

namespace quarry::client {
namespace {

constexpr std::string_view kPlainScheme = "grpc://";
constexpr std::string_view kTlsScheme = "grpcs://";

struct RemoteTarget {
  std::string address;
  std::string name;
  bool tls = false;

  std::string scheme() const { return std::string(tls ? kTlsScheme : kPlainScheme); }
};

bool IsRemote(const std::string& target) {
  return target.starts_with(kPlainScheme) || target.starts_with(kTlsScheme);
}

RemoteTarget SplitTarget(const std::string& target) {
  RemoteTarget remote;
  remote.tls = target.starts_with(kTlsScheme);
  const std::string rest = target.substr(remote.scheme().size());
  const std::size_t slash = rest.find('/');
  remote.address = rest.substr(0, slash);
  if (slash == std::string::npos) return remote;
  remote.name = rest.substr(slash + 1);
  while (!remote.name.empty() && remote.name.back() == '/') remote.name.pop_back();
  return remote;
}

Status CheckAddress(const std::string& target, const RemoteTarget& remote) {
  const std::size_t colon = remote.address.rfind(':');
  if (colon != std::string::npos && colon > 0 && colon + 1 < remote.address.size()) return Status::Ok();
  return InvalidArgument("\"{}\" is not a server address; write grpc://HOST:PORT/NAME", target);
}

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::Open(const std::string& target, const Options& options) {
  if (!IsRemote(target)) return internal::OpenLocal(target, options);
  const RemoteTarget remote = SplitTarget(target);
  QUARRY_RETURN_IF_ERROR(CheckAddress(target, remote));
  if (remote.name.empty())
    return InvalidArgument("\"{}\" names no dataset; write {}{}/NAME, or list the names with \"quarry ls\"",
                           target, remote.scheme(), remote.address);
  return internal::OpenRemote({remote.address, remote.tls}, remote.name, options);
}

Result<std::vector<DatasetSummary>> ListDatasets(const std::string& target, const Options& options) {
  if (!IsRemote(target)) return internal::ListLocal(target);
  const RemoteTarget remote = SplitTarget(target);
  QUARRY_RETURN_IF_ERROR(CheckAddress(target, remote));
  QUARRY_ASSIGN_OR_RETURN(std::vector<DatasetSummary> all,
                          internal::ListRemote({remote.address, remote.tls}, options));
  if (remote.name.empty()) return all;
  std::erase_if(all, [&](const DatasetSummary& summary) {
    return summary.name != remote.name && summary.name + ".quarry" != remote.name;
  });
  if (all.empty())
    return NotFound("the server {} has no dataset \"{}\"; list the names with \"quarry ls {}{}\"",
                    remote.address, remote.name, remote.scheme(), remote.address);
  return all;
}

Result<query::PointsAnswer> Dataset::ReadPoints(const query::PointsRequest& request) const {
  if (request.points.size() <= query::kMaxPoints) return ReadSomePoints(request);
  query::PointsAnswer all;
  query::PointsRequest some = request;
  for (std::size_t begin = 0; begin < request.points.size(); begin += query::kMaxPoints) {
    const std::size_t end = std::min(begin + query::kMaxPoints, request.points.size());
    some.points.assign(request.points.begin() + static_cast<std::ptrdiff_t>(begin),
                       request.points.begin() + static_cast<std::ptrdiff_t>(end));
    QUARRY_ASSIGN_OR_RETURN(const query::PointsAnswer answer, ReadSomePoints(some));
    all.step = answer.step;
    some.step = answer.step;  // all points are of one step, whatever appears in between
    all.max_error = std::max(all.max_error, answer.max_error);
    all.price += answer.price;
    all.values.insert(all.values.end(), answer.values.begin(), answer.values.end());
  }
  return all;
}

Result<query::AnswerHeader> Dataset::PlanRead(const query::ReadRequest& request) const {
  QUARRY_ASSIGN_OR_RETURN(std::vector<query::AnswerHeader> answers, PlanSeries({request, {}, {}}));
  return std::move(answers.front());
}

Status Dataset::ReadLevels(const query::ReadRequest& request, const LevelCallback& on_level) const {
  return ReadSeries({request, {}, {}}, on_level);
}

Result<LevelSamples> Dataset::Read(const query::ReadRequest& request) const {
  LevelSamples last;
  QUARRY_RETURN_IF_ERROR(ReadLevels(request, [&](LevelSamples* samples, const ReadCost&) {
    last = std::move(*samples);
    return Status::Ok();
  }));
  return last;
}

}  // namespace quarry::client
