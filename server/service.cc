#include "server/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "quarry/answer/answer_stream.h"
#include "quarry/answer/dataset_messages.h"
#include "quarry/base/cancel_scope.h"
#include "quarry/base/numbers.h"
#include "quarry/base/units.h"
#include "quarry/format/proto_convert.h"
#include "quarry/query/encoding_choice.h"
#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"
#include "server/answer_messages.h"
#include "server/guard/question.h"

namespace quarry::server {

namespace pb = ::quarry::v1;

namespace {

/// [bytes] About so many of a page go into one reply, at least one item.
/// @param memory  [bytes] of the server
std::size_t PageBytesFor(std::uint64_t memory) {
  constexpr std::uint64_t kPartOfMemory = 128;
  return std::clamp<std::uint64_t>(memory / kPartOfMemory, 16 << 10, 1 << 20);
}

/// [bytes] The largest question. Only lists of points are long.
constexpr std::size_t kLargestQuestion = 256 << 10;
constexpr std::size_t kLargestPointsQuestion = query::kMaxPoints * sizeof(query::Point) + (64 << 10);
template <typename Request>
constexpr std::size_t LargestQuestion() {
  return std::is_same_v<Request, pb::ReadPointsRequest> ? kLargestPointsQuestion : kLargestQuestion;
}
/// The number of calls bounds the memory of smaller ones.
constexpr std::size_t kSmallQuestion = 16 << 10;
/// A parsed question may take this many times its bytes, see ParseQuestion.
constexpr std::uint64_t kTimesParsed = 4;
/// Points are packed: as many bytes in the message as in memory.
constexpr std::uint64_t kTimesParsedPoints = 2;

/// The folders of a server, the longest path first: one may lie in another.
std::vector<std::string> FoldersOf(const DatasetCatalogOptions& options) {
  std::vector<std::string> folders = {options.root.path, options.index.path, options.scratch.string()};
  std::erase(folders, "");
  for (std::string& folder : folders)
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::ranges::sort(folders, std::greater(), &std::string::size);
  return folders;
}

/// A status for a client: paths begin at the folder that is served, and do not show where the server keeps
/// it.
Status WithoutFolders(const Status& status, const std::vector<std::string>& folders) {
  std::string text = status.message();
  for (const std::string& folder : folders) {
    const std::string quoted = "\"" + folder;  // messages quote paths
    for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
      const std::size_t end = at + quoted.size();
      const char next = end < text.size() ? text[end] : '\0';
      if (next == '/') text.erase(at + 1, folder.size() + 1);
      if (next == '"') text.replace(at + 1, folder.size(), ".");
    }
  }
  return {status.code(), std::move(text)};
}

/// A store's own words name accounts, and the files where credentials were found: they are for the operator.
/// @param root  URL of the datasets
Status WithoutReasons(const Status& status, const std::string& root) {
  const std::string& text = status.message();
  const bool denied = status.code() == StatusCode::kPermissionDenied;
  if (!denied && status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kInternal)
    return status;
  const std::size_t begin = text.find("\"" + root);
  if (begin == std::string::npos) return status;
  const std::size_t end = std::min(text.find('"', begin + 1), text.size() - 1);
  const char* const said = denied ? " may not be read by this server, whose log has the reason"
                                  : " cannot be read: its store does not answer as it should; ask later. The "
                                    "log of the server has the reason";
  return {status.code(), text.substr(0, end + 1) + said};
}

DatasetCatalogOptions WithStore(DatasetCatalogOptions options, std::shared_ptr<PatchStore> store) {
  options.store = std::move(store);
  return options;
}

/// Names go into the log and the metrics, where strangers must not add any.
bool IsMethod(const std::string& name) {
  static constexpr std::array<std::string_view, 7> kMethods = {
      "ListDatasets", "GetDataset", "PlanRead", "Read", "GetStatistics", "ReadPoints", "WatchSteps"};
  return std::ranges::find(kMethods, name) != kMethods.end();
}

/// The dataset of a question; empty if it names none.
template <typename Request>
std::string DatasetOf(const Request& request) {
  if constexpr (requires { request.query(); }) {
    return request.query().dataset();
  } else if constexpr (requires { request.dataset(); }) {
    return request.dataset();
  } else {
    return "";
  }
}

/// Collects the headers of a plan as the bytes of their message, which take an eighth of the message.
class PlanResponseSink final : public PlanSink {
 public:
  /// @param limit    [bytes] of the message
  /// @param path     of a client that leaves the encoding open
  /// @param threads  that decode
  PlanResponseSink(std::string* bytes, std::uint64_t limit, const std::optional<query::Path>& path,
                   int threads)
      : bytes_(bytes), limit_(limit), path_(path), threads_(threads) {}

