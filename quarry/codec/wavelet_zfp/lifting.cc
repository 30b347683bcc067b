#include "quarry/codec/wavelet_zfp/lifting.h"

#include <algorithm>
#include <vector>

#include "quarry/geometry/patch_grid.h"

namespace quarry::wavelet_zfp {
namespace {

constexpr std::int64_t Evens(std::int64_t n) { return (n + 1) / 2; }
constexpr std::int64_t Odds(std::int64_t n) { return n / 2; }

/// Places of the two halves of row (y, z) of the fine box, in the coarse box and the detail slabs.
template <typename T>
struct RowHalves {
  T* evens;
  T* odds;
};

/// Maps rows of a fine box to their places after one level; `coarse` and `details` as in Forward.
template <typename T>
class RowMap {
 public:
  RowMap(T* coarse, T* details, const Index3& shape) : coarse_(coarse), shape_(shape) {
    const DetailShapes slabs = DetailSlabs(shape);
    odd_z_ = details;
    odd_y_ = odd_z_ + Volume(slabs[0]);
    odd_x_ = odd_y_ + Volume(slabs[1]);
  }

  RowHalves<T> Halves(std::int64_t y, std::int64_t z) const {
    const std::int64_t evens_x = Evens(shape_[0]);
    if (z % 2 == 1) {
      const std::int64_t row = (y % 2 == 0 ? y / 2 : Evens(shape_[1]) + y / 2) + shape_[1] * (z / 2);
      return {odd_z_ + row * shape_[0], odd_z_ + row * shape_[0] + evens_x};
    }
    if (y % 2 == 1) {
      const std::int64_t row = y / 2 + Odds(shape_[1]) * (z / 2);
      return {odd_y_ + row * shape_[0], odd_y_ + row * shape_[0] + evens_x};
    }
    const std::int64_t row = y / 2 + Evens(shape_[1]) * (z / 2);
    return {coarse_ + row * evens_x, odd_x_ + row * Odds(shape_[0])};
  }

 private:
  T* coarse_;
  T* odd_z_;
  T* odd_y_;
  T* odd_x_;
  Index3 shape_;
};

/// Lifting along y or z works on whole rows: `line` rows of `width` samples, `stride` samples apart. Signs:
/// forward subtracts the prediction and adds the update, inverse adds the prediction and subtracts the
/// update.
template <typename T>
void PredictRows(T* data, std::int64_t line, std::int64_t stride, std::int64_t width, T sign) {
  for (std::int64_t i = 1; i < line; i += 2) {
    T* row = data + i * stride;
    const T* before = row - stride;
    if (i + 1 < line) {
      const T* after = row + stride;
      for (std::int64_t x = 0; x < width; ++x) row[x] += sign * (T(0.5) * (before[x] + after[x]));
    } else if (i >= 3) {
      const T* further = row - 3 * stride;
      for (std::int64_t x = 0; x < width; ++x) row[x] += sign * (T(1.5) * before[x] - T(0.5) * further[x]);
    } else {
      for (std::int64_t x = 0; x < width; ++x) row[x] += sign * before[x];
    }
  }
}

template <typename T>
void UpdateRows(T* data, std::int64_t line, std::int64_t stride, std::int64_t width, T sign) {
  if (line < 2) return;
  for (std::int64_t i = 0; i < line; i += 2) {
    T* row = data + i * stride;
    const T* before = i > 0 ? row - stride : row + stride;
    const T* after = i + 1 < line ? row + stride : row - stride;
    for (std::int64_t x = 0; x < width; ++x) row[x] += sign * (T(0.25) * (before[x] + after[x]));
  }
}

template <typename T>
void ForwardRow(const T* row, std::int64_t n, const RowHalves<T>& out) {
  T* s = out.evens;
  T* d = out.odds;
  const std::int64_t evens = Evens(n);
  const std::int64_t odds = Odds(n);
  for (std::int64_t i = 0; i + 1 < evens; ++i) d[i] = row[2 * i + 1] - T(0.5) * (row[2 * i] + row[2 * i + 2]);
  if (odds == evens) {
    const T prediction = evens >= 2 ? T(1.5) * row[n - 2] - T(0.5) * row[n - 4] : row[0];
    d[odds - 1] = row[n - 1] - prediction;
  }
  if (odds == 0) {
    s[0] = row[0];
    return;
  }
  s[0] = row[0] + T(0.25) * (d[0] + d[0]);
  for (std::int64_t i = 1; i < odds; ++i) s[i] = row[2 * i] + T(0.25) * (d[i - 1] + d[i]);
  if (evens > odds) s[odds] = row[2 * odds] + T(0.25) * (d[odds - 1] + d[odds - 1]);
}

/// `scratch` holds ceil(n / 2) samples.
template <typename T>
void InverseRow(const T* s, const T* d, std::int64_t n, T* scratch, T* row) {
  const std::int64_t evens = Evens(n);
  const std::int64_t odds = Odds(n);
  if (odds == 0) {
    row[0] = s[0];
    return;
  }
  scratch[0] = s[0] - T(0.25) * (d[0] + d[0]);
  for (std::int64_t i = 1; i < odds; ++i) scratch[i] = s[i] - T(0.25) * (d[i - 1] + d[i]);
  if (evens > odds) scratch[odds] = s[odds] - T(0.25) * (d[odds - 1] + d[odds - 1]);
  for (std::int64_t i = 0; i + 1 < evens; ++i) {
    row[2 * i] = scratch[i];
    row[2 * i + 1] = d[i] + T(0.5) * (scratch[i] + scratch[i + 1]);
  }
  row[2 * (evens - 1)] = scratch[evens - 1];
  if (odds == evens) {
    const T prediction = evens >= 2 ? T(1.5) * scratch[evens - 1] - T(0.5) * scratch[evens - 2] : scratch[0];
    row[n - 1] = d[odds - 1] + prediction;
  }
}

/// InverseRow with all details zero.
template <typename T>
void InterpolateRow(const T* s, std::int64_t n, T* row) {
  const std::int64_t evens = Evens(n);
  for (std::int64_t i = 0; i + 1 < evens; ++i) {
    row[2 * i] = s[i];
    row[2 * i + 1] = T(0.5) * (s[i] + s[i + 1]);
  }
  row[2 * (evens - 1)] = s[evens - 1];
  if (Odds(n) == evens) row[n - 1] = evens >= 2 ? T(1.5) * s[evens - 1] - T(0.5) * s[evens - 2] : s[0];
}

/// Interpolation needs rows on even y and z only; the predict steps then fill the others from them.
template <typename T>
void InterpolateEvenRows(const T* coarse, const Index3& shape, T* fine) {
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      T* row = fine + shape[0] * (y + shape[1] * z);
      if (z % 2 == 1 || y % 2 == 1) {
        std::fill(row, row + shape[0], T(0));
      } else {
        InterpolateRow(coarse + Evens(shape[0]) * (y / 2 + Evens(shape[1]) * (z / 2)), shape[0], row);
      }
    }
  }
}

}  // namespace

