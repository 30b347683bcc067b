#include "quarry/codec/interpolate/level_base.h"

#include <array>

#include "quarry/codec/instruction_sets.h"

namespace quarry::interpolate {
namespace {

template <typename T, bool kIntegral>
struct FindIntervalsKernel {
  QUARRY_INLINE static void Run(const IntervalArgs<T>* args, const IntervalPlane<T>* plane) {
    for (std::size_t begin = 0; begin < plane->count; begin += kBlock)
      RunBlock(*args, *plane, begin, std::min(kBlock, plane->count - begin));
  }

 private:
  static constexpr std::size_t kBlock = 256;  // stays in the first cache

  QUARRY_INLINE static void RunBlock(const IntervalArgs<T>& args, const IntervalPlane<T>& plane,
                                     std::size_t begin, std::size_t count) {
    std::array<T, kBlock> outside;
    std::array<T, kBlock> near;
    const T* __restrict predicted = plane.predicted + begin;
    const T* __restrict values = plane.values + begin;
    T* __restrict clamped = plane.clamped + begin;
    T* __restrict signs = plane.signs + begin;
    for (std::size_t i = 0; i < count; ++i) {
      const T p = SanitisedPrediction(predicted[i], kIntegral);
      const T b = SanitisedPrediction(values[i], kIntegral);
      const T width = args.half_width + std::abs(b) * args.relative_width;
      const T low = b - width;
      const T high = b + width;
      const T raised = p > low ? p : low;
      const T inside = raised < high ? raised : high;
      const T below = inside - low;
      const T above = high - inside;
      const T sign = above < below ? T(-1) : T(1);
      signs[i] = sign;
      clamped[i] = sign * inside;
      outside[i] = std::abs(p - inside);
      near[i] = above < below ? above : below;
    }
    if (plane.validity != nullptr)
      KeepMissing(predicted, plane.validity + begin, count, outside.data(), clamped, signs);
    CountMisses(args, outside.data(), count, plane.misses + begin);
    if (plane.activity != nullptr)
      AddClasses(args, plane.activity + begin, outside.data(), near.data(), count, plane.contexts + begin);
  }

  /// Missing samples keep their predictions.
  QUARRY_INLINE static void KeepMissing(const T* __restrict predicted,
                                        const std::uint8_t* __restrict validity, std::size_t count,
                                        T* __restrict outside, T* __restrict clamped, T* __restrict signs) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool valid = validity[i] != 0;
      clamped[i] = valid ? clamped[i] : SanitisedPrediction(predicted[i], kIntegral);
      signs[i] = valid ? signs[i] : T(1);
      outside[i] = valid ? outside[i] : T(0);
    }
  }

  QUARRY_INLINE static void CountMisses(const IntervalArgs<T>& args, const T* __restrict outside,
                                        std::size_t count, std::uint16_t* __restrict misses) {
    constexpr T kMost = kMaxMagnitude;
    std::array<std::int32_t, kBlock> whole;
    for (std::size_t i = 0; i < count; ++i) {
      const T steps = outside[i] * args.inverse_step;
      // The comparison is false for NaN. A hostile patch may have a step below 0.
      const T least = steps < kMost ? steps : kMost;
      const T bounded = least > 0 ? least : T(0);
      // To the nearest, ties to even.
      constexpr T kRounder = sizeof(T) == 4 ? T(12582912.0) : T(6755399441055744.0);
      whole[i] = static_cast<std::int32_t>((bounded + kRounder) - kRounder);
    }
    for (std::size_t i = 0; i < count; ++i) misses[i] = static_cast<std::uint16_t>(whole[i]);
  }

  QUARRY_INLINE static void AddClasses(const IntervalArgs<T>& args, const std::uint16_t* __restrict activity,
                                       const T* __restrict outside, const T* __restrict near,
                                       std::size_t count, std::uint8_t* __restrict contexts) {
    std::array<T, kBlock> expected;
    std::array<std::int32_t, kBlock> whole;
    for (std::size_t i = 0; i < count; ++i)
      expected[i] = static_cast<T>(static_cast<std::int32_t>(activity[i]) + 2) * args.activity_unit;
    for (std::size_t i = 0; i < count; ++i) {
      const T a = expected[i];
      const std::int32_t of_inside = (near[i] < a ? 1 : 0) + (near[i] < a * 3 ? 1 : 0);
      whole[i] = outside[i] != 0 ? 3 : of_inside;
    }
    for (std::size_t i = 0; i < count; ++i)
      contexts[i] = static_cast<std::uint8_t>(contexts[i] + whole[i] * static_cast<int>(kFineBins));
  }
};

template <typename T>
struct LeaveIntervalsKernel {
  QUARRY_INLINE static void Run(const T* __restrict signs, const std::uint16_t* __restrict misses,
                                std::size_t count, T* __restrict decoded,
                                std::uint16_t* __restrict magnitudes) {
    for (std::size_t i = 0; i < count; ++i) decoded[i] *= signs[i];
    if (magnitudes == nullptr) return;
    for (std::size_t i = 0; i < count; ++i) {
      const int sum = magnitudes[i] + misses[i];
      magnitudes[i] = static_cast<std::uint16_t>(sum < kMaxMagnitude ? sum : kMaxMagnitude);
    }
  }
};

}  // namespace

template <typename T>
void FindIntervals(bool integral, const IntervalArgs<T>& args, const IntervalPlane<T>& plane) {
  if (integral) {
    RunOnBestInstructionSet<FindIntervalsKernel<T, true>>(&args, &plane);
  } else {
    RunOnBestInstructionSet<FindIntervalsKernel<T, false>>(&args, &plane);
  }
}

template <typename T>
void LeaveIntervals(const T* signs, const std::uint16_t* misses, std::size_t count, T* decoded,
                    std::uint16_t* magnitudes) {
  RunOnBestInstructionSet<LeaveIntervalsKernel<T>>(signs, misses, count, decoded, magnitudes);
}

template void FindIntervals<float>(bool, const IntervalArgs<float>&, const IntervalPlane<float>&);
template void FindIntervals<double>(bool, const IntervalArgs<double>&, const IntervalPlane<double>&);
template void LeaveIntervals<float>(const float*, const std::uint16_t*, std::size_t, float*, std::uint16_t*);
template void LeaveIntervals<double>(const double*, const std::uint16_t*, std::size_t, double*,
                                     std::uint16_t*);

}  // namespace quarry::interpolate
