#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/quantum.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/strided.h"

/// Shared by encoder and decoder of a patch. Payload: docs/format.md, "Payload of interpolate".
namespace quarry::interpolate {

/// Zeros of both signs are equal but not the same.
template <typename S>
bool SameBits(const S& a, const S& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(S)) == 0;
}

// First byte of the coarsest payload: one of three forms, or bits.
/// One sample follows; finer levels are empty.
inline constexpr std::uint8_t kConstant = 0x00;
/// Flag of a further layer: all its levels are of the coder lossless.
inline constexpr std::uint8_t kLossless = 0x02;
/// Flag of a further layer: its numbers are listed.
inline constexpr std::uint8_t kListed = 0x04;

inline constexpr std::uint8_t kCoded = 0x01;
/// The step is a float64 instead of a float32.
inline constexpr std::uint8_t kWideStep = 0x02;
/// Samples are multiples of a power of two: its exponent follows.
inline constexpr std::uint8_t kLattice = 0x04;
/// With kLattice: of another unit; it and an offset follow instead.
inline constexpr std::uint8_t kQuantum = 0x08;
/// Bits 4 and 5: which kLevelRatios.
inline constexpr int kRatioShift = 4;
/// Levels refer to another step.
inline constexpr std::uint8_t kRefers = 0x40;
/// Flag of a float64 patch: all samples are float32 numbers, coded as such.
inline constexpr std::uint8_t kFloat32 = 0x80;

/// Tolerance of a level relative to the next finer one: coarse samples are few, and more accurate ones
/// predict better. The gain depends on the tolerance.
inline constexpr std::array<double, 4> kLevelRatios = {1.0, 0.9, 0.8, 0.7};
inline constexpr double kLeastRatio = 0.25;

inline double LevelFactor(std::size_t ratio, int level) {
  double factor = 1;
  for (int l = 0; l < level; ++l) factor *= kLevelRatios[ratio];
  return std::max(factor, kLeastRatio);
}

/// Head of a patch: the fields in its first bytes.
struct PatchHead {
  bool constant = false;
  double step = 0;  ///< step of level 0; 0: samples are coded exactly
  std::size_t ratio = 0;
  bool lattice = false;
  int exponent = 0;                ///< samples are multiples of 2^exponent; only with lattice
  std::optional<Quantum> quantum;  ///< or of this instead
  bool refers = false;             ///< levels refer to another step

  /// The unit of a lattice, whose multiples are the samples.
  double Unit() const { return quantum ? quantum->unit : lattice ? std::ldexp(1.0, exponent) : 1; }

  bool HasSameLattice(const PatchHead& other) const {
    return lattice && other.lattice && exponent == other.exponent && quantum == other.quantum;
  }

  /// Quantiser of a level. On a lattice steps are odd: then an index reaches (step - 1) / 2 on both sides.
  Quantiser LevelQuantiser(int level, double max_error) const {
    const double factor = LevelFactor(ratio, level);
    if (!lattice) return {step * factor, max_error, false};
    return {2 * std::floor((step - 1) / 2 * factor) + 1, max_error, true};
  }
};

/// The type that samples are computed in.
template <typename S>
using Working =
    std::conditional_t<std::is_same_v<S, double> || (std::is_integral_v<S> && sizeof(S) == 4), double, float>;

/// Whole numbers up to this stay exact in every step of prediction and quantisation.
template <typename T>
constexpr double kLargestWhole = sizeof(T) == 4 ? 1 << 20 : double(std::int64_t{1} << 48);

/// Units of the lattice, as a factor; exact where it is applied.
template <typename T>
T PowerOfTwo(int exponent) {
  return std::ldexp(T(1), exponent);
}

template <typename S, typename T>
S FromWorking(T value, T unit) {
  if constexpr (std::is_integral_v<S>) {
    constexpr T kLeast = static_cast<T>(std::numeric_limits<S>::min());
    constexpr T kMost = static_cast<T>(std::numeric_limits<S>::max());
    return static_cast<S>(std::clamp(value, kLeast, kMost));
  } else {
    return static_cast<S>(value * unit);
  }
}

template <typename S, typename T>
struct ToWorking {
  /// @param validity  null: all are valid
  QUARRY_INLINE static void Run(const S* __restrict samples, const std::uint8_t* __restrict validity,
                                std::size_t count, T scale, T* __restrict out) {
    if (validity == nullptr) {
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(samples[i]) * scale;
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = validity[i] != 0 ? static_cast<T>(samples[i]) * scale : T(0);
    }
  }
};

template <typename S, typename T>
struct ToMultiples {
  /// Missing samples become 0, with any bits.
  /// @param validity  null: all are valid
  QUARRY_INLINE static void Run(const S* __restrict samples, const std::uint8_t* __restrict validity,
                                std::size_t count, Quantum quantum, T* __restrict out) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool valid = validity == nullptr || validity[i] != 0;
      out[i] = static_cast<T>(valid ? MultipleOf(quantum, static_cast<double>(samples[i])) : 0);
    }
  }
};

