#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "quarry/box.h"
#include "quarry/bytes.h"
#include "quarry/codec/error_record/lanes.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/geometry/patch_grid.h"

/// Compares coarser levels, interpolated to full resolution, with the original samples, tile by tile.
namespace quarry::error_record {

template <typename Real>
using Buffer = std::vector<Real, BufferAllocator<Real>>;

/// Samples are compared in these units: (sample - base) * scale - centre. The centre removes their offset, on
/// which float32 would otherwise spend its digits; the scale, a power of two, brings squares into the range
/// of float32.
template <typename Real>
struct Units {
  Real scale = 1;
  Real centre = 0;
  std::uint64_t base =
      0;  ///< bits of a sample, of integers of 64 bits alone: float64 does not hold all of them
};

/// @source Units
template <typename Real, typename T>
QUARRY_INLINE Real InUnit(T sample, const Units<Real>& units) {
  if constexpr (kIsWideInteger<T>) {
    return Difference<Real>(sample, static_cast<T>(units.base)) * units.scale - units.centre;
  } else {
    return static_cast<Real>(sample) * units.scale - units.centre;
  }
}

/// Samples, and their weights if some are missing: 1, or 0 with a sample of 0.
template <typename Real>
struct Weighted {
  Buffer<Real> values;
  Buffer<Real> weights;

  void Resize(size_t count, bool masked) {
    values.resize(count);
    if (masked) weights.resize(count);
  }
};

template <typename Real>
struct Level {
  int level = 0;
  Index3 shape{};       // extended by one sample after the last along every axis
  Weighted<Real> grid;  // grid of that shape
  Real largest = 0;     // magnitude in the grid

  // The current tile: its rows of level samples, interpolated to full resolution along x, in two planes of
  // level samples and between them.
  std::int64_t plane = -1;  // the first of the two
  std::array<Weighted<Real>, 2> planes;
  Weighted<Real> between;

  Lanes<Real> lanes;

  double LargestError() const { return std::sqrt(lanes.Largest()); }

  /// Distance of a level-0 position from the level sample before it, in level samples.
  Real Fraction(std::int64_t position) const {
    const std::int64_t spacing = std::int64_t{1} << level;
    return static_cast<Real>(position & (spacing - 1)) / static_cast<Real>(spacing);
  }
};

/// The original samples that are compared together.
struct Tile {
  std::int64_t x = 0;
  std::int64_t y = 0;
  size_t width = 0;
  size_t height = 0;
};

/// (1 - t) a + t b. With weights in this form: cancellation would cost more digits than the sum of weights
/// has.
template <bool kMasked, typename Real>
QUARRY_INLINE Real Between(Real a, Real b, Real t) {
  if constexpr (kMasked) return (Real(1) - t) * a + t * b;
  return a + t * (b - a);
}

/// The original samples.
template <typename Real>
struct Original {
  Index3 shape;
  const void* samples;
  const std::uint8_t* validity;  // null when none is missing
  Units<Real> units;
  /// Converts `count` samples from number `begin` on to units, and sets their weights where some are missing.
  void (*to_units)(const Original& original, std::int64_t begin, size_t count, Real* values, Real* weights);
};

template <typename Real, bool kMasked>
struct CompareLevels {
  using Levels = std::vector<Level<Real>>;

  /// `levels` have their samples, in units, in `grid.values`.
  QUARRY_INLINE static void Run(const Original<Real>* original, Levels* levels) {
    for (Level<Real>& level : *levels) ExtendGrid(*original, &level);
    Weighted<Real> plane;
    plane.Resize(kTile * kTile, kMasked);
    constexpr auto kStep = static_cast<std::int64_t>(kTile);
    for (std::int64_t y = 0; y < original->shape[1]; y += kStep) {
      for (std::int64_t x = 0; x < original->shape[0]; x += kStep) {
        CompareColumn(*original,
                      {x, y, static_cast<size_t>(std::min(kStep, original->shape[0] - x)),
                       static_cast<size_t>(std::min(kStep, original->shape[1] - y))},
                      &plane, levels);
      }
    }
  }

