#include "quarry/codec/error_record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "quarry/base/memory.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

using std::size_t;

// Patches are compared in columns of kTile x kTile samples, from the first z to the last. A row of kTile
// samples is also kTile lanes of sums and maxima, so that results do not depend on the width of vectors; a
// lane adds up at most kTile squares before its sum goes on in float64.
constexpr size_t kTile = 64;
constexpr int kTileLog = 6;

template <typename Real>
using Row = std::array<Real, kTile>;

template <typename Real>
using Buffer = std::vector<Real, BufferAllocator<Real>>;

/// float32 holds every sample of the small types, and their differences to six digits.
template <typename T>
using CompareAs = std::conditional_t<(sizeof(T) <= 2) || std::is_same_v<T, float>, float, double>;

/// `value` or 0, without a branch, which would keep the compiler from using vectors.
template <typename Real>
QUARRY_INLINE Real KeepIf(bool keep, Real value) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<Real>(std::bit_cast<Bits>(value) & (Bits{0} - static_cast<Bits>(keep)));
}

/// What differences add up to, lane by lane.
template <typename Real>
struct Lanes {
  Row<Real> largest{};  // difference at level 0, square of one at coarser levels
  Row<double> squares{};
  Row<double> covered{};  // samples; only kept where some are missing

  double Largest() const { return static_cast<double>(*std::max_element(largest.begin(), largest.end())); }
};

