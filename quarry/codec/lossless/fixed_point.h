#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

/// Floating-point samples that are really integers times a power of two: counts, and the output of detectors
/// and models that compute with few digits. They compress better as integers.
namespace quarry::lossless {

/// As wide as F.
template <typename F>
using IntegerOf = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

/// The largest s for which every sample is an IntegerOf<F> times 2^s, bit by bit; nothing if no s exists, for
/// example with negative zeros, infinities or NaNs.
template <typename F>
std::optional<int> FindExponent(std::span<const F> samples);

/// True when FindExponent can return it.
template <typename F>
bool IsExponent(int exponent);

/// samples[i] / 2^exponent.
template <typename F>
void ToIntegers(std::span<const F> samples, int exponent, IntegerOf<F>* integers);

/// integers[i] * 2^exponent, exact for results of ToIntegers.
template <typename F>
void FromIntegers(std::span<const IntegerOf<F>> integers, int exponent, F* samples);

}  // namespace quarry::lossless
