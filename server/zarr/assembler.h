#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/v1/service.pb.h"
#include "server/zarr/hierarchy.h"

namespace quarry::server::zarr {

/// Puts the bytes of a field's chunk together from the answer to its question.
class ChunkAssembler {
 public:
  /// @param chunk  outlives the assembler, as does its hierarchy
  explicit ChunkAssembler(const Chunk& chunk);

  /// A message of the answer.
  /// @errors kInternal: it does not fit the question; kDataLoss: damage, which never looks like samples
  Status Add(const ::quarry::v1::ReadResponse& message);
  /// Whether all samples are there.
  bool is_complete() const { return complete_; }
  /// The chunk, padded with the fill value; missing samples of floating-point fields are NaN.
  std::shared_ptr<const Bytes> Take() { return std::move(bytes_); }

 private:
  Status AddBlocks(const ::quarry::v1::SampleBlocks& blocks);
  void Pad();
  void MarkMissing();

  const Chunk& chunk_;
  // z, y, x; in samples of the level, and of a whole chunk.
  const std::array<std::uint64_t, 3> begin_;
  const std::array<std::uint64_t, 3> end_;
  const std::array<std::uint64_t, 3> chunks_;
  const std::uint64_t sample_;  ///< [bytes]
  const std::uint64_t stored_;  ///< [bytes] of a sample in the answer
  std::shared_ptr<Bytes> bytes_;
  std::uint64_t left_ = 0;  ///< samples that are still to come
  bool complete_ = false;
};

}  // namespace quarry::server::zarr
