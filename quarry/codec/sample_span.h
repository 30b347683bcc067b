#pragma once

#include <cstdint>
#include <span>

#include "quarry/codec/coder.h"

namespace quarry {

template <typename T>
std::span<const T> SamplesOf(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

inline Validity AsValidity(ByteSpan mask) { return SamplesOf<std::uint8_t>(mask); }

}  // namespace quarry
