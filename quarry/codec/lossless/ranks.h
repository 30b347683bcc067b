#pragma once

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/lossless/arithmetic.h"
#include "quarry/codec/lossless/passes.h"

/// Samples as their ranks among the values that occur. Fields that were rounded, or packed in few bits with
/// scale and offset, have few distinct values, however many digits each has; ranks are small numbers, as
/// smooth as the field. Values of the coarser grid are known; the others are listed.
namespace quarry::lossless {

/// The lowest three bits of the first byte of a step in ranks.
inline constexpr unsigned kRanksKind = 6;

/// True if there are few enough values for a trial, judged from a part of the samples.
template <typename V>
bool RanksLookGood(const GridView<V>& grid);

/// A grid in ranks.
template <typename V>
struct RankedGrid {
  Buffer<WordOf<V>> table;  ///< ordered words of the values, ascending
  Buffer<std::int32_t> coarse;
  Buffer<std::int32_t> samples;  ///< samples of the grid itself; only in the encoder

  /// Samples from their ranks; ranks of missing samples may be outside the table.
  void ToSamples(const Buffer<std::int32_t>& ranks, V* samples) const;
};

/// Ranks of `grid` and of its coarse samples; appends the values missing from the coarse samples to `out`.
template <typename V>
RankedGrid<V> AppendRankTable(const V* coarse, const GridView<V>& grid, Bytes* out);

/// Takes those values off the front of `payload`; returns the ranks of the coarse samples.
/// @param new_samples  NewSamples(grid)
/// @errors kDataLoss
template <typename V>
Result<RankedGrid<V>> ReadRankTable(const V* coarse, const GridView<V>& grid, std::size_t new_samples,
                                    ByteSpan* payload);

}  // namespace quarry::lossless
