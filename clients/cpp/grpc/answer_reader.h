#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/v1/service.pb.h"

namespace quarry::client::internal {

/// The bytes of a message after its description, to be copied to their place.
class MessageData {
 public:
  MessageData(google::protobuf::io::CodedInputStream* stream, std::size_t size)
      : stream_(stream), size_(size) {}

  std::size_t size() const { return size_; }
  /// The next bytes. False when there are fewer.
  bool Read(std::byte* to, std::size_t bytes) {
    if (bytes > size_) return false;
    size_ -= bytes;
    return stream_->ReadRaw(to, static_cast<int>(bytes));
  }
  /// The next bytes where they are, if they lie there in one piece; otherwise null, and they are still next.
  const std::byte* Next(std::size_t bytes) {
    const void* piece = nullptr;
    int size = 0;
    if (bytes > size_ || !stream_->GetDirectBufferPointer(&piece, &size)) return nullptr;
    if (bytes > static_cast<std::size_t>(size) || !stream_->Skip(static_cast<int>(bytes))) return nullptr;
    size_ -= bytes;
    return static_cast<const std::byte*>(piece);
  }

 private:
  google::protobuf::io::CodedInputStream* stream_;
  std::size_t size_;
};

/// Receives the parts of an answer. The ends and the position of a message come after its samples, patches or
/// tiles.
class AnswerHandler {
 public:
  virtual ~AnswerHandler() = default;

  virtual Status Header(const ::quarry::v1::ReadHeader& header) = 0;
  /// @param part  without its data
  virtual Status Samples(const ::quarry::v1::SampleBlocks& part, MessageData* data) = 0;
  virtual Status Patches(const ::quarry::v1::PatchPayloads& part, MessageData* data) = 0;
  virtual Status Coded(const ::quarry::v1::CodedTiles& part, MessageData* data) = 0;
  virtual Status LevelEnd(const ::quarry::v1::LevelEnd& end) = 0;
  virtual Status ReadEnd() = 0;
  virtual void Position(std::string position) = 0;
};

/// Takes a ReadResponse apart, and copies samples and payload only to where the handler wants them:
/// protobuf's own parser would first collect them in a string. Unknown fields are skipped.
/// @errors kInternal: not a ReadResponse; errors of the handler
Status ParseAnswer(const grpc::ByteBuffer& message, AnswerHandler* handler);

}  // namespace quarry::client::internal
