#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry::entropy {

/// How an array of words is split into planes, which are compressed separately. The numbers are stored.
enum class PlaneLayout : std::uint8_t {
  kBytes = 0,  ///< plane k: byte k of every word, the least significant first
  kBits = 1,   ///< plane k: bit k of every word, eight words a byte
  kWords = 2,  ///< one plane: the words, little-endian
};

/// Appends an array of unsigned words as planes, each in its smallest form: zero, constant, raw or zstd
/// frame. An empty array appends nothing. Layout: docs/format.md, "Planes". Thread-safe.
/// @param words       in native byte order, any alignment; a multiple of word_size
/// @param word_size   1, 2, 4 or 8
/// @param zstd_level  compression level of zstd; on residuals 1 compresses as well as 3, and faster
/// @errors throws std::bad_alloc
void AppendPlanes(ByteSpan words, std::size_t word_size, PlaneLayout layout, int zstd_level, Bytes* out);

/// Reads the output of AppendPlanes; the size of `words` says how many there are. Any payload is safe.
/// @returns number of bytes of `payload` that were used
/// @errors kDataLoss
Result<std::size_t> ReadPlanes(ByteSpan payload, std::size_t word_size, std::span<std::byte> words);

}  // namespace quarry::entropy
