#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "quarry/codec/coder.h"
#include "quarry/codec/instruction_sets.h"

/// Samples that were rounded before they came here, to decimals or to the integers of a packed file.
namespace quarry {

/// Samples are offset + k unit with whole numbers k, up to the rounding of their type.
struct Quantum {
  double unit = 1;
  double offset = 0;
  /// The product is rounded to the type of the samples before the offset is added in that type, as programs
  /// do that unpack files; otherwise only the sum is.
  bool rounds_product = false;

  friend bool operator==(const Quantum&, const Quantum&) = default;
};

/// As payloads have it: with a minus sign, the product is rounded.
inline double SignedUnit(const Quantum& quantum) {
  return quantum.rounds_product ? -quantum.unit : quantum.unit;
}
inline Quantum QuantumOf(double signed_unit, double offset) {
  return {std::abs(signed_unit), offset, /*rounds_product=*/signed_unit < 0};
}
/// False for what no encoder has stored.
inline bool IsUsable(const Quantum& quantum) {
  return quantum.unit > 0 && std::isfinite(quantum.unit) && std::isfinite(quantum.offset);
}

/// k of a sample; the same wherever it is computed.
QUARRY_INLINE double MultipleOf(const Quantum& quantum, double sample) {
  return std::nearbyint((sample - quantum.offset) * (1 / quantum.unit));
}

/// The sample as readers get it. Beyond the range of its type it is the largest number.
/// @source docs/format.md, "Head of the patch"
template <typename S>
QUARRY_INLINE S SampleOf(const Quantum& quantum, double k) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<S>::max());
  const double product = k * quantum.unit;
  if (!quantum.rounds_product) return static_cast<S>(std::clamp(quantum.offset + product, -kMost, kMost));
  const S sum = static_cast<S>(static_cast<S>(std::clamp(product, -kMost, kMost)) +
                               static_cast<S>(std::clamp(quantum.offset, -kMost, kMost)));
  return static_cast<S>(std::clamp(static_cast<double>(sum), -kMost, kMost));
}

/// Samples differ from their multiples by no more than this many times the rounding of the largest one.
inline constexpr double kMostRoundings = 2;

/// Distance of a number from the next one of a type.
template <typename T>
double RoundingOf(double magnitude) {
  return std::max(std::ldexp(1.0, std::ilogb(std::max(magnitude, std::numeric_limits<double>::min())) -
                                      std::numeric_limits<T>::digits + 1),
                  static_cast<double>(std::numeric_limits<T>::denorm_min()));
}

/// Facts about the valid samples of a patch, and requirements for their quantum.
struct QuantumLimits {
  double least = 0;             ///< sample
  double most = 0;              ///< sample
  double rounding = 0;          ///< distance of the largest magnitude from the next number of its type
  double least_unit = 0;        ///< smaller ones are not sought
  double largest_multiple = 0;  ///< largest |k|
  bool exact = false;           ///< samples have to be their multiples bit by bit, not only near them
  std::function<bool(double unit)> pays;  ///< asked before all samples are compared
};

/// The quantum of all valid samples, if there is one. Costs little where there is none: it is sought among a
/// few hundred samples, and only then compared with all.
/// @param samples  finite where valid, not all equal
template <typename S>
std::optional<Quantum> FindQuantum(std::span<const S> samples, Validity validity,
                                   const QuantumLimits& limits);

}  // namespace quarry
