#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "quarry/codec/error_record/error_record.h"
#include "quarry/codec/error_record/lanes.h"
#include "quarry/codec/error_record/samples.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/sample_types.h"

namespace quarry {
namespace error_record {
namespace {

/// Whether squares have stayed in the range of Real. Their sum keeps a NaN or infinity that the maximum
/// loses.
template <typename Real>
bool InRange(double largest, double sum_of_squares) {
  constexpr double kSmallest = sizeof(Real) == 4 ? 0x1p-50 : 0x1p-500;
  return std::isfinite(sum_of_squares) && (largest == 0 || largest >= kSmallest);
}

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
        Real error = std::abs(Difference<Real>(original[x], decoded[x]));
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

/// Rounding to float32 keeps the order of differences, so the largest is among those that are largest in
/// float32: only their blocks are examined again.
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

/// For squares outside the range of float64.
template <typename T>
double RmseInUnitsOf(double largest, const Samples<T>& samples, double valid) {
  double sum = 0;
  for (size_t i = 0; i < samples.count; ++i) {
    if (samples.validity != nullptr && samples.validity[i] == 0) continue;
    const double error = Difference<double>(samples.original[i], samples.decoded[i]) / largest;
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

}  // namespace
}  // namespace error_record

template <typename T>
LevelError CompareSamples(std::span<const T> original, std::span<const T> decoded, Validity validity) {
  return error_record::Compare(
      error_record::SamplesOf<T>(std::as_bytes(original), std::as_bytes(decoded), validity));
}

#define QUARRY_INSTANTIATE(T) \
  template LevelError CompareSamples<T>(std::span<const T>, std::span<const T>, Validity)
QUARRY_FOR_EACH_SAMPLE_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry
