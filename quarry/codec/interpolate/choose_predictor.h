#pragma once

#include "quarry/codec/interpolate/level_bands.h"

namespace quarry::interpolate {

/// The predictor for a level: of each axis the orders that predict a sample of its band best from the decoded
/// coarser level, and weights by how well each axis does. Stays with `inherited` where a change would not pay
/// for its bytes.
/// @param originals  of the three bands with one odd axis, null where a band is empty
/// @param valid      of the same bands, null where every sample is valid
template <typename T>
PredictorSpec ChoosePredictor(const Index3& shape, const std::array<const T*, kBands>& originals,
                              const std::array<const std::uint8_t*, kBands>& valid, double step,
                              const PredictorSpec& inherited, LevelBands<T>* bands);

}  // namespace quarry::interpolate
