#pragma once

#include "quarry/codec/interpolate/level_bands.h"

namespace quarry::interpolate {

/// Chooses the predictor of a level: for each axis the orders that best predict some samples of its band from
/// the decoded coarser level, and weights by the quality of each axis. Keeps `inherited` if a change does not
/// pay for its bytes.
/// @param originals  of the three bands with one odd axis, null where a band is empty
/// @param valid      of the same bands, null where every sample is valid
template <typename T>
PredictorSpec ChoosePredictor(const Index3& shape, const std::array<const T*, kBands>& originals,
                              const std::array<const std::uint8_t*, kBands>& valid, double step,
                              const PredictorSpec& inherited, LevelBands<T>* bands);

}  // namespace quarry::interpolate
