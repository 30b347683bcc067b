#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "quarry/codec/coder.h"

/// A patch as datasets store it: the payload of a coder, around it what keeps missing samples out of it, and
/// beside it what every level has lost.
namespace quarry {

/// What was lost at a level: its samples, interpolated multilinearly to full resolution, against the original
/// (RecordErrors in error_record.h says how).
struct LevelError {
  double max_error = 0;  ///< [unit of the field] largest absolute difference over the covered samples
  double rmse = 0;       ///< [unit of the field] root of the mean squared difference over them
  double coverage = 1;   ///< share of the valid level-0 samples that the level can show
};

/// One patch as bytes.
struct EncodedPatch {
  std::vector<Bytes> levels;  ///< payload per level, 0 the finest
  /// Payload of the validity per level; no entry when every sample is valid.
  std::vector<Bytes> mask_levels;
  std::vector<LevelError> errors;  ///< one per level; errors[0].max_error <= tolerance
  std::uint64_t valid = 0;         ///< valid samples at level 0
  double min = 0;                  ///< of the valid original samples; +infinity when there is none
  double max = 0;                  ///< -infinity when there is none

  /// Payload of the samples, all levels.
  std::uint64_t size() const {
    std::uint64_t bytes = 0;
    for (const Bytes& level : levels) bytes += level.size();
    return bytes;
  }
};

/// Encodes one patch. Samples that are not finite, and those equal to `fill`, are missing: they never reach
/// the coder and come back bit by bit.
/// @param fill       bits of one sample, in native byte order, SizeOf(layout.type) bytes; or nothing
/// @param tolerance  see PatchCoder::Encode
Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                 std::optional<std::uint64_t> fill, double tolerance);

/// Decodes what EncodePatch made, from the coarsest level to the finest. One caller at a time.
class PatchReader {
 public:
  PatchReader(const PatchCoder& coder, const PatchLayout& layout);
  ~PatchReader();
  PatchReader(PatchReader&&) noexcept;
  PatchReader& operator=(PatchReader&&) noexcept;

  /// Decodes the next finer level, as PatchDecoder::Advance.
  /// @param mask_payload  of the same level; empty at every level when the patch has no missing sample
  Status Advance(ByteSpan payload, ByteSpan mask_payload);

  int level() const;
  /// Samples at level(), missing ones as they were.
  ByteSpan samples() const;
  /// Of samples().
  Validity validity() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry
