#pragma once

#include <cstdint>
#include <utility>

#include "quarry/codec/coder.h"
#include "quarry/query/patch_locator.h"

/// The parts of located patches, by layer and level.
namespace quarry::query {

const format::LevelEntry& EntryOf(const LocatedPatch& patch, const PatchParts& parts, int layer, int level);

/// The same of a mask, which has one layer.
const format::LevelEntry& MaskEntryOf(const LocatedPatch& mask, int level);

/// Payload of one level in some layers.
/// @param layers  first and last
std::uint64_t LayersOf(const LocatedPatch& patch, const PatchParts& parts, std::pair<int, int> layers,
                       int level);

/// @param samples  of the patch, valid or not
/// @param masked   whether the mask has payload of the patch
/// @errors kDataLoss: a patch lacks samples without a mask, or has all of them and a mask
Status CheckMask(std::uint64_t step, const format::PatchEntry& row, std::int64_t samples, bool masked);

}  // namespace quarry::query