  Status Add(const Dataset& dataset, const query::ReadPlan& plan, query::AnswerHeader header) override {
    const std::size_t field = plan.query.field_number;
    if (path_)
      header.choice = query::ChooseEncoding(
          plan, {.path = *path_,
                 .threads = threads_,
                 .as_patches = wire::GoesAsPatches(dataset.description().fields[field],
                                                   dataset.description().GridOf(field))});
    pb::PlanReadResponse one;
    *(header.number == 0 ? one.mutable_header() : one.add_more_headers()) = wire::ToProto(header);
    one.AppendToString(bytes_);  // messages one after the other are one message
    if (bytes_->size() <= limit_) return Status::Ok();
    return ResourceExhausted(
        "the plan of {} of {} answers is more than {}; ask for fewer steps or fields at a time",
        header.number + 1, header.count, FormatBytes(limit_));
  }

  std::uint64_t memory(std::size_t answers, std::uint64_t boxes) const override {
    constexpr std::uint64_t kHeader = 4 << 10;
    constexpr std::uint64_t kBox = 48;
    return 2 * std::min(limit_, answers * (kHeader + boxes * kBox));  // a growing string is copied
  }

 private:
  std::string* const bytes_;
  const std::uint64_t limit_;
  const std::optional<query::Path> path_;
  const int threads_;
};

/// The path in a request, of a client that leaves the encoding open.
template <typename Request>
Result<std::optional<query::Path>> SeenPathOf(const Request& request) {
  if (!request.has_path()) return std::optional<query::Path>();
  QUARRY_ASSIGN_OR_RETURN(const query::Path path, wire::FromProto(request.path()));
  return std::optional(path);
}

/// Sends steps as messages. The time limit counts for each step: it cuts off a client that takes none, but
/// not one that waits for the next.
class StepMessages final : public StepSink {
 public:
  /// @param subfiles  whether they are wanted
  StepMessages(MessageStream* stream, Call* call, Operations* operations, DatasetCatalog* catalog,
               std::chrono::milliseconds look_every, bool subfiles)
      : stream_(stream),
        call_(call),
        operations_(operations),
        catalog_(catalog),
        look_every_(look_every),
        subfiles_(subfiles) {}

  Status Continue() override {
    // At once, because the first step may be hours away: the client learns that the call was accepted.
    if (!std::exchange(begun_, true)) stream_->SendHeaders();
    if (operations_->draining) return Unavailable("the server is stopping; go on watching at another");
    if (call_->Cancelled()) return {StatusCode::kCancelled, "the client has gone"};
    // A token that was removed from the file gives no more access, and this call may last for days.
    return call_->CheckAccess(catalog_);
  }

  std::uint64_t client() const override { return call_->client(); }

  void Rest() override {
    const auto next = std::chrono::steady_clock::now() + look_every_;
    // Nothing wakes a handler that is not sending, so it checks from time to time.
    constexpr auto kLookUp = std::chrono::milliseconds(200);
    do {
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(kLookUp, look_every_));
    } while (std::chrono::steady_clock::now() < next && !operations_->draining && !call_->Cancelled());
  }

