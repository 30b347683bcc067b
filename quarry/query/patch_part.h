#pragma once

#include "quarry/query/plan.h"

namespace quarry::query {

/// Which samples of a decoded patch belong to an answer.
struct PatchPart {
  Box decoded;           ///< the level's samples of the patch, in level samples of the whole grid
  Box extent;            ///< of them in the answer, in its own samples (see LevelExtent); may be empty
  Index3 step{1, 1, 1};  ///< level samples between neighbours of the answer

  /// Whether all of them are.
  bool whole() const { return extent == decoded && step == Index3{1, 1, 1}; }
};

/// @param query    its box and stride
/// @param samples  of the patch, level 0
PatchPart PartOf(const Query& query, int level, const Box& samples);

/// The samples of a part, dense, x fastest.
/// @param decoded  dense samples of part.decoded, `sample_size` bytes each
Bytes CutOut(const PatchPart& part, ByteSpan decoded, std::size_t sample_size);

/// The same out of a coarser level: each sample is the one of that level at or before it, or the first.
/// @param decoded  dense samples of `coarse`, not empty
/// @param coarse   samples of the patch at that level
/// @param coarser  by how many levels; 0: `coarse` is part.decoded
Bytes CutOut(const PatchPart& part, ByteSpan decoded, const Box& coarse, int coarser, std::size_t sample_size);

}  // namespace quarry::query