 private:
  // --- the level's samples, extended

  QUARRY_INLINE static void ExtendGrid(const Original<Real>& original, Level<Real>* level) {
    const Index3 shape = LevelShape(original.shape, level->level);
    const auto nx = static_cast<size_t>(shape[0]);
    const size_t row = nx + 1;
    const size_t plane = row * (static_cast<size_t>(shape[1]) + 1);
    Weighted<Real>* grid = &level->grid;
    level->shape = {shape[0] + 1, shape[1] + 1, shape[2] + 1};
    const Buffer<Real> samples = std::move(grid->values);
    grid->Resize(static_cast<size_t>(Volume(level->shape)), kMasked);
    const Real* in = samples.data();
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const size_t begin_plane = plane * static_cast<size_t>(z);
      for (std::int64_t y = 0; y < shape[1]; ++y) {
        const size_t begin = begin_plane + row * static_cast<size_t>(y);
        std::copy_n(in, nx, grid->values.data() + begin);
        if constexpr (kMasked) Mask(original, *level, y, z, begin, grid);
        Extend(begin + nx, 1, shape[0], 1, grid);
        in += nx;
      }
      Extend(begin_plane + row * static_cast<size_t>(shape[1]), row, shape[1], row, grid);
    }
    Extend(plane * static_cast<size_t>(shape[2]), plane, shape[2], plane, grid);
    level->largest = LargestMagnitude(grid->values);
  }

  /// Weights of a row of level samples: those of the original samples at the same places.
  QUARRY_INLINE static void Mask(const Original<Real>& original, const Level<Real>& level, std::int64_t y,
                                 std::int64_t z, size_t begin, Weighted<Real>* grid) {
    const std::uint8_t* in =
        original.validity + original.shape[0] * ((y << level.level) + original.shape[1] * (z << level.level));
    Real* values = grid->values.data() + begin;
    Real* weights = grid->weights.data() + begin;
    const std::int64_t count = level.shape[0] - 1;
    for (std::int64_t x = 0; x < count; ++x) {
      weights[x] = in[x << level.level] != 0 ? Real(1) : Real(0);
      values[x] = weights[x] != 0 ? values[x] : Real(0);
    }
  }

  /// Extends `width` samples at `begin` by linear continuation from those one and two `stride` before them;
  /// `extent` is the number of samples along the axis.
  QUARRY_INLINE static void Extend(size_t begin, size_t stride, std::int64_t extent, size_t width,
                                   Weighted<Real>* grid) {
    const size_t second = extent >= 2 ? 2 * stride : stride;
    Real* out = grid->values.data() + begin;
    const Real* last = out - stride;
    const Real* before = out - second;
    if constexpr (!kMasked) {
      for (size_t i = 0; i < width; ++i) out[i] = (last[i] + last[i]) - before[i];
    } else {
      Real* out_weight = grid->weights.data() + begin;
      const Real* last_weight = out_weight - stride;
      const Real* before_weight = out_weight - second;
      for (size_t i = 0; i < width; ++i) {
        const bool both = last_weight[i] != 0 && before_weight[i] != 0;
        // A missing sample is 0: the sum is the present one, if any.
        out[i] = both ? (last[i] + last[i]) - before[i] : last[i] + before[i];
        out_weight[i] = std::max(last_weight[i], before_weight[i]);
      }
    }
  }

  QUARRY_INLINE static Real LargestMagnitude(const Buffer<Real>& values) {
    Row<Real> lanes{};
    for (size_t begin = 0; begin < values.size(); begin += kTile) {
      const size_t width = std::min(kTile, values.size() - begin);
      for (size_t x = 0; x < width; ++x) {
        const Real magnitude = std::abs(values[begin + x]);
        lanes[x] = magnitude > lanes[x] ? magnitude : lanes[x];
      }
    }
    return *std::max_element(lanes.begin(), lanes.end());
  }

  // --- a column of tiles

