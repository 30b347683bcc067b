#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/http/channel.h"
#include "server/http/request.h"
#include "server/http/syntax.h"
#include "server/service.h"

namespace quarry::server::http {

/// A request whose answer takes a thread, and the connection that it came by.
struct Exchange {
  Request* request = nullptr;
  std::string path;
  Channel* channel = nullptr;
  std::string* input = nullptr;  ///< bytes that have arrived beyond the head
  std::string peer;              ///< see Peer::address()
  std::shared_ptr<Connection> connection;
  Headers headers;          ///< headers of every answer on this connection to this request
  bool keep_alive = false;  ///< for another request; cleared where the connection cannot carry one
  Outgoing unsent;          ///< rest of the message, to be sent without a thread when the call has ended
};

/// The client of an exchange.
class HttpPeer : public Peer {
 public:
  explicit HttpPeer(Exchange* exchange) : exchange_(exchange) {}

  std::string address() const override { return exchange_->peer; }
  std::string certificate_name() const override { return exchange_->channel->certificate_name(); }
  std::optional<std::string_view> Header(const std::string& name) const override {
    return exchange_->request->Header(name);
  }
  void AddHeader(const std::string& name, const std::string& value) override {
    // Some answers take several calls; the last one counts.
    std::erase_if(exchange_->headers, [&](const auto& header) { return header.first == name; });
    exchange_->headers.emplace_back(name, value);
  }
  bool Gone() override { return exchange_->channel->IsGone(); }
  void Cut() override { exchange_->channel->Cut(); }
  Connection* connection() override { return exchange_->connection.get(); }

  Exchange* exchange() const { return exchange_; }
  /// Sends everything. False: the client has disconnected, or was cut off.
  bool Write(Outgoing* outgoing);

 private:
  Exchange* const exchange_;
};

/// One call by gRPC-Web: a frame in the body of the request, frames in chunks of the answer's.
class HttpCall final : public HttpPeer, public MessageStream {
 public:
  HttpCall(Exchange* exchange, Operations* operations);

  bool Gone() override { return PastDeadline() || HttpPeer::Gone(); }

  Result<std::string> Receive(std::size_t most) override;
  void SendHeaders() override;
  bool Send(const Message& message, Follows follows) override;
  bool Finish(const Status& status, const std::string& request_id) override;
  void Refuse(const Status& status, const std::string& request_id) override;

 private:
  Result<std::string> ReceiveFrame(std::size_t most);
  bool ReadBody(std::size_t most);
  std::string Head();
  void AddChunk(const Message& content, std::size_t size, Outgoing* outgoing) const;
  bool PastDeadline() const;

  Operations* const operations_;
  std::optional<std::chrono::steady_clock::time_point> client_deadline_;
  DeadlineWatch::Entry deadline_;
  std::optional<Message> last_;  ///< sent together with the status
  bool begun_ = false;           ///< the head has been sent
};

/// The headers of an answer to gRPC-Web.
Headers GrpcWebHeaders();

}  // namespace quarry::server::http
