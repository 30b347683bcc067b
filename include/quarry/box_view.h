#pragma once

#include <cstddef>

#include "quarry/box.h"

namespace quarry::redistribute {

/// Where the samples of a box lie in memory: describes ghosted, strided and Fortran- or C-ordered arrays
/// without a copy.
struct BoxView {
  const std::byte* data = nullptr;  ///< the first sample of the box
  Index3 stride{};                  ///< bytes from one sample to the next along x, y, z; any order of axes

  /// Samples of `box`, dense, x fastest.
  static BoxView Dense(const void* data, const Box& box, std::size_t sample_bytes);

  friend bool operator==(const BoxView&, const BoxView&) = default;
};

/// The same for samples to be written; no two samples may share a place.
struct MutableBoxView {
  std::byte* data = nullptr;
  Index3 stride{};

  static MutableBoxView Dense(void* data, const Box& box, std::size_t sample_bytes);
  operator BoxView() const { return {data, stride}; }  // NOLINT: implicit, as a pointer to const

  friend bool operator==(const MutableBoxView&, const MutableBoxView&) = default;
};

}  // namespace quarry::redistribute
