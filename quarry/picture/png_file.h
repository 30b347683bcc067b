#pragma once

#include <cstdint>
#include <span>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry::picture {

/// The most that a PNG of ours has along a side.
inline constexpr std::int64_t kMaxPixelsPerSide = 32767;

/// Rows of pixels from top to bottom, with 8 bits for each of red, green, blue and, with transparency, alpha.
struct Pixels {
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  bool transparency = false;
  int repeat = 1;  ///< how often each row is drawn: the picture has rows * repeat of them
  /// shape (rows, columns, 3 or 4), the last fastest
  std::span<const std::uint8_t> samples;
};

/// @errors kInvalidArgument: sides below 1 or above kMaxPixelsPerSide, or not as many samples as pixels have;
///         kInternal: libpng
Result<Bytes> EncodePng(const Pixels& pixels);

}  // namespace quarry::picture
