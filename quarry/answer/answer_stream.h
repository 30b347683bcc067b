#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/answer/message.h"
#include "quarry/dataset/read_payload.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/query/tiles.h"
#include "quarry/session/session.h"
#include "quarry/v1/service.pb.h"

namespace quarry::answer {

/// Largest part of a patch's samples. Positions count the parts, so all servers cut alike.
inline constexpr std::size_t kPartBytes = 256 << 10;

/// Approximate size of the server's messages: large for full speed, but small enough that messages of very
/// many slow clients take little of the server's memory.
/// @param memory  [bytes] of the server
std::size_t MessageBytesFor(std::uint64_t memory);

/// Halves of the samples of a block, along the slowest axis that can be cut: each is contiguous in memory.
std::pair<Box, Box> Halves(const Box& extent);

/// Size of the next message: what the client takes in 50 ms, at least 64 KiB. The answer to another call of
/// its connection waits for no more than a message, and of a cancelled answer no more is sent.
/// @param bytes, took  of the message before
/// @param most         [bytes] see MessageBytesFor
std::size_t NextMessageBytes(std::size_t bytes, std::chrono::nanoseconds took, std::size_t most);

/// A resume point as the opaque text that clients hand back.
std::string ToToken(const ResumePoint& point);
/// @errors kInvalidArgument: not such a text
Result<ResumePoint> FromToken(const std::string& token);

/// Samples or payload of an answer.
struct AnswerPart {
  int field;                                         ///< number of the part in ReadResponse
  const google::protobuf::MessageLite* description;  ///< the part without its data
  Message data;                                      ///< its field `data`
  bool shares;                                       ///< memory that the read has pinned
};

/// The messages of one Read. A level's end goes with its last samples, and so does the end of the read: each
/// message costs tens of microseconds, and a small read from memory takes half a millisecond. Samples and
/// payload go from the patch or the file buffer to the transport without a copy: messages are assembled of
/// pieces that share the memory with its owner. A slow client blocks the writing, reading and decoding of its
/// own read only.
class AnswerStream {
 public:
  /// @param sink        outlives the stream
  /// @param describes   headers describe the field of their answer
  /// @param most_bytes  approximate size of the largest messages
  AnswerStream(MessageSink* sink, bool describes, std::size_t most_bytes)
      : sink_(sink), describes_(describes), most_bytes_(most_bytes), message_bytes_(most_bytes) {}

  /// Approximate size of the next message.
  std::size_t message_bytes() const { return message_bytes_; }

  /// Sends the header of an answer. Later positions are in this answer.
  /// @param coded   errors of the levels of a coded answer
  /// @param choice  of the encoding, if the client left it open
  Status Begin(const AnswerStart& start, const std::optional<query::EncodingChoice>& choice,
               const std::vector<query::CodedError>& coded = {});
  Status Send(AnswerPart part, const ResumePoint& position);
  /// @param last  of the level; none: its parts, if it has any, are sent
  Status EndLevel(const query::LevelExtent& level, std::optional<AnswerPart> last,
                  const ResumePoint& position);
  /// Ends the read, if its last level did not.
  Status End();

  /// The position after this many levels of the answer, patches of the next level, and parts of the patch
  /// after them.
  ResumePoint Position(std::size_t levels, std::size_t patches, std::size_t parts) const;

 private:
  /// @param rest  of the message, after the part
  Status Write(std::optional<AnswerPart> part, const ::quarry::v1::ReadResponse& rest);

  MessageSink* const sink_;
  const bool describes_;
  const std::size_t most_bytes_;
  std::size_t message_bytes_;
  query::Cost cost_;
  std::uint64_t number_ = 0;       ///< number of the answer
  std::uint64_t fingerprint_ = 0;  ///< fingerprint of its plan
  std::size_t start_ = 0;          ///< the patch of the plan with which it begins
  std::size_t levels_ = 0;         ///< number of levels in the answer
  std::uint64_t count_ = 0;        ///< answers
  bool ended_ = false;
};

/// Packs blocks of samples into messages.
class SampleSink final : public BlockSink {
 public:
  /// @param from  where the answer resumes; skips the first `parts` parts of its first patch
  SampleSink(AnswerStream* stream, const query::ReadPlan& plan, const ResumePoint& from)
      : stream_(stream),
        sample_size_(SizeOf(plan.type)),
        levels_(plan.levels),
        level_index_(from.position.pass),
        skip_(from.parts) {}

  Status Deliver(const SampleBlock& block) override;
  Status LevelEnd(const query::LevelExtent& level) override;

 private:
  Status DeliverPart(const SampleBlock& block, const Box& extent, ByteSpan samples);
  void Add(const SampleBlock& block, const Box& extent, ByteSpan samples);
  void EndSmall();
  Status Flush();
  /// Takes the pending part, if any. `pending_` stays until it is sent.
  std::optional<AnswerPart> TakePart();

  AnswerStream* const stream_;
  const std::size_t sample_size_;
  const std::vector<query::LevelExtent> levels_;  ///< levels of the answer
  std::size_t level_index_;                       ///< index of the current level
  std::size_t skip_;                              ///< parts of the first patch that the client already has
  std::size_t patch_ = 0;                         ///< patch of the current block
  std::size_t parts_ = 0;                         ///< parts of it that are added or skipped
  ::quarry::v1::SampleBlocks pending_;
  Message pieces_;
  bool shares_ = false;            ///< a piece is memory of a patch
  std::string small_;              ///< small blocks, which are copied, after the pieces
  std::size_t pending_bytes_ = 0;  ///< samples and block extents: tiny blocks have more of the latter
};

/// Packs stored payload into messages.
class PayloadStreamSink final : public PayloadSink {
 public:
  PayloadStreamSink(AnswerStream* stream, const query::ReadPlan& plan, const ResumePoint& from)
      : stream_(stream), plan_(plan), level_index_(from.position.pass) {}

  Status Deliver(const StoredPayload& payload) override;
  Status LevelEnd(const query::LevelExtent& level) override;

 private:
  Status Flush();
  /// Takes the pending part, if any. `pending_` stays until it is sent.
  std::optional<AnswerPart> TakePart();

  AnswerStream* const stream_;
  const query::ReadPlan& plan_;
  std::size_t level_index_;
  std::size_t patches_ = 0;  ///< patches of the level that are added so far
  ::quarry::v1::PatchPayloads pending_;
  Message pieces_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace quarry::answer
