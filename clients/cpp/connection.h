#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "clients/cpp/backends.h"
#include "quarry/v1/service.grpc.pb.h"

namespace quarry::client::internal {

/// Each answer of a quarry-server begins with it; what stands between does not know it.
inline constexpr const char* kRequestIdKey = "quarry-request-id";

/// Samples come in messages of 1 MiB, but the record of a step with very many subfiles, and the payload of a
/// large patch, are larger.
inline constexpr int kLargestMessage = 64 << 20;

/// Our codes are gRPC's, and the server's message is already the line for the user.
Status FromGrpc(const grpc::Status& status, const ServerAddress& server);

class Connection;

/// Asks Options::cancelled while a call waits for its next message, which may be hours.
class CancelWhenAsked {
 public:
  /// @param connection, context  outlive it
  CancelWhenAsked(const Connection* connection, grpc::ClientContext* context);

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

/// One or several servers, and how calls to them are made. Thread-safe.
class Connection {
 public:
  /// Does not wait for a server: the first call does.
  /// @errors kInvalidArgument: an address, a token or a pair of files that cannot be; those of reading files
  static Result<std::shared_ptr<const Connection>> Make(const ServerAddress& server, const Options& options);

  Connection(ServerAddress server, Options options, std::shared_ptr<grpc::Channel> channel);

  /// With the deadline and the token of the options.
  std::unique_ptr<grpc::ClientContext> NewContext() const;

  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (::quarry::v1::QuarryService::Stub::*method)(grpc::ClientContext*,
                                                                                  const Request&, Response*),
                        const Request& request) const {
    Response response;
    const Status asked_to_end(StatusCode::kCancelled, "the call was cancelled");
    if (cancelled()) return asked_to_end;
    const auto context = NewContext();
    std::optional<CancelWhenAsked> cancel;
    if (can_be_cancelled()) cancel.emplace(this, context.get());
    const grpc::Status status = (stub_.get()->*method)(context.get(), request, &response);
    if (!status.ok() && cancelled()) return asked_to_end;
    QUARRY_RETURN_IF_ERROR(FromGrpc(status, server_));
    return response;
  }

  /// Read with messages as bytes, which a generated stub does not offer: it would copy samples into strings.
  std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> Read(grpc::ClientContext* context,
                                                             const ::quarry::v1::ReadRequest& request) const;

  /// False when the caller wants no more.
  bool Pause(std::chrono::milliseconds time) const;
  /// Pauses, longer each time. False when it is time to give up.
  /// @param failures  in a row, without anything received in between
  bool WaitBeforeRetry(int failures) const;

  const ServerAddress& server() const { return server_; }
  ::quarry::v1::QuarryService::Stub* stub() const { return stub_.get(); }
  int threads() const { return options_.threads; }
  bool wants_patches() const;
  bool can_be_cancelled() const { return options_.cancelled != nullptr; }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

 private:
  const ServerAddress server_;
  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<::quarry::v1::QuarryService::Stub> stub_;
  const grpc::internal::RpcMethod read_;
};

}  // namespace quarry::client::internal
