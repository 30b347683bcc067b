#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Messages between ranks whose sizes only their senders know. Nothing is trusted to arrive intact: the head
/// of a message travels with its checksum. Counts are of words of 8 bytes, so that a message may have 16 GiB.
namespace quarry::writer {

/// A message: a head, which is checked, and a body, which the receiver checks by what the head says.
class Message {
 public:
  Message() = default;
  /// One that has arrived.
  explicit Message(Bytes bytes) : bytes_(std::move(bytes)) {}
  static Message WithHead(ByteSpan head);

  /// Whether the head is as it was sent; before that nothing else may be read.
  bool IntactHead() const;
  ByteSpan head() const;
  /// The bytes that were appended, and up to 7 zeros.
  ByteSpan body() const;
  /// To append to. @param more  bytes that will be appended
  Bytes* Body(std::size_t more);
  const Bytes& bytes() const { return bytes_; }
  /// Fills up the last word.
  void Close();

 private:
  Bytes bytes_;
};

/// A message with the rank that it goes to or comes from.
struct Letter {
  int peer = 0;
  Message message;
};

/// Messages that are complete together, in both directions.
///
/// After an error the other messages are still sent and received: their partners wait for them.
class Mail {
 public:
  Mail(MPI_Comm comm, std::uint64_t number);

  void Send(Message message, int target);
  /// Waits until a message is there, and begins to receive it. The partner has sent it, or sends it before it
  /// waits for anything.
  /// @param source  or MPI_ANY_SOURCE
  void Receive(int source);
  /// Waits for all messages. @returns those received, in the order of Receive
  /// @errors the first of all messages; also a head that has not arrived as it was sent
  Result<std::vector<Letter>> Wait();

 private:
  void Note(int code, const char* call);

  MPI_Comm comm_;
  int tag_;
  Status status_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> sent_;
  std::vector<int> sources_;
  std::vector<Bytes> received_;
};

/// Sends letters to any ranks, and returns those for this rank: by rank, and those of one rank in its order.
/// Letters to this rank are handed over.
/// @param number  of this exchange among those over `comm`, the same on every rank: keeps messages left over
/// from an earlier one after an error apart from this one's
/// @errors the same on every rank
/// @collective
Result<std::vector<Letter>> ExchangeLetters(MPI_Comm comm, std::uint64_t number, std::vector<Letter> letters);

}  // namespace quarry::writer
