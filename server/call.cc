#include "server/call.h"

#include <spdlog/spdlog.h>

#include <grpc/grpc_security_constants.h>

#include <algorithm>

#include "quarry/base/units.h"
#include "quarry/geometry/patch_grid.h"
#include "server/grpc_status.h"

namespace quarry::server {
namespace {

constexpr const char* kRequestIdKey = "quarry-request-id";
constexpr const char* kAuthorizationKey = "authorization";

std::optional<std::string_view> Header(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

/// The common name of a client's certificate, where it had to show one.
std::string NameInCertificate(const grpc::ServerContext& context) {
  const auto authentication = context.auth_context();
  if (!authentication || !authentication->IsPeerAuthenticated()) return "";
  const auto names = authentication->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

/// Samples of `box` (level-0 samples) at a level: [ceil(begin / 2^l), ceil(end / 2^l)) along each axis.
std::uint64_t SamplesAt(const Box& box, int level) {
  std::uint64_t samples = 1;
  const std::int64_t step = std::int64_t{1} << level;
  for (std::size_t a = 0; a < 3; ++a)
    samples *= static_cast<std::uint64_t>((box.end[a] + step - 1) / step - (box.begin[a] + step - 1) / step);
  return samples;
}

/// "a smaller box, or level 3, which has 1.20 MiB of samples"
std::string Advice(const query::ReadPlan& plan, std::uint64_t limit) {
  for (int level = plan.query.level + 1; level < plan.dataset_levels; ++level) {
    const std::uint64_t bytes = SamplesAt(plan.query.box, level) * SizeOf(plan.type);
    if (bytes <= limit)
      return fmt::format("a smaller box, or for level {}, which has {} of samples in this one", level,
                         FormatBytes(bytes));
  }
  return "a smaller box";
}

}  // namespace

Call::Call(Operations* operations, grpc::ServerContext* context, std::string method, std::string dataset)
    : operations_(operations), context_(context), begin_(std::chrono::steady_clock::now()), asked_(begin_) {
  const auto wished = Header(*context, kRequestIdKey);
  record_.id = wished && IsGoodRequestId(*wished) ? std::string(*wished) : NewRequestId();
  record_.peer = context->peer();
  record_.client = NameInCertificate(*context);
  record_.method = std::move(method);
  record_.dataset = std::move(dataset);
  context->AddInitialMetadata(kRequestIdKey, record_.id);
  // Before Admit looks at `draining`, in one order for all threads: a drain misses no call.
  operations_->running.fetch_add(1);
  operations_->metrics.Begin();
  StartClock();
}

Call::~Call() {
  if (!ended_) (void)End(InternalError("the call ended without an answer"));
}

Status Call::Admit(Catalogue* catalogue) {
  if (operations_->draining)
    return {StatusCode::kUnavailable, "the server is stopping; ask another one, or this one when it is back"};
  QUARRY_RETURN_IF_ERROR(Authenticate());
  const int running = operations_->running.load(std::memory_order_relaxed);
  if (const int most = operations_->limits.calls; most > 0 && running > most) {
    return {
        StatusCode::kResourceExhausted,
        fmt::format(
            "{} calls are running, and {} is the most that this server answers at a time; ask again later",
            running - 1, most)};
  }
  QUARRY_ASSIGN_OR_RETURN(share_, operations_->clients.Begin(Client()));
  return CheckDataset(catalogue);
}

Status Call::AskFor(const std::string& dataset, Catalogue* catalogue) {
  record_.dataset = dataset;
  return CheckDataset(catalogue);
}

Status Call::Authenticate() {
  if (!operations_->tokens) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(access_, operations_->tokens->Authenticate(Header(*context_, kAuthorizationKey)));
  record_.client = access_->client;
  return Status::Ok();
}

Status Call::CheckAccess(Catalogue* catalogue) {
  QUARRY_RETURN_IF_ERROR(Authenticate());
  return CheckDataset(catalogue);
}

Status Call::CheckDataset(Catalogue* catalogue) const {
  if (!access_ || record_.dataset.empty()) return Status::Ok();
  // The name that the catalogue would serve, not the one that was sent: two spellings lead to one dataset.
  const std::string name = catalogue->NameOf(record_.dataset).value_or(record_.dataset);
  if (access_->Allows(name)) return Status::Ok();
  return {StatusCode::kPermissionDenied,
          fmt::format("the token of \"{}\" is not for the dataset \"{}\"; list the names that it is for with "
                      "\"quarry ls\"",
                      access_->client, record_.dataset.substr(0, 100))};
}

/// The name of the token or the certificate; without either the peer's address, the same for all its ports.
std::string Call::Client() const {
  if (!record_.client.empty()) return record_.client;
  const std::size_t port = record_.peer.starts_with("ip") ? record_.peer.rfind(':') : std::string::npos;
  return record_.peer.substr(0, port);
}

bool Call::Allows(const std::string& dataset) const { return !access_ || access_->Allows(dataset); }

Status Call::CheckPrice(const query::ReadPlan& plan) {
  const std::uint64_t limit = operations_->limits.request_bytes;
  const std::uint64_t left = share_.Left();
  return CheckPrice(plan.price.bytes, plan.price.reply_bytes,
                    Advice(plan, limit == 0 ? left : std::min(limit, left)));
}

Status Call::CheckPrice(std::uint64_t payload, std::uint64_t reply, const std::string& advice) {
  const std::uint64_t price = std::max(payload, reply);
  const std::uint64_t limit = operations_->limits.request_bytes;
  if (limit == 0 || price <= limit) return share_.Add(price, advice);
  return {
      StatusCode::kResourceExhausted,
      fmt::format("this read needs {} of payload and has {} of samples, and this server allows {} for one "
                  "request; ask for {}",
                  FormatBytes(payload), FormatBytes(reply), FormatBytes(limit), advice)};
}

void Call::StopClock() {
  clock_.reset();
  deadline_ = {};
}

void Call::StartClock() {
  clock_ = std::chrono::steady_clock::now();
  const CallLimits& limits = operations_->limits;
  if (limits.time.count() > 0)
    deadline_ = operations_->deadlines.Add(*clock_ + limits.time + limits.grace,
                                           [context = context_] { context->TryCancel(); });
}

void Call::Damaged(const Status& what) {
  operations_->metrics.CountDamage(record_.dataset);
  if (operations_->damage.IsNew(what.message()))
    spdlog::warn("{} (request {}; a coarser level is shown)", what.message(), record_.id);
}

bool Call::PastTime() const {
  const auto time = operations_->limits.time;
  return clock_ && time.count() > 0 && std::chrono::steady_clock::now() - *clock_ >= time;
}

bool Call::Cancelled() {
  if (PastTime()) return true;
  // gRPC takes tens of microseconds for the answer.
  static constexpr auto kAskEvery = std::chrono::milliseconds(2);
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < kAskEvery) return false;
  asked_ = now;
  return context_->IsCancelled();
}

grpc::Status Call::End(Status status) {
  if (status.code() == StatusCode::kCancelled && PastTime()) {
    status = {StatusCode::kDeadlineExceeded,
              fmt::format(
                  "the answer took longer than the {:.3g} s that this server allows; ask for less at a time",
                  std::chrono::duration<double>(operations_->limits.time).count())};
  }
  ended_ = true;
  record_.code = status.code();
  record_.message = status.message();
  record_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (operations_->log) operations_->log->Write(record_);
  operations_->metrics.End(record_);
  share_ = {};
  operations_->running.fetch_sub(1, std::memory_order_relaxed);
  return ToGrpc(status, record_.id);
}

}  // namespace quarry::server
