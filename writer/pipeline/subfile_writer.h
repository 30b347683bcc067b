#pragma once

#include <filesystem>
#include <vector>

#include "quarry/format/description.h"
#include "quarry/format/subfile.h"
#include "writer/pipeline/encode.h"

namespace quarry::writer {

/// An encoded patch as it travels to its aggregator and lies in memory there: the row of the patch table,
/// offsets still zero, then the payload of all levels, coarsest first.
struct PackedPatch {
  static PackedPatch Pack(const EncodedPatchOfGrid& patch);
  /// Bytes that Pack makes of a patch.
  static std::size_t PackedSize(const EncodedPatch& patch) {
    return format::PatchEntry::EncodedSize(static_cast<int>(patch.levels.size())) + patch.size();
  }

  /// The same of the patch's validity, also where every sample is valid: without payload then.
  /// @param samples  of the patch at level 0
  static PackedPatch PackMask(const EncodedPatchOfGrid& patch, std::int64_t samples);
  static std::size_t PackedMaskSize(const EncodedPatch& patch) {
    return format::PatchEntry::EncodedSize(static_cast<int>(patch.levels.size())) + patch.mask_size();
  }

  Bytes bytes;
};

/// The row of a mask for a patch, offsets zero.
/// @param samples  of the patch at level 0
format::PatchEntry MaskRow(const EncodedPatchOfGrid& patch, std::int64_t samples);

/// What a subfile contributes to step.json.
struct SubfileSummary {
  std::uint64_t bytes = 0;
  std::uint64_t patches = 0;
  Box bounds;
  std::uint64_t table_checksum = 0;
  std::uint64_t valid = 0;
  /// Per level, finest first.
  struct Level {
    double max_error = 0;
    double sum_of_squares = 0;  ///< of differences over the covered samples; a fixed order of summation
    double covered = 0;         ///< samples; of shares that were rounded, so not a whole number
    std::uint64_t bytes = 0;
  };
  std::vector<Level> levels;

  void EncodeTo(Bytes* out) const;
  static SubfileSummary DecodeFrom(LittleEndianReader* reader, int levels);
};

/// Writes one subfile: header, payload, sync, patch table, footer, sync (docs/format.md, publishing).
/// @param patches  in Morton order
Result<SubfileSummary> WriteSubfile(const std::filesystem::path& path, const format::SubfileHeader& header,
                                    const PatchGrid& grid, const std::vector<PackedPatch>& patches);

}  // namespace quarry::writer
