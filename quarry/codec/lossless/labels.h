#pragma once

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/lossless/passes.h"

/// Steps of grids in which most samples equal a neighbour: labels, masks, images with an empty background. An
/// arithmetic coder codes, bit by bit, which neighbour a new sample equals; the few that equal none are
/// listed.
namespace quarry::lossless {

/// The lowest three bits of the first byte of such a step.
inline constexpr unsigned kLabelsKind = 7;

/// Share of the new samples that equal a neighbour along the last axis, estimated from a part of the grid.
template <typename V>
double ShareOfLabels(const GridView<V>& grid, int axis);

/// Appends the step to `grid`.
/// @param coarse  as for EncodeStep
/// @param order   index of kAxisOrders
/// @param result  the output of DecodeLabels
/// @returns number of arithmetically coded bits, which dominate the decoding time
template <typename V>
std::size_t EncodeLabels(const V* coarse, const GridView<V>& grid, unsigned order, Bytes* out, V* result);

/// Takes such a step off the front of `payload`, which is not empty.
/// @param new_samples  NewSamples(grid)
/// @errors kDataLoss
template <typename V>
Status DecodeLabels(const V* coarse, const GridView<V>& grid, std::size_t new_samples, ByteSpan* payload,
                    V* result);

}  // namespace quarry::lossless
