#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "quarry/box.h"
#include "quarry/bytes.h"

/// The arrays of a pass, which doubles the resolution along one axis. Known samples become the even ones
/// along that axis, new samples the odd ones. Arrays are dense, x fastest; `shape` is always that of the
/// result.
namespace quarry::lossless {

template <typename T>
using Buffer = std::vector<T, BufferAllocator<T>>;

/// Shape of the even samples.
inline Index3 EvenShape(const Index3& shape, int axis) {
  Index3 even = shape;
  std::int64_t& extent = even[static_cast<std::size_t>(axis)];
  extent = (extent + 1) / 2;
  return even;
}

/// Shape of the odd samples.
inline Index3 OddShape(const Index3& shape, int axis) {
  Index3 odd = shape;
  odd[static_cast<std::size_t>(axis)] /= 2;
  return odd;
}

/// Copies the even samples.
template <typename T>
void TakeEven(const T* samples, const Index3& shape, int axis, T* even) {
  const Index3 to = EvenShape(shape, axis);
  for (std::int64_t z = 0; z < to[2]; ++z) {
    for (std::int64_t y = 0; y < to[1]; ++y) {
      const T* row = samples + ((axis == 2 ? 2 * z : z) * shape[1] + (axis == 1 ? 2 * y : y)) * shape[0];
      if (axis != 0) {
        even = std::copy_n(row, to[0], even);
      } else {
        for (std::int64_t x = 0; x < to[0]; ++x) *even++ = row[2 * x];
      }
    }
  }
}

/// The odd samples in rows along x, coded in the order outer, inner: by z, then by y.
struct Rows {
  Rows(const Index3& shape, int axis)
      : outer(axis == 2 ? shape[2] / 2 : shape[2]),
        inner(axis == 1 ? shape[1] / 2 : shape[1]),
        length(axis == 0 ? shape[0] / 2 : shape[0]) {}

