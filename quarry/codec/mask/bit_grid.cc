#include "quarry/codec/mask/bit_grid.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace quarry::mask {
namespace {

/// The eight samples of every byte of a BitGrid.
constexpr auto kBytesOfBits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t bits = 0; bits < 256; ++bits) {
    for (std::size_t i = 0; i < 8; ++i) table[bits][i] = static_cast<std::uint8_t>(bits >> i & 1);
  }
  return table;
}();

/// Eight bytes of 0 or 1 as eight bits: the product has byte i at bit 56 + i, and no two terms in one place.
Word BitsOfBytes(std::uint64_t bytes) { return bytes * 0x0102040810204080u >> 56; }

/// Bit i of the lower half goes to bit 2 i.
Word SpreadBits(Word bits) {
  bits &= 0xffffffff;
  bits = (bits | bits << 16) & 0x0000ffff0000ffff;
  bits = (bits | bits << 8) & 0x00ff00ff00ff00ff;
  bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0f;
  bits = (bits | bits << 2) & 0x3333333333333333;
  return (bits | bits << 1) & 0x5555555555555555;
}

/// Bit 2 i goes to bit i of the lower half.
Word GatherBits(Word bits) {
  bits &= 0x5555555555555555;
  bits = (bits | bits >> 1) & 0x3333333333333333;
  bits = (bits | bits >> 2) & 0x0f0f0f0f0f0f0f0f;
  bits = (bits | bits >> 4) & 0x00ff00ff00ff00ff;
  bits = (bits | bits >> 8) & 0x0000ffff0000ffff;
  return (bits | bits >> 16) & 0xffffffff;
}

}  // namespace

BitGrid Pack(ByteSpan mask, const Index3& shape) {
  BitGrid grid(shape);
  const std::byte* next = mask.data();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      Word* row = grid.Row(y, z);
      std::int64_t x = 0;
      for (; x + 8 <= shape[0]; x += 8, next += 8)
        row[x / kWordBits] |= BitsOfBytes(GetLittleEndian<std::uint64_t>(next)) << (x % kWordBits);
      for (; x < shape[0]; ++x) row[x / kWordBits] |= std::to_integer<Word>(*next++) << (x % kWordBits);
    }
  }
  return grid;
}

Bytes Unpack(const BitGrid& grid) {
  const Index3& shape = grid.shape();
  Bytes mask(static_cast<std::size_t>(Volume(shape)));
  std::byte* out = mask.data();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const Word* row = grid.Row(y, z);
      std::int64_t x = 0;
      for (; x + 8 <= shape[0]; x += 8, out += 8)
        std::memcpy(out, kBytesOfBits[row[x / kWordBits] >> (x % kWordBits) & 0xff].data(), 8);
      for (; x < shape[0]; ++x) *out++ = static_cast<std::byte>(row[x / kWordBits] >> (x % kWordBits) & 1);
    }
  }
  return mask;
}

BitGrid Subsample(const BitGrid& grid, const Index3& first, const Index3& stride) {
  Index3 shape{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    shape[axis] = CeilDivide(grid.shape()[axis] - first[axis], stride[axis]);
  }
  BitGrid kept(shape);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const Word* from = grid.Row(first[1] + y * stride[1], first[2] + z * stride[2]);
      Word* to = kept.Row(y, z);
      if (stride[0] == 1) {
        std::copy_n(from, kept.row_words(), to);
        continue;
      }
      for (std::int64_t w = 0; w < grid.row_words(); ++w) {
        const Word half = GatherBits(from[w] >> first[0]);
        // A row that is a word shorter has no place for the last half, which is then 0.
        if (half != 0) to[w / 2] |= half << (w % 2 * 32);
      }
    }
  }
  return kept;
}

BitGrid Interleave(const BitGrid& known, const BitGrid& added, std::size_t axis) {
  Index3 shape = known.shape();
  shape[axis] += added.shape()[axis];
  BitGrid grid(shape);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      Word* to = grid.Row(y, z);
      if (axis == 0) {
        const Word* even = known.Row(y, z);
        const Word* odd = added.Row(y, z);
        for (std::int64_t w = 0; w < grid.row_words(); ++w) {
          const std::int64_t shift = w % 2 * 32;
          to[w] = SpreadBits(even[w / 2] >> shift);
          if (w / 2 < added.row_words()) to[w] |= SpreadBits(odd[w / 2] >> shift) << 1;
        }
      } else {
        const bool odd = (axis == 1 ? y : z) % 2 != 0;
        const Word* from = (odd ? added : known).Row(axis == 1 ? y / 2 : y, axis == 2 ? z / 2 : z);
        std::copy_n(from, grid.row_words(), to);
      }
    }
  }
  return grid;
}

BitGrid NextAlongX(const BitGrid& grid) {
  BitGrid next(grid.shape());
  const std::int64_t last = grid.shape()[0] - 1;
  for (std::int64_t z = 0; z < grid.shape()[2]; ++z) {
    for (std::int64_t y = 0; y < grid.shape()[1]; ++y) {
      const Word* from = grid.Row(y, z);
      Word* to = next.Row(y, z);
      for (std::int64_t w = 0; w < grid.row_words(); ++w) {
        to[w] = from[w] >> 1 | (w + 1 < grid.row_words() ? from[w + 1] << 63 : 0);
      }
      to[last / kWordBits] |= from[last / kWordBits] & Word{1} << (last % kWordBits);
    }
  }
  return next;
}

}  // namespace quarry::mask
