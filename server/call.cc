#include "server/call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>

#include "quarry/base/checksum.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
#include "quarry/query/fetch.h"

namespace quarry::server {
namespace {

constexpr const char* kRequestIdKey = "quarry-request-id";
constexpr const char* kAuthorizationKey = "authorization";

/// Samples of `box` (level-0 samples) at a level: [ceil(begin / 2^l), ceil(end / 2^l)) along each axis.
std::uint64_t SamplesAt(const Box& box, int level) {
  std::uint64_t samples = 1;
  const std::int64_t step = std::int64_t{1} << level;
  for (std::size_t a = 0; a < 3; ++a)
    samples *= static_cast<std::uint64_t>((box.end[a] + step - 1) / step - (box.begin[a] + step - 1) / step);
  return samples;
}

/// "a smaller box, or for level 3, which needs 310 KiB of payload and has 1.20 MiB of samples in this one":
/// suggests a level that would be allowed.
std::string Advice(const query::ReadPlan& plan, std::uint64_t limit) {
  // Coarser levels lack samples of a stride.
  const int levels = std::holds_alternative<query::AtStride>(plan.query.target) ? 0 : plan.dataset_levels;
  for (int level = plan.query.level + 1; level < levels; ++level) {
    const std::uint64_t samples = SamplesAt(plan.query.box, level) * SizeOf(plan.type);
    const std::uint64_t payload = plan.totals.alone[static_cast<std::size_t>(level)];
    if (samples > 0 && std::max(samples, payload) <= limit)
      return fmt::format(
          "a smaller box, or for level {}, which needs {} of payload and has {} of samples in "
          "this one",
          level, FormatBytes(payload), FormatBytes(samples));
  }
  return "a smaller box";
}

}  // namespace

Result<std::string> ReceiveQuestion(Operations* operations, Peer* peer, MessageStream* stream,
                                    std::size_t most) {
  constexpr auto kTime = std::chrono::seconds(10);
  const auto limit =
      operations->deadlines.Add(std::chrono::steady_clock::now() + kTime, [peer] { peer->Cut(); });
  return stream->Receive(most);
}

Call::Call(Operations* operations, Peer* peer, std::string method)
    : operations_(operations), peer_(peer), begin_(std::chrono::steady_clock::now()), asked_(begin_) {
  const auto wished = peer->Header(kRequestIdKey);
  record_.id = wished && IsGoodRequestId(*wished) ? std::string(*wished) : NewRequestId();
  record_.peer = peer->address();
  record_.client = peer->certificate_name();
  record_.method = std::move(method);
  // Before Enter looks at `draining`, in one order for all threads, so that a drain misses no call.
  operations_->running.fetch_add(1);
  operations_->metrics.Begin();
  StartClock();
}

Call::~Call() {
  if (!ended_) End(InternalError("the call ended without an answer"));
}

Status Call::Enter() {
  if (operations_->draining)
    return Unavailable("the server is stopping; ask another one, or this one when it is back");
  QUARRY_RETURN_IF_ERROR(Authenticate());
  const std::string client = Client();
  QUARRY_ASSIGN_OR_RETURN(share_, operations_->clients.Begin(client, operations_->limits.calls));
  client_ = std::max<std::uint64_t>(1, Checksum(std::as_bytes(std::span(client))));
  // A refusal has no headers: gRPC's clients repeat only calls whose answer has not begun.
  peer_->AddHeader(kRequestIdKey, record_.id);
  return Status::Ok();
}

Status Call::AskFor(const std::string& dataset, DatasetCatalog* catalog) {
  record_.dataset = dataset;
  return CheckDataset(catalog);
}

Status Call::Authenticate() {
  if (!operations_->tokens) return Status::Ok();
  auto access = operations_->tokens->Authenticate(peer_->Header(kAuthorizationKey));
  if (!access.ok()) {
    if (Connection* connection = peer_->connection()) connection->CountFault(Connection::kWrongToken);
    return access.status();
  }
  access_ = *std::move(access);
  record_.client = access_->client;
  return Status::Ok();
}

Status Call::CheckAccess(DatasetCatalog* catalog) {
  QUARRY_RETURN_IF_ERROR(Authenticate());
  return CheckDataset(catalog);
}

Status Call::CheckDataset(DatasetCatalog* catalog) {
  if (record_.dataset.empty()) return Status::Ok();
  const auto denied = [this]() -> Status {
    return {StatusCode::kPermissionDenied,
            fmt::format("the token of \"{}\" is not for the dataset \"{}\"; list the names that it is for "
                        "with \"quarry ls\"",
                        record_.client, Beginning(record_.dataset, 100))};
  };
  // Before the catalog searches for it: whether it exists shows neither in the answer nor in its time.
  const std::vector<std::string> names = DatasetCatalog::PossibleNames(record_.dataset);
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return Allows(name); }))
    return denied();
  QUARRY_ASSIGN_OR_RETURN(const std::optional<std::string> found,
                          catalog->NameOf(record_.dataset, [this] { return Cancelled(); }));
  if (!found || !access_) return Status::Ok();  // asking for what is missing says so
  // The name in the catalog, not the one that was sent: two spellings lead to one dataset.
  const std::string& name = *found;
  if (access_->Allows(name)) return Status::Ok();
  return denied();
}

