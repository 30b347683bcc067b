#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <string>
#include <vector>

#include "quarry/dataset/reader.h"
#include "quarry/v1/service.pb.h"
#include "server/call.h"

namespace quarry::server {

/// Samples of a patch come in parts of at most this. Positions count them, so that all servers cut alike.
inline constexpr std::size_t kPartBytes = 256 << 10;

/// Messages of about this size leave the server: large for full speed, but such that those of very many clients
/// who do not take them are little next to the server's memory.
/// @param memory  [bytes] of the server
std::size_t MessageBytesFor(std::uint64_t memory);

/// The messages of one Read. Samples and payload go from the patch or the file buffer to the socket without a
/// copy in between: messages are put together here, as slices that share the memory with its owner. A client
/// that is slow blocks the writing, and with it the reading and decoding of its own read only.
class AnswerStream {
 public:
  using Writer = std::function<bool(const grpc::ByteBuffer&)>;

  /// @param write  false when the client has gone
  AnswerStream(Writer write, Call* call) : write_(std::move(write)), call_(call) {}

  /// Sends the header of an answer. Positions are in this one from here on.
  /// @param fingerprint  of its plan
  /// @param from         what comes after it
  Status Begin(const query::AnswerHeader& header, std::uint64_t fingerprint,
               const ::quarry::v1::ReadPosition& from);

  Status Send(const ::quarry::v1::ReadResponse& message);

  /// Sends a part of an answer whose field `data` is `slices`.
  /// @param field  number of the part in ReadResponse
  /// @param part   the part without its data
  Status Send(int field, const google::protobuf::MessageLite& part, std::vector<grpc::Slice> slices,
              const ::quarry::v1::ReadPosition& position);

  Status SendLevelEnd(const query::LevelExtent& level, const ::quarry::v1::ReadPosition& position);

  /// Logged once for each damaged place.
  void Damaged(const Status& what) { call_->Damaged(what); }

  ::quarry::v1::ReadPosition Position(std::size_t levels, std::size_t patches, std::size_t parts) const;

 private:
  Status Write(const grpc::ByteBuffer& message);

  const Writer write_;
  Call* const call_;
  std::uint64_t number_ = 0;  ///< of the answer
  std::uint64_t fingerprint_ = 0;
};

/// Packs blocks of samples into messages.
class SampleSink final : public BlockSink {
 public:
  /// @param from  of the answer before, `parts` of whose first patch are left out
  SampleSink(AnswerStream* stream, std::size_t message_bytes, std::size_t sample_size,
             const ::quarry::v1::ReadPosition& from)
      : stream_(stream),
        message_bytes_(message_bytes),
        sample_size_(sample_size),
        level_index_(from.levels()),
        skip_(from.parts()) {}

  Status Deliver(const SampleBlock& block) override;
  Status LevelEnd(const query::LevelExtent& level) override;
  void Damaged(const Status& what) override { stream_->Damaged(what); }
  /// One message being put together, one on its way.
  std::uint64_t memory() const override { return 2 * message_bytes_; }

 private:
  Status DeliverPart(const SampleBlock& block, const Box& extent, ByteSpan samples);
  void Add(const SampleBlock& block, const Box& extent, ByteSpan samples);
  void EndSmall();
  Status Flush();

  AnswerStream* const stream_;
  const std::size_t message_bytes_;
  const std::size_t sample_size_;
  std::size_t level_index_;
  std::size_t skip_;          ///< parts of the first patch that the client has
  std::size_t patch_ = 0;     ///< of the block under way
  std::size_t parts_ = 0;     ///< of it that were added or skipped
  ::quarry::v1::SampleBlocks pending_;
  std::vector<grpc::Slice> slices_;
  std::string small_;  ///< small blocks, which are copied, behind the slices
  std::size_t pending_bytes_ = 0;  ///< of samples and block extents: tiny blocks have more of the latter
};

/// Packs payload as it is stored into messages.
class PayloadStreamSink final : public PayloadSink {
 public:
  PayloadStreamSink(AnswerStream* stream, std::size_t message_bytes, const query::ReadPlan& plan,
                    const ::quarry::v1::ReadPosition& from)
      : stream_(stream), message_bytes_(message_bytes), plan_(plan), level_index_(from.levels()) {}

  Status Deliver(const PatchPayload& payload) override;
  Status LevelEnd(const query::LevelExtent& level) override;
  void Damaged(const Status& what) override { stream_->Damaged(what); }
  /// One message being put together, one on its way.
  std::uint64_t memory() const override { return 2 * message_bytes_; }

 private:
  Status Flush();

  AnswerStream* const stream_;
  const std::size_t message_bytes_;
  const query::ReadPlan& plan_;
  std::size_t level_index_;
  std::size_t patches_ = 0;  ///< of the level, that were added
  ::quarry::v1::PatchPayloads pending_;
  std::vector<grpc::Slice> slices_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace quarry::server
