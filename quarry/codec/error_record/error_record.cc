#include "quarry/codec/error_record/error_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "quarry/codec/error_record/compare_levels.h"
#include "quarry/codec/error_record/lanes.h"
#include "quarry/codec/error_record/samples.h"
#include "quarry/codec/instruction_sets.h"

namespace quarry {
namespace error_record {
namespace {

template <typename T>
T FirstValid(const Samples<T>& samples) {
  if (samples.validity == nullptr) return samples.original[0];
  const auto* valid =
      std::find_if(samples.validity, samples.validity + samples.count, [](std::uint8_t v) { return v != 0; });
  return valid == samples.validity + samples.count ? T{0} : samples.original[valid - samples.validity];
}

/// Any units give a correct record; these, from a few hundred samples, give an accurate one.
template <typename Real, typename T>
Units<Real> ChooseUnits(const Samples<T>& samples) {
  const size_t stride = samples.count / 512 | 1;  // odd, so that samples are not all from one column
  Units<Real> units;
  if constexpr (kIsWideInteger<T>) units.base = static_cast<std::uint64_t>(FirstValid(samples));
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  for (size_t i = 0; i < samples.count; i += stride) {
    if (samples.validity != nullptr && samples.validity[i] == 0) continue;
    const double sample = InUnit<double>(samples.original[i], {1, 0, units.base});
    min = std::min(min, sample);
    max = std::max(max, sample);
  }
  const double magnitude = std::max(std::abs(min), std::abs(max));
  if (!(magnitude > 0) || !std::isfinite(magnitude)) return units;
  constexpr int kMost = std::numeric_limits<Real>::max_exponent - 2;
  const double scale = std::ldexp(1.0, -std::clamp(std::ilogb(magnitude), -kMost, kMost));
  units.scale = static_cast<Real>(scale);
  units.centre = static_cast<Real>(0.5 * (min * scale) + 0.5 * (max * scale));
  return units;
}

// Rounding up to a difference, in units of the largest magnitude involved and of the rounding of one
// operation: 1 for the samples themselves, 3 times that and 1 for each of the three extensions (40 in all), 5
// for each of the three interpolations, 3 for the difference and its square; 5 more cover higher orders.
// Integers of 64 bits are rounded once more, by the difference from the base, at most twice the magnitude: 27
// times 2 more in the grid, and 2 in the original.
template <typename T>
constexpr double kRounding = kIsWideInteger<T> ? 63 + 56 : 63;

/// How far the largest difference may exceed the computed one: rounding, and squares too small for Real.
template <typename T, typename Real>
double RoundingBound(const Level<Real>& level) {
  using Limits = std::numeric_limits<Real>;
  const double magnitude = static_cast<double>(level.largest) + level.LargestError();
  return kRounding<T> * (static_cast<double>(Limits::epsilon()) / 2) * magnitude +
         std::sqrt(static_cast<double>(Limits::min()));
}

/// Whether sums are in range and rounding is small beside the error.
template <typename T, typename Real>
bool IsPrecise(const Level<Real>& level) {
  return std::isfinite(Sum(level.lanes.squares)) && RoundingBound<T>(level) <= level.LargestError() / 8;
}

template <typename T, typename Real>
LevelError RecordOf(const Level<Real>& level, double valid, double covered, double scale) {
  if (covered == 0) return {0, 0, 0};
  const double rmse = std::sqrt(Sum(level.lanes.squares) / covered) / scale;
  const double largest = (level.LargestError() + RoundingBound<T>(level)) / scale;
  return {std::isnan(rmse) ? rmse : largest, rmse, covered / valid};
}

template <typename T, typename Real>
struct ToUnits {
  QUARRY_INLINE static void Run(const T* in, size_t count, const Units<Real>* units, Real* out) {
    const Units<Real> own = *units;  // no store to `out` can change it
    for (size_t i = 0; i < count; ++i) out[i] = InUnit<Real>(in[i], own);
  }
};

template <typename Real, typename T>
Buffer<Real> InUnits(const T* samples, size_t count, const Units<Real>& units) {
  Buffer<Real> out(count);
  RunOnBestInstructionSet<ToUnits<T, Real>>(samples, count, &units, out.data());
  return out;
}

template <typename Real>
struct ToWeights {
  /// A missing sample becomes 0, with any bits.
  QUARRY_INLINE static void Run(const std::uint8_t* __restrict validity, size_t count,
                                Real* __restrict values, Real* __restrict weights) {
    for (size_t i = 0; i < count; ++i) {
      weights[i] = validity[i] != 0 ? Real(1) : Real(0);
      values[i] = validity[i] != 0 ? values[i] : Real(0);
    }
  }
};

/// See Original::to_units.
template <typename T, typename Real>
void OriginalToUnits(const Original<Real>& original, std::int64_t begin, size_t count, Real* values,
                     Real* weights) {
  const T* samples = static_cast<const T*>(original.samples) + begin;
  RunOnBestInstructionSet<ToUnits<T, Real>>(samples, count, &original.units, values);
  if (original.validity == nullptr) return;
  RunOnBestInstructionSet<ToWeights<Real>>(original.validity + begin, count, values, weights);
}

/// Whether all valid samples are the centre of the units.
template <typename Real, typename T>
bool IsCentre(const Samples<T>& samples, const Units<Real>& units) {
  for (size_t i = 0; i < samples.count; ++i) {
    const bool valid = samples.validity == nullptr || samples.validity[i] != 0;
    if (valid && InUnit<Real>(samples.original[i], units) != 0) return false;
  }
  return true;
}

/// Compares levels `numbers` in Real arithmetic; returns those that need more precision.
template <typename Real, typename T>
std::vector<int> CompareCoarse(const Index3& shape, const Samples<T>& finest, const Units<Real>& units,
                               std::span<const Bytes> decoded, const std::vector<int>& numbers,
                               std::vector<LevelError>* errors) {
  const bool masked = finest.validity != nullptr;
  const Original<Real> original{shape, finest.original, finest.validity, units, OriginalToUnits<T, Real>};
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
  std::vector<int> imprecise;
  for (const Level<Real>& level : levels) {
    const double covered = masked ? Sum(level.lanes.covered) : valid;
    LevelError& error = (*errors)[static_cast<size_t>(level.level)];
    if (level.largest == 0 && IsCentre(finest, units)) {  // a constant patch: nothing was rounded
      error = {0, 0, covered / valid};
    } else {
      error = RecordOf<T>(level, valid, covered, static_cast<double>(units.scale));
      if (!IsPrecise<T>(level)) imprecise.push_back(level.level);
    }
  }
  return imprecise;
}

template <typename T>
std::vector<LevelError> RecordTyped(const PatchLayout& layout, ByteSpan original, Validity validity,
                                    std::span<const Bytes> decoded) {
  const Samples<T> finest = SamplesOf<T>(original, decoded[0], validity);
  std::vector<LevelError> errors(static_cast<size_t>(layout.levels));
  errors[0] = CompareSamples<T>({finest.original, finest.count}, {finest.decoded, finest.count}, validity);
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

}  // namespace
}  // namespace error_record

std::vector<LevelError> RecordErrors(const PatchLayout& layout, ByteSpan original, Validity validity,
                                     std::span<const Bytes> decoded) {
  const auto record = [&](auto zero) {
    using T = decltype(zero);
    return error_record::RecordTyped<T>(layout, original, validity, decoded);
  };
  return DispatchType(layout.type, record);
}

}  // namespace quarry
