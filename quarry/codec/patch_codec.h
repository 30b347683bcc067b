#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "quarry/codec/coder.h"

/// Patches as datasets store them: the coder's payload, the missing samples around it, and the error of every
/// level.

namespace quarry {

/// Error of a level: its samples, interpolated multilinearly to full resolution, against the original (see
/// RecordErrors).
struct LevelError {
  double max_error = 0;  ///< [unit of the field] largest absolute difference over the covered samples
  double rmse = 0;       ///< [unit of the field] root of the mean squared difference over them
  double coverage = 1;   ///< share of the valid level-0 samples that the level covers
};

/// One patch as bytes.
struct EncodedPatch {
  PatchParts parts;
  std::vector<Bytes> levels;  ///< payload of every part, see PatchParts
  /// Payload of the validity per level, 0 the finest. Empty when every sample is valid; otherwise the
  /// coarsest has at least one byte, and finer ones may be empty.
  std::vector<Bytes> mask_levels;
  /// One per part, over valid samples; at level 0 of a layer of a lossy coder, max_error is at most the
  /// layer's tolerance. No error when there is no valid sample.
  std::vector<LevelError> errors;
  bool refers = false;      ///< decoding needs the patch of another step, see EncodePatch
  std::uint64_t valid = 0;  ///< valid samples at level 0
  double min = 0;           ///< minimum of the valid original samples; +infinity without any
  double max = 0;           ///< -infinity without any

  /// Payload of the samples, all levels.
  std::uint64_t size() const { return Sum(levels); }
  /// Payload of the validity, all levels.
  std::uint64_t mask_size() const { return Sum(mask_levels); }

 private:
  static std::uint64_t Sum(const std::vector<Bytes>& payloads) {
    std::uint64_t bytes = 0;
    for (const Bytes& payload : payloads) bytes += payload.size();
    return bytes;
  }
};

/// A patch as readers will have it: the reference of the same patch at the next step.
struct DecodedPatch {
  std::vector<Bytes> layers;  ///< samples of level 0 in each layer; missing ones are unspecified
  Bytes validity;             ///< validity of these; empty if all are valid

  /// Nothing refers to a patch without a valid sample.
  bool empty() const { return layers.empty(); }
  PatchReference AsReference() const {
    PatchReference reference;
    reference.layers.assign(layers.begin(), layers.end());
    reference.validity = {reinterpret_cast<const std::uint8_t*>(validity.data()), validity.size()};
    return reference;
  }
};

/// How a patch is encoded beside its samples.
struct EncodeOptions {
  std::optional<std::uint64_t> fill;        ///< bits of one sample as an unsigned integer, or nothing
  Tolerances tolerances;                    ///< see EncodeRequest
  const DecodedPatch* reference = nullptr;  ///< the patch of another step, used where that pays; null: none
  DecodedPatch* decoded = nullptr;          ///< gets the patch for the next step; null: not needed
};

/// Encodes one patch. Samples that are not finite, or equal `fill` bit by bit, are missing; decoding restores
/// them bit by bit with any coder. A patch without missing samples has exactly the coder's bytes; one without
/// valid samples never reaches the coder.
/// @param samples    dense, x fastest, shape layout.shape; any bits
/// @errors kInvalidArgument: shape and bytes disagree, the fill has more bits than a sample, or the coder
/// refuses the input; kInternal: the coder exceeded a tolerance
Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                 const EncodeOptions& options);

/// The same without a reference.
inline Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                        std::optional<std::uint64_t> fill, Tolerances tolerances) {
  return EncodePatch(coder, layout, samples, {fill, tolerances});
}

/// The same in one layer.
inline Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                        std::optional<std::uint64_t> fill, double tolerance) {
  return EncodePatch(coder, layout, samples, fill, Tolerances(&tolerance, 1));
}

}  // namespace quarry
