#pragma once

#include <array>
#include <cstdint>

#include "quarry/codec/lossless/arithmetic.h"
#include "quarry/codec/lossless/passes.h"

/// Lossless refinement of a grid to the next finer one: every new sample is predicted from known samples, and
/// its difference from the prediction is an unsigned word, small if the prediction is good. docs/format.md,
/// "Payload of lossless", has the arithmetic.
namespace quarry::lossless {

/// Along the axis of the pass. The numbers are stored.
enum class Predictor : std::uint8_t {
  kLinear = 0,  ///< mean of both neighbours
  kCubic = 1,   ///< cubic through the two nearest on either side
  kNear = 2,    ///< the neighbour before
  kNone = 3,    ///< zero
};

/// How the error of the previous row (along another axis) corrects this one: the decoder knows that error,
/// and errors of smooth fields are smooth. The numbers are stored.
enum class Carry : std::uint8_t {
  kNone = 0,
  kHalf = 1,          ///< half of its error is added to the prediction
  kFull = 2,          ///< all of it
  kExtrapolated = 3,  ///< twice its error minus that of the row before it
};
inline constexpr int kCarries = 4;

struct PassCode {
  Predictor predictor = Predictor::kLinear;
  Carry carry = Carry::kNone;
};

/// One pass. V is the type of the samples: float, double, or an integer of 8 to 64 bits.
template <typename V>
struct Pass {
  const V* even = nullptr;  ///< the known samples, EvenShape(shape, axis)
  Index3 shape{};           ///< shape of the result
  int axis = 0;
  PassCode code;
  /// This many lowest bits are not part of the words: they are zero in every sample, or zero in the ordered
  /// words of samples that are not negative and one in the others (see OrderedWord).
  int dropped_bits = 0;
  const std::uint8_t* valid = nullptr;  ///< validity of the result; null when every sample is valid
};

/// Writes the words of the valid odd samples of `samples`, in the order in which ReconstructPass reads them;
/// there is room for Volume(OddShape()). `result` gets the output of ReconstructPass, with missing samples
/// replaced.
/// @returns words written
template <typename V>
std::size_t EncodePass(const Pass<V>& pass, const V* samples, WordOf<V>* words, V* result);

/// Reconstructs the result from the even samples and one word for each valid odd sample.
/// @returns words read
template <typename V>
std::size_t ReconstructPass(const Pass<V>& pass, const WordOf<V>* words, V* result);

/// Estimated bits of the words that EncodePass would write with the predictor of `pass` and each Carry, from
/// one group of rows in `stride`.
/// @param samples  the result, with missing samples replaced by plausible values
template <typename V>
std::array<double, kCarries> EstimatePass(const Pass<V>& pass, const V* samples, std::int64_t stride);

}  // namespace quarry::lossless
