#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quarry/codec/entropy/rans.h"
#include "quarry/codec/interpolate/predictor.h"

/// The most expensive loops, compiled once per instruction set and chosen at run time. All versions compute
/// the same values and read the same bytes.
namespace quarry::interpolate {

/// Padding before the first and after the last sample of every band: a whole plane is processed as one row,
/// which overruns the ends by a few samples; their results are then replaced.
inline constexpr std::size_t kPadding = 16;

/// Cap on the |index| of a neighbour: twelve times it still fits into 16 bits.
inline constexpr std::uint16_t kMaxMagnitude = 5400;

/// Source of the predictions of a band along one of its odd axes.
template <typename T>
struct BandSource {
  const T* values = nullptr;  ///< the band without this axis being odd
  std::int64_t row = 0;       ///< its samples along x
  std::int64_t plane = 0;     ///< its samples along x times those along y
  const Segment<T>* segments = nullptr;
  std::size_t segment_count = 0;
};

template <typename T>
struct PredictArgs {
  int band = 0;
  Index3 shape{};
  std::array<BandSource<T>, 3> sources{};          ///< of the odd axes
  std::array<std::array<T, 3>, kBands> weights{};  ///< [axes without extrapolation][axis]
  std::array<T*, 3> scratch{};                     ///< a plane each
};

/// Magnitudes of the indices around a band.
struct ContextArgs {
  int band = 0;
  Index3 shape{};
  std::array<const std::uint16_t*, 3> magnitudes{};  ///< of the band without this axis being odd
  std::array<Index3, 3> source_shapes{};
};

template <typename T>
struct QuantiseArgs {
  T step = 1;
  T inverse_step = 1;
  T max_error = 0;        ///< of a reconstruction; beyond it the sample is an escape
  T max_index = 0;        ///< of an index; beyond it the sample is an escape
  bool integral = false;  ///< predictions are rounded: all samples are whole numbers
};

/// Largest number of context tables.
inline constexpr std::size_t kMaxTables = 12;

/// Eight widths of at most 22 bits, and a window of four bytes.
inline constexpr std::size_t kLowBitsPadding = 32;

struct Kernels {
  std::string_view name;

  /// Predictions of plane z of a band, dense.
  void (*predict_f32)(const PredictArgs<float>&, std::int64_t z, float* out);
  void (*predict_f64)(const PredictArgs<double>&, std::int64_t z, double* out);

  /// Indices, reconstructions and magnitudes of `count` samples. True when one of them is an escape: its
  /// index and magnitude are 0, and its reconstruction is the sample.
  bool (*quantise_f32)(const QuantiseArgs<float>&, const float* samples, const float* predicted,
                       std::size_t count, std::int32_t* indices, float* decoded, std::uint16_t* magnitudes);
  bool (*quantise_f64)(const QuantiseArgs<double>&, const double* samples, const double* predicted,
                       std::size_t count, std::int32_t* indices, double* decoded, std::uint16_t* magnitudes);

  /// The reconstructions and magnitudes of the encoder.
  void (*dequantise_f32)(const QuantiseArgs<float>&, const std::int32_t* indices, const float* predicted,
                         std::size_t count, float* decoded, std::uint16_t* magnitudes);
  void (*dequantise_f64)(const QuantiseArgs<double>&, const std::int32_t* indices, const double* predicted,
                         std::size_t count, double* decoded, std::uint16_t* magnitudes);

  /// Activity around each sample of plane z: a sum of neighbouring magnitudes, scaled to the same range for
  /// all bands.
  void (*activity)(const ContextArgs&, std::int64_t z, std::uint16_t* out);
  /// out[i] = fine bin of activity[i] (contexts.h).
  void (*fine_bins)(const std::uint16_t* activity, std::size_t count, std::uint8_t* out);
  /// out[i] = number of thresholds <= activity[i].
  void (*classify)(const std::uint16_t* activity, std::size_t count, const std::uint16_t* thresholds,
                   std::uint8_t* out);

  /// Decodes `count` symbols of the given tables. False if the words end too early.
  bool (*decode_rans)(entropy::RansReader*, const std::uint8_t* tables, std::size_t count,
                      std::uint8_t* symbols);

  /// Indices of symbols without low bits.
  void (*unfold)(const std::uint8_t* symbols, std::size_t count, std::int32_t* indices);
  /// Indices of symbols with their low bits, which are bits `position` .. `limit` of `bits`; kLowBitsPadding
  /// bytes after them are readable. Returns the position of the next bit, above `limit` if there were too
  /// few.
  /// @param shifts  of each table, 16 in all
  std::size_t (*unfold_low)(const std::uint8_t* symbols, const std::uint8_t* tables,
                            const std::uint8_t* shifts, const std::byte* bits, std::size_t position,
                            std::size_t limit, std::size_t count, std::int32_t* indices);

  /// out[2 i] = even[i], out[2 i + 1] = odd[i].
  void (*interleave_32)(const std::uint32_t* even, const std::uint32_t* odd, std::size_t count,
                        std::uint32_t* out);
  void (*interleave_64)(const std::uint64_t* even, const std::uint64_t* odd, std::size_t count,
                        std::uint64_t* out);
  void (*interleave_16)(const std::uint16_t* even, const std::uint16_t* odd, std::size_t count,
                        std::uint16_t* out);
};

/// Kernels of the best instruction set of this processor. The environment variable QUARRY_ISA (scalar, avx2,
/// avx512) selects a lesser one; the choice is made at the first call.
const Kernels& ActiveKernels();

/// Kernels by name, or null if this processor or build lacks them.
const Kernels* FindKernels(std::string_view name);

/// Replaces the active kernels, in tests and benchmarks while nothing is being coded. False: it lacks them.
bool SelectKernels(std::string_view name);

}  // namespace quarry::interpolate
