#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  std::array<BandSource<T>, 3> sources{};          ///< sources of the odd axes
  std::array<std::array<T, 3>, kBands> weights{};  ///< [axes without extrapolation][axis]
  std::array<T*, 3> scratch{};                     ///< a plane each
};

/// Magnitudes of the indices around a band.
struct ContextArgs {
  int band = 0;
  Index3 shape{};
  std::array<const std::uint16_t*, 3> magnitudes{};  ///< magnitudes of the band without this axis being odd
  std::array<Index3, 3> source_shapes{};
};

template <typename T>
struct QuantiseArgs {
  T step = 1;
  T inverse_step = 1;
  T max_error = 0;        ///< largest error of a reconstruction; beyond it the sample is an escape
  T max_index = 0;        ///< largest index; beyond it the sample is an escape
  bool integral = false;  ///< predictions are rounded: all samples are whole numbers
};

/// Largest number of context tables.
inline constexpr std::size_t kMaxTables = 12;
/// The same of a level whose contexts have classes.
inline constexpr std::size_t kMaxTablesOfClasses = 15;

/// Stands for the table of a sample without a symbol; it has no low bits.
inline constexpr std::uint8_t kNoTable = 15;

/// Eight widths of at most 22 bits, and a window of eight bytes.
inline constexpr std::size_t kLowBitsPadding = 32;

/// How each table folds an index (choose_tables.h).
struct FoldTables {
  std::array<std::uint8_t, 16> shifts{};
  std::array<std::uint8_t, 16> limits{};  ///< the largest symbol that occurs
};

/// The low bits of a level, in the order of its symbols.
struct LowBits {
  std::array<std::uint8_t, 16> widths{};  ///< one for each table
  const std::byte* bytes = nullptr;       ///< readable up to kLowBitsPadding bytes beyond the last
  std::size_t limit = 0;                  ///< bits there are
  std::size_t position = 0;               ///< position of the next; above `limit`, there were too few
};

/// A plane of a band, from symbols to samples.
template <typename T>
struct ReconstructArgs {
  T step = 1;
  bool integral = false;  ///< as in QuantiseArgs
  std::size_t count = 0;
  const std::uint8_t* symbols = nullptr;  ///< 0 where a sample has none
  const std::uint8_t* tables = nullptr;   ///< tables of the symbols, or kNoTable; used with low bits only
  LowBits* low_bits = nullptr;            ///< or null; what has been read is counted
  const T* predicted = nullptr;
  T* decoded = nullptr;
  std::uint16_t* magnitudes = nullptr;  ///< or null: not needed
};

/// The bands of a plane of the level: those of its even rows, then those of its odd ones.
template <typename U>
struct InterleaveArgs {
  std::array<const U*, 2> even{};  ///< samples at even x, dense
  std::array<const U*, 2> odd{};   ///< samples at odd x
  std::size_t evens = 0;           ///< in a row: as many as odds, or one more
  std::size_t odds = 0;
  std::size_t rows = 0;
  U* out = nullptr;
  std::size_t step = 0;  ///< from a row of `out` to the next
};

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

  /// The reconstructions and magnitudes of the encoder. All are unset if the low bits end too early.
  void (*reconstruct_f32)(const ReconstructArgs<float>&);
  void (*reconstruct_f64)(const ReconstructArgs<double>&);

  /// Activity around each sample of plane z: a sum of neighbouring magnitudes, scaled to the same range for
  /// all bands. @param out  kPadding more are written
  void (*activity)(const ContextArgs&, std::int64_t z, std::uint16_t* out);
  /// out[i] = fine bin of activity[i] (contexts.h).
  void (*fine_bins)(const std::uint16_t* activity, std::size_t count, std::uint8_t* out);
  /// out[i] = number of thresholds <= activity[i]. @param thresholds  ascending, below kMaxTables of them
  void (*classify)(const std::uint16_t* activity, std::size_t count,
                   std::span<const std::uint16_t> thresholds, std::uint8_t* out);

  /// Decodes `count` symbols of the given tables. False if the words end too early.
  bool (*decode_rans)(entropy::RansReader*, const std::uint8_t* tables, std::size_t count,
                      std::uint8_t* symbols);

  /// Codes `count` symbols, from the last to the first. At most one word a symbol is added before
  /// writer->next, and kWordsBefore words before these may be overwritten.
  void (*encode_rans)(entropy::RansWriter*, const entropy::CodedSymbol* symbols, std::size_t count);

  /// Moves the bytes of valid samples together. Returns how many there are.
  /// @param valid  1 or 0 for each sample
  std::size_t (*compact)(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                         std::uint8_t* out);
  /// Moves them back to their places; the other samples get `fill`. @param bytes  seven more are readable
  void (*expand)(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count, std::uint8_t fill,
                 std::uint8_t* out);

  /// Indices of symbols with their low bits. If these end too early, some are unset.
  void (*unfold)(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count,
                 LowBits* low_bits, std::int32_t* indices);

  /// Coded symbols of indices, and their low bits. False if some symbol is above the limit of its table:
  /// what is written for it is wrong.
  bool (*fold)(const std::int32_t* indices, const std::uint8_t* tables, const FoldTables& fold,
               std::size_t count, entropy::CodedSymbol* symbols, std::uint32_t* low);

  void (*interleave_f32)(const InterleaveArgs<float>&);
  void (*interleave_f64)(const InterleaveArgs<double>&);
  void (*interleave_16)(const InterleaveArgs<std::uint16_t>&);
};

/// Kernels of the best instruction set of this processor. The environment variable QUARRY_ISA (scalar, avx2,
/// avx512) selects a lesser one; the choice is made at the first call.
const Kernels& ActiveKernels();

/// Kernels by name, or null if this processor or build lacks them.
const Kernels* FindKernels(std::string_view name);

/// Replaces the active kernels, in tests and benchmarks while nothing is being coded.
void SelectKernels(const Kernels& kernels);
/// Kernels by name. False: this processor or build lacks them.
bool SelectKernels(std::string_view name);

}  // namespace quarry::interpolate
