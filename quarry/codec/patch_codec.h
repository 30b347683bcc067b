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

/// A patch as readers will have it: what the same patch of the next step may refer to.
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

/// The mean of a patch at two steps, to refer to both: of each sample, where only one has it, that one.
DecodedPatch MeanOf(DataType type, DecodedPatch first, DecodedPatch second);

/// How a patch is encoded beside its samples.
struct EncodeOptions {
  std::optional<std::uint64_t> fill;        ///< bits of one sample as an unsigned integer, or nothing
  Tolerances tolerances;                    ///< see PatchCoder::EncodeLayers
  const DecodedPatch* reference = nullptr;  ///< the patch of another step, used where that pays; null: none
  DecodedPatch* decoded = nullptr;          ///< gets the patch for the next step; null: nobody needs it
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

/// Payload of one level of a patch.
struct LevelParts {
  std::span<const ByteSpan> payloads;  ///< one for each layer
  ByteSpan mask;  ///< the patch has missing samples if and only if that of the coarsest level is not empty
};

/// Which patches of other steps decoding needs: of each, in the order in which they are decoded, the places
/// of those before it to whose mean it refers, at most two. The last is the patch itself. Empty: it alone.
using ReferenceGraph = std::vector<std::vector<std::size_t>>;

/// Decodes the output of EncodePatch, from the coarsest level to the finest, and from the first layer of
/// accuracy to the last one that is wanted. Any input is safe: it gives an error or meaningless samples, and
/// the layout bounds the memory. One caller at a time.
class PatchReader {
 public:
  /// @param layers      to decode of every level, from the first; see AddLayer
  /// @param references  patches of other steps that it needs
  PatchReader(const PatchCoder& coder, const PatchLayout& layout, int layers = 1,
              ReferenceGraph references = {});
  ~PatchReader();
  PatchReader(PatchReader&&) noexcept;
  PatchReader& operator=(PatchReader&&) noexcept;

  /// Decodes the next finer level, as PatchDecoder::Advance.
  /// @param payloads      of that level, of each layer
  /// @param mask_payload  of the same level. The patch has missing samples if and only if that of the
  ///                      coarsest level is not empty
  /// @errors kDataLoss; the reader is then unusable
  Status Advance(std::span<const ByteSpan> payloads, ByteSpan mask_payload);
  /// The same of a patch with references.
  /// @param steps  of all patches, in the order of the graph
  Status Advance(std::span<const LevelParts> steps);
  /// The same of one layer.
  Status Advance(ByteSpan payload, ByteSpan mask_payload) { return Advance({&payload, 1}, mask_payload); }

  /// Decodes the next finer level as the last one: its samples, with the original bits of missing ones, go to
  /// `place`, without a copy where the coder can do so. The reader is then unusable.
  /// @param place  for the samples of the next level; after an error it may hold some of them
  Status AdvanceInto(std::span<const ByteSpan> payloads, ByteSpan mask_payload, const SamplePlace& place);
  Status AdvanceInto(std::span<const LevelParts> steps, const SamplePlace& place);
  Status AdvanceInto(ByteSpan payload, ByteSpan mask_payload, const SamplePlace& place) {
    return AdvanceInto({&payload, 1}, mask_payload, place);
  }

  /// Refines level() by one more layer; not of a patch with references.
  /// @param payloads  of that layer, of each level from the coarsest to level()
  /// @errors kDataLoss; the reader is then unusable
  Status AddLayer(std::span<const ByteSpan> payloads);

  /// The samples that the same patch of another step may refer to. At level 0.
  DecodedPatch Decoded() const;

  int layers() const;
  /// Goes on with the first layers alone: the next Advance gives samples of the last of these.
  /// @param layers  1 to layers()
  void KeepLayers(int layers);

  /// The last decoded level; layout.levels before the first Advance.
  int level() const;
  /// Samples at level(); missing ones have their original bits. Valid until the next Advance.
  ByteSpan samples() const;
  /// Validity of samples(); empty when no sample of the patch is missing. Valid until the next Advance.
  Validity validity() const;

  /// An independent copy at the same level.
  PatchReader Clone() const;
  /// [bytes] that the reader holds.
  std::uint64_t memory() const;

 private:
  class State;
  explicit PatchReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quarry
