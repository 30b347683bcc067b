#pragma once

#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/answer_reader.h"
#include "clients/cpp/level_assembler.h"
#include "clients/cpp/payload_decoder.h"

namespace quarry::client::internal {

/// An answer's header. Whatever a server says, samples are those that were asked for, and memory is taken for
/// parts of the grid only.
/// @errors kInternal: another field, type, step, level, spacing or extent than asked for
Result<query::AnswerHeader> ParseHeader(const DatasetDescription& dataset, const query::SeriesRequest& request,
                                        const ::quarry::v1::ReadHeader& message);

/// Puts the answers to a request together, however many streams they come in. What a server sends may be
/// anything: it is checked against the dataset. One caller at a time.
class AnswerReceiver final : public AnswerHandler {
 public:
  /// @param dataset, request, on_level, pool  outlive it
  AnswerReceiver(const DatasetDescription& dataset, const query::SeriesRequest& request,
                 const LevelCallback& on_level, DecodePool* pool)
      : dataset_(dataset), request_(request), on_level_(on_level), pool_(pool) {}

  /// @errors kInternal: not what was asked for; what the callback returned
  Status Take(const grpc::ByteBuffer& message);

  /// Where a stream that breaks now goes on.
  const std::string& position() const { return position_; }
  bool ended() const { return ended_; }
  /// @errors kInternal when something is missing
  Status CheckComplete() const;

  /// Whether a stream that broke can be followed by another one: a position vouches for what came before.
  bool CanGoOn() const { return !position_.empty() || !begun_; }

  Status Header(const ::quarry::v1::ReadHeader& message) override;
  Status Samples(const ::quarry::v1::SampleBlocks& part, MessageData* data) override;
  Status Patches(const ::quarry::v1::PatchPayloads& part, MessageData* data) override;
  Status LevelEnd(const ::quarry::v1::LevelEnd& end) override;
  Status ReadEnd() override;
  void Position(std::string position) override { position_ = std::move(position); }

 private:
  const DatasetDescription& dataset_;
  const query::SeriesRequest& request_;
  const LevelCallback& on_level_;
  DecodePool* const pool_;
  query::AnswerHeader header_;  ///< of the answer that is under way
  std::optional<LevelAssembler> assembler_;
  std::unique_ptr<PayloadDecoder> decoder_;
  std::string position_;
  std::uint64_t bytes_received_ = 0;  ///< of this answer
  bool begun_ = false;  ///< something came after the first header
  bool ended_ = false;
};

}  // namespace quarry::client::internal