  Result<bool> Deliver(const std::shared_ptr<const Dataset>& dataset, Steps steps) override {
    for (const auto& step : steps) {
      pb::WatchStepsResponse message;
      if (subfiles_) {
        QUARRY_ASSIGN_OR_RETURN(const StepDescription whole, dataset->LoadStep(step->step));
        *message.mutable_step() = format::ToProto(whole);
      } else {
        *message.mutable_step() = format::ToProto(*step);
      }
      message.set_date(answer::DateText(step->time, dataset->description().time_unit));
      call_->StartClock();
      QUARRY_RETURN_IF_ERROR(call_->Send(stream_, {OwnBytes(message.SerializeAsString())}));
      call_->StopClock();
    }
    return true;
  }

 private:
  MessageStream* const stream_;
  Call* const call_;
  Operations* const operations_;
  DatasetCatalog* const catalog_;
  const std::chrono::milliseconds look_every_;
  const bool subfiles_;
  bool begun_ = false;
};

}  // namespace

std::optional<std::string> MethodOf(const std::string& path) {
  const std::string prefix = std::string("/") + kServiceName + "/";
  if (!path.starts_with(prefix)) return std::nullopt;
  return path.substr(prefix.size());
}

Service::Service(DatasetCatalogOptions catalog, const EngineOptions& engine, Operations* operations,
                 std::chrono::milliseconds look_every)
    : store_(std::make_shared<PatchStore>(engine.memory_bytes, engine.queue)),
      hidden_(FoldersOf(catalog)),
      catalog_(WithStore(std::move(catalog), store_)),
      lists_(&catalog_),
      session_(&catalog_, store_, engine.threads),
      operations_(operations),
      look_every_(look_every) {}

void Service::Answer(const std::string& method, Peer* peer, MessageStream* stream) {
  const bool known = IsMethod(method);
  if (Connection* connection = peer->connection(); !known && connection != nullptr)
    connection->CountFault(Connection::kUnknownMethod);
  Answer(known ? method : "unknown", peer, stream,
         [&](Call* call) { return Dispatch(method, peer, stream, call); });
}

void Service::Answer(const std::string& name, Peer* peer, MessageStream* stream,
                     const std::function<Status(Call*)>& work) {
  Call call(operations_, peer, name);
  if (const Status status = call.Enter(); !status.ok()) {
    call.End(status);
    return stream->Refuse(status, call.id());
  }
  Status status;
  const CancelScope scope([&call] { return call.Cancelled(); });
  // No exception may leave a call: it would end the process.
  try {
    status = work(&call);
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("the server is out of memory; ask for less, or later");
  } catch (const std::exception& error) {
    status = InternalError("unexpected: {}", error.what());
  }
  status = call.Conclude(std::move(status));
  // First: a client that has its answer may call again at once, and must not meet itself at a limit. The
  // answer that is still to be taken counts apart (kUntaken).
  call.End(status);
  const DeadlineWatch::Entry stall = operations_->WatchMessage([peer] { peer->Cut(); });
  (void)stream->Finish(status.ok() ? status : ForClient(status), call.id());
}

/// The log has the whole of it.
Status Service::ForClient(const Status& status) const {
  const DatasetCatalogOptions& options = catalog_.options();
  return WithoutFolders(options.remote ? WithoutReasons(status, options.root.path) : status, hidden_);
}

void Service::Forget() {
  catalog_.Forget();
  lists_.Forget();
}

Status Service::Dispatch(const std::string& method, Peer* peer, MessageStream* stream, Call* call) {
  if (method == "ListDatasets") return AnswerOnce(&Service::ListDatasets, peer, stream, call);
  if (method == "GetDataset") return AnswerOnce(&Service::GetDataset, peer, stream, call);
  if (method == "PlanRead") return AnswerOnce(&Service::PlanRead, peer, stream, call);
  if (method == "GetStatistics") return AnswerOnce(&Service::GetStatistics, peer, stream, call);
  if (method == "ReadPoints") return AnswerOnce(&Service::ReadPoints, peer, stream, call);
  PatchStore::Memory memory;
  if (method == "Read") {
    pb::ReadRequest request;
    QUARRY_RETURN_IF_ERROR(Ask(peer, stream, call, &request, &memory));
    return Read(request, call, stream);
  }
  if (method == "WatchSteps") {
    pb::WatchStepsRequest request;
    QUARRY_RETURN_IF_ERROR(Ask(peer, stream, call, &request, &memory));
    return WatchSteps(request, call, stream);
  }
  return Unimplemented("the service has no method \"{}\"", method);
}

