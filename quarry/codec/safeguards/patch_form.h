#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>

#include "quarry/codec/safeguards/logarithm.h"
#include "quarry/codec/safeguards/safeguarded_coder.h"
#include "quarry/codec/sample_span.h"

/// Shared by encoder and decoder of a patch with safeguards. Payload: docs/format.md, "Safeguards".
namespace quarry::safeguards {

/// First byte of the coarsest level.
enum class PatchMode : std::uint8_t {
  kZero = 0,        ///< all valid samples are zero; no other byte follows, in any level
  kSamples = 1,     ///< interpolate has the samples that are not zero
  kLogarithms = 2,  ///< interpolate has the codes of their magnitudes
  kExact = 3,       ///< interpolate has all samples, bit by bit
};

/// Header of a patch, before its levels.
template <typename T>
struct Header {
  PatchMode mode = PatchMode::kZero;
  T least = 0;     ///< kSamples with signs: no magnitude is smaller
  LogScale scale;  ///< kLogarithms
};

inline bool IsValid(Validity validity, std::size_t i) { return validity.empty() || validity[i] != 0; }

template <typename T>
T Negated(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return -value;
  } else {
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(value));
  }
}

/// The magnitude of a sample that is not zero, or the largest number where it is none of T.
template <typename T>
T Magnitude(T sample) {
  if (sample > 0) return sample;
  const T magnitude = Negated(sample);
  return magnitude > 0 ? magnitude : std::numeric_limits<T>::max();
}

/// Planes of 0 and 1 beside the samples of a level; a plane of nothing but 1 is empty.
struct Planes {
  Validity nonzero;
  Validity positive;
};

/// Puts what interpolate has decoded where it belongs.
/// @param coded  samples or codes, as the mode says
template <typename T>
void Restore(const Header<T>& header, ByteSpan coded, const Planes& planes, std::span<T> out) {
  if (header.mode == PatchMode::kZero) {
    std::fill(out.begin(), out.end(), T(0));
    return;
  }
  if (header.mode == PatchMode::kLogarithms) {
    if constexpr (std::is_floating_point_v<T>)
      safeguards::ToMagnitudes(header.scale, SamplesOf<std::int32_t>(coded).data(), out.size(), out.data());
    for (std::size_t i = 0; i < planes.positive.size(); ++i)
      out[i] = planes.positive[i] != 0 ? out[i] : Negated(out[i]);
  } else {
    const std::span<const T> samples = SamplesOf<T>(coded);
    std::copy(samples.begin(), samples.end(), out.begin());
    // A sample whose sign is lost is no further from zero than the tolerance, and so is the least magnitude.
    if (header.mode == PatchMode::kSamples && header.least != 0) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const bool positive = planes.positive.empty() || planes.positive[i] != 0;
        out[i] = positive ? std::max(out[i], header.least) : std::min(out[i], Negated(header.least));
      }
    }
  }
  for (std::size_t i = 0; i < planes.nonzero.size(); ++i) out[i] = planes.nonzero[i] != 0 ? out[i] : T(0);
}

/// @param coder  for its promises
Result<CodedPatch> EncodePatch(Safeguard safeguard, const PatchCoder& coder, const PatchLayout& layout,
                               ByteSpan samples, Validity validity, double tolerance);

std::unique_ptr<PatchDecoder> NewPatchDecoder(Safeguard safeguard, const PatchLayout& layout);

}  // namespace quarry::safeguards
