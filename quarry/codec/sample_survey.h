#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "quarry/base/wide_integer.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/sample_range.h"

/// Whether samples are missing, as IsMissing has it, and their range, in vectors.
namespace quarry {

/// The bits of a sample as an unsigned integer of its size.
template <typename T>
auto NarrowBits(T sample) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(sample);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(sample);
  } else {
    return static_cast<std::make_unsigned_t<T>>(sample);
  }
}

/// The exponent bits, all set in numbers that are not finite. 0 for integers.
template <typename T>
constexpr auto kExponentBits = decltype(NarrowBits(T{}))(std::is_same_v<T, float>    ? 0x7f800000u
                                                         : std::is_same_v<T, double> ? 0x7ff0000000000000u
                                                                                     : 0u);

/// Tests whether samples are missing, with integer operations so that loops vectorise.
template <typename T>
class MissingTest {
 public:
  using Bits = decltype(NarrowBits(T{}));

  explicit MissingTest(std::optional<std::uint64_t> fill)
      : has_fill_(fill.has_value() ? 1 : 0), fill_(static_cast<Bits>(fill.value_or(0))) {}

  /// 1 or 0.
  QUARRY_INLINE Bits operator()(T sample) const {
    constexpr Bits kExponent = kExponentBits<T>;
    const Bits bits = NarrowBits(sample);
    const Bits infinite = kExponent != 0 && (bits & kExponent) == kExponent ? 1 : 0;
    const Bits filled = bits == fill_ ? has_fill_ : Bits{0};
    return static_cast<Bits>(infinite | filled);
  }

 private:
  Bits has_fill_;
  Bits fill_;
};

template <typename T>
struct FindMissing {
  using Bits = typename MissingTest<T>::Bits;

  /// Sets `any` to 0 if no sample is missing.
  QUARRY_INLINE static void Run(const T* samples, std::size_t count, MissingTest<T> is_missing, Bits* any) {
    Bits some = 0;
    for (std::size_t i = 0; i < count; ++i) some = static_cast<Bits>(some | is_missing(samples[i]));
    *any = some;
  }
};

/// Facts about samples from one pass over them.
struct SampleSurvey {
  bool any_missing = false;
  double min = 0;  ///< minimum of the samples, if none is missing; the maximum likewise
  double max = 0;
};

/// @param samples  at least one
template <typename T>
SampleSurvey SurveySamples(std::span<const T> samples, std::optional<std::uint64_t> fill) {
  constexpr std::size_t kBlock = 4096;  // stays in the first cache
  const MissingTest<T> is_missing(fill);
  SampleRange<T> range(samples[0]);
  for (std::size_t begin = 0; begin < samples.size(); begin += kBlock) {
    const T* block = samples.data() + begin;
    const std::size_t count = std::min(kBlock, samples.size() - begin);
    typename MissingTest<T>::Bits any = 0;
    RunOnBestInstructionSet<FindMissing<T>>(block, count, is_missing, &any);
    if (any != 0) return {true};
    range.Add(block, nullptr, count);
  }
  return {false, RoundedDown(range.least()), RoundedUp(range.most())};
}

}  // namespace quarry
