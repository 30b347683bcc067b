#pragma once

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/lossless/passes.h"

/// Steps of grids in which most samples are equal to a neighbour: labels, masks, images with an empty
/// background. Which neighbour a new sample is equal to is coded bit by bit, arithmetically, and the few that
/// are equal to none are listed.
namespace quarry::lossless {

/// The lowest three bits of the first byte of such a step.
inline constexpr unsigned kLabelsKind = 7;

/// Part of the new samples that are equal to a neighbour along the last axis, from a part of the grid.
template <typename V>
double ShareOfLabels(const GridView<V>& grid, int axis);

/// Appends the step to `grid`.
/// @param coarse  as for EncodeStep
/// @param order   index of kAxisOrders
/// @param result  what DecodeLabels will make of it
/// @returns bits that were coded arithmetically: they are what decoding takes its time for
template <typename V>
std::size_t EncodeLabels(const V* coarse, const GridView<V>& grid, unsigned order, Bytes* out, V* result);

/// Takes such a step off the front of `payload`, which is not empty.
/// @param new_samples  NewSamples(grid)
/// @errors kDataLoss
template <typename V>
Status DecodeLabels(const V* coarse, const GridView<V>& grid, std::size_t new_samples, ByteSpan* payload,
                    V* result);

}  // namespace quarry::lossless
