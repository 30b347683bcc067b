#include "server/grpc/grpc_call.h"

#include <grpc/grpc_security.h>
#include <grpc/grpc_security_constants.h>

#include <utility>

#include "server/status_details.h"

namespace quarry::server {
namespace {

/// A slice of shared memory, kept alive as long as gRPC needs it.
grpc::Slice ToSlice(const SharedBytes& piece) {
  using Owner = std::shared_ptr<const void>;
  return {const_cast<std::byte*>(piece.bytes.data()), piece.bytes.size(),
          [](void* held) { delete static_cast<Owner*>(held); }, new Owner(piece.owner)};
}

/// The one place where our errors become gRPC's.
grpc::Status ToGrpc(const Status& status, const std::string& request_id) {
  if (status.ok()) return grpc::Status::OK;
  const StatusDetails details = DetailsOf(status, request_id);
  return {static_cast<grpc::StatusCode>(status.code()), details.message, details.bytes};
}

}  // namespace

GrpcCall::~GrpcCall() {
  AwaitEnd();
  if (!connection_) return;
  if (questionless_ && was_cut_) {
    connection_->CountFault(Connection::kNoQuestion);
  } else if (questionless_ || gone_) {
    connection_->CountFault(Connection::kCancelled);
  }
  connection_->EndCall();
}

/// If a call has begun, its end is still to come; nothing may arrive after this object is gone.
void GrpcCall::AwaitEnd() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) gone_ = gone_ || (tag == &done_ && context_.IsCancelled());
}

void GrpcCall::Accept(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue) {
  service->RequestCall(&context_, &stream_, &queue_, queue, this);
}

const grpc_auth_context* GrpcCall::security() {
  // The connection has it for as long as it is open; here it is nothing but a name.
  grpc_auth_context* const security = grpc_call_auth_context(context_.c_call());
  grpc_auth_context_release(security);
  return security;
}

void GrpcCall::Run(Service* service, Health* health, std::shared_ptr<Connection> connection) {
  connection_ = std::move(connection);
  const bool one_too_many = connection_ && !connection_->BeginCall();
  // Clients that begin and cancel calls as fast as they can cost little more than gRPC's own part. To ask
  // gRPC, which may look at all connections first, takes as long as half of a small answer.
  const bool may_be_gone = !connection_ || connection_->has_cancelled();
  if (connection_ && connection_->is_cut()) {
    Cut();
  } else if (one_too_many) {
    Refuse(ResourceExhausted(
               "too many calls of this connection are running; ask again when some of them have ended"),
           "");
  } else if (!may_be_gone || !Gone()) {
    Answer(service, health);
  }
  if (!leaving_) AwaitEnd();  // here, where a drain can still cut it
}

void GrpcCall::Answer(Service* service, Health* health) {
  try {
    if (const std::optional<std::string> method = MethodOf(context_.method()))
      return service->Answer(*method, this, this);
    if (const std::optional<std::string> method = Health::MethodOf(context_.method()))
      return health->Answer(*method, this, this);
    if (connection_) connection_->CountFault(Connection::kUnknownMethod);
    Refuse(Unimplemented("no service has the method \"{}\"", context_.method()), "");
  } catch (const std::exception&) {  // no memory for the answer's end
    Cut();
  }
}

bool GrpcCall::Finish(const Status& status, const std::string& request_id) {
  const grpc::Status ending = ToGrpc(status, request_id);
  if (ending.ok() && last_) {
    stream_.WriteAndFinish(*last_, grpc::WriteOptions(), ending, &operation_);
  } else {
    stream_.Finish(ending, &operation_);
  }
  return Wait();
}

/// Tells gRPC's clients when to repeat the call.
/// @source https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
void GrpcCall::AdviseRetry() {
  context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(RetryAfter().count()));
}

void GrpcCall::Refuse(const Status& status, const std::string& request_id) {
  if (status.code() == StatusCode::kResourceExhausted) AdviseRetry();
  stream_.Finish(ToGrpc(status, request_id), &operation_);
  leaving_ = true;
  refused_at_ = std::chrono::steady_clock::now();
}

bool GrpcCall::IsLeaving() {
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec now = gpr_time_0(GPR_CLOCK_MONOTONIC);
  while (leaving_ && queue_.AsyncNext(&tag, &ok, now) == grpc::CompletionQueue::GOT_EVENT) {
    if (tag == &operation_) {
      leaving_ = false;
      if (ok && connection_) connection_->Progress();
    }
    if (tag == &done_) gone_ = context_.IsCancelled();
  }
  return leaving_;
}

/// Waits for the current operation. False when it failed: the client has disconnected, or sends no more.
bool GrpcCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    if (tag == &operation_) return ok;
    gone_ = context_.IsCancelled();
  }
  return false;
}

bool GrpcCall::Gone() {
  // No operation is in progress: the next event is the end of the call.
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec now = gpr_time_0(GPR_CLOCK_MONOTONIC);
  if (!gone_ && queue_.AsyncNext(&tag, &ok, now) == grpc::CompletionQueue::GOT_EVENT)
    gone_ = context_.IsCancelled();
  return gone_;
}

std::string GrpcCall::certificate_name() const {
  const auto authentication = context_.auth_context();
  if (!authentication || !authentication->IsPeerAuthenticated()) return "";
  const auto names = authentication->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

std::optional<std::string_view> GrpcCall::Header(const std::string& name) const {
  const auto found = context_.client_metadata().find(name);
  if (found == context_.client_metadata().end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

Result<std::string> GrpcCall::Receive(std::size_t most) {
  grpc::ByteBuffer bytes;
  const bool may_come = !connection_ || connection_->BeginQuestion(kLongestMessage);
  if (may_come) stream_.Read(&bytes, &operation_);
  const bool received = may_come && Wait();
  if (connection_) connection_->EndQuestion(kLongestMessage, received);
  if (!may_come)
    return ResourceExhausted(
        "too many calls of this connection wait for their questions; send the questions first");
  if (!received) {
    questionless_ = true;
    if (Gone()) return Status(StatusCode::kCancelled, "the question did not arrive in time");
    return InvalidArgument("the call ended without a question");
  }
  if (bytes.Length() > most)
    return ResourceExhausted(
        "the question has {} bytes, and this method accepts at most {}; ask for less at a time",
        bytes.Length(), most);
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return ResourceExhausted("no memory for the question");
  std::string question;
  question.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices)
    question.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return question;
}

void GrpcCall::SendHeaders() {
  stream_.SendInitialMetadata(&operation_);
  (void)Wait();
}

bool GrpcCall::Send(const Message& message, Follows follows) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.size());
  for (const SharedBytes& piece : message) slices.push_back(ToSlice(piece));
  const grpc::ByteBuffer buffer(slices.data(), slices.size());
  if (follows == Follows::kStatus) {
    last_ = buffer;
    return !gone_;
  }
  stream_.Write(buffer, &operation_);
  if (!Wait()) return false;
  if (connection_) connection_->Progress();
  return true;
}

}  // namespace quarry::server
