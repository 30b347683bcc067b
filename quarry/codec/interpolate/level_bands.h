#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "quarry/base/per_thread.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/reference.h"

/// Shared by encoding and decoding of a level: its bands, and predictions from them.
namespace quarry::interpolate {

template <typename T>
struct KernelsOf;

template <>
struct KernelsOf<float> {
  static auto Predict(const Kernels& k) { return k.predict_f32; }
  static auto Quantise(const Kernels& k) { return k.quantise_f32; }
  static auto Reconstruct(const Kernels& k) { return k.reconstruct_f32; }
  static auto Interleave(const Kernels& k) { return k.interleave_f32; }
};

template <>
struct KernelsOf<double> {
  static auto Predict(const Kernels& k) { return k.predict_f64; }
  static auto Quantise(const Kernels& k) { return k.quantise_f64; }
  static auto Reconstruct(const Kernels& k) { return k.reconstruct_f64; }
  static auto Interleave(const Kernels& k) { return k.interleave_f64; }
};

template <>
struct KernelsOf<std::uint16_t> {
  static auto Interleave(const Kernels& k) { return k.interleave_16; }
};

/// Scratch of a thread: the bands of the current level, and planes.
template <typename T>
struct LevelScratch {
  std::array<PaddedArray<T>, kBands> values;
  std::array<PaddedArray<std::uint16_t>, kBands> magnitudes;
  std::array<PaddedArray<T>, 4> planes;          ///< predictions along x, y, z, and their average
  std::vector<std::uint16_t> activity;           ///< one plane
  Buffer<T> plane;                               ///< one of the whole level
  std::vector<std::uint8_t> validity;            ///< validity of a band
  std::array<PaddedArray<T>, kBands> reference;  ///< bands of the reference
  PaddedArray<T> reference_plane;                ///< predictions of them
  std::vector<std::uint16_t> reference_misses;   ///< one plane

  static LevelScratch& OfThread() {
    static const PerThread<LevelScratch> scratch;
    return *scratch;
  }
};

/// Takes an array over a whole level apart into its bands, without band 0.
template <typename U>
struct SplitBands {
  QUARRY_INLINE static void Run(const U* level, const Index3* shape, std::array<U*, kBands> bands) {
    const std::int64_t width = (*shape)[0];
    for (std::int64_t z = 0; z < (*shape)[2]; ++z) {
      for (std::int64_t y = 0; y < (*shape)[1]; ++y, level += width) {
        const auto even_band = static_cast<std::size_t>((y & 1) << 1 | (z & 1) << 2);
        U*& odd_band = bands[even_band | 1];
        if (even_band == 0) {
          for (std::int64_t x = 0; x < width / 2; ++x) odd_band[x] = level[2 * x + 1];
        } else {
          SplitRow(level, width, bands[even_band], odd_band);
          bands[even_band] += (width + 1) / 2;
        }
        odd_band += width / 2;
      }
    }
  }

 private:
  QUARRY_INLINE static void SplitRow(const U* row, std::int64_t width, U* __restrict even,
                                     U* __restrict odd) {
    for (std::int64_t x = 0; x < width / 2; ++x) {
      even[x] = row[2 * x];
      odd[x] = row[2 * x + 1];
    }
    if (width % 2 != 0) even[width / 2] = row[width - 1];
  }
};

/// A band of an array over the whole level.
template <typename U>
void ExtractBand(const U* level, const Index3& shape, int band, U* out) {
  const Index3 extent = BandShape(shape, band);
  const std::int64_t x0 = band & 1;
  const std::int64_t y0 = band >> 1 & 1;
  const std::int64_t z0 = band >> 2 & 1;
  for (std::int64_t z = 0; z < extent[2]; ++z) {
    for (std::int64_t y = 0; y < extent[1]; ++y) {
      const U* row = level + ((2 * z + z0) * shape[1] + 2 * y + y0) * shape[0] + x0;
      for (std::int64_t x = 0; x < extent[0]; ++x) out[x] = row[2 * x];
      out += extent[0];
    }
  }
}

/// The intervals of a plane or a band in the layer before; see IntervalPlane.
template <typename T>
struct IntervalScratch {
  Buffer<T> values;  ///< values of the layer before, of all new samples in coding order
  Buffer<T> clamped;
  Buffer<T> unclamped;  ///< for exact levels with tables
  Buffer<T> signs;
  Buffer<std::uint16_t> misses;

