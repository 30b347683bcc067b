#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry {

/// How an array of words is cut into planes, each of which is compressed on its own. The numbers are stored.
enum class PlaneLayout : std::uint8_t {
  kBytes = 0,  ///< plane k: byte k of every word, the least significant first
  kBits = 1,   ///< plane k: bit k of every word, eight words a byte
  kWords = 2,  ///< one plane: the words, little-endian
};

/// Appends an array of unsigned words as planes: each of them zero, constant, raw or a zstd frame, whichever
/// is smallest. An empty array is no bytes. Layout: docs/format.md, "Planes". Thread-safe.
/// @param words       in native byte order, any alignment; a multiple of word_size
/// @param word_size   1, 2, 4 or 8
/// @param zstd_level  as zstd counts them; 1 is as small as 3 on residuals, and faster
/// @errors throws std::bad_alloc
void AppendPlanes(ByteSpan words, std::size_t word_size, PlaneLayout layout, int zstd_level, Bytes* out);

/// Reads what AppendPlanes appended; `words` says how many there were. Any payload is safe.
/// @returns bytes of `payload` that were used
/// @errors kDataLoss
Result<std::size_t> ReadPlanes(ByteSpan payload, std::size_t word_size, std::span<std::byte> words);

}  // namespace quarry
