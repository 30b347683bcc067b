#include "quarry/codec/interpolate/exact_contexts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/level_base.h"

namespace quarry::interpolate {
namespace {

/// Steps of an octave.
constexpr int kOctave = 64;
constexpr int kOctaveShift = 6;
constexpr int kMantissaBits = 23;
/// The logarithm of half the width of an interval, as a magnitude: errors below 2^-24 of it count as none.
constexpr std::int32_t kOfHalfWidth = 24 * kOctave;
/// log2(3) of an octave.
constexpr std::int32_t kThree = 101;

/// The logarithm of a magnitude in steps, by its bits: linear between powers of two.
QUARRY_INLINE std::int32_t LogOf(float magnitude) {
  return (std::bit_cast<std::int32_t>(magnitude) >> (kMantissaBits - kOctaveShift)) - (127 << kOctaveShift);
}

/// The logarithm of the distance of a number from the next one.
QUARRY_INLINE std::int32_t LogOfUlp(float number) {
  const std::int32_t biased = std::bit_cast<std::int32_t>(number) >> kMantissaBits & 0xff;
  return ((biased < 1 ? 1 : biased) - 127 - kMantissaBits) * kOctave;
}

template <bool kIntegral>
struct FindExactContextsKernel {
  QUARRY_INLINE static void Run(const ExactPlane* plane) {
    for (std::size_t begin = 0; begin < plane->count; begin += kBlock)
      RunBlock(*plane, begin, std::min(kBlock, plane->count - begin));
  }

 private:
  static constexpr std::size_t kBlock = 256;  // stays in the first cache

  /// A loop for each type: of arrays of different types, the compiler makes no vectors.
  QUARRY_INLINE static void RunBlock(const ExactPlane& plane, std::size_t begin, std::size_t count) {
    std::array<float, kBlock> valid;
    std::array<float, kBlock> near;
    std::array<float, kBlock> outside;
    if (plane.validity == nullptr) {
      for (std::size_t i = 0; i < count; ++i) valid[i] = 1;
    } else {
      for (std::size_t i = 0; i < count; ++i) valid[i] = static_cast<float>(plane.validity[begin + i]);
    }
    Clamp(plane, begin, count, valid.data(), near.data(), outside.data());
    FindContexts(plane, begin, count, near.data(), outside.data());
  }

  QUARRY_INLINE static void Clamp(const ExactPlane& plane, std::size_t begin, std::size_t count,
                                  const float* __restrict valid, float* __restrict near,
                                  float* __restrict outside) {
    const float half_width = plane.half_width;
    const float relative_width = plane.relative_width;
    const float* __restrict predicted = plane.predicted + begin;
    const float* __restrict values = plane.values + begin;
    float* __restrict clamped = plane.clamped + begin;
    float* __restrict signs = plane.signs + begin;
    float* __restrict unclamped = plane.unclamped + begin;
    for (std::size_t i = 0; i < count; ++i) {
      const float p = SanitisedPrediction(predicted[i], kIntegral);
      const float b = SanitisedPrediction(values[i], kIntegral);
      const float width = half_width + std::abs(b) * relative_width;
      const float low = b - width;
      const float high = b + width;
      const float raised = p > low ? p : low;
      const float inside = raised < high ? raised : high;
      const float below = inside - low;
      const float above = high - inside;
      const float sign = valid[i] != 0 && above < below ? -1.0f : 1.0f;
      const float c = valid[i] != 0 ? inside : p;
      unclamped[i] = p;
      signs[i] = sign;
      clamped[i] = sign * c;
      near[i] = above < below ? above : below;
      outside[i] = p != inside ? 1.0f : 0.0f;
    }
  }

  QUARRY_INLINE static void FindContexts(const ExactPlane& plane, std::size_t begin, std::size_t count,
                                         const float* __restrict near, const float* __restrict outside) {
    const std::int32_t unit = LogOf(plane.half_width) - kOfHalfWidth;
    const std::uint16_t* __restrict activity = plane.activity + begin;
    const float* __restrict clamped = plane.clamped + begin;
    std::uint8_t* __restrict contexts = plane.contexts + begin;
    std::array<std::int32_t, kBlock> mean;
    std::array<std::int32_t, kBlock> found;
    for (std::size_t i = 0; i < count; ++i) mean[i] = activity[i] / 12;
    for (std::size_t i = 0; i < count; ++i) {
      // The error that is expected, no larger than half the interval; in units of the last place.
      const std::int32_t expected = mean[i] < kOfHalfWidth ? mean[i] : kOfHalfWidth;
      const std::int32_t places = (expected + unit - LogOfUlp(clamped[i])) >> kOctaveShift;
      const std::int32_t least = places < 31 ? places : 31;
      const std::int32_t bin = least > 0 ? least : 0;
      const std::int32_t nearest = LogOf(near[i]) - unit;
      const std::int32_t inner = nearest < mean[i] + kThree ? 1 : 0;
      const std::int32_t inmost = nearest < mean[i] ? 1 : 0;
      const std::int32_t kind = outside[i] != 0 ? 3 : inner + inmost;
      found[i] = kind * static_cast<std::int32_t>(kFineBins) + bin;
    }
    for (std::size_t i = 0; i < count; ++i) contexts[i] = static_cast<std::uint8_t>(found[i]);
  }
};

struct ErrorMagnitudesKernel {
  QUARRY_INLINE static void Run(const float* __restrict samples, const float* __restrict predicted,
                                std::size_t count, std::int32_t unit, std::uint16_t* __restrict magnitudes) {
    constexpr std::size_t kBlock = 256;
    std::array<std::int32_t, kBlock> found;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t size = std::min(kBlock, count - begin);
      for (std::size_t i = 0; i < size; ++i) {
        const std::int32_t log = LogOf(std::abs(samples[begin + i] - predicted[begin + i])) - unit;
        const std::int32_t least = log < std::int32_t{kMaxMagnitude} ? log : std::int32_t{kMaxMagnitude};
        found[i] = least > 0 ? least : 0;
      }
      for (std::size_t i = 0; i < size; ++i) magnitudes[begin + i] = static_cast<std::uint16_t>(found[i]);
    }
  }
};

}  // namespace

void FindExactContexts(const ExactPlane& plane) {
  if (plane.integral) {
    RunOnBestInstructionSet<FindExactContextsKernel<true>>(&plane);
  } else {
    RunOnBestInstructionSet<FindExactContextsKernel<false>>(&plane);
  }
}

void ErrorMagnitudes(const float* samples, const float* predicted, std::size_t count, float half_width,
                     std::uint16_t* magnitudes) {
  RunOnBestInstructionSet<ErrorMagnitudesKernel>(samples, predicted, count, LogOf(half_width) - kOfHalfWidth,
                                                 magnitudes);
}

}  // namespace quarry::interpolate
