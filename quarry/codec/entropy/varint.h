#pragma once

#include <cstddef>
#include <cstdint>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry::entropy {

/// Appends `value` with seven bits a byte, the lowest first; the highest bit of a byte is set when another
/// one follows.
inline void PutVarint(std::uint64_t value, Bytes* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

/// Takes a varint of at most five bytes, thus below 2^35, off the front of `payload`.
/// @errors kDataLoss
inline Result<std::uint64_t> TakeVarint(ByteSpan* payload) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 35 && !payload->empty(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(payload->front());
    *payload = payload->subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return DataLoss("a length in a payload is malformed");
}

}  // namespace quarry::entropy
