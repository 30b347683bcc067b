#include "server/grpc_status.h"

#include "google/rpc/status_details.pb.h"
#include "server/request_log.h"

namespace quarry::server {

namespace {

/// Status messages travel in trailers, of which clients accept 8 KiB, and twice: names that were sent with a
/// question, or the list of those that there are, may be longer.
std::string Shortened(const std::string& message) {
  constexpr std::size_t kMost = 1 << 10;
  if (message.size() <= kMost) return message;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;  // within a character
  return message.substr(0, end) + " ...";
}

}  // namespace

grpc::Status ToGrpc(const Status& status, const std::string& request_id) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::ErrorInfo info;
  info.set_reason(CodeName(status.code()));
  info.set_domain("quarry");
  if (!request_id.empty()) (*info.mutable_metadata())["request_id"] = request_id;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(Shortened(status.message()));
  details.add_details()->PackFrom(info);
  return {static_cast<grpc::StatusCode>(status.code()), details.message(), details.SerializeAsString()};
}

}  // namespace quarry::server