double Sum(const Row<double>& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename Real>
QUARRY_INLINE void AddTo(const Row<Real>& lanes, Row<double>* sums) {
  for (size_t x = 0; x < kTile; ++x) (*sums)[x] += static_cast<double>(lanes[x]);
}

/// Whether squares have stayed in the range of Real. Their sum keeps a NaN or infinity that the maximum has
/// lost.
template <typename Real>
bool InRange(double largest, double sum_of_squares) {
  constexpr double kSmallest = sizeof(Real) == 4 ? 0x1p-50 : 0x1p-500;
  return std::isfinite(sum_of_squares) && (largest == 0 || largest >= kSmallest);
}

// ---------- Level 0: sample by sample

template <typename T>
struct Samples {
  const T* original;
  const T* decoded;
  const std::uint8_t* validity;  // null: all are valid
  size_t count;

  static constexpr size_t kBlock = kTile * kTile;
  size_t blocks() const { return (count + kBlock - 1) / kBlock; }
  Samples Block(size_t block) const {
    const size_t begin = block * kBlock;
    return {original + begin, decoded + begin, validity == nullptr ? nullptr : validity + begin,
            std::min(kBlock, count - begin)};
  }
};

template <typename T, typename Real, bool kMasked>
struct CompareBlock {
  QUARRY_INLINE static void Run(const Samples<T>& block, Lanes<Real>* lanes) {
    Row<Real> squares{};
    for (size_t begin = 0; begin < block.count; begin += kTile) {
      const T* original = block.original + begin;
      const T* decoded = block.decoded + begin;
      const std::uint8_t* validity = kMasked ? block.validity + begin : nullptr;
      Real* largest = lanes->largest.data();
      const size_t width = std::min(kTile, block.count - begin);
      for (size_t x = 0; x < width; ++x) {
        Real error = std::abs(static_cast<Real>(original[x]) - static_cast<Real>(decoded[x]));
        if constexpr (kMasked) error = KeepIf(validity[x] != 0, error);
        squares[x] += error * error;
        largest[x] = error > largest[x] ? error : largest[x];
      }
    }
    AddTo(squares, &lanes->squares);
  }
};

/// Sum of squares and the largest difference of each block.
template <typename Real>
struct BlockErrors {
  double squares = 0;
  std::vector<Real> largest;

  Real Largest() const { return *std::max_element(largest.begin(), largest.end()); }
};

template <typename T, typename Real>
BlockErrors<Real> CompareBlocks(const Samples<T>& samples) {
  BlockErrors<Real> errors;
  Lanes<Real> lanes;
  for (size_t i = 0; i < samples.blocks(); ++i) {
    lanes.largest = {};
    const Samples<T> block = samples.Block(i);
    if (samples.validity == nullptr) {
      RunOnBestInstructionSet<CompareBlock<T, Real, false>, const Samples<T>&>(block, &lanes);
    } else {
      RunOnBestInstructionSet<CompareBlock<T, Real, true>, const Samples<T>&>(block, &lanes);
    }
    errors.largest.push_back(static_cast<Real>(lanes.Largest()));
  }
  errors.squares = Sum(lanes.squares);
  return errors;
}

template <typename T>
std::uint64_t CountValid(const Samples<T>& samples) {
  if (samples.validity == nullptr) return samples.count;
  return static_cast<std::uint64_t>(std::count_if(samples.validity, samples.validity + samples.count,
                                                  [](std::uint8_t valid) { return valid != 0; }));
}

/// Rounding to float32 keeps the order of differences, so that the largest is among those that are largest in
/// float32: only blocks that have one are looked at again.
template <typename T>
double LargestInDouble(const Samples<T>& samples, const BlockErrors<float>& errors) {
  const float largest = errors.Largest();
  if (std::is_integral_v<T> || largest == 0) return largest;
  double exact = 0;
  for (size_t i = 0; i < errors.largest.size(); ++i) {
    if (errors.largest[i] == largest)
      exact = std::max(exact, CompareBlocks<T, double>(samples.Block(i)).Largest());
  }
  return exact;
}

/// Where squares leave the range of float64.
template <typename T>
double RmseInUnitsOf(double largest, const Samples<T>& samples, double valid) {
  double sum = 0;
  for (size_t i = 0; i < samples.count; ++i) {
    if (samples.validity != nullptr && samples.validity[i] == 0) continue;
    const double error =
        (static_cast<double>(samples.original[i]) - static_cast<double>(samples.decoded[i])) / largest;
    sum += error * error;
  }
  return std::sqrt(sum / valid) * largest;
}

template <typename T>
LevelError Compare(const Samples<T>& samples) {
  const auto valid = static_cast<double>(CountValid(samples));
  if constexpr (std::is_same_v<CompareAs<T>, float>) {
    const BlockErrors<float> errors = CompareBlocks<T, float>(samples);
    if (InRange<float>(errors.Largest(), errors.squares)) {
      return {LargestInDouble(samples, errors), std::sqrt(errors.squares / valid), 1};
    }
  }
  const BlockErrors<double> errors = CompareBlocks<T, double>(samples);
  if (std::isnan(errors.squares)) return {errors.squares, errors.squares, 1};
  const double largest = errors.Largest();
  if (!InRange<double>(largest, errors.squares)) return {largest, RmseInUnitsOf(largest, samples, valid), 1};
  return {largest, std::sqrt(errors.squares / valid), 1};
}

// ---------- Coarser levels: interpolated to full resolution

/// Samples are compared in these units: sample * scale - centre. That takes away their offset, on which
/// float32 would otherwise spend its digits, and brings squares into the range of float32. The scale is a
/// power of two.
template <typename Real>
struct Units {
  Real scale = 1;
  Real centre = 0;
};

/// Samples, and their weights where some are missing: 1, or 0 with a sample of 0.
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
  Index3 shape{};       // extended by one sample behind the last along every axis
  Weighted<Real> grid;  // of that shape
  Real largest = 0;     // magnitude in the grid

  // Of the tile at hand: its rows of level samples, interpolated to full resolution along x, in two planes of
  // level samples, and between these.
  std::int64_t plane = -1;  // the first of the two
  std::array<Weighted<Real>, 2> planes;
  Weighted<Real> between;

  Lanes<Real> lanes;

  double LargestError() const { return std::sqrt(lanes.Largest()); }

  /// How far a level-0 position lies behind the level sample before it, in level samples.
  Real Fraction(std::int64_t position) const {
    const std::int64_t spacing = std::int64_t{1} << level;
    return static_cast<Real>(position & (spacing - 1)) / static_cast<Real>(spacing);
  }
};

