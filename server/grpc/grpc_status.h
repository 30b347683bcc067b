#pragma once

#include <grpcpp/support/status.h>

#include "quarry/base/status.h"

namespace quarry::server {

/// The one place where our errors become gRPC's: the same code, the same message, and one
/// google.rpc.ErrorInfo of domain "quarry" whose reason is the name of the code.
/// @param request_id  goes into the ErrorInfo's metadata as "request_id", unless it is empty
grpc::Status ToGrpc(const Status& status, const std::string& request_id = {});

}  // namespace quarry::server
