#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "quarry/codec/coder.h"
#include "quarry/codec/error_record/lanes.h"
#include "quarry/codec/sample_span.h"

namespace quarry::error_record {

/// The samples of a patch at level 0, original and decoded.
template <typename T>
struct Samples {
  const T* original;
  const T* decoded;
  const std::uint8_t* validity;  // null: all are valid
  size_t count;

  static constexpr size_t kBlock = kTile * kTile;
  size_t blocks() const { return (count + kBlock - 1) / kBlock; }
  Samples Block(size_t block) const {
    const size_t begin = block * kBlock;
    return {original + begin, decoded + begin, validity == nullptr ? nullptr : validity + begin,
            std::min(kBlock, count - begin)};
  }
};

template <typename T>
std::uint64_t CountValid(const Samples<T>& samples) {
  if (samples.validity == nullptr) return samples.count;
  return static_cast<std::uint64_t>(std::count_if(samples.validity, samples.validity + samples.count,
                                                  [](std::uint8_t valid) { return valid != 0; }));
}

template <typename T>
Samples<T> SamplesOf(ByteSpan original, ByteSpan decoded, Validity validity) {
  return {reinterpret_cast<const T*>(original.data()), reinterpret_cast<const T*>(decoded.data()),
          DataOrNull(validity), original.size() / sizeof(T)};
}

}  // namespace quarry::error_record
