#pragma once

#include <span>
#include <vector>

#include "quarry/codec/coder.h"

namespace quarry {

/// Samples with missing ones replaced so that a wavelet spends little on them: by the nearest valid one on
/// the line along x, of two equally near ones that before; where the whole line is missing, by the nearest
/// filled line along y; where a whole plane is missing, by the nearest filled plane along z.
///
/// Of the fills tried on ocean and foam data (constants, push-pull pyramids, harmonic interpolation) none was
/// better by more than 7 % with this wavelet, constants were up to half as large again.
///
/// @param samples   dense, x fastest, shape `shape`; missing ones anything
/// @param validity  of the samples, not empty; at least one is valid
template <typename T>
std::vector<T> FillMissing(const Index3& shape, std::span<const T> samples, Validity validity);

}  // namespace quarry
