#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quarry/base/checked_math.h"
#include "quarry/base/endian.h"
#include "quarry/box.h"

namespace quarry::mask {

using Word = std::uint64_t;
constexpr std::int64_t kWordBits = 64;

/// The lowest `count` bits, 1 <= count <= 64.
constexpr Word LowBits(std::int64_t count) { return ~Word{0} >> (kWordBits - count); }

/// A mask with one bit a sample. Every row along x starts a new word; bits beyond its end are 0.
class BitGrid {
 public:
  BitGrid() = default;
  explicit BitGrid(const Index3& shape)
      : shape_(shape),
        row_words_(CeilDivide(shape[0], kWordBits)),
        words_(static_cast<std::size_t>(row_words_ * shape[1] * shape[2])) {}

  const Index3& shape() const { return shape_; }
  std::int64_t row_words() const { return row_words_; }
  Word* Row(std::int64_t y, std::int64_t z) { return words_.data() + (y + shape_[1] * z) * row_words_; }
  const Word* Row(std::int64_t y, std::int64_t z) const {
    return words_.data() + (y + shape_[1] * z) * row_words_;
  }

 private:
  Index3 shape_{};
  std::int64_t row_words_ = 0;
  std::vector<Word> words_;
};

/// @param mask  one byte a sample, 0 or 1, x fastest
BitGrid Pack(ByteSpan mask, const Index3& shape);

/// Inverse of Pack.
Bytes Unpack(const BitGrid& grid);

/// Every second sample of `grid`, starting at `first` (0 or 1 on each axis); every sample on axes with stride
/// 1.
BitGrid Subsample(const BitGrid& grid, const Index3& first, const Index3& stride);

/// Interleaves `known` (even) and `added` (odd) samples along `axis`.
BitGrid Interleave(const BitGrid& known, const BitGrid& added, std::size_t axis);

/// `grid` shifted by one sample towards the start of its rows; their last sample is repeated.
BitGrid NextAlongX(const BitGrid& grid);

}  // namespace quarry::mask
