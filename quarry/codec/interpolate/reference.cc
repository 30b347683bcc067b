#include "quarry/codec/interpolate/reference.h"

#include <cmath>

#include "quarry/codec/instruction_sets.h"

namespace quarry::interpolate {
namespace {

template <typename T>
struct AddShareKernel {
  QUARRY_INLINE static void Run(const ReferencePlane<T>* plane, T share, T* __restrict out) {
    const T* __restrict values = plane->values;
    const T* __restrict predicted = plane->predicted;
    for (std::size_t i = 0; i < plane->count; ++i) out[i] += share * (values[i] - predicted[i]);
  }
};

template <typename T>
struct CountMissesKernel {
  QUARRY_INLINE static void Run(const ReferencePlane<T>* plane, T inverse_step,
                                std::uint16_t* __restrict out) {
    constexpr T kMost = kMaxMagnitude;
    constexpr T kRounder = sizeof(T) == 4 ? T(12582912.0) : T(6755399441055744.0);
    const T* __restrict values = plane->values;
    const T* __restrict predicted = plane->predicted;
    for (std::size_t i = 0; i < plane->count; ++i) {
      const T steps = std::abs(values[i] - predicted[i]) * inverse_step;
      // The comparison is false for NaN.
      const T least = steps < kMost ? steps : kMost;
      const T bounded = least > 0 ? least : T(0);
      out[i] = static_cast<std::uint16_t>(static_cast<std::int32_t>((bounded + kRounder) - kRounder));
    }
  }
};

struct BlendKernel {
  /// A row; `before` and `after` are the rows beside it, or the row itself at the edges of the plane.
  QUARRY_INLINE static void Run(const std::uint16_t* __restrict before, const std::uint16_t* __restrict row,
                                const std::uint16_t* __restrict after, std::size_t width,
                                std::uint16_t* __restrict activity) {
    const auto blend = [&](std::size_t i, std::uint32_t left, std::uint32_t right) {
      const std::uint32_t misses = 2u * row[i] + left + right + before[i] + after[i];
      // Twelve times the mean of the misses is an activity; it counts three times.
      return static_cast<std::uint16_t>((activity[i] + 3 * (2 * misses)) >> 2);
    };
    if (width == 1) {
      activity[0] = blend(0, row[0], row[0]);
      return;
    }
    for (std::size_t i = 1; i + 1 < width; ++i) activity[i] = blend(i, row[i - 1], row[i + 1]);
    activity[0] = blend(0, row[0], row[1]);
    activity[width - 1] = blend(width - 1, row[width - 2], row[width - 1]);
  }
};

}  // namespace

template <typename T>
void AddShare(const ReferencePlane<T>& plane, T share, T* predicted) {
  RunOnBestInstructionSet<AddShareKernel<T>>(&plane, share, predicted);
}

template <typename T>
void BlendActivity(const ReferencePlane<T>& plane, std::int64_t width, T inverse_step, std::uint16_t* scratch,
                   std::uint16_t* activity) {
  RunOnBestInstructionSet<CountMissesKernel<T>>(&plane, inverse_step, scratch);
  const auto row = static_cast<std::size_t>(width);
  for (std::size_t begin = 0; begin < plane.count; begin += row) {
    const std::uint16_t* misses = scratch + begin;
    RunOnBestInstructionSet<BlendKernel>(begin == 0 ? misses : misses - row, misses,
                                         begin + row == plane.count ? misses : misses + row, row,
                                         activity + begin);
  }
}

template void AddShare(const ReferencePlane<float>&, float, float*);
template void AddShare(const ReferencePlane<double>&, double, double*);
template void BlendActivity(const ReferencePlane<float>&, std::int64_t, float, std::uint16_t*,
                            std::uint16_t*);
template void BlendActivity(const ReferencePlane<double>&, std::int64_t, double, std::uint16_t*,
                            std::uint16_t*);

}  // namespace quarry::interpolate
