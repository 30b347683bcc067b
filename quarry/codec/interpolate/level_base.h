#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/kernels.h"

/// Facts about the samples of a level from the layer of accuracy before, and from other steps.
namespace quarry::interpolate {

/// A prediction as kernels sanitise it before use (Sanitised in kernels.inl).
template <typename T>
T SanitisedPrediction(T predicted, bool integral) {
  constexpr T kRounder = sizeof(T) == 4 ? T(12582912.0) : T(6755399441055744.0);
  if (!(std::abs(predicted) <= std::numeric_limits<T>::max())) return 0;
  if (!integral) return predicted;
  return std::abs(predicted) < kRounder / 4 ? (predicted + kRounder) - kRounder : T(0);
}

/// Facts about a level beside the next coarser one, in working values of this layer.
template <typename T>
struct LevelBase {
  const T* values = nullptr;  ///< values of the layer before, dense; null: this is the first layer
  double half_width = 0;      ///< half width of the interval that should hold the sample; 0: it is exact
  const T* reference =
      nullptr;  ///< the same level at other steps, dense; null: there is none. See reference.h
};

/// Clamps predictions of samples to their intervals. A sample is then coded by its distance from the clamped
/// prediction, positive towards the farther end of the interval: so all samples share the tables, at either
/// end. Multiplied by its sign, a sample, its prediction and its index are what the first layer would have.
/// @source docs/format.md, "Further layers"
template <typename T>
struct IntervalArgs {
  T half_width = 0;
  T relative_width = 0;  ///< times the magnitude of the value, in addition
  T inverse_step = 1;
  T activity_unit = 0;  ///< error of a prediction that an activity of 1 stands for
};

/// One plane of a band.
template <typename T>
struct IntervalPlane {
  const T* predicted = nullptr;
  const T* values = nullptr;               ///< values of the layer before
  const std::uint8_t* validity = nullptr;  ///< or null: all are valid. Missing samples keep their predictions
  const std::uint16_t* activity = nullptr;  ///< or null: no classes
  std::size_t count = 0;
  T* clamped = nullptr;              ///< predictions inside the intervals, times the signs
  T* signs = nullptr;                ///< 1 or -1
  std::uint16_t* misses = nullptr;   ///< how far predictions were outside, in steps, at most kMaxMagnitude
  std::uint8_t* contexts = nullptr;  ///< with activity: bins, to which the classes are added; see kClasses
};

/// Fills in the clamped predictions, signs and misses of a plane, and adds classes to its contexts.
template <typename T>
void FindIntervals(bool integral, const IntervalArgs<T>& args, const IntervalPlane<T>& plane);

/// Gives samples that were coded in their intervals their signs back, and to their magnitudes what the
/// predictions missed the intervals by.
/// @param magnitudes  null: nobody needs them
template <typename T>
void LeaveIntervals(const T* signs, const std::uint16_t* misses, std::size_t count, T* decoded,
                    std::uint16_t* magnitudes);

}  // namespace quarry::interpolate
