#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/codec/coder.h"

/// What missing samples had in the place of a value: usually one fill value all over, sometimes several, or
/// NaN with a payload. They come back bit by bit. Bytes: docs/format.md, "Missing data".
namespace quarry {

/// Payloads of a patch with missing samples: in front of the coder's at each level, 0 the finest, a section
/// with the most frequent missing value of the patch (coarsest level only) and those of the level's new
/// samples that differ from it.
/// @param samples         of the patch, at least one missing
/// @param validity        of every level, as a ValidityCoder decodes it
/// @param coder_payloads  of every level; all empty when no sample is valid
std::vector<Bytes> AddMissingValues(const PatchLayout& layout, ByteSpan samples,
                                    std::span<const Bytes> validity, std::span<const Bytes> coder_payloads);

/// Reads the sections, from the coarsest level to the finest: for each of them first Take, then Overlay. Any
/// bytes are an error or meaningless values; memory is bounded by the layout. One caller at a time.
class MissingValuesReader {
 public:
  explicit MissingValuesReader(const PatchLayout& layout);

  /// Takes the section of the next finer level off the front of `payload`; what is left is the coder's.
  /// @param validity  of the samples at that level
  /// @errors kDataLoss; the reader is then unusable
  Status Take(ByteSpan* payload, Validity validity);

  /// Copies the decoded samples of the level and puts the missing values in their places.
  /// @param decoded   of the level; empty when no sample of the patch is valid
  /// @param validity  as for Take
  void Overlay(ByteSpan decoded, Validity validity);

  /// The level with everything in it, in native byte order.
  ByteSpan samples() const { return samples_; }

 private:
  PatchLayout layout_;
  int level_;
  std::uint64_t common_ = 0;
  bool all_common_ = true;  // so far, on all levels
  // Of the level taken last: places among its new missing samples, ascending, and the bits there.
  std::vector<std::uint32_t> places_;
  std::vector<std::uint64_t> values_;
  Bytes samples_;
};

}  // namespace quarry