  static IntervalScratch& OfThread() {
    static const PerThread<IntervalScratch> scratch;
    return *scratch;
  }

  /// @param size  of the part that is clamped at a time
  void Resize(std::size_t size) {
    if (clamped.size() >= size) return;
    clamped.resize(size);
    unclamped.resize(size);
    signs.resize(size);
    misses.resize(size);
  }
  /// Takes the values of a level apart.
  void Split(const T* level, const Index3& shape) {
    values.resize(static_cast<std::size_t>(Volume(shape)) - BandSize(shape, 0));
    std::array<T*, kBands> bands{};
    std::size_t begin = 0;
    for (const int band : kBandOrder) {
      bands[static_cast<std::size_t>(band)] = values.data() + begin;
      begin += BandSize(shape, band);
    }
    RunOnBestInstructionSet<SplitBands<T>>(level, &shape, bands);
  }
};

template <typename T>
IntervalArgs<T> IntervalArgsOf(const Quantiser& quantiser, double half_width) {
  IntervalArgs<T> args;
  const T step = static_cast<T>(quantiser.step);
  args.half_width = static_cast<T>(half_width);
  // The values of the layer before are rounded; whole numbers and exact samples are not.
  args.relative_width = quantiser.integral || half_width == 0 ? T(0) : 2 * std::numeric_limits<T>::epsilon();
  args.inverse_step = T(1) / step;
  args.activity_unit = step / T(12);
  return args;
}

/// The bands of a level, band 0 in its grid, the others in scratch.
template <typename T>
class LevelBands {
 public:
  LevelBands(const Index3& shape, LevelGrid<T>* coarse, LevelScratch<T>* scratch)
      : shape_(shape), coarse_(coarse), scratch_(scratch), kernels_(ActiveKernels()) {
    std::size_t largest_plane = 0;
    for (const int band : kBandOrder) {
      const Index3 extent = BandShape(shape, band);
      scratch->values[Index(band)].Resize(BandSize(shape, band));
      scratch->magnitudes[Index(band)].Resize(BandSize(shape, band));
      largest_plane = std::max(largest_plane, static_cast<std::size_t>(extent[0] * extent[1]));
    }
    for (PaddedArray<T>& plane : scratch->planes) plane.Resize(largest_plane);
    scratch->activity.resize(std::max(scratch->activity.size(), largest_plane + kPadding));
    for (const int band : kBandOrder) contexts_[Index(band)] = ContextOf(band);
  }

  const Kernels& kernels() const { return kernels_; }
  Index3 Shape(int band) const { return BandShape(shape_, band); }
  std::size_t Size(int band) const { return BandSize(shape_, band); }
  T* Values(int band) { return band == 0 ? coarse_->values.data() : scratch_->values[Index(band)].data(); }
  std::uint16_t* Magnitudes(int band) {
    return band == 0 ? coarse_->magnitudes.data() : scratch_->magnitudes[Index(band)].data();
  }

  /// From here on, predictions and activity use a reference; before SetPredictor.
  /// @param level  of the reference, dense
  void SetReference(const T* level, T inverse_step) {
    std::array<T*, kBands> bands{};
    for (std::size_t band = 0; band < kBands; ++band) {
      scratch_->reference[band].Resize(Size(static_cast<int>(band)));
      bands[band] = scratch_->reference[band].data();
    }
    ExtractBand(level, shape_, 0, bands[0]);
    RunOnBestInstructionSet<SplitBands<T>>(level, &shape_, bands);
    scratch_->reference_plane.Resize(scratch_->planes[3].size());
    scratch_->reference_misses.resize(scratch_->planes[3].size());
    inverse_step_ = inverse_step;
    has_reference_ = true;
  }
  /// How much of the reference is used, in quarters.
  void SetShare(int share) { share_ = has_reference_ ? share : 0; }

