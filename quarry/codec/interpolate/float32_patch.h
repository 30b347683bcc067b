#pragma once

#include <span>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/codec/coder.h"

/// Patches of float64 whose samples are all float32 numbers: many programs compute in float32 and write
/// float64.
namespace quarry::interpolate {

using Float32Samples = std::vector<float, BufferAllocator<float>>;

/// Whether all valid samples are float32 numbers, and not all the same.
bool AreFloat32(std::span<const double> samples, Validity validity);

/// The nearest float32 numbers; beyond their range, the largest.
Float32Samples ToFloat32(std::span<const double> samples);

Bytes ToFloat64(std::span<const float> samples);

}  // namespace quarry::interpolate
