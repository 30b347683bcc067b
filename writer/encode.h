#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "writer/exchange.h"

namespace quarry::writer {

/// Range of finite samples, and the first that is not finite.
struct SampleScan {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::int64_t first_not_finite = kNone;  ///< linear index in the grid, x fastest
};

/// @param samples dense samples of `box` in a grid of `dims`; float32 or float64
SampleScan ScanSamples(DataType type, ByteSpan samples, const Box& box, const Index3& dims);

/// A patch, encoded, on the rank that did it.
struct EncodedPatchOfGrid {
  std::int64_t patch_index = 0;
  EncodedPatch encoded;
};

/// Encodes patches on `threads` threads; the samples are freed as they are done. The bytes depend on the
/// samples alone.
/// @param progress  called with the number of patches done, from one thread at a time
Result<std::vector<EncodedPatchOfGrid>> EncodePatches(const PatchGrid& grid, const PatchCoder& coder,
                                                      DataType type, int levels, double tolerance,
                                                      std::vector<PatchSamples> patches, int threads,
                                                      const std::function<void(std::size_t)>& progress);

}  // namespace quarry::writer
