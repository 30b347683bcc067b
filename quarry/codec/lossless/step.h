#pragma once

#include <array>
#include <cstdint>

#include "quarry/base/endian.h"
#include "quarry/codec/lossless/predict.h"

/// Steps of the lossless coder as bytes: a step refines one grid of a patch to the next finer one.
namespace quarry::lossless {

/// How a step predicts.
struct StepCode {
  std::array<int, 3> axes = {0, 1, 2};  ///< in the order of the passes
  std::array<PassCode, 3> passes;       ///< in the same order
};

/// The code that looks best for this grid, estimated from a part of it.
/// @param bytes  gets the estimated size of the words of the step; may be null
template <typename V>
StepCode SearchStepCode(const GridView<V>& grid, double* bytes);

/// Appends the step to `grid`.
/// @param coarse  every second sample of it, with missing ones replaced as by the previous steps; the input
///                of DecodeStep
/// @param result  the output of DecodeStep
template <typename V>
void EncodeStep(const V* coarse, const GridView<V>& grid, Bytes* out, V* result);

/// Takes a step off the front of `payload`.
/// @param grid  its samples are ignored
/// @errors kDataLoss
template <typename V>
Status DecodeStep(const V* coarse, const GridView<V>& grid, ByteSpan* payload, V* result);

/// The coarsest grid of a patch, which is not predicted.
template <typename V>
void EncodeBase(const GridView<V>& grid, Bytes* out, V* result);
template <typename V>
Status DecodeBase(const GridView<V>& grid, ByteSpan* payload, V* result);

/// Replaces every missing sample by the valid one before it, the first ones by zero.
template <typename V>
void FillMissing(const std::uint8_t* valid, std::size_t count, V* samples);

}  // namespace quarry::lossless