template <typename Request>
Status Service::Ask(Peer* peer, MessageStream* stream, Call* call, Request* request,
                    PatchStore::Memory* memory) {
  constexpr bool kPoints = std::is_same_v<Request, pb::ReadPointsRequest>;
  constexpr std::size_t kLargest = LargestQuestion<Request>();
  const auto pin = [&](std::uint64_t bytes) -> Status {
    QUARRY_ASSIGN_OR_RETURN(
        *memory, store_->PinQuestion(std::min(bytes, store_->MostForQuestions()), RequesterOf(call)));
    return Status::Ok();
  };
  // Points are megabytes on their way already; other questions while they are parsed.
  if (kPoints) QUARRY_RETURN_IF_ERROR(pin(kTimesParsedPoints * kLargest));
  std::string bytes;
  {
    const Connection::Pinned pinned(peer->connection(), kPoints ? kLargest : 0);
    QUARRY_ASSIGN_OR_RETURN(bytes, ReceiveQuestion(operations_, peer, stream, kLargest));
  }
  if (!kPoints && bytes.size() > kSmallQuestion) QUARRY_RETURN_IF_ERROR(pin(kTimesParsed * bytes.size()));
  if (kPoints && !memory->Resize(kTimesParsedPoints * bytes.size())) {
    return ResourceExhausted(
        "the question has {} bytes, and this server has too little memory for it; ask for "
        "fewer points at a time",
        bytes.size());
  }
  QUARRY_RETURN_IF_ERROR(ParseQuestion(bytes, request));
  bytes = {};
  // The names are copied once more.
  if (!kPoints) (void)memory->Resize(std::min<std::uint64_t>(memory->bytes(), 2 * request->SpaceUsedLong()));
  return call->AskFor(DatasetOf(*request), &catalog_);
}

template <typename Request>
Status Service::AnswerOnce(Unary<Request> method, Peer* peer, MessageStream* stream, Call* call) {
  PatchStore::Memory memory;
  Request request;
  QUARRY_RETURN_IF_ERROR(Ask(peer, stream, call, &request, &memory));
  std::string answer;
  QUARRY_RETURN_IF_ERROR((this->*method)(&request, call, &answer));
  return call->Send(stream, {OwnBytes(std::move(answer))}, Follows::kStatus);
}

/// Makes a message with a part of a list, in memory that is pinned for it.
/// @param besides  [bytes] likely to be in it besides
template <typename Make>
Status Service::AnswerPage(Call* call, std::uint64_t besides, const Make& make, std::string* answer) {
  constexpr std::uint64_t kTimesBytes = 4;  // a message takes more than its bytes
  const std::uint64_t likely = kTimesBytes * (PageBytesFor(store_->state().total) + besides);
  const auto need = [](const auto& message) { return message.SpaceUsedLong() + 2 * message.ByteSizeLong(); };
  PatchStore::Memory memory;
  {
    QUARRY_ASSIGN_OR_RETURN(auto page, MakePinned(store_.get(), std::min(likely, store_->MostPinned()),
                                                  RequesterOf(call), make, need));
    *answer = page.value.SerializeAsString();
    memory = std::move(page.memory);
  }
  (void)memory.Resize(std::min<std::uint64_t>(memory.bytes(), 2 * answer->size()));
  call->Hold(std::move(memory));
  return Status::Ok();
}

Status Service::ListDatasets(pb::ListDatasetsRequest* request, Call* call, std::string* answer) {
  // The token is the last name of the previous page, so that datasets may come and go in between.
  const ListPage page{request->page_token(), answer::PageSize(request->page_size()),
                      PageBytesFor(store_->state().total)};
  const auto cancelled = [call] { return call->Cancelled(); };
  const auto allowed = [call](const std::string& name) { return call->Allows(name); };
  // Before the memory of the page: a search may take long.
  QUARRY_ASSIGN_OR_RETURN(const auto list, lists_.Find(page, cancelled));
  return AnswerPage(
      call, 0, [&] { return lists_.Page(list.get(), page, allowed, cancelled); }, answer);
}

