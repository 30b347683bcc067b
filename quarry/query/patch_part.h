#pragma once

#include "quarry/geometry/sample_place.h"
#include "quarry/query/read_plan.h"

namespace quarry::query {

/// Which samples of a decoded patch belong to an answer.
struct PatchPart {
  Box decoded;           ///< the level's samples of the patch, in level samples of the whole grid
  Box extent;            ///< the part in the answer, in samples of the answer (see LevelExtent); may be empty
  Index3 step{1, 1, 1};  ///< level samples between neighbours of the answer

  /// Whether the answer takes all samples of the patch.
  bool whole() const { return extent == decoded && step == Index3{1, 1, 1}; }
};

/// @param query    its box and stride
/// @param samples  of the patch, level 0
PatchPart PartOf(const Query& query, int level, const Box& samples);

/// Writes the samples of a part to their place, with SamplePlace::EndWriting.
/// @param decoded, box, coarser  see Cut
void WritePart(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser, std::size_t sample_size,
               const SamplePlace& place);

/// The samples of a part, dense, x fastest.
/// @param decoded  dense samples of part.decoded, `sample_size` bytes each
Bytes CutOut(const PatchPart& part, ByteSpan decoded, std::size_t sample_size);

/// The samples of a part: the patch's own when it is whole, otherwise a copy.
struct CutSamples {
  ByteSpan samples;  ///< in `decoded`, or in `copy`
  Bytes copy;
};

/// Cuts a part out of its level, or out of a coarser one, where each sample is the coarse one at or before
/// it, or the first.
/// @param decoded  dense samples of `box`, not empty
/// @param box      samples of the patch at the level that was decoded
/// @param coarser  by how many levels; 0: `box` is part.decoded
CutSamples Cut(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser, std::size_t sample_size);

}  // namespace quarry::query
