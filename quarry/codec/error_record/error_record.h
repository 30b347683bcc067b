#pragma once

#include <span>
#include <vector>

#include "quarry/codec/patch_codec.h"

namespace quarry {

/// Largest absolute difference and RMSE of two arrays of equal, non-zero length over the valid samples, at
/// least one; coverage 1. In float64 arithmetic: the largest difference of float32 samples is exact up to the
/// rounding of one subtraction. The sum runs in a fixed order, so the result is the same on every machine and
/// for any number of ranks.
template <typename T>
LevelError CompareSamples(std::span<const T> original, std::span<const T> decoded, Validity validity = {});

/// Errors of every level of a patch.
///
/// Level 0 is compared sample by sample (CompareSamples); its coverage is 1. A coarser level is interpolated
/// to full resolution inside the patch and compared there (docs/format.md, "Error record"):
///   1. the level is extended by one sample after its last, along x, then y, then z: by the linear
///      continuation 2 a - b of the last two if both have a value, by a copy if only one has;
///   2. level-0 sample (x, y, z) lies in the cell of the eight (extended) level samples around it. Its value
///      is the multilinear mean of those that have a value, with the weights divided by their sum. If none
///      has a positive weight, the sample has no value, and the level does not cover it.
/// Without missing samples, wavelet_zfp::Inverse with null details gives the same values, level by level, in
/// exact arithmetic.
///
/// `max_error` is never below the largest difference to that interpolation in exact arithmetic: it is the
/// computed difference plus a bound of its rounding error, which is below an eighth of the difference unless
/// that is itself rounding. Sums and maxima run in an order that depends on the layout alone, so the record
/// is the same on every machine, instruction set and number of ranks.
///
/// @param original  samples at level 0, x fastest, shape layout.shape; missing ones can be anything
/// @param validity  of `original`, at least one valid; a level sample is missing if the level-0 sample at its
///                  place is
/// @param decoded   one entry per level: samples of shape LevelShape(layout.shape, l) as a reader gets them,
///                  missing ones can be anything
/// @returns one entry per level; infinite or NaN where decoded samples are
/// @complexity about a nanosecond per level-0 sample for all levels of a patch of 64^3 without missing
/// samples; scratch of a quarter of the patch in float32
std::vector<LevelError> RecordErrors(const PatchLayout& layout, ByteSpan original, Validity validity,
                                     std::span<const Bytes> decoded);

}  // namespace quarry
