#include "writer/pipeline/own_patches.h"

#include <algorithm>

#include "quarry/format/mask.h"
#include "writer/pipeline/comm.h"

namespace quarry::writer {

Status OwnPatches::Add(const EncodedPatchOfGrid& patch, std::int64_t samples) {
  Own own;
  own.samples.row = SampleRow(patch);
  own.mask.row = MaskRow(patch, samples);
  own.masked = !patch.encoded.mask_levels.empty();
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN_OR_RETURN(own.samples.position, store_.Append(patch.encoded.levels));
  QUARRY_ASSIGN_OR_RETURN(own.mask.position, store_.Append(patch.encoded.mask_levels));
  if (patch.encoded.valid > 0) {
    min_ = std::min(min_, patch.encoded.min);
    max_ = std::max(max_, patch.encoded.max);
  }
  any_refers_ |= patch.encoded.refers;
  patches_.push_back(std::move(own));
  return Status::Ok();
}

void OwnPatches::Sort() {
  std::sort(patches_.begin(), patches_.end(),
            [](const Own& a, const Own& b) { return a.samples.row.patch_index < b.samples.row.patch_index; });
}

std::vector<OutgoingPatch> OwnPatches::samples() const {
  std::vector<OutgoingPatch> outgoing;
  for (const Own& own : patches_) outgoing.push_back(own.samples);
  return outgoing;
}

std::vector<OutgoingPatch> OwnPatches::masks() const {
  std::vector<OutgoingPatch> outgoing;
  for (const Own& own : patches_) outgoing.push_back(own.mask);
  return outgoing;
}

Result<PatchSizes> OwnPatches::ShareSizes(MPI_Comm comm, std::size_t patch_count) const {
  constexpr std::size_t kNumbers = 5;
  std::vector<std::uint64_t> mine;
  for (const Own& own : patches_) {
    mine.push_back(own.samples.row.patch_index);
    mine.push_back(StoredBytes(own.samples.row));
    mine.push_back(StoredBytes(own.mask.row));
    mine.push_back(format::MaskDigest(own.mask.row));
    mine.push_back(own.masked ? 1 : 0);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> all, GatherEverywhere(comm, mine));
  PatchSizes sizes;
  sizes.samples.resize(patch_count);
  sizes.masks.resize(patch_count);
  sizes.mask_digests.resize(patch_count);
  for (std::size_t i = 0; i < all.size(); i += kNumbers) {
    sizes.samples[all[i]] = all[i + 1];
    sizes.masks[all[i]] = all[i + 2];
    sizes.mask_digests[all[i]] = all[i + 3];
    sizes.any_missing = sizes.any_missing || all[i + 4] != 0;
  }
  return sizes;
}

}  // namespace quarry::writer