/// The original samples that are compared at a time.
struct Tile {
  std::int64_t x = 0;
  std::int64_t y = 0;
  size_t width = 0;
  size_t height = 0;
};

/// (1 - t) a + t b. With weights, where cancellation would cost more digits than the sum of weights has.
template <bool kMasked, typename Real>
QUARRY_INLINE Real Between(Real a, Real b, Real t) {
  if constexpr (kMasked) return (Real(1) - t) * a + t * b;
  return a + t * (b - a);
}

/// The original samples in units, 0 where missing.
template <typename Real>
struct Original {
  Index3 shape;
  const Real* values;
  const Real* weights;  // null when none is missing
};

template <typename Real, bool kMasked>
struct CompareLevels {
  using Levels = std::vector<Level<Real>>;

  /// `levels` come with their samples in units, in `grid.values`.
  QUARRY_INLINE static void Run(const Original<Real>* original, Levels* levels) {
    for (Level<Real>& level : *levels) ExtendGrid(*original, &level);
    constexpr auto kStep = static_cast<std::int64_t>(kTile);
    for (std::int64_t y = 0; y < original->shape[1]; y += kStep) {
      for (std::int64_t x = 0; x < original->shape[0]; x += kStep) {
        CompareColumn(*original,
                      {x, y, static_cast<size_t>(std::min(kStep, original->shape[0] - x)),
                       static_cast<size_t>(std::min(kStep, original->shape[1] - y))},
                      levels);
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

  /// Weights of a row of level samples: those of the original samples that they lie on.
  QUARRY_INLINE static void Mask(const Original<Real>& original, const Level<Real>& level, std::int64_t y,
                                 std::int64_t z, size_t begin, Weighted<Real>* grid) {
    const Real* in =
        original.weights + original.shape[0] * ((y << level.level) + original.shape[1] * (z << level.level));
    Real* values = grid->values.data() + begin;
    Real* weights = grid->weights.data() + begin;
    const std::int64_t count = level.shape[0] - 1;
    for (std::int64_t x = 0; x < count; ++x) {
      weights[x] = in[x << level.level];
      values[x] = weights[x] != 0 ? values[x] : Real(0);
    }
  }

  /// `width` samples at `begin` become the continuation of those one and two `stride` before them; `extent`
  /// is how many there are along the axis.
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
        // A missing sample is 0: the sum is the one that is there, if any.
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

  QUARRY_INLINE static void CompareColumn(const Original<Real>& original, const Tile& tile, Levels* levels) {
    for (Level<Real>& level : *levels) StartColumn(tile, &level);
    for (std::int64_t z = 0; z < original.shape[2]; ++z) {
      for (Level<Real>& level : *levels) {
        ComparePlane(original, tile, z, *InterpolateZ(tile, z, &level), &level);
      }
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

  QUARRY_INLINE static void ComparePlane(const Original<Real>& original, const Tile& tile, std::int64_t z,
                                         const Weighted<Real>& rows, Level<Real>* level) {
    Row<Real> squares{};
    Row<Real> covered{};
    Real* largest = level->lanes.largest.data();
    const size_t step = level->level == 1 ? 2 : 4;
    for (size_t y = 0; y < tile.height;) {
      const std::int64_t position = tile.y + static_cast<std::int64_t>(y);
      const auto row = static_cast<size_t>((position >> level->level) - (tile.y >> level->level)) * kTile;
      const std::int64_t begin = tile.x + original.shape[0] * (position + original.shape[1] * z);
      const Cell cell{rows.values.data() + row,
                      kMasked ? rows.weights.data() + row : nullptr,
                      original.values + begin,
                      kMasked ? original.weights + begin : nullptr,
                      static_cast<size_t>(original.shape[0]),
                      tile.width};
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
    size_t stride;  // from one original row to the next
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
        const Real original = cell.original[x + i * cell.stride];
        Real value = Between<kMasked>(values[x], values[x + kTile], t[i]);
        Real error;
        if constexpr (kMasked) {
          const Real valid = cell.valid[x + i * cell.stride];
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

/// Any units give a right record; these, from a few hundred samples, an accurate one.
template <typename Real, typename T>
Units<Real> ChooseUnits(const Samples<T>& samples) {
  const size_t stride = samples.count / 512 | 1;  // odd, so as not to stay in one column
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  for (size_t i = 0; i < samples.count; i += stride) {
    if (samples.validity != nullptr && samples.validity[i] == 0) continue;
    min = std::min(min, static_cast<double>(samples.original[i]));
    max = std::max(max, static_cast<double>(samples.original[i]));
  }
  const double magnitude = std::max(std::abs(min), std::abs(max));
  if (!(magnitude > 0) || !std::isfinite(magnitude)) return {};
  constexpr int kMost = std::numeric_limits<Real>::max_exponent - 2;
  const double scale = std::ldexp(1.0, -std::clamp(std::ilogb(magnitude), -kMost, kMost));
  return {static_cast<Real>(scale), static_cast<Real>(0.5 * (min * scale) + 0.5 * (max * scale))};
}

// Rounding on the way to a difference, in units of the largest magnitude in play and of the rounding of one
// operation: 1 for the samples themselves, 3 times that and 1 for each of the three extensions (40 in all), 5
// for each of the three interpolations, 3 for the difference and its square; 5 more to be safe from higher
// orders.
constexpr double kRounding = 63;

/// How far the largest difference may be above the one computed: rounding, and squares too small for Real.
template <typename Real>
double RoundingBound(const Level<Real>& level) {
  using Limits = std::numeric_limits<Real>;
  const double magnitude = static_cast<double>(level.largest) + level.LargestError();
  return kRounding * (static_cast<double>(Limits::epsilon()) / 2) * magnitude +
         std::sqrt(static_cast<double>(Limits::min()));
}

/// Sums are in range, and rounding is small beside the error.
template <typename Real>
bool IsPrecise(const Level<Real>& level) {
  return std::isfinite(Sum(level.lanes.squares)) && RoundingBound(level) <= level.LargestError() / 8;
}

template <typename Real>
LevelError RecordOf(const Level<Real>& level, double valid, double covered, double scale) {
  if (covered == 0) return {0, 0, 0};
  const double rmse = std::sqrt(Sum(level.lanes.squares) / covered) / scale;
  const double largest = (level.LargestError() + RoundingBound(level)) / scale;
  return {std::isnan(rmse) ? rmse : largest, rmse, covered / valid};
}

template <typename T, typename Real>
struct ToUnits {
  QUARRY_INLINE static void Run(const T* in, size_t count, const Units<Real>* units, Real* out) {
    const auto [scale, centre] = *units;
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<Real>(in[i]) * scale - centre;
  }
};

template <typename Real, typename T>
Buffer<Real> InUnits(const T* samples, size_t count, const Units<Real>& units) {
  Buffer<Real> out(count);
  RunOnBestInstructionSet<ToUnits<T, Real>>(samples, count, &units, out.data());
  return out;
}

/// The valid original samples in units, and their weights; 0 where missing.
template <typename Real, typename T>
Weighted<Real> OriginalInUnits(const Samples<T>& finest, const Units<Real>& units) {
  Weighted<Real> original{InUnits(finest.original, finest.count, units), {}};
  if (finest.validity != nullptr) {
    original.weights.resize(finest.count);
    for (size_t i = 0; i < finest.count; ++i) {
      original.weights[i] = finest.validity[i] != 0 ? Real(1) : Real(0);
      original.values[i] = finest.validity[i] != 0 ? original.values[i] : Real(0);
    }
  }
  return original;
}

template <typename Real>
bool IsZero(const Buffer<Real>& values) {
  return std::all_of(values.begin(), values.end(), [](Real value) { return value == 0; });
}

/// Compares levels `numbers` in Real arithmetic; returns those for which it is not precise enough.
template <typename Real, typename T>
std::vector<int> CompareCoarse(const Index3& shape, const Samples<T>& finest, const Units<Real>& units,
                               std::span<const Bytes> decoded, const std::vector<int>& numbers,
                               std::vector<LevelError>* errors) {
  const bool masked = finest.validity != nullptr;
  const Weighted<Real> samples = OriginalInUnits(finest, units);
  const Original<Real> original{shape, samples.values.data(), masked ? samples.weights.data() : nullptr};
  std::vector<Level<Real>> levels(numbers.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i].level = numbers[i];
    const Bytes& bytes = decoded[static_cast<size_t>(numbers[i])];
    levels[i].grid.values =
        InUnits(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T), units);
  }
  if (masked) {
    RunOnBestInstructionSet<CompareLevels<Real, true>>(&original, &levels);
  } else {
    RunOnBestInstructionSet<CompareLevels<Real, false>>(&original, &levels);
  }
  const auto valid = static_cast<double>(CountValid(finest));
  const bool original_is_zero = IsZero(samples.values);
  std::vector<int> imprecise;
  for (const Level<Real>& level : levels) {
    const double covered = masked ? Sum(level.lanes.covered) : valid;
    LevelError& error = (*errors)[static_cast<size_t>(level.level)];
    if (original_is_zero && level.largest == 0) {  // a constant patch: nothing was rounded
      error = {0, 0, covered / valid};
    } else {
      error = RecordOf(level, valid, covered, static_cast<double>(units.scale));
      if (!IsPrecise(level)) imprecise.push_back(level.level);
    }
  }
  return imprecise;
}

template <typename T>
std::vector<LevelError> RecordTyped(const PatchLayout& layout, const Samples<T>& finest,
                                    std::span<const Bytes> decoded) {
  std::vector<LevelError> errors(static_cast<size_t>(layout.levels));
  errors[0] = Compare(finest);
  std::vector<int> levels(errors.size() - 1);
  std::iota(levels.begin(), levels.end(), 1);
  if (levels.empty()) return errors;
  if constexpr (std::is_same_v<CompareAs<T>, float>) {
    levels = CompareCoarse(layout.shape, finest, ChooseUnits<float>(finest), decoded, levels, &errors);
  }
  if (!levels.empty())
    CompareCoarse(layout.shape, finest, ChooseUnits<double>(finest), decoded, levels, &errors);
  return errors;
}

template <typename T>
Samples<T> SamplesOf(ByteSpan original, ByteSpan decoded, Validity validity) {
  return {reinterpret_cast<const T*>(original.data()), reinterpret_cast<const T*>(decoded.data()),
          validity.empty() ? nullptr : validity.data(), original.size() / sizeof(T)};
}

}  // namespace

template <typename T>
LevelError CompareSamples(std::span<const T> original, std::span<const T> decoded, Validity validity) {
  return Compare(SamplesOf<T>(std::as_bytes(original), std::as_bytes(decoded), validity));
}

template LevelError CompareSamples<float>(std::span<const float>, std::span<const float>, Validity);
template LevelError CompareSamples<double>(std::span<const double>, std::span<const double>, Validity);

std::vector<LevelError> RecordErrors(const PatchLayout& layout, ByteSpan original, Validity validity,
                                     std::span<const Bytes> decoded) {
  const auto record = [&](auto zero) {
    using T = decltype(zero);
    return RecordTyped<T>(layout, SamplesOf<T>(original, decoded[0], validity), decoded);
  };
  return DispatchType(layout.type, record);
}

}  // namespace quarry
