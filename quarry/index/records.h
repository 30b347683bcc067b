#pragma once

#include <cstdint>

#include "quarry/format/description.h"
#include "quarry/query/patch_locator.h"

/// Keys and values of the index. Keys are big-endian, so that LMDB's byte order is numeric order: the patches
/// of a field lie along the Morton curve, and those of a box in few runs. For the tables see docs/format.md,
/// "Index".
namespace quarry::index {

inline constexpr std::uint32_t kIndexVersion = 2;

/// Names of the databases in the environment.
inline constexpr const char* kPatches = "patches";    ///< PatchKey -> PatchValue
inline constexpr const char* kSubfiles = "subfiles";  ///< SubfileKey -> SubfileValue
inline constexpr const char* kSteps = "steps";        ///< StepKey -> checksum of the bytes of step.json
inline constexpr const char* kMasks = "masks";        ///< MaskPatchKey -> PatchValue
inline constexpr const char* kMaskSubfiles = "mask_subfiles";  ///< MaskSubfileKey -> SubfileValue

Bytes StepKey(std::uint64_t step);
Bytes PatchKey(std::uint64_t step, std::size_t field_number, std::uint64_t morton_code);
Bytes SubfileKey(std::uint64_t step, std::size_t field_number, std::size_t subfile);

/// Of the mask with this name.
Bytes MaskPatchKey(std::uint64_t mask, std::uint64_t morton_code);
Bytes MaskSubfileKey(std::uint64_t mask, std::size_t subfile);

Bytes PatchValue(const query::LocatedPatch& entry);
/// @errors kDataLoss: not a value of this many levels
Result<query::LocatedPatch> DecodePatchValue(ByteSpan value, int levels);

/// Bounding box, size and checksum of the table of a subfile.
Bytes SubfileValue(const SubfileDescription& subfile);
Result<SubfileDescription> DecodeSubfileValue(ByteSpan value);

/// The first part of a key: the number of a step, or the name of a mask. The caller has checked that the key
/// has at least 8 bytes.
std::uint64_t FirstOfKey(ByteSpan key);

}  // namespace quarry::index
