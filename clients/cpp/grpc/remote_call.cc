#include "clients/cpp/grpc/remote_call.h"

#include <chrono>

namespace quarry::client::internal {

RemoteCall::RemoteCall(grpc::GenericStub* stub, const std::string& method,
                       const google::protobuf::MessageLite& question,
                       std::unique_ptr<grpc::ClientContext> context, const CancelToken& cancel)
    : context_(std::move(context)), cancel_(cancel) {
  // Headers, question and end of the client's side are sent together: one operation instead of three.
  context_->set_initial_metadata_corked(true);
  call_ = stub->PrepareCall(context_.get(), "/quarry.v1.QuarryService/" + method, &queue_);
  call_->StartCall(nullptr);
  const grpc::Slice bytes(question.SerializeAsString());
  call_->WriteLast(grpc::ByteBuffer(&bytes, 1), grpc::WriteOptions(), nullptr);
  (void)Wait();  // Finish knows more about a failure
}

RemoteCall::~RemoteCall() {
  if (!finished_) {
    Cut();
    (void)Finish();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

/// Waits for the one current operation. False when it failed.
bool RemoteCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  if (!cancel_.can_be_cancelled()) return queue_.Next(&tag, &ok) && ok;
  constexpr auto kAskEvery = std::chrono::milliseconds(20);
  while (true) {
    const auto until = std::chrono::system_clock::now() + kAskEvery;
    switch (queue_.AsyncNext(&tag, &ok, until)) {
      case grpc::CompletionQueue::GOT_EVENT:
        return ok;
      case grpc::CompletionQueue::SHUTDOWN:
        return false;
      case grpc::CompletionQueue::TIMEOUT:
        if (cancel_.cancelled()) Cut();
    }
  }
}

bool RemoteCall::Next(grpc::ByteBuffer* message) {
  if (cancel_.cancelled()) return false;
  call_->Read(message, nullptr);
  return Wait();
}

bool RemoteCall::WaitForHeader(const std::string& name) {
  call_->ReadInitialMetadata(nullptr);
  (void)Wait();
  return context_->GetServerInitialMetadata().contains(name);
}

grpc::Status RemoteCall::Finish() {
  if (cancel_.cancelled()) Cut();
  grpc::Status status;
  call_->Finish(&status, nullptr);
  (void)Wait();
  finished_ = true;
  return status;
}

}  // namespace quarry::client::internal
