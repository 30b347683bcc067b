#include "quarry/query/patch_rows.h"

namespace quarry::query {

const format::LevelEntry& EntryOf(const LocatedPatch& patch, const PatchParts& parts, int layer, int level) {
  return patch.patch.levels[parts.Of(layer, level)];
}

const format::LevelEntry& MaskEntryOf(const LocatedPatch& mask, int level) {
  return mask.patch.levels[static_cast<std::size_t>(level)];
}

std::uint64_t LayersOf(const LocatedPatch& patch, const PatchParts& parts, std::pair<int, int> layers,
                       int level) {
  std::uint64_t bytes = 0;
  for (int k = layers.first; k <= layers.second; ++k) bytes += EntryOf(patch, parts, k, level).size;
  return bytes;
}

Status CheckMask(std::uint64_t step, const format::PatchEntry& row, std::int64_t samples, bool masked) {
  if (masked == (static_cast<std::int64_t>(row.valid) < samples)) return Status::Ok();
  return DataLoss("patch {} of step {} has {} valid samples of {}, but {} mask", row.patch_index, step,
                  row.valid, samples, masked ? "a" : "no");
}

}  // namespace quarry::query
