#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quarry/answer/message.h"
#include "quarry/base/status.h"
#include "server/guard/connection.h"

/// Interface of a transport to the service. A transport implements both classes for each of its calls.
namespace quarry::server {

/// The caller. One thread at a time, except for Cut.
class Peer {
 public:
  virtual ~Peer() = default;
  /// Address of the client, for example "ipv4:127.0.0.1:50123".
  virtual std::string address() const = 0;
  /// Common name in the client's certificate; empty if it has shown none.
  virtual std::string certificate_name() const = 0;
  /// A header of the call. @param name  in lower case
  virtual std::optional<std::string_view> Header(const std::string& name) const = 0;
  /// Adds a header to the answer, before its first message.
  virtual void AddHeader(const std::string& name, const std::string& value) = 0;
  /// Whether nobody waits for the answer any more. May be called between patches.
  virtual bool Gone() = 0;
  /// Ends the call at the transport, even while it blocks. Thread-safe; must not block.
  virtual void Cut() = 0;
  /// The connection that the call came by; null if it is not known.
  virtual Connection* connection() { return nullptr; }
};

/// "ipv4:127.0.0.1:50123" -> "ipv4:127.0.0.1"; the address of what has no port.
inline std::string AddressWithoutPort(const std::string& address) {
  return address.substr(0, address.starts_with("ip") ? address.rfind(':') : std::string::npos);
}

using answer::Follows;
using answer::Message;
using answer::OwnBytes;
using answer::SharedBytes;

/// The messages of a call. One thread at a time.
class MessageStream {
 public:
  virtual ~MessageStream() = default;
  /// Waits for the question.
  /// @errors kCancelled: none came; kInvalidArgument: the call ended without one; kResourceExhausted: it has
  /// more than `most` bytes
  virtual Result<std::string> Receive(std::size_t most) = 0;
  /// Sends the headers now, because the first message may take long.
  virtual void SendHeaders() = 0;
  /// Waits until the transport has taken the message, unless it leaves with the status.
  /// @returns false: the client has gone, as far as that is known
  virtual bool Send(const Message& message, Follows follows) = 0;
  /// [bytes] that the stream keeps of the answer beside the message at hand, once the question has come.
  virtual std::uint64_t kept() const { return 0; }
  /// Ends the answer with its status. Waits until the transport has taken it, and the last message.
  /// @param request_id  goes with the details of an error
  /// @returns false: the client has gone
  virtual bool Finish(const Status& status, const std::string& request_id) = 0;
  /// The same, instead of an answer, and without waiting: a client that takes nothing costs no thread.
  virtual void Refuse(const Status& status, const std::string& request_id) = 0;
};

}  // namespace quarry::server
