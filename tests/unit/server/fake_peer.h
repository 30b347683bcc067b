#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/service.h"

namespace quarry::server {

/// A transport of one call, in memory. It has only what a second transport must provide.
class FakePeer final : public Peer, public MessageStream {
 public:
  explicit FakePeer(std::string question) : question_(std::move(question)) {}

  std::map<std::string, std::string> headers;  ///< headers of the client
  std::string client_address = "memory:1";
  bool gone = false;
  std::size_t most_messages = SIZE_MAX;  ///< the client leaves after this many
  std::size_t most_asks = SIZE_MAX;      ///< and when it was asked so often whether it is there
  std::function<bool()> leaves;          ///< or when this says so
  std::function<void()> on_message;      ///< called before a message is taken
  std::uint64_t keeps = 0;               ///< [bytes] of the answer

  std::map<std::string, std::string> answer_headers;
  std::vector<std::string> messages;
  bool received = false;  ///< the service has asked for the question
  bool last = false;      ///< the previous message was announced as the last
  Status status;          ///< status of the answer
  std::string request_id;

  std::string address() const override { return client_address; }
  std::string certificate_name() const override { return ""; }
  std::optional<std::string_view> Header(const std::string& name) const override {
    const auto found = headers.find(name);
    return found == headers.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  }
  void AddHeader(const std::string& name, const std::string& value) override { answer_headers[name] = value; }
  bool Gone() override { return gone = gone || asked_++ >= most_asks || (leaves && leaves()); }
  void Cut() override { gone = true; }

  Result<std::string> Receive(std::size_t most) override {
    received = true;
    if (question_.size() > most) return Status(StatusCode::kResourceExhausted, "a long question");
    return question_;
  }
  void SendHeaders() override {}
  std::uint64_t kept() const override { return keeps; }
  bool Send(const Message& message, Follows follows) override {
    if (on_message) on_message();
    if (gone || messages.size() >= most_messages) return false;
    std::string& bytes = messages.emplace_back();
    for (const SharedBytes& piece : message)
      bytes.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    last = follows == Follows::kStatus;
    return true;
  }

  bool Finish(const Status& of_answer, const std::string& id) override {
    status = of_answer;
    request_id = id;
    return !gone;
  }
  void Refuse(const Status& of_answer, const std::string& id) override { (void)Finish(of_answer, id); }

 private:
  const std::string question_;
  std::size_t asked_ = 0;
};

/// Runs a call and returns its status.
inline Status Ask(Service* service, const std::string& method, FakePeer* peer) {
  service->Answer(method, peer, peer);
  return peer->status;
}

}  // namespace quarry::server
