#include "server/grpc_status.h"

#include <array>

#include "google/rpc/status_details.pb.h"

namespace quarry::server {
namespace {

constexpr std::array kReasons = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::ErrorInfo info;
  info.set_reason(kReasons[static_cast<std::size_t>(status.code())]);
  info.set_domain("quarry");
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(status.message());
  details.add_details()->PackFrom(info);
  return {static_cast<grpc::StatusCode>(status.code()), status.message(), details.SerializeAsString()};
}

}  // namespace quarry::server