  /// Must be called before Predict.
  void SetPredictor(const PredictorSpec& spec) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t odd = shape_[axis] / 2;
      segments_[axis] = MakeSegments<T>(spec.order[axis], spec.extrapolation[axis], shape_[axis] - odd, odd);
    }
    for (const int band : kBandOrder) {
      PredictArgs<T>& args = args_[Index(band)];
      args.band = band;
      args.shape = Shape(band);
      // An axis that is not odd counts as available; bands with one odd axis need no weights.
      for (int available = 0; available < kBands && OddAxes(band) > 1; ++available) {
        if ((available | band) == kBands - 1)
          args.weights[Index(available)] = AxisWeights<T>(spec, band, available);
      }
      for (int axis = 0; axis < 3; ++axis) {
        const auto a = static_cast<std::size_t>(axis);
        args.scratch[a] = scratch_->planes[a].data();
        if (!IsOdd(band, axis)) continue;
        const int source = band & ~(1 << axis);
        const Index3 extent = Shape(source);
        args.sources[a] = {Values(source), extent[0], extent[0] * extent[1], segments_[a].data(),
                           segments_[a].size()};
      }
    }
  }

  /// Predictions of a plane of a band; valid until the next call.
  const T* Predict(int band, std::int64_t z) {
    // First, as both need the scratch planes.
    if (share_ != 0) PredictReference(band, z);
    T* out = scratch_->planes[3].data();
    KernelsOf<T>::Predict(kernels_)(args_[Index(band)], z, out);
    if (share_ != 0) AddShare(ReferenceAt(band, z), static_cast<T>(share_) / kWholeShare, out);
    return out;
  }

  /// Activity around the samples of a plane of a band; valid until the next call.
  const std::uint16_t* Activity(int band, std::int64_t z) {
    kernels_.activity(contexts_[Index(band)], z, scratch_->activity.data());
    if (share_ != 0) {
      PredictReference(band, z);
      BlendActivity(ReferenceAt(band, z), Shape(band)[0], inverse_step_, scratch_->reference_misses.data(),
                    scratch_->activity.data());
    }
    return scratch_->activity.data();
  }

  /// Calls use(z, at, count) for each plane of a band: where it begins in the band, and its samples.
  template <typename Use>
  void ForEachPlane(int band, Use use) const {
    if (Size(band) == 0) return;
    const Index3 extent = Shape(band);
    const auto count = static_cast<std::size_t>(extent[0] * extent[1]);
    for (std::int64_t z = 0; z < extent[2]; ++z) use(z, static_cast<std::size_t>(z) * count, count);
  }

  /// Puts all bands together: the coarse grid becomes the level, or the values go to their place.
  /// @param place  or null
  void Merge(bool with_magnitudes, const SamplePlace* place) {
    if (place != nullptr) return MergeInto(*place);
    PaddedArray<T> values;
    values.Resize(static_cast<std::size_t>(Volume(shape_)));
    PaddedArray<std::uint16_t> magnitudes;
    if (with_magnitudes) magnitudes.Resize(values.size());
    const std::int64_t plane = shape_[0] * shape_[1];
    MergeBands(&LevelBands::Values, shape_[0], plane, values.data());
    if (with_magnitudes) MergeBands(&LevelBands::Magnitudes, shape_[0], plane, magnitudes.data());
    coarse_->shape = shape_;
    std::swap(coarse_->values, values);
    std::swap(coarse_->magnitudes, magnitudes);
  }

 private:
  static constexpr std::size_t Index(int i) { return static_cast<std::size_t>(i); }

  void MergeInto(const SamplePlace& place) {
    const auto first = reinterpret_cast<std::uintptr_t>(place.first);
    const bool aligned = (first | place.row_bytes | place.plane_bytes) % sizeof(T) == 0;
    if (aligned && !place.streamed) {
      MergeBands(&LevelBands::Values, static_cast<std::int64_t>(place.row_bytes / sizeof(T)),
                 static_cast<std::int64_t>(place.plane_bytes / sizeof(T)), reinterpret_cast<T*>(place.first));
    } else {
      CopyPlanes(place);
    }
    place.EndWriting();
  }

  /// Plane by plane through the nearest cache.
  void CopyPlanes(const SamplePlace& place) {
    const auto width = static_cast<std::size_t>(shape_[0]);
    scratch_->plane.resize(width * static_cast<std::size_t>(shape_[1]));
    for (std::int64_t z = 0; z < shape_[2]; ++z) {
      MergePlane(&LevelBands::Values, z, shape_[0], scratch_->plane.data());
      const T* row = scratch_->plane.data();
      for (std::int64_t y = 0; y < shape_[1]; ++y, row += width)
        place.WriteRow(y, z, reinterpret_cast<const std::byte*>(row), width * sizeof(T));
    }
  }

  void PredictReference(int band, std::int64_t z) {
    PredictArgs<T> args = args_[Index(band)];
    for (int axis = 0; axis < 3; ++axis) {
      if (IsOdd(band, axis))
        args.sources[Index(axis)].values = scratch_->reference[Index(band & ~(1 << axis))].data();
    }
    KernelsOf<T>::Predict(kernels_)(args, z, scratch_->reference_plane.data());
  }
  /// After PredictReference.
  ReferencePlane<T> ReferenceAt(int band, std::int64_t z) const {
    const Index3 extent = Shape(band);
    const auto count = static_cast<std::size_t>(extent[0] * extent[1]);
    return {scratch_->reference[Index(band)].data() + static_cast<std::size_t>(z) * count,
            scratch_->reference_plane.data(), count};
  }

  ContextArgs ContextOf(int band) {
    ContextArgs args;
    args.band = band;
    args.shape = Shape(band);
    for (int axis = 0; axis < 3; ++axis) {
      if (!IsOdd(band, axis)) continue;
      const int source = band & ~(1 << axis);
      args.magnitudes[Index(axis)] = Magnitudes(source);
      args.source_shapes[Index(axis)] = Shape(source);
    }
    return args;
  }

  /// @param row    from a row of `out` to the next
  /// @param plane  from a plane of it to the next
  template <typename U>
  void MergeBands(U* (LevelBands::*array)(int), std::int64_t row, std::int64_t plane, U* out) {
    for (std::int64_t z = 0; z < shape_[2]; ++z) MergePlane(array, z, row, out + z * plane);
  }

  /// @param z  of the level
  template <typename U>
  void MergePlane(U* (LevelBands::*array)(int), std::int64_t z, std::int64_t row, U* out) {
    InterleaveArgs<U> args;
    args.evens = static_cast<std::size_t>(shape_[0] + 1) / 2;
    args.odds = static_cast<std::size_t>(shape_[0]) / 2;
    args.rows = static_cast<std::size_t>(shape_[1]);
    for (std::size_t y = 0; y < 2; ++y) {
      const int band = static_cast<int>(y << 1 | static_cast<std::size_t>(z & 1) << 2);
      const auto before = static_cast<std::size_t>(z / 2 * Shape(band)[1]);
      args.even[y] = (this->*array)(band) + before * args.evens;
      args.odd[y] = (this->*array)(band | 1) + before * args.odds;
    }
    args.out = out;
    args.step = static_cast<std::size_t>(row);
    KernelsOf<U>::Interleave(kernels_)(args);
  }

  Index3 shape_;
  LevelGrid<T>* coarse_;
  LevelScratch<T>* scratch_;
  const Kernels& kernels_;
  std::array<std::vector<Segment<T>>, 3> segments_;
  std::array<PredictArgs<T>, kBands> args_;
  std::array<ContextArgs, kBands> contexts_;
  bool has_reference_ = false;
  int share_ = 0;
  T inverse_step_ = 0;
};

