#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "quarry/codec/mask/bit_grid.h"
#include "quarry/codec/mask/sample_streams.h"

/// Refines a level of a mask to the next finer one, in one pass along each axis.
namespace quarry::mask {

/// The samples of the finer level that a pass adds. Passes run along x, then y, then z: the samples are odd
/// along this pass, any along earlier axes, even along later ones.
inline BitGrid SamplesOfPass(const BitGrid& fine, std::size_t axis) {
  Index3 first{};
  Index3 stride{};
  first[axis] = 1;
  for (std::size_t i = 0; i < 3; ++i) stride[i] = i < axis ? 1 : 2;
  return Subsample(fine, first, stride);
}

/// One pass: the new samples between the `known` ones along `axis`, `count` of them along that axis.
class Pass {
 public:
  Pass(std::size_t axis, const BitGrid& known, std::int64_t count)
      : axis_(axis), known_(known), shape_(known.shape()) {
    shape_[axis] = count;
    if (axis == 0) next_ = NextAlongX(known);
  }

  /// @param truth  the new samples, in the shape of the result; null when reading
  template <typename Stream>
  BitGrid Run(const BitGrid* truth, Stream* stream) const {
    BitGrid added(shape_);
    for (std::int64_t z = 0; z < shape_[2]; ++z) {
      for (std::int64_t y = 0; y < shape_[1]; ++y) {
        const Rows rows = RowsAround(added, y, z);
        Word* row = added.Row(y, z);
        for (std::int64_t w = 0; w < added.row_words(); ++w) {
          const Word known_truth = truth != nullptr ? truth->Row(y, z)[w] : 0;
          row[w] = stream->Code(axis_, Look(rows, row, w), known_truth);
        }
      }
    }
    return added;
  }

 private:
  /// Rows of known samples before and after a row of new ones.
  struct Pair {
    const Word* before;
    const Word* after;
  };
  struct Rows {
    Pair here;
    Pair back_u, forth_u;  ///< only in passes along x: in other passes u is x itself
    Pair back_v, forth_v;
    const Word* new_u;  ///< only in passes along x
    const Word* new_v;
  };

  /// Known rows around the new row (y, z); if that lies outside, around the nearest row inside.
  Pair KnownRows(std::int64_t y, std::int64_t z) const {
    y = std::clamp<std::int64_t>(y, 0, known_.shape()[1] - 1);
    z = std::clamp<std::int64_t>(z, 0, known_.shape()[2] - 1);
    if (axis_ == 0) return {known_.Row(y, z), next_.Row(y, z)};
    if (axis_ == 1) return {known_.Row(y, z), known_.Row(std::min(y + 1, known_.shape()[1] - 1), z)};
    return {known_.Row(y, z), known_.Row(y, std::min(z + 1, known_.shape()[2] - 1))};
  }

  Rows RowsAround(const BitGrid& added, std::int64_t y, std::int64_t z) const {
    Rows rows{};
    rows.here = KnownRows(y, z);
    rows.new_u = rows.new_v = rows.here.before;
    if (axis_ == 0) {
      rows.back_u = KnownRows(y - 1, z);
      rows.forth_u = KnownRows(y + 1, z);
      if (y > 0) rows.new_u = added.Row(y - 1, z);
    }
    if (axis_ == 2) {
      rows.back_v = KnownRows(y - 1, z);
      rows.forth_v = KnownRows(y + 1, z);
      if (y > 0) rows.new_v = added.Row(y - 1, z);
    } else {
      rows.back_v = KnownRows(y, z - 1);
      rows.forth_v = KnownRows(y, z + 1);
      if (z > 0) rows.new_v = added.Row(y, z - 1);
    }
    return rows;
  }

  /// Word w of a known row shifted by one sample along x; the end sample is repeated.
  Word BackAlongX(const Word* row, std::int64_t w) const {
    return row[w] << 1 | (w > 0 ? row[w - 1] >> 63 : row[0] & 1);
  }
  Word ForthAlongX(const Word* row, std::int64_t w) const {
    if (w + 1 < known_.row_words()) return row[w] >> 1 | row[w + 1] << 63;
    return row[w] >> 1 | (row[w] & Word{1} << ((shape_[0] - 1) % kWordBits));
  }

  /// @param row  the new row, known up to word w
  Surroundings Look(const Rows& rows, const Word* row, std::int64_t w) const {
    Surroundings around{};
    around.mask = LowBits(std::min(kWordBits, shape_[0] - w * kWordBits));
    const Word a = around.before = rows.here.before[w];
    const Word b = around.after = rows.here.after[w];
    Word back_a, back_b, forth_a, forth_b;
    if (axis_ == 0) {
      back_a = rows.back_u.before[w];
      back_b = rows.back_u.after[w];
      forth_a = rows.forth_u.before[w];
      forth_b = rows.forth_u.after[w];
      around.new_u = rows.new_u[w];
    } else {
      back_a = BackAlongX(rows.here.before, w);
      back_b = BackAlongX(rows.here.after, w);
      forth_a = ForthAlongX(rows.here.before, w);
      forth_b = ForthAlongX(rows.here.after, w);
      around.serial = true;
      around.carry = w > 0 ? row[w - 1] >> 63 != 0 : (a & 1) != 0;
      around.new_u = a;
    }
    around.new_v = rows.new_v[w];
    const Word down_a = rows.forth_v.before[w];
    const Word down_b = rows.forth_v.after[w];
    const Word up_a = rows.back_v.before[w];
    const Word up_b = rows.back_v.after[w];
    const Word all = a & b & back_a & back_b & forth_a & forth_b & up_a & up_b & down_a & down_b &
                     around.new_v & around.new_u;
    const Word any = a | b | back_a | back_b | forth_a | forth_b | up_a | up_b | down_a | down_b |
                     around.new_v | around.new_u;
    around.unanimous = all | ~any;
    // forth_a + forth_b + down_a + down_b in binary, 64 sums at once.
    const Word half_u = forth_a ^ forth_b, carry_u = forth_a & forth_b;
    const Word half_v = down_a ^ down_b, carry_v = down_a & down_b;
    around.sum[0] = half_u ^ half_v;
    around.sum[1] = carry_u ^ carry_v ^ (half_u & half_v);
    around.sum[2] = carry_u & carry_v;
    return around;
  }

  std::size_t axis_;
  const BitGrid& known_;
  BitGrid next_;
  Index3 shape_;
};

/// Refines `grid` to the shape of the next finer level.
/// @param fine  that level; null when reading
template <typename Stream>
BitGrid Refine(BitGrid grid, const Index3& fine_shape, const BitGrid* fine, Stream* stream) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t count = fine_shape[axis] - grid.shape()[axis];
    if (count == 0) continue;
    const BitGrid truth = fine != nullptr ? SamplesOfPass(*fine, axis) : BitGrid();
    const BitGrid added = Pass(axis, grid, count).Run(fine != nullptr ? &truth : nullptr, stream);
    grid = Interleave(grid, added, axis);
  }
  return grid;
}

}  // namespace quarry::mask
