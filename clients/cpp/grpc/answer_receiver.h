#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/grpc/answer_reader.h"
#include "clients/cpp/grpc/payload_decoder.h"
#include "clients/cpp/grpc/tile_decoder.h"
#include "clients/cpp/level_assembler.h"

namespace quarry::client::internal {

/// Parses an answer's header. No server can make the client accept other samples than it asked for, or
/// allocate memory for more than parts of the grid.
/// @errors kInternal: another field, type, step, level, spacing or extent than asked for
Result<query::AnswerHeader> ParseHeader(const DatasetDescription& dataset,
                                        const query::SeriesRequest& request,
                                        const ::quarry::v1::ReadHeader& message);

/// The description of a dataset, which does not change.
using SharedDescription = std::shared_ptr<const DatasetDescription>;

/// The description of the dataset, as far as a receiver has it.
struct KnownDataset {
  SharedDescription opened;  ///< null: each header describes its field
  /// Asks the server, for headers of older servers, which describe nothing.
  std::function<Result<SharedDescription>()> fetch;
};

/// Assembles the answers to a request from one or more streams. The server is not trusted: its messages are
/// checked against the dataset, and a description against the question. One caller at a time.
class AnswerReceiver final : public AnswerHandler {
 public:
  /// @param request, on_level, buffer, pool  outlive it
  /// @param recode  that was asked for
  AnswerReceiver(KnownDataset known, const query::SeriesRequest& request, const query::Recode& recode,
                 const LevelCallback& on_level, const BufferCallback& buffer, DecodePool* pool)
      : known_(std::move(known)),
        request_(request),
        recode_(recode),
        on_level_(on_level),
        buffer_(buffer),
        pool_(pool) {}

  /// @errors kInternal: not an answer to the request; errors of the callback
  Status Take(const grpc::ByteBuffer& message);

  /// Where to resume a stream that breaks now.
  const std::string& position() const { return position_; }
  bool ended() const { return ended_; }
  /// Why the current answer has its encoding; nothing if the server did not choose it.
  const std::optional<query::EncodingChoice>& choice() const { return header_.choice; }
  /// @errors kInternal when something is missing
  Status CheckComplete() const;

  /// Whether another stream can follow a broken one: a position vouches for everything before it.
  bool CanGoOn() const { return !position_.empty() || !begun_; }

  Status Header(const ::quarry::v1::ReadHeader& message) override;
  Status Samples(const ::quarry::v1::SampleBlocks& part, MessageData* data) override;
  Status Patches(const ::quarry::v1::PatchPayloads& part, MessageData* data) override;
  Status Coded(const ::quarry::v1::CodedTiles& part, MessageData* data) override;
  Status LevelEnd(const ::quarry::v1::LevelEnd& end) override;
  Status ReadEnd() override;
  void Position(std::string position) override { position_ = std::move(position); }

 private:
  Result<std::optional<query::LevelChoice>> Shown(const ::quarry::v1::BlockExtent& block,
                                                  std::uint32_t level) const;
  Status CheckCoding(const ::quarry::v1::ReadHeader& header) const;
  Result<SharedDescription> DatasetOf(const ::quarry::v1::ReadHeader& header);

  KnownDataset known_;
  const query::SeriesRequest& request_;
  const query::Recode recode_;
  const LevelCallback& on_level_;
  const BufferCallback& buffer_;
  DecodePool* const pool_;
  query::AnswerHeader header_;  ///< header of the current answer
  SharedDescription dataset_;   ///< has at least its field
  std::string described_;       ///< the bytes that described it; empty: none did
  std::optional<LevelAssembler> assembler_;
  std::unique_ptr<PayloadDecoder> decoder_;
  std::optional<TileDecoder> tiles_;
  std::string position_;
  std::uint64_t bytes_received_ = 0;  ///< bytes of this answer
  bool begun_ = false;                ///< something came after the first header
  bool ended_ = false;
};

}  // namespace quarry::client::internal
