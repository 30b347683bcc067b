#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/codec/coder.h"

/// The bits of missing samples: usually one fill value, sometimes several, or NaNs with payloads. Decoding
/// restores them bit by bit. Bytes: docs/format.md, "Missing data".
namespace quarry::mask {

/// Payloads of a patch with missing samples. At each level, 0 the finest, a section precedes the coder's
/// payload: the most frequent missing value of the patch (coarsest level only), and those of the level's new
/// samples that differ from it.
/// @param samples         of the patch, at least one missing
/// @param validity        of every level, as a ValidityCoder decodes it
/// @param coder_payloads  of every level; all empty when no sample is valid
std::vector<Bytes> AddMissingValues(const PatchLayout& layout, ByteSpan samples,
                                    std::span<const Bytes> validity, std::span<const Bytes> coder_payloads);

/// Reads the sections, from the coarsest level to the finest: for each, call Take, then Overlay. Any input is
/// safe: it gives an error or meaningless values, and the layout bounds the memory. One caller at a time.
class MissingValuesReader {
 public:
  explicit MissingValuesReader(const PatchLayout& layout);

  /// Takes the section of the next finer level off the front of `payload`; the rest is the coder's.
  /// @param validity  of the samples at that level
  /// @errors kDataLoss; the reader is then unusable
  Status Take(ByteSpan* payload, Validity validity);

  /// Copies the decoded samples of the level and puts the missing values in their places.
  /// @param decoded   of the level; empty when no sample of the patch is valid
  /// @param validity  as for Take
  void Overlay(ByteSpan decoded, Validity validity);

  /// After Overlay, replaces the valid samples of the level by those of a further layer.
  void Refine(ByteSpan decoded, Validity validity);

  /// All samples of the level, in native byte order.
  ByteSpan samples() const { return samples_; }

 private:
  PatchLayout layout_;
  int level_;
  std::uint64_t common_ = 0;
  bool all_common_ = true;  // so far, on all levels
  // Exceptions of the last taken level: places among its new missing samples, ascending, and their bits.
  std::vector<std::uint32_t> places_;
  std::vector<std::uint64_t> values_;
  Bytes samples_;
};

}  // namespace quarry::mask