/// Forms of a level's payload: the lowest two bits of its first byte, and the highest one after 2.
enum class LevelMode : std::uint8_t {
  kZero = 0,           ///< every index is 0
  kOldTables = 1,      ///< as kTables, in version 2: read, not written
  kAdaptive = 2,       ///< indices as adaptive bits
  kExact = 3,          ///< samples bit by bit, as differences from their predictions
  kTables = 2 | 0x80,  ///< indices in static tables by context
  kExactTables =
      3 | 0x80,  ///< as kExact, the differences in static tables by context; in a further layer, f32
};

/// The other bits of the first byte.
inline constexpr std::uint8_t kOwnPredictor = 0x04;   ///< else that of the coarser level
inline constexpr std::uint8_t kOwnWeights = 0x08;     ///< else equal ones; only with kOwnPredictor
inline constexpr std::uint8_t kGroupFlags = 0x10;     ///< groups of zeros are flagged; only with tables
inline constexpr std::uint8_t kManyLanesFlag = 0x20;  ///< 32 lanes instead of 8; only kOldTables
inline constexpr std::uint8_t kHasEscapes = 0x40;     ///< with tables, and kAdaptive
inline constexpr std::uint8_t kFineTables = 0x80;     ///< frequencies of 11 bits, not 10; only kOldTables

/// Layout of kTables: bits 0 to 3, how many tables there are, less 1; bits 4 and 5, which of kLaneCounts.
inline constexpr int kLanesAt = 4;
inline constexpr std::uint8_t kStoredTables = 0x40;  ///< else named
inline constexpr std::uint8_t kClassTables = 0x80;   ///< contexts have classes; only in a further layer
inline constexpr std::array<std::size_t, 4> kLaneCounts = {1, entropy::kFewLanes, entropy::kManyLanes,
                                                           entropy::kMostLanes};

}  // namespace quarry::interpolate
