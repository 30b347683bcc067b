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

/// Takes the output of AppendPlanes off the front of `payload`; the size of `words` says how many there are.
/// Any payload is safe; after an error it is unspecified what is left.
/// @errors kDataLoss
Status TakePlanes(ByteSpan* payload, std::size_t word_size, std::span<std::byte> words);

/// The same for the elements of a container.
template <typename Words>
Status TakePlanes(ByteSpan* payload, Words* words) {
  return TakePlanes(payload, sizeof(typename Words::value_type), std::as_writable_bytes(std::span(*words)));
}

}  // namespace quarry::entropy
