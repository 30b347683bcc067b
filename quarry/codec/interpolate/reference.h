#pragma once

#include <cstdint>

#include "quarry/codec/interpolate/kernels.h"

/// Predictions of a level with the help of the same level at another step, its reference.
///
/// A predictor is linear. So predicting the residual of a sample after a share of its reference, and adding
/// that share again, equals predicting the sample and adding the same share of the predictor's error on the
/// reference. These errors also give the local roughness, before any sample of the level is known.
namespace quarry::interpolate {

/// Shares of a reference are multiples of a quarter, up to the whole.
inline constexpr int kWholeShare = 4;

/// A plane of a band.
template <typename T>
struct ReferencePlane {
  const T* values = nullptr;     ///< values of the reference
  const T* predicted = nullptr;  ///< prediction of these, from the reference's coarser bands
  std::size_t count = 0;
};

/// Adds a share of a reference's prediction errors to the predictions of a level.
template <typename T>
void AddShare(const ReferencePlane<T>& plane, T share, T* predicted);

/// Blends the activity around samples with three times that of the reference: a mean of its misses at the
/// sample, twice, and at its four neighbours in the plane, in steps.
/// @param inverse_step  of the level
/// @param scratch       plane.count + 2 * kPadding
template <typename T>
void BlendActivity(const ReferencePlane<T>& plane, std::int64_t width, T inverse_step, std::uint16_t* scratch,
                   std::uint16_t* activity);

}  // namespace quarry::interpolate
