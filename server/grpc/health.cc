#include "server/grpc/health.h"

#include <chrono>
#include <string_view>

#include "grpc/health/v1/health.pb.h"
#include "server/guard/question.h"
#include "server/service.h"

namespace quarry::server {

namespace pb = ::grpc::health::v1;

namespace {

constexpr std::size_t kLargestQuestion = 1 << 10;

class Counted {
 public:
  explicit Counted(std::atomic<int>* count) : count_(count), number_(++*count) {}
  ~Counted() { --*count_; }
  int number() const { return number_; }

 private:
  std::atomic<int>* const count_;
  const int number_;
};

}  // namespace

std::optional<std::string> Health::MethodOf(const std::string& path) {
  constexpr std::string_view kPrefix = "/grpc.health.v1.Health/";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  return path.substr(kPrefix.size());
}

void Health::Answer(const std::string& method, Peer* peer, MessageStream* stream) {
  const Counted call(&calls_);
  const auto refuse = [&](const Status& status) {
    if (Connection* connection = peer->connection()) connection->CountFault(Connection::kOneTooMany);
    stream->Refuse(status, "");
  };
  if (call.number() > kMostCalls) {
    return refuse(ResourceExhausted("the health service is busy with {} calls, its maximum; ask again later",
                                    kMostCalls));
  }
  const Result<ClientShares::Share> share = clients_.Begin(AddressWithoutPort(peer->address()));
  if (!share.ok()) return refuse(share.status());
  const Status status = Dispatch(method, peer, stream);
  const DeadlineWatch::Entry stall = operations_->WatchMessage([peer] { peer->Cut(); });
  (void)stream->Finish(status, "");
}

Status Health::Dispatch(const std::string& method, Peer* peer, MessageStream* stream) {
  if (method != "Check" && method != "Watch") {
    if (Connection* connection = peer->connection()) connection->CountFault(Connection::kUnknownMethod);
    return Unimplemented("the health service has the methods Check and Watch");
  }
  QUARRY_ASSIGN_OR_RETURN(const std::string bytes,
                          ReceiveQuestion(operations_, peer, stream, kLargestQuestion));
  pb::HealthCheckRequest question;
  QUARRY_RETURN_IF_ERROR(ParseQuestion(bytes, &question));
  if (method == "Watch") return Watch(question.service(), peer, stream);
  const std::optional<int> status = StatusOf(question.service());
  if (!status) return NotFound("there is no such service here; ask for \"\" or \"{}\"", kServiceName);
  if (Send(*status, Follows::kStatus, peer, stream)) return Status::Ok();
  return {StatusCode::kCancelled, "the client has gone"};
}

/// Sends the status, and each one that is another.
Status Health::Watch(const std::string& service, Peer* peer, MessageStream* stream) {
  // Nothing wakes a thread whose client goes, so it checks from time to time.
  constexpr auto kLookUp = std::chrono::milliseconds(200);
  std::optional<int> sent;
  while (!peer->Gone()) {
    const int status = StatusOf(service).value_or(pb::HealthCheckResponse::SERVICE_UNKNOWN);
    if (status != sent && !Send(status, Follows::kLater, peer, stream)) break;
    sent = status;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLookUp, [&] { return stopping_ && sent == pb::HealthCheckResponse::SERVING; });
  }
  return {StatusCode::kCancelled, "the client has gone"};
}

std::optional<int> Health::StatusOf(const std::string& service) const {
  if (!service.empty() && service != kServiceName) return std::nullopt;
  return stopping_ ? pb::HealthCheckResponse::NOT_SERVING : pb::HealthCheckResponse::SERVING;
}

bool Health::Send(int status, Follows follows, Peer* peer, MessageStream* stream) {
  pb::HealthCheckResponse answer;
  answer.set_status(static_cast<pb::HealthCheckResponse::ServingStatus>(status));
  const DeadlineWatch::Entry stall = operations_->WatchMessage([peer] { peer->Cut(); });
  return stream->Send({OwnBytes(answer.SerializeAsString())}, follows);
}

void Health::SetStopping() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

}  // namespace quarry::server