Status Service::GetDataset(pb::GetDatasetRequest* request, Call* call, std::string* answer) {
  QUARRY_ASSIGN_OR_RETURN(const auto opened, catalog_.Find(request->dataset()));
  const Dataset& dataset = *opened->dataset;
  const answer::PageLimits limits{answer::PageSize(request->page_size()),
                                  PageBytesFor(store_->state().total)};
  const std::uint64_t besides = request->numbers_only() ? 0 : MemoryOf(dataset.description());
  return AnswerPage(
      call, besides, [&] { return answer::DatasetPage(dataset, *request, limits); }, answer);
}

Status Service::PlanRead(pb::PlanReadRequest* request, Call* call, std::string* answer) {
  QUARRY_ASSIGN_OR_RETURN(const query::SeriesRequest question, wire::FromProto(request->query()));
  const std::uint64_t limit = operations_->limits.plan_bytes;
  const std::uint64_t most = store_->MostPinned() / 4;
  QUARRY_ASSIGN_OR_RETURN(const std::optional<query::Path> path, SeenPathOf(*request));
  PlanResponseSink sink(answer, limit == 0 ? most : std::min(limit, most), path, session_.threads());
  return session_.Plan(request->query().dataset(), question, call, &sink);
}

Status Service::Read(const pb::ReadRequest& request, Call* call, MessageStream* stream) {
  if (!pb::Encoding_IsValid(request.encoding()))
    return InvalidArgument("encoding {} is not known; ask for samples, patches or coded samples",
                           static_cast<int>(request.encoding()));
  QUARRY_ASSIGN_OR_RETURN(query::SeriesRequest question, wire::FromProto(request.query()));
  QUARRY_ASSIGN_OR_RETURN(const std::optional<query::Path> path, SeenPathOf(request));
  const bool coded = request.encoding() == pb::ENCODING_CODED && !path;
  const query::Recode recode = wire::RecodeOf(request);
  QUARRY_RETURN_IF_ERROR(query::CheckRecode(recode, question.read.target));
  if (recode != query::Recode() && !coded)
    return InvalidArgument("an error of coding is for coded samples; leave it out");
  if (coded) question.read.focus.reset();  // tiles keep the order of the grid
  QUARRY_ASSIGN_OR_RETURN(const ResumePoint from, answer::FromToken(request.resume_after()));
  AnswerMessages messages(stream, call, request, path, session_);
  return session_.Read(request.query().dataset(), question, from, call, &messages);
}

Status Service::GetStatistics(pb::GetStatisticsRequest* request, Call* call, std::string* answer) {
  QUARRY_ASSIGN_OR_RETURN(const query::StatisticsRequest question, wire::FromProto(*request));
  QUARRY_ASSIGN_OR_RETURN(const query::StatisticsAnswer statistics,
                          session_.Statistics(request->query().dataset(), question, call));
  *answer = wire::ToProto(statistics).SerializeAsString();
  return Status::Ok();
}

Status Service::ReadPoints(pb::ReadPointsRequest* request, Call* call, std::string* answer) {
  QUARRY_ASSIGN_OR_RETURN(const query::PointsRequest question, wire::FromProto(*request));
  const std::string dataset = request->dataset();
  pb::ReadPointsRequest().Swap(request);  // the points are in the question now
  QUARRY_ASSIGN_OR_RETURN(const query::PointsAnswer values, session_.ReadPoints(dataset, question, call));
  *answer = wire::ToProto(values).SerializeAsString();
  return Status::Ok();
}

Status Service::WatchSteps(const pb::WatchStepsRequest& request, Call* call, MessageStream* stream) {
  call->StopClock();
  StepMessages messages(stream, call, operations_, &catalog_, look_every_, !request.without_subfiles());
  Status status = session_.Watch(
      request.dataset(), request.has_after() ? std::optional(request.after()) : std::nullopt, &messages);
  call->StartClock();  // for the status to be taken
  return status;
}

}  // namespace quarry::server