template <typename S, typename T>
struct FromMultiples {
  QUARRY_INLINE static void Run(const T* __restrict values, std::size_t count, Quantum quantum,
                                S* __restrict out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = SampleOf<S>(quantum, static_cast<double>(values[i]));
  }
};

/// Samples in the type that is computed in, and in units of their lattice: themselves, or in `buffer`.
/// @param validity  null: all are valid. Missing samples become 0
template <typename S, typename T>
const T* WorkingValues(const S* samples, const std::uint8_t* validity, std::size_t count,
                       const PatchHead& head, Buffer<T>* buffer) {
  if constexpr (std::is_same_v<S, T>) {
    if (!head.lattice && validity == nullptr) return samples;
  }
  buffer->resize(count);
  if (head.quantum) {
    RunOnBestInstructionSet<ToMultiples<S, T>>(samples, validity, count, *head.quantum, buffer->data());
  } else {
    const T scale = head.lattice ? PowerOfTwo<T>(-head.exponent) : T(1);
    RunOnBestInstructionSet<ToWorking<S, T>>(samples, validity, count, scale, buffer->data());
  }
  return buffer->data();
}

/// Whether the working type is the type of the samples.
template <typename S, typename T>
bool AreWorkingValues(const PatchHead& head) {
  return std::is_same_v<S, T> && (!head.lattice || (head.exponent == 0 && !head.quantum));
}

template <typename S, typename T>
void ConvertFromWorking(const T* values, std::size_t count, const PatchHead& head, S* out) {
  if (AreWorkingValues<S, T>(head)) {
    std::memcpy(out, values, count * sizeof(S));
    return;
  }
  if (head.quantum) return RunOnBestInstructionSet<FromMultiples<S, T>>(values, count, *head.quantum, out);
  const T unit = std::is_integral_v<S> ? T(1) : PowerOfTwo<T>(head.exponent);
  for (std::size_t i = 0; i < count; ++i) out[i] = FromWorking<S>(values[i], unit);
}

/// Levels whose new samples are the original ones, bit by bit: bit l for level l, counted down to one sample.
using ExactLevels = std::uint64_t;

/// Half the width of the interval around the samples of a level, from the layer before; in working values of
/// this layer.
/// @source docs/format.md, "Further layers"
template <typename T>
double HalfWidth(const PatchHead& before, ExactLevels exact, int level, const PatchHead& own) {
  if ((exact >> level & 1) != 0) return 0;
  const double step = before.LevelQuantiser(level, 0).step;
  const double units = before.lattice ? (step - 1) / 2 : step / 2;
  double width = units;
  if (!own.HasSameLattice(before)) {
    width = units * before.Unit() / own.Unit();
    if (own.lattice) width = std::ceil(width);
  }
  // Whole numbers beyond it are no longer exact.
  const double most = own.lattice ? 3 * kLargestWhole<T> : static_cast<double>(std::numeric_limits<T>::max());
  return width > 0 ? std::min(width, most) : 0;
}

/// A reference level in working values. Missing samples become those before them in memory, the first ones
/// the first valid one, and 0 where there is none.
template <typename S, typename T>
class ReferenceValues {
 public:
  /// @param fine    of `shape`; every `stride`-th sample of them is taken. They outlive the returned samples
  const T* Of(const ReferenceLevel& fine, const Index3& shape, std::int64_t stride, const PatchHead& head) {
    const auto* samples = reinterpret_cast<const S*>(fine.samples.data());
    Validity validity = fine.validity;
    auto count = static_cast<std::size_t>(Volume(shape));
    if (stride > 1) {
      CopyStrided(samples, shape, stride, &samples_);
      if (!validity.empty()) CopyStrided(fine.validity.data(), shape, stride, &validity_);
      if (!validity.empty()) validity = validity_;
      samples = samples_.data();
      count = samples_.size();
    }
    if (!validity.empty()) {
      filled_.resize(validity.size());
      CopyPlausibly(samples, validity, filled_.data());
      samples = filled_.data();
    }
    return WorkingValues<S, T>(samples, nullptr, count, head, &working_);
  }

 private:
  Buffer<S> samples_;
  Buffer<std::uint8_t> validity_;
  Buffer<S> filled_;
  Buffer<T> working_;
};

/// @param tolerances  of the layers, descending
/// @param reference   or null
Result<CodedPatch> EncodePatch(const PatchLayout& layout, ByteSpan samples, Validity validity,
                               Tolerances tolerances, const PatchReference* reference);

std::unique_ptr<PatchDecoder> NewPatchDecoder(const PatchLayout& layout);

}  // namespace quarry::interpolate
