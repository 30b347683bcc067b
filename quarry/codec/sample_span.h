#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "quarry/codec/coder.h"

namespace quarry {

template <typename T>
std::span<const T> SamplesOf(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

inline Validity AsValidity(ByteSpan mask) { return SamplesOf<std::uint8_t>(mask); }

/// Null where all samples are valid.
inline const std::uint8_t* DataOrNull(Validity validity) {
  return validity.empty() ? nullptr : validity.data();
}

/// Copies samples; each missing one becomes the valid one before it in memory, the first ones the first valid
/// one, and 0 where there is none.
/// @param out  as many samples; may be `samples`
template <typename T>
void CopyPlausibly(const T* samples, Validity validity, T* out) {
  const auto first =
      std::find_if(validity.begin(), validity.end(), [](std::uint8_t valid) { return valid != 0; });
  T last = first == validity.end() ? T{0} : samples[first - validity.begin()];
  for (std::size_t i = 0; i < validity.size(); ++i) {
    if (validity[i] != 0) last = samples[i];
    out[i] = last;
  }
}

}  // namespace quarry
