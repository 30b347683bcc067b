#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Answers as messages of the service, for a server and for whoever answers in its place.
namespace quarry::answer {

/// Bytes of a message, kept alive by their owner.
struct SharedBytes {
  ByteSpan bytes;
  std::shared_ptr<const void> owner;
};
/// A message in pieces: large ones go to the socket without a copy.
using Message = std::vector<SharedBytes>;

/// `text` as bytes that own themselves.
SharedBytes OwnBytes(std::string text);

/// The next message after this one.
enum class Follows {
  kLater,   ///< another one, some time: the message leaves now
  kStatus,  ///< nothing but the status: the message may leave together with it
};

/// Takes the messages of a Read. One thread at a time.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  /// @param position  of the answer after the message, as ToToken makes it; empty: it is complete
  /// @errors end the answer
  virtual Status Send(const Message& message, Follows follows, const std::string& position) = 0;
};

}  // namespace quarry::answer
