#pragma once

#include "quarry/codec/interpolate/level_bands.h"

namespace quarry::interpolate {

/// Samples for the choice of a predictor: some of the three bands with one odd axis.
template <typename T>
struct PredictionSample {
  Index3 shape{};                                   ///< shape of the level
  std::array<const T*, kBands> originals{};         ///< samples of the bands, null where one is empty
  std::array<const std::uint8_t*, kBands> valid{};  ///< null where every sample is valid
  double step = 1;
};

/// Chooses the predictor of a level: for each axis the orders that best predict its samples from the decoded
/// coarser level, and weights by the quality of each axis. Keeps `inherited` if a change does not pay for its
/// bytes.
template <typename T>
PredictorSpec ChoosePredictor(const PredictionSample<T>& sample, const PredictorSpec& inherited,
                              LevelBands<T>* bands);

/// The cost of the samples with the present predictor, for comparisons.
template <typename T>
double PredictionCost(const PredictionSample<T>& sample, LevelBands<T>* bands);

/// Whether predictions from a reference save enough, judged by undisturbed samples.
/// @param samples    of the level, dense, like those of the reference
/// @param validity   of the samples, or empty
template <typename T>
bool ReferencePays(const Index3& shape, const T* samples, Validity validity, const T* reference, double step);

}  // namespace quarry::interpolate
