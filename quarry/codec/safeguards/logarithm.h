#pragma once

#include <cstddef>
#include <cstdint>

/// Logarithms to base 2 in fixed point, and back: with the same bits on every machine, as only additions,
/// multiplications and divisions of IEEE 754 are used. A difference of logarithms is a ratio, so that a bound
/// of the absolute error of a logarithm is a bound of the relative error of its sample.
namespace quarry::safeguards {

/// The logarithm of a magnitude is offset + code / 2^bits.
struct LogScale {
  int bits = 0;    ///< 0 to 30
  int offset = 0;  ///< codes are not negative for magnitudes from 2^offset on
};

/// The finest useful scale whose codes of all magnitudes in [least, most] are below 2^30.
/// @param least     positive and finite, like `most`
/// @param relative  the bound of the relative error, below 1
LogScale ChooseScale(double least, double most, double relative);

/// Largest error of a code that keeps the relative error of a sample. Negative where the scale is too coarse.
/// @param type_epsilon  half of the relative distance of two neighbouring samples
std::int64_t CodeTolerance(const LogScale& scale, double relative, double type_epsilon);

/// Codes of the magnitudes of samples that are finite and not zero.
template <typename T>
void ToCodes(const LogScale& scale, const T* samples, std::size_t count, std::int32_t* codes);

/// The magnitudes of codes, rounded to T. Any code is safe; the largest give infinity.
template <typename T>
void ToMagnitudes(const LogScale& scale, const std::int32_t* codes, std::size_t count, T* magnitudes);

}  // namespace quarry::safeguards