  /// @param plane  scratch for a plane of a tile
  QUARRY_INLINE static void CompareColumn(const Original<Real>& original, const Tile& tile,
                                          Weighted<Real>* plane, Levels* levels) {
    for (Level<Real>& level : *levels) StartColumn(tile, &level);
    for (std::int64_t z = 0; z < original.shape[2]; ++z) {
      ConvertPlane(original, tile, z, plane);
      for (Level<Real>& level : *levels) ComparePlane(*plane, tile, *InterpolateZ(tile, z, &level), &level);
    }
  }

  /// The original samples of a plane, for all levels while they are in the first cache.
  QUARRY_INLINE static void ConvertPlane(const Original<Real>& original, const Tile& tile, std::int64_t z,
                                         Weighted<Real>* plane) {
    for (size_t y = 0; y < tile.height; ++y) {
      const std::int64_t row = tile.y + static_cast<std::int64_t>(y) + original.shape[1] * z;
      original.to_units(original, tile.x + original.shape[0] * row, tile.width,
                        plane->values.data() + y * kTile,
                        kMasked ? plane->weights.data() + y * kTile : nullptr);
    }
  }

  /// Rows of level samples that a tile needs.
  QUARRY_INLINE static size_t RowsOf(const Tile& tile, int level) {
    const std::int64_t last = (tile.y + static_cast<std::int64_t>(tile.height) - 1) >> level;
    return static_cast<size_t>(last - (tile.y >> level)) + 2;
  }

  QUARRY_INLINE static void StartColumn(const Tile& tile, Level<Real>* level) {
    const size_t count = RowsOf(tile, level->level) * kTile;
    level->plane = -1;
    for (Weighted<Real>& plane : level->planes) plane.Resize(count, kMasked);
    level->between.Resize(count, kMasked);
  }

  /// Rows of level samples at level-0 position z.
  QUARRY_INLINE static const Weighted<Real>* InterpolateZ(const Tile& tile, std::int64_t z,
                                                          Level<Real>* level) {
    const std::int64_t plane = z >> level->level;
    if (plane != level->plane) {
      if (level->plane < 0) {
        ExpandPlane(tile, *level, plane, &level->planes[0]);
      } else {
        level->planes[0].values.swap(level->planes[1].values);
        level->planes[0].weights.swap(level->planes[1].weights);
      }
      ExpandPlane(tile, *level, plane + 1, &level->planes[1]);
      level->plane = plane;
    }
    const Real t = level->Fraction(z);
    if (t == 0) return &level->planes[0];
    const size_t count = RowsOf(tile, level->level) * kTile;
    Mix(level->planes[0].values.data(), level->planes[1].values.data(), t, count,
        level->between.values.data());
    if constexpr (kMasked) {
      Mix(level->planes[0].weights.data(), level->planes[1].weights.data(), t, count,
          level->between.weights.data());
    }
    return &level->between;
  }

  QUARRY_INLINE static void Mix(const Real* __restrict a, const Real* __restrict b, Real t, size_t count,
                                Real* __restrict out) {
    for (size_t i = 0; i < count; ++i) out[i] = Between<kMasked>(a[i], b[i], t);
  }

  QUARRY_INLINE static void ExpandPlane(const Tile& tile, const Level<Real>& level, std::int64_t z,
                                        Weighted<Real>* out) {
    Row<Real> fractions;
    for (size_t x = 0; x < kTile; ++x) fractions[x] = level.Fraction(tile.x + static_cast<std::int64_t>(x));
    const size_t rows = RowsOf(tile, level.level);
    const std::int64_t first =
        (tile.x >> level.level) + level.shape[0] * ((tile.y >> level.level) + level.shape[1] * z);
    for (size_t row = 0; row < rows; ++row) {
      const std::int64_t begin = first + level.shape[0] * static_cast<std::int64_t>(row);
      ExpandRow(level.grid.values.data() + begin, fractions, level.level, tile.width,
                out->values.data() + row * kTile);
      if constexpr (kMasked) {
        ExpandRow(level.grid.weights.data() + begin, fractions, level.level, tile.width,
                  out->weights.data() + row * kTile);
      }
    }
  }

