#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/zarr/hierarchy.h"

namespace quarry::zarr {

/// The bytes of a field's chunk, put together from samples as they are stored. Missing samples of
/// floating-point fields become NaN.
class ChunkBuffer {
 public:
  /// @param chunk  of a field; outlives the buffer, as does its hierarchy
  explicit ChunkBuffer(const Chunk& chunk);

  /// [bytes] of the stored samples of a box.
  std::uint64_t BytesOf(const Box& box) const;

  /// Takes the samples of a box.
  /// @param box      samples of the level, x, y, z
  /// @param samples  dense, x fastest, little-endian
  /// @errors kInternal: the box lies outside the chunk, or the samples are fewer or more than it has
  Status Add(const Box& box, ByteSpan samples);

  /// @errors kInternal: samples are lacking
  Status CheckComplete() const;

  /// The chunk, padded with the fill value.
  std::shared_ptr<const Bytes> Take() { return std::move(bytes_); }

 private:
  void Pad();

  const Chunk& chunk_;
  // z, y, x; in samples of the level, and of a whole chunk.
  const std::array<std::uint64_t, 3> begin_;
  const std::array<std::uint64_t, 3> end_;
  const std::array<std::uint64_t, 3> chunks_;
  const std::uint64_t sample_;  ///< [bytes]
  const std::uint64_t stored_;  ///< [bytes] of a stored sample
  std::shared_ptr<Bytes> bytes_;
  std::uint64_t left_ = 0;  ///< samples that are still to come
};

}  // namespace quarry::zarr
