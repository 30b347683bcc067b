#include "clients/cpp/grpc/remote_reads.h"

#include <algorithm>

#include "quarry/format/proto_convert.h"
#include "quarry/query/encoding_choice.h"
#include "quarry/query/question_rules.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {

namespace pb = ::quarry::v1;

Result<SharedDescription> FetchDescription(const Connection& connection, const std::string& dataset,
                                           const CancelToken& cancel) {
  pb::GetDatasetRequest request;
  request.set_dataset(dataset);
  request.set_manifest_only(true);
  QUARRY_ASSIGN_OR_RETURN(const pb::GetDatasetResponse response,
                          connection.Call<pb::GetDatasetResponse>("GetDataset", request, cancel));
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, format::FromProto(response.manifest()));
  return SharedDescription(std::make_shared<const DatasetDescription>(std::move(description)));
}

namespace {

bool IsRequested(const FieldDescription& field, const query::SeriesRequest& request) {
  return request.fields.empty() ? request.read.field.empty() || field.name == request.read.field
                                : std::ranges::find(request.fields, field.name) != request.fields.end();
}

/// With the coarsest level by its number, if all requested fields agree on it: older servers know no other
/// form.
query::SeriesRequest WithFirstLevel(query::SeriesRequest request, const DatasetDescription& known) {
  std::optional<int> levels;
  for (const FieldDescription& field : known.fields) {
    if (!IsRequested(field, request)) continue;
    const int of_field = known.GridOf(field).levels;
    if (levels.value_or(of_field) != of_field) return request;
    levels = of_field;
  }
  if (levels && request.read.first_level)
    request.read.first_level = query::FirstLevelOn(*levels, request.read.first_level,
                                                   query::NamedLevel(request.read.target).value_or(0));
  return request;
}

/// Samples instead of patches where a requested field does not go as patches. Of an unknown dataset the
/// server decides that.
/// @param path  of answers whose encoding is open; then this one is for older servers
pb::Encoding EncodingFor(Encoding wanted, const query::SeriesRequest& request,
                         const DatasetDescription* known, const std::optional<query::Path>& path) {
  if (wanted == Encoding::kCoded) return pb::ENCODING_CODED;
  const bool near = wanted == Encoding::kAuto && path && query::IsNear(*path);
  if (wanted == Encoding::kSamples || near) return pb::ENCODING_SAMPLES;
  if (known == nullptr) return pb::ENCODING_PATCHES;
  const bool possible = std::ranges::all_of(known->fields, [&](const FieldDescription& field) {
    return !IsRequested(field, request) || wire::GoesAsPatches(field, known->GridOf(field));
  });
  return possible ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES;
}

}  // namespace

Status RemoteReads::Read(const query::SeriesRequest& request, const SharedDescription& known,
                         const LevelCallback& on_level, const CallOptions& call) const {
  pb::ReadRequest message;
  *message.mutable_query() = wire::ToProto(name_, known ? WithFirstLevel(request, *known) : request);
  const Transfer transfer = connection_->TransferOf(call.transfer);
  QUARRY_RETURN_IF_ERROR(query::CheckRecode(transfer.recode, request.read.target));
  wire::SetRecode(transfer.recode, &message);
  message.set_describe(known == nullptr);
  const auto fetch = [&] { return FetchDescription(*connection_, name_, call.cancel); };
  AnswerReceiver receiver({known, fetch}, request, transfer.recode, on_level, call.buffer, &pool_);
  int failures = 0;
  while (true) {
    auto context = connection_->NewContext();  // its deadline counts from here
    const std::optional<query::Path> path = connection_->PathFor(transfer.encoding, call.cancel);
    if (path) *message.mutable_path() = wire::ToProto(*path);
    message.set_resume_after(receiver.position());
    // An answer goes on in the encoding in which it began.
    if (receiver.position().empty()) {
      message.set_encoding(EncodingFor(transfer.encoding, request, known.get(), path));
    } else if (receiver.choice()) {
      message.set_encoding(static_cast<pb::Encoding>(receiver.choice()->encoding));
    }
    QUARRY_ASSIGN_OR_RETURN(const std::optional<Status> broken,
                            ReadOnce(message, std::move(context), &receiver, call.cancel));
    if (!broken) return receiver.CheckComplete();
    failures = receiver.position() != message.resume_after() ? 1 : failures + 1;
    if (!receiver.CanGoOn() || !connection_->WaitBeforeRetry(failures, call.cancel)) {
      if (call.cancel.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
      return *broken;
    }
  }
}

/// Reads from the position in the request to the end.
/// @returns nothing, or how the stream broke before the end
Result<std::optional<Status>> RemoteReads::ReadOnce(const pb::ReadRequest& request,
                                                    std::unique_ptr<grpc::ClientContext> context,
                                                    AnswerReceiver* receiver,
                                                    const CancelToken& cancel) const {
  RemoteCall stream = connection_->Start("Read", request, std::move(context), cancel);
  CallTimes times(connection_->seen());
  grpc::ByteBuffer message;
  std::uint64_t bytes = 0;
  while (times.Next([&] { return stream.Next(&message); })) {
    bytes += message.Length();
    QUARRY_RETURN_IF_ERROR(receiver->Take(message));
  }
  grpc::Status finished = stream.Finish();
  if (cancel.cancelled()) return Status(StatusCode::kCancelled, "the read was cancelled");
  // The first call to a server, which opening the dataset would have made: gRPC has repeated it already.
  if (finished.error_code() == grpc::StatusCode::UNAVAILABLE && request.describe() &&
      receiver->position().empty())
    return FromGrpc(finished, connection_->server());
  // gRPC says CANCELLED for a call on a connection that just broke.
  if (finished.error_code() == grpc::StatusCode::CANCELLED)
    finished = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke");
  Status status = FromGrpc(finished, connection_->server());
  const bool broke = status.code() == StatusCode::kUnavailable;
  if (!broke) QUARRY_RETURN_IF_ERROR(status);
  if (receiver->ended()) {
    const bool single = request.query().fields_size() == 0 && !request.query().has_steps();
    if (receiver->choice() && single && request.resume_after().empty()) times.End(*receiver->choice(), bytes);
    return std::optional<Status>();
  }
  if (broke) return std::optional(std::move(status));
  return std::optional(Status(StatusCode::kUnavailable, fmt::format("the answer of {} ended early; ask again",
                                                                    connection_->server().address)));
}

}  // namespace quarry::client::internal