  QUARRY_INLINE static void ExpandRow(const Real* in, const Row<Real>& fractions, int level, size_t width,
                                      Real* out) {
    if (level == 1) return ExpandPairs(in, width, out);
    const size_t span = size_t{1} << std::min(level, kTileLog);
    const size_t cells = (width + span - 1) / span;
    for (size_t cell = 0; cell < cells; ++cell) {
      const Real a = in[cell];
      const Real b = in[cell + 1];
      Real* __restrict cell_out = out + cell * span;
      for (size_t i = 0; i < span; i += 4) {
        for (size_t j = i; j < i + 4; ++j) cell_out[j] = Between<kMasked>(a, b, fractions[j]);
      }
    }
  }

  QUARRY_INLINE static void ExpandPairs(const Real* __restrict in, size_t width, Real* __restrict out) {
    const size_t pairs = (width + 1) / 2;
    for (size_t i = 0; i < pairs; ++i) {
      out[2 * i] = in[i];
      out[2 * i + 1] = Between<kMasked>(in[i], in[i + 1], Real(0.5));
    }
  }

  // --- a plane of a tile

  QUARRY_INLINE static void ComparePlane(const Weighted<Real>& original, const Tile& tile,
                                         const Weighted<Real>& rows, Level<Real>* level) {
    Row<Real> squares{};
    Row<Real> covered{};
    Real* largest = level->lanes.largest.data();
    const size_t step = level->level == 1 ? 2 : 4;
    for (size_t y = 0; y < tile.height;) {
      const std::int64_t position = tile.y + static_cast<std::int64_t>(y);
      const auto row = static_cast<size_t>((position >> level->level) - (tile.y >> level->level)) * kTile;
      const Cell cell{rows.values.data() + row, kMasked ? rows.weights.data() + row : nullptr,
                      original.values.data() + y * kTile,
                      kMasked ? original.weights.data() + y * kTile : nullptr, tile.width};
      const size_t count = y + step <= tile.height ? step : 1;
      std::array<Real, 4> t;
      for (size_t i = 0; i < count; ++i) t[i] = level->Fraction(position + static_cast<std::int64_t>(i));
      switch (count) {
        case 4:
          CompareRows<4>(cell, t, squares.data(), covered.data(), largest);
          break;
        case 2:
          CompareRows<2>(cell, t, squares.data(), covered.data(), largest);
          break;
        default:
          CompareRows<1>(cell, t, squares.data(), covered.data(), largest);
      }
      y += count;
    }
    AddTo(squares, &level->lanes.squares);
    if constexpr (kMasked) AddTo(covered, &level->lanes.covered);
  }

  /// Original rows between two rows of level samples.
  struct Cell {
    const Real* values;
    const Real* weights;
    const Real* original;
    const Real* valid;
    size_t width;
  };

  /// kRows rows at a time, so that lanes are loaded and stored less often.
  template <size_t kRows>
  QUARRY_INLINE static void CompareRows(const Cell& cell, const std::array<Real, 4>& t,
                                        Real* __restrict squares, Real* __restrict covered,
                                        Real* __restrict largest) {
    const Real* __restrict values = cell.values;
    const Real* __restrict weights = cell.weights;
    for (size_t x = 0; x < cell.width; ++x) {
      Real sum = squares[x];
      Real most = largest[x];
      Real count = kMasked ? covered[x] : Real(0);
      for (size_t i = 0; i < kRows; ++i) {
        const Real original = cell.original[x + i * kTile];
        Real value = Between<kMasked>(values[x], values[x + kTile], t[i]);
        Real error;
        if constexpr (kMasked) {
          const Real valid = cell.valid[x + i * kTile];
          const Real weight = Between<kMasked>(weights[x], weights[x + kTile], t[i]);
          const Real counts = KeepIf(weight > 0, valid);
          value = value / std::max(weight, std::numeric_limits<Real>::min());
          error = counts * (original - value);
          count += counts;
        } else {
          error = original - value;
        }
        const Real square = error * error;
        sum += square;
        most = square > most ? square : most;
      }
      squares[x] = sum;
      largest[x] = most;
      if constexpr (kMasked) covered[x] = count;
    }
  }
};

}  // namespace quarry::error_record
