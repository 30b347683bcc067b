#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "quarry/geometry/sample_place.h"

/// Patches as readers get them, level by level and layer by layer.
namespace quarry {

/// The mean of a patch at two steps, to refer to both: of each sample, where only one has it, that one.
DecodedPatch MeanOf(DataType type, DecodedPatch first, DecodedPatch second);

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
