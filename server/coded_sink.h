#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/answer/answer_stream.h"
#include "quarry/codec/tile.h"
#include "quarry/dataset/patch_keys.h"
#include "quarry/query/tiles.h"
#include "server/call.h"

namespace quarry::server {

/// Puts the samples of an answer together to tiles, has them coded, and packs them into messages. Tiles that
/// others have asked for come from the store.
class CodedSink final : public BlockSink {
 public:
  /// @param start   its plan, dataset and computation outlive the sink
  /// @param errors  of the levels of the plan
  CodedSink(answer::AnswerStream* stream, PatchStore* store, Call* call, const AnswerStart& start,
            const std::vector<query::CodedError>& errors);

  Status Deliver(const SampleBlock& block) override;
  Status LevelEnd(const query::LevelExtent& level) override;

  /// [bytes] of a tile and of its coding, beside the messages.
  static std::uint64_t MemoryOf(const query::ReadPlan& plan);

 private:
  using Damaged = std::vector<std::pair<Box, query::LevelChoice>>;
  using Coded = std::shared_ptr<const Bytes>;
  /// The tile that is put together.
  struct OpenTile {
    Box extent;
    Bytes samples;
    std::int64_t missing = 0;   ///< samples that have not come
    PatchKey last_patch;        ///< key of the last patch that has come
    std::uint64_t content = 0;  ///< checksum over those that have come
    std::size_t end_patch = 0;  ///< number in the answer of the one after them
    Damaged damaged;
  };

  Status DeliverParts(const SampleBlock& block, const Box& extent, ByteSpan samples);
  void Open(const Box& extent);
  void AddPatch(const SampleBlock& block, const Box& extent, OpenTile* tile) const;
  Status Close();
  Result<Coded> Code(const OpenTile& tile, ByteSpan samples) const;
  Result<Coded> CodeNow(const OpenTile& tile, ByteSpan samples) const;
  PatchKey KeyOf(const OpenTile& tile) const;
  Status Add(const OpenTile& tile, Coded coded, const ResumePoint& after);
  Status Flush();
  std::optional<answer::AnswerPart> TakePart();

  answer::AnswerStream* const stream_;
  PatchStore* const store_;
  Call* const call_;
  const query::ReadPlan& plan_;
  const Compute& compute_;
  const Index3 patch_shape_;                 ///< shape of patches that are not cut
  const std::optional<std::uint64_t> fill_;  ///< bits of the field's fill value
  const PatchKeys keys_;
  std::vector<query::LevelExtent> levels_;  ///< levels of the answer, with the errors that are kept
  std::vector<double> errors_;              ///< errors of their coding
  std::size_t level_index_;                 ///< index of the current level
  std::size_t skip_;                        ///< parts of the first patch that the client already has
  std::size_t parts_ = 0;                   ///< parts of the current patch that are added or skipped
  std::optional<query::TileCut> cut_;       ///< cut of the current level
  std::optional<OpenTile> open_;
  ::quarry::v1::CodedTiles pending_;
  Message pieces_;
  std::size_t pending_bytes_ = 0;
  ResumePoint after_;  ///< the position after the pending tiles
};

}  // namespace quarry::server
