#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/grpc/health.h"
#include "server/service.h"

namespace quarry::server {

/// [bytes] of the longest message that gRPC takes, as a whole. It is twice as long as the longest question,
/// so that one that is too long is refused with the numbers; an even longer one ends the connection.
inline constexpr int kLongestMessage = 21 << 18;

/// One call that gRPC brings, of any method: bytes in, bytes out. Blocks on its own completion queue, so that
/// a thread drives the input and output of its own call.
///
/// Lives from Accept to the end of Run, or until the server stops before a client calls.
class GrpcCall final : public Peer, public MessageStream {
 public:
  GrpcCall() { context_.AsyncNotifyWhenDone(&done_); }
  ~GrpcCall() override;
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  /// Waits for a client, with this object as the tag in `queue`.
  void Accept(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue);

  /// Answers the arrived call, to its end.
  /// @param connection  that it came by; may be null
  void Run(Service* service, Health* health, std::shared_ptr<Connection> connection);
  /// Whether it asks for the health of the server.
  bool is_of_health() const { return Health::MethodOf(context_.method()).has_value(); }

  /// The name that gRPC has for the connection of the arrived call, see Arrivals.
  const grpc_auth_context* security();

  /// After Run: whether gRPC still has the refusal to send. Does not wait.
  bool IsLeaving();
  /// Since when.
  std::chrono::steady_clock::time_point refused_at() const { return refused_at_; }

  std::string address() const override { return context_.peer(); }
  std::string certificate_name() const override;
  std::optional<std::string_view> Header(const std::string& name) const override;
  void AddHeader(const std::string& name, const std::string& value) override {
    context_.AddInitialMetadata(name, value);
  }
  bool Gone() override;
  void Cut() override {
    was_cut_ = true;
    context_.TryCancel();
  }
  Connection* connection() override { return connection_.get(); }

  Result<std::string> Receive(std::size_t most) override;
  void SendHeaders() override;
  bool Send(const Message& message, Follows follows) override;
  bool Finish(const Status& status, const std::string& request_id) override;
  void Refuse(const Status& status, const std::string& request_id) override;

 private:
  void Answer(Service* service, Health* health);
  void AwaitEnd();
  void AdviseRetry();
  bool Wait();

  std::shared_ptr<Connection> connection_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::CompletionQueue queue_;
  std::optional<grpc::ByteBuffer> last_;  ///< sent together with the status
  bool gone_ = false;
  bool questionless_ = false;  ///< the call ended before its question had come
  std::atomic<bool> was_cut_ = false;
  bool leaving_ = false;
  std::chrono::steady_clock::time_point refused_at_;
  char operation_ = 0;  ///< its address is the tag of the current operation
  char done_ = 0;       ///< its address is the tag of the end of the call
};

}  // namespace quarry::server
