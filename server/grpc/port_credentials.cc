#include "server/grpc/port_credentials.h"

#include <grpc/grpc.h>

namespace quarry::server {
namespace {

class PlainText final : public PortCredentials {
 public:
  PlainText() : PortCredentials(grpc_insecure_server_credentials_create()) {}
};

/// gRPC calls this function of its C interface for each call, with or without TLS, and goes on when it has
/// called `done`.
void ProcessArrival(void* check, grpc_auth_context* connection, const grpc_metadata*, std::size_t,
                    grpc_process_auth_metadata_done_cb done, void* call) {
  const char* const refusal = static_cast<ArrivalCheck*>(check)->Check(connection);
  done(call, nullptr, 0, nullptr, 0, refusal == nullptr ? GRPC_STATUS_OK : GRPC_STATUS_RESOURCE_EXHAUSTED,
       refusal);
}

}  // namespace

void PortCredentials::CheckArrivals(ArrivalCheck* check) {
  grpc_server_credentials_set_auth_metadata_processor(credentials_, {ProcessArrival, nullptr, check});
}

std::shared_ptr<PortCredentials> PlainTextCredentials() { return std::make_shared<PlainText>(); }

}  // namespace quarry::server
