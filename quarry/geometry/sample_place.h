#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quarry/base/endian.h"
#include "quarry/base/stream_bytes.h"
#include "quarry/box.h"

/// Destination of decoded samples: the caller's array, without a copy in between.
namespace quarry {

/// The place of a box of samples in an array: rows along x are dense, others need not be.
struct SamplePlace {
  std::byte* first = nullptr;   ///< the box's first sample
  std::size_t row_bytes = 0;    ///< from a row to the next along y
  std::size_t plane_bytes = 0;  ///< and along z
  bool streamed = false;        ///< the array is larger than caches: write past them, see StreamBytes

  /// A dense array of this shape.
  static SamplePlace Dense(std::byte* samples, const Index3& shape, std::size_t sample_size);

  std::byte* Row(std::int64_t y, std::int64_t z) const {
    return first + static_cast<std::size_t>(z) * plane_bytes + static_cast<std::size_t>(y) * row_bytes;
  }
  /// Writes a row, or the beginning of one. After the last, the writing thread calls EndWriting.
  void WriteRow(std::int64_t y, std::int64_t z, const std::byte* from, std::size_t bytes) const {
    if (streamed) {
      StreamBytes(Row(y, z), from, bytes);
    } else {
      std::memcpy(Row(y, z), from, bytes);
    }
  }
  /// Before another thread may read the samples.
  void EndWriting() const;
};

/// Copies dense samples of a box to its place, with EndWriting.
/// @param samples  of `shape`, `sample_size` bytes each
void CopySamples(ByteSpan samples, const Index3& shape, std::size_t sample_size, const SamplePlace& place);

/// A dense array of the samples of a box.
struct SampleArray {
  std::byte* samples = nullptr;
  Box extent;
  std::size_t sample_size = 0;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(extent.volume()) * sample_size; }
  /// @param part  not empty, inside `extent`
  SamplePlace PlaceOf(const Box& part) const;
};

}  // namespace quarry
