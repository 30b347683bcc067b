#include "server/grpc/grpc_status.h"

#include "server/status_details.h"

namespace quarry::server {

grpc::Status ToGrpc(const Status& status, const std::string& request_id) {
  if (status.ok()) return grpc::Status::OK;
  const StatusDetails details = DetailsOf(status, request_id);
  return {static_cast<grpc::StatusCode>(status.code()), details.message, details.bytes};
}

}  // namespace quarry::server
