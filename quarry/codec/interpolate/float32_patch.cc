#include "quarry/codec/interpolate/float32_patch.h"

#include <algorithm>
#include <limits>

namespace quarry::interpolate {
namespace {

constexpr double kMost = std::numeric_limits<float>::max();

float Nearest(double sample) { return static_cast<float>(std::clamp(sample, -kMost, kMost)); }

}  // namespace

bool AreFloat32(std::span<const double> samples, Validity validity) {
  const double* first = nullptr;
  bool all_same = true;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!validity.empty() && validity[i] == 0) continue;
    const double sample = samples[i];
    if (static_cast<double>(Nearest(sample)) != sample) return false;
    if (first == nullptr) first = &samples[i];
    all_same &= sample == *first;
  }
  return !all_same;
}

Float32Samples ToFloat32(std::span<const double> samples) {
  Float32Samples narrow(samples.size());
  std::transform(samples.begin(), samples.end(), narrow.begin(), Nearest);
  return narrow;
}

Bytes ToFloat64(std::span<const float> samples) {
  Bytes wide(samples.size() * sizeof(double));
  std::copy(samples.begin(), samples.end(), reinterpret_cast<double*>(wide.data()));
  return wide;
}

}  // namespace quarry::interpolate
