#pragma once

#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/answer_reader.h"
#include "clients/cpp/level_assembler.h"
#include "clients/cpp/payload_decoder.h"

namespace quarry::client::internal {

/// Whether this is an answer to the question. Whatever a server says, samples are those that were asked for, and
/// memory is taken for parts of the grid only.
/// @errors kInternal: another type, step, level, spacing or extent
Status CheckHeader(const DatasetDescription& dataset, const query::ReadRequest& request,
                   const query::AnswerHeader& header);

/// Puts an answer together, however many streams it comes in. What a server sends may be anything: it is
/// checked against the dataset. One caller at a time.
class AnswerReceiver final : public AnswerHandler {
 public:
  /// @param dataset, request, on_level, pool  outlive it
  AnswerReceiver(const DatasetDescription& dataset, const query::ReadRequest& request,
                 const LevelCallback& on_level, DecodePool* pool)
      : dataset_(dataset), request_(request), on_level_(on_level), pool_(pool) {}

  /// @errors kInternal: not what was asked for; what the callback returned
  Status Take(const grpc::ByteBuffer& message);

  /// Where a stream that breaks now goes on.
  const std::string& position() const { return position_; }
  bool ended() const { return ended_; }
  /// @errors kInternal when something is missing
  Status CheckComplete() const { return assembler_->CheckComplete(); }

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
  const query::ReadRequest& request_;
  const LevelCallback& on_level_;
  DecodePool* const pool_;
  query::AnswerHeader header_;
  std::optional<LevelAssembler> assembler_;
  std::unique_ptr<PayloadDecoder> decoder_;
  std::string position_;
  std::uint64_t bytes_received_ = 0;
  bool begun_ = false;  ///< something came after the header
  bool ended_ = false;
};

}  // namespace quarry::client::internal
