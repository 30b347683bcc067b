#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/grpc/remote_call.h"
#include "clients/cpp/grpc/seen_path.h"
#include "quarry/client.h"

namespace quarry::client::internal {

/// Each answer of a quarry-server begins with it; proxies in between do not send it.
inline constexpr const char* kRequestIdKey = "quarry-request-id";

/// Samples come in messages of 1 MiB, but the record of a step with very many subfiles, and the payload of a
/// large patch, are larger.
inline constexpr int kLargestMessage = 64 << 20;

/// Address of a server, and how to speak to it.
struct ServerAddress {
  std::string address;  ///< HOST:PORT
  bool tls = false;
};

/// Our codes are gRPC's, and the server's message is already written for the user.
Status FromGrpc(const grpc::Status& status, const ServerAddress& server);

/// One or several servers, and the way to call them. Thread-safe.
class Connection {
 public:
  /// Does not wait for a server; the first call does.
  /// @errors kInvalidArgument: an impossible address, token or pair of files; those of reading files
  static Result<std::shared_ptr<const Connection>> Make(const ServerAddress& server, const Options& options);

  Connection(ServerAddress server, Options options, std::shared_ptr<grpc::Channel> channel);

  /// With the deadline and the token of the options.
  std::unique_ptr<grpc::ClientContext> NewContext() const;
  /// Asks a question. @param cancel  outlives the call
  RemoteCall Start(const std::string& method, const google::protobuf::MessageLite& question,
                   std::unique_ptr<grpc::ClientContext> context, const CancelToken& cancel) const {
    return RemoteCall(&stub_, method, question, std::move(context), cancel);
  }

  /// Calls a method that answers with one message.
  /// @param most  [bytes] of the message
  template <typename Response>
  Result<Response> Call(const std::string& method, const google::protobuf::MessageLite& question,
                        const CancelToken& cancel, std::size_t most = kLargestMessage) const {
    Response response;
    QUARRY_RETURN_IF_ERROR(CallOnce(method, question, cancel, most, &response));
    return response;
  }

  /// Pauses, longer each time. False when it is time to give up.
  /// @param failures  in a row, without anything received in between
  bool WaitBeforeRetry(int failures, const CancelToken& cancel) const;

  const ServerAddress& server() const { return server_; }
  int threads() const { return options_.threads; }
  /// How answers are sent: without an error of coding unless kCoded.
  /// @param wanted  by the call; nothing: that of the options
  Transfer TransferOf(const std::optional<Transfer>& wanted) const;
  /// The path to the server, for answers in kAuto, whose encoding is open; connects first. Nothing for other
  /// encodings, and if no server is reached.
  std::optional<query::Path> PathFor(Encoding encoding, const CancelToken& cancel) const;
  SeenPath* seen() const { return path_.get(); }

 private:
  Status CallOnce(const std::string& method, const google::protobuf::MessageLite& question,
                  const CancelToken& cancel, std::size_t most, google::protobuf::MessageLite* response) const;
  void Connect(const CancelToken& cancel) const;

  const ServerAddress server_;
  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<SeenPath> path_;
  mutable grpc::GenericStub stub_;
};

}  // namespace quarry::client::internal
