#pragma once

#include <span>
#include <vector>

#include "quarry/codec/coder.h"

namespace quarry::mask {

/// Replaces missing samples so that a wavelet spends little on them: by the nearest valid sample along x, the
/// earlier of two equally near ones; a wholly missing line by the nearest filled line along y; a wholly
/// missing plane by the nearest filled plane along z.
///
/// No other fill tried on ocean and foam data (constants, push-pull pyramids, harmonic interpolation) was
/// better by more than 7 % with this wavelet; constants were up to 50 % larger.
///
/// @param samples   dense, x fastest, shape `shape`; missing ones can be anything
/// @param validity  of the samples, not empty; at least one is valid
template <typename T>
std::vector<T> FillMissing(const Index3& shape, std::span<const T> samples, Validity validity);

}  // namespace quarry::mask