  std::int64_t outer;
  std::int64_t inner;
  std::int64_t length;
};

/// Position of a row in its pass.
struct RowPlace {
  std::int64_t outer;
  std::int64_t inner;
};

/// Number of rows before this one along y. In a pass along y it counts along z, because the previous row
/// along y is two samples away.
inline std::int64_t RowsBefore(int axis, const RowPlace& place) {
  return axis == 1 ? place.outer : place.inner;
}
inline RowPlace RowBefore(int axis, const RowPlace& place, std::int64_t count) {
  return axis == 1 ? RowPlace{place.outer - count, place.inner} : RowPlace{place.outer, place.inner - count};
}

/// Offset of the row in the result. In a pass along x this is the whole row, whose odd samples are every
/// second one.
inline std::int64_t RowOffset(const Index3& shape, int axis, const RowPlace& place) {
  const std::int64_t z = axis == 2 ? 2 * place.outer + 1 : place.outer;
  const std::int64_t y = axis == 1 ? 2 * place.inner + 1 : place.inner;
  return (z * shape[1] + y) * shape[0];
}

/// Offset of the even samples before those of the row, in their own array.
inline std::int64_t EvenRowOffset(const Index3& shape, int axis, const RowPlace& place) {
  const Index3 even = EvenShape(shape, axis);
  return (place.outer * even[1] + place.inner) * even[0];
}

/// Copies the odd samples of a row out of the result.
template <typename T>
void GatherRow(const Index3& shape, int axis, const RowPlace& place, const T* result, T* row) {
  const T* samples = result + RowOffset(shape, axis, place);
  if (axis != 0) {
    std::copy_n(samples, shape[0], row);
  } else {
    for (std::int64_t k = 0; k < shape[0] / 2; ++k) row[k] = samples[2 * k + 1];
  }
}

/// Stores the odd samples of a row in the result; along x also the even ones of that row.
template <typename T>
void ScatterRow(const T* even, const Index3& shape, int axis, const RowPlace& place, const T* row,
                T* result) {
  T* samples = result + RowOffset(shape, axis, place);
  if (axis != 0) {
    std::copy_n(row, shape[0], samples);
    return;
  }
  const T* evens = even + EvenRowOffset(shape, axis, place);
  const std::int64_t odd = shape[0] / 2;
  for (std::int64_t k = 0; k < odd; ++k) {
    samples[2 * k] = evens[k];
    samples[2 * k + 1] = row[k];
  }
  if (shape[0] % 2 != 0) samples[shape[0] - 1] = evens[odd];
}

/// Copies the even samples to their places in the result, along y and z; along x, ScatterRow does this.
template <typename T>
void ScatterEven(const T* even, const Index3& shape, int axis, T* result) {
  if (axis == 0) return;
  const Index3 from = EvenShape(shape, axis);
  for (std::int64_t z = 0; z < from[2]; ++z) {
    for (std::int64_t y = 0; y < from[1]; ++y) {
      const std::int64_t to = (axis == 2 ? 2 * z : z) * shape[1] + (axis == 1 ? 2 * y : y);
      std::copy_n(even + (z * from[1] + y) * from[0], from[0], result + to * shape[0]);
    }
  }
}

/// One grid of a patch. In encoders, missing samples have plausible values.
template <typename V>
struct GridView {
  const V* samples = nullptr;
  Index3 shape{};
  const std::uint8_t* valid = nullptr;  ///< null when every sample is valid
  /// This many lowest bits are not coded: they are zero in every sample, or zero in the ordered words of
  /// samples that are not negative and one in the others (see OrderedWord).
  int dropped_bits = 0;
};

/// Axis orders for the passes of a step; their indices are stored.
inline constexpr std::array<std::array<int, 3>, 6> kAxisOrders = {
    {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};

inline std::size_t Count(const Index3& shape) { return static_cast<std::size_t>(Volume(shape)); }

inline std::size_t CountValid(const std::uint8_t* valid, std::size_t count) {
  return static_cast<std::size_t>(std::count_if(valid, valid + count, [](std::uint8_t v) { return v != 0; }));
}

/// Shapes before the first pass and after each: the coarse grid, two in between, the fine one.
inline std::array<Index3, 4> PassShapes(const Index3& shape, const std::array<int, 3>& axes) {
  std::array<Index3, 4> shapes;
  shapes[3] = shape;
  for (std::size_t p = 3; p > 0; --p) shapes[p - 1] = EvenShape(shapes[p], axes[p - 1]);
  return shapes;
}

/// An array at the shapes after each pass; the last is not copied.
template <typename T>
class PassArrays {
 public:
  PassArrays(const T* finest, const std::array<Index3, 4>& shapes, const std::array<int, 3>& axes)
      : finest_(finest) {
    if (finest == nullptr) return;
    for (std::size_t p = 2; p > 0; --p) {
      between_[p - 1].resize(Count(shapes[p]));
      TakeEven<T>(After(p), shapes[p + 1], axes[p], between_[p - 1].data());
    }
  }

  /// After pass 0, 1 or 2; null without an array.
  const T* After(std::size_t pass) const {
    return pass == 2 ? finest_ : finest_ == nullptr ? nullptr : between_[pass].data();
  }

 private:
  const T* finest_;
  std::array<Buffer<T>, 2> between_;
};

/// Samples that a step adds, without the missing ones.
template <typename V>
std::size_t NewSamples(const GridView<V>& grid) {
  const Index3 coarse = {(grid.shape[0] + 1) / 2, (grid.shape[1] + 1) / 2, (grid.shape[2] + 1) / 2};
  if (grid.valid == nullptr) return Count(grid.shape) - Count(coarse);
  std::size_t count = CountValid(grid.valid, Count(grid.shape));
  for (std::int64_t z = 0; z < grid.shape[2]; z += 2) {
    for (std::int64_t y = 0; y < grid.shape[1]; y += 2) {
      const std::uint8_t* row = grid.valid + (z * grid.shape[1] + y) * grid.shape[0];
      for (std::int64_t x = 0; x < grid.shape[0]; x += 2) count -= row[x] != 0 ? 1 : 0;
    }
  }
  return count;
}

/// The passes of a step, one after the other; `pass(p, even, result)` does one.
template <typename V, typename DoPass>
void RunPasses(const V* coarse, const std::array<Index3, 4>& shapes, V* result, DoPass do_pass) {
  std::array<Buffer<V>, 2> between;
  const V* even = coarse;
  for (std::size_t p = 0; p < 3; ++p) {
    const bool last = p == 2;
    if (shapes[p] == shapes[p + 1]) {
      // An axis with one sample: nothing to do.
      if (last) std::copy_n(even, Count(shapes[p]), result);
      continue;
    }
    if (!last) between[p].resize(Count(shapes[p + 1]));
    V* to = last ? result : between[p].data();
    do_pass(p, even, to);
    even = to;
  }
}

}  // namespace quarry::lossless
