#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "quarry/cancel_token.h"

namespace quarry::client::internal {

/// One call of any method to a server: a question, then messages as bytes until the end. Blocks, and ends
/// soon after its token is set. One thread at a time.
class RemoteCall {
 public:
  /// Sends the question.
  /// @param context  used by this call alone
  /// @param cancel   ends the call; outlives it
  RemoteCall(grpc::GenericStub* stub, const std::string& method,
             const google::protobuf::MessageLite& question, std::unique_ptr<grpc::ClientContext> context,
             const CancelToken& cancel);
  /// Cuts a call that has not ended.
  ~RemoteCall();
  RemoteCall(const RemoteCall&) = delete;
  RemoteCall& operator=(const RemoteCall&) = delete;

  /// The next message. False at the end of the answer.
  bool Next(grpc::ByteBuffer* message);
  /// Waits until the server has begun to answer. Before the first Next.
  /// @returns whether this header came first
  bool WaitForHeader(const std::string& name);
  /// Makes the server stop.
  void Cut() { context_->TryCancel(); }
  /// How the call has ended. After Next was false, or after Cut.
  grpc::Status Finish();

 private:
  bool Wait();

  const std::unique_ptr<grpc::ClientContext> context_;
  const CancelToken& cancel_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace quarry::client::internal
