#include "server/grpc_status.h"

#include "google/rpc/status_details.pb.h"
#include "server/request_log.h"

namespace quarry::server {

grpc::Status ToGrpc(const Status& status, const std::string& request_id) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::ErrorInfo info;
  info.set_reason(CodeName(status.code()));
  info.set_domain("quarry");
  if (!request_id.empty()) (*info.mutable_metadata())["request_id"] = request_id;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(status.message());
  details.add_details()->PackFrom(info);
  return {static_cast<grpc::StatusCode>(status.code()), status.message(), details.SerializeAsString()};
}

}  // namespace quarry::server
