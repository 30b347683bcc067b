#pragma once

#include <cstdint>

#include "quarry/description.h"
#include "quarry/index/box_tree.h"
#include "quarry/query/patch_locator.h"

/// Keys and values of the index. Keys are big-endian, so that LMDB's byte order is numeric order: the patches
/// of a field lie along the Morton curve, and those of a box in few runs. For the tables see docs/format.md,
/// "Index".
namespace quarry::index {

inline constexpr std::uint32_t kIndexVersion = 5;

/// Names of the databases in a piece.
inline constexpr const char* kPatches = "patches";             ///< PatchKey -> PatchValue
inline constexpr const char* kSteps = "steps";                 ///< StepKey -> StepRecord
inline constexpr const char* kMasks = "masks";                 ///< MaskPatchKey -> PatchValue
inline constexpr const char* kMaskSubfiles = "mask_subfiles";  ///< MaskKey -> MaskSubfilesValue
inline constexpr const char* kBoxes = "boxes";           ///< BoxKey -> a node of the tree of subfiles' boxes
inline constexpr const char* kMaskBoxes = "mask_boxes";  ///< MaskBoxKey -> the same of a mask

Bytes StepKey(std::uint64_t step);
Bytes PatchKey(std::uint64_t step, std::size_t field_number, std::uint64_t morton_code);

/// Key of the mask with this name.
Bytes MaskKey(std::uint64_t mask);
Bytes MaskPatchKey(std::uint64_t mask, std::uint64_t morton_code);

/// Keys of the nodes of box trees, see box_tree.h.
Bytes BoxKey(std::uint64_t step, std::size_t field_number, std::uint8_t level, std::uint32_t node);
Bytes MaskBoxKey(std::uint64_t mask, std::uint8_t level, std::uint32_t node);

/// The subfiles with patches, of a field and step or of a mask: what a box tree is made of.
std::vector<NumberedBox> BoxesOf(const std::vector<SubfileDescription>& subfiles);

/// Replaces the Morton code in a key, for another patch of the same field and step, or mask.
void SetMortonCode(std::uint64_t morton_code, Bytes* key);

Bytes PatchValue(const query::LocatedPatch& entry);
/// @errors kDataLoss: not a value of this many levels
Status DecodePatchValue(ByteSpan value, int parts, query::LocatedPatch* entry);

/// Checks the untrusted record of a patch: afterwards its numbers can be used as those of a table.
/// @param position  of the patch whose record it should be
/// @param subfiles  of the field and step, or of the mask
/// @errors kDataLoss
Status CheckRecord(const query::LocatedPatch& entry, const Index3& position, const PatchGrid& grid,
                   const std::vector<SubfileDescription>& subfiles);

/// A checksum over sizes, numbers of patches and table checksums of all subfiles: shows whether a mask is
/// still in the subfiles that were indexed.
Bytes MaskSubfilesValue(const MaskDescription& mask);

/// The first part of a key: the number of a step, or the name of a mask. The caller has checked that the key
/// has at least 8 bytes.
std::uint64_t FirstOfKey(ByteSpan key);

}  // namespace quarry::index