/// The name of the token or the certificate; without either the peer's address without its port.
std::string Call::Client() const {
  return record_.client.empty() ? AddressWithoutPort(record_.peer) : record_.client;
}

bool Call::Allows(const std::string& dataset) const { return !access_ || access_->Allows(dataset); }

Status Call::Admit(const Demand& demand) {
  const std::uint64_t limit = operations_->limits.request_bytes;
  std::string instead = demand.instead;
  if (instead.empty() && demand.plan != nullptr) {
    const std::uint64_t left = share_.Left();
    instead = Advice(*demand.plan, limit == 0 ? left : std::min(limit, left));
  }
  const std::uint64_t most = std::max(demand.payload, demand.reply);
  if (limit == 0 || most <= limit) return share_.Add(most, instead);
  return ResourceExhausted(
      "this read needs {} of payload and has {} of samples, and this server allows {} for one "
      "request; ask for {}",
      FormatBytes(demand.payload), FormatBytes(demand.reply), FormatBytes(limit), instead);
}

void Call::StopClock() {
  clock_.reset();
  deadline_ = {};
}

void Call::StartClock() {
  clock_ = std::chrono::steady_clock::now();
  const CallLimits& limits = operations_->limits;
  if (limits.time.count() > 0)
    deadline_ =
        operations_->deadlines.Add(*clock_ + limits.time + limits.grace, [peer = peer_] { peer->Cut(); });
}

void Call::Damaged(const Status& what) {
  operations_->metrics.CountDamage(record_.dataset);
  if (operations_->damage.IsNew(what.message()))
    spdlog::warn("{} (request {}; a coarser level or a rougher layer is shown)", what.message(), record_.id);
}

Status Call::Send(MessageStream* stream, const Message& message, Follows follows) {
  const DeadlineWatch::Entry stall = operations_->WatchMessage([this] {
    stalled_ = true;
    peer_->Cut();
  });
  if (!stream->Send(message, follows)) return {StatusCode::kCancelled, "the client has gone"};
  for (const SharedBytes& piece : message) record_.bytes += piece.bytes.size();
  return Status::Ok();
}

bool Call::PastTime() const {
  const auto time = operations_->limits.time;
  return clock_ && time.count() > 0 && std::chrono::steady_clock::now() - *clock_ >= time;
}

bool Call::Cancelled() {
  const std::lock_guard lock(asking_);
  if (PastTime()) return true;
  // A transport may need tens of microseconds to answer.
  static constexpr auto kAskEvery = std::chrono::milliseconds(2);
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < kAskEvery) return gone_;
  asked_ = now;
  return gone_ = peer_->Gone();
}

Status Call::Conclude(Status status) const {
  if (status.code() == StatusCode::kCancelled && stalled_)
    return {StatusCode::kDeadlineExceeded,
            fmt::format("the client took no message for {:.3g} s; continue from the last one",
                        std::chrono::duration<double>(operations_->limits.stall).count())};
  if (status.code() != StatusCode::kCancelled || !PastTime()) return status;
  return {
      StatusCode::kDeadlineExceeded,
      fmt::format("the answer took longer than the {:.3g} s that this server allows; ask for less at a time",
                  std::chrono::duration<double>(operations_->limits.time).count())};
}

void Call::End(const Status& status) {
  ended_ = true;
  record_.code = status.code();
  record_.message = status.message();
  record_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (operations_->log) operations_->log->Write(record_);
  operations_->metrics.End(record_);
  share_.EndCall();
  operations_->running.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace quarry::server