DetailShapes DetailSlabs(const Index3& n) {
  return {Index3{n[0], n[1], Odds(n[2])}, Index3{n[0], Odds(n[1]), Evens(n[2])},
          Index3{Odds(n[0]), Evens(n[1]), Evens(n[2])}};
}

std::int64_t DetailVolume(const Index3& fine_shape) {
  return Volume(fine_shape) - Volume(LevelShape(fine_shape, 1));
}

template <typename T>
void Forward(T* fine, const Index3& n, T* coarse, T* details) {
  const std::int64_t plane = n[0] * n[1];
  PredictRows(fine, n[2], plane, plane, T(-1));
  UpdateRows(fine, n[2], plane, plane, T(1));
  for (std::int64_t z = 0; z < n[2]; ++z) {
    PredictRows(fine + z * plane, n[1], n[0], n[0], T(-1));
    UpdateRows(fine + z * plane, n[1], n[0], n[0], T(1));
  }
  const RowMap<T> rows(coarse, details, n);
  for (std::int64_t z = 0; z < n[2]; ++z) {
    for (std::int64_t y = 0; y < n[1]; ++y)
      ForwardRow<T>(fine + z * plane + y * n[0], n[0], rows.Halves(y, z));
  }
}

template <typename T>
void Inverse(const T* coarse, const T* details, const Index3& n, T* fine) {
  const std::int64_t plane = n[0] * n[1];
  if (details == nullptr) {
    InterpolateEvenRows(coarse, n, fine);
  } else {
    const RowMap<const T> rows(coarse, details, n);
    std::vector<T> scratch(static_cast<std::size_t>(Evens(n[0])));
    for (std::int64_t z = 0; z < n[2]; ++z) {
      for (std::int64_t y = 0; y < n[1]; ++y) {
        const RowHalves<const T> halves = rows.Halves(y, z);
        InverseRow(halves.evens, halves.odds, n[0], scratch.data(), fine + z * plane + y * n[0]);
      }
    }
  }
  // Without details the evens need no update.
  const bool update = details != nullptr;
  for (std::int64_t z = 0; z < n[2]; ++z) {
    if (update) UpdateRows(fine + z * plane, n[1], n[0], n[0], T(-1));
    PredictRows(fine + z * plane, n[1], n[0], n[0], T(1));
  }
  if (update) UpdateRows(fine, n[2], plane, plane, T(-1));
  PredictRows(fine, n[2], plane, plane, T(1));
}

template <typename T>
void Split(const T* fine, const Index3& n, T* coarse, T* details) {
  const RowMap<T> rows(coarse, details, n);
  for (std::int64_t z = 0; z < n[2]; ++z) {
    for (std::int64_t y = 0; y < n[1]; ++y) {
      const T* row = fine + n[0] * (y + n[1] * z);
      const RowHalves<T> halves = rows.Halves(y, z);
      for (std::int64_t x = 0; x < n[0]; ++x) (x % 2 == 0 ? halves.evens : halves.odds)[x / 2] = row[x];
    }
  }
}

template <typename T>
void Merge(const T* coarse, const T* details, const Index3& n, T* fine) {
  const RowMap<const T> rows(coarse, details, n);
  for (std::int64_t z = 0; z < n[2]; ++z) {
    for (std::int64_t y = 0; y < n[1]; ++y) {
      T* row = fine + n[0] * (y + n[1] * z);
      const RowHalves<const T> halves = rows.Halves(y, z);
      for (std::int64_t x = 0; x < n[0]; ++x) row[x] = (x % 2 == 0 ? halves.evens : halves.odds)[x / 2];
    }
  }
}

template void Forward<float>(float*, const Index3&, float*, float*);
template void Forward<double>(double*, const Index3&, double*, double*);
template void Inverse<float>(const float*, const float*, const Index3&, float*);
template void Inverse<double>(const double*, const double*, const Index3&, double*);
template void Split<float>(const float*, const Index3&, float*, float*);
template void Split<double>(const double*, const Index3&, double*, double*);
template void Merge<float>(const float*, const float*, const Index3&, float*);
template void Merge<double>(const double*, const double*, const Index3&, double*);

}  // namespace quarry::wavelet_zfp
