#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/read_plan.h"

/// Patches of other steps that decoding needs.
namespace quarry::query {

/// The patches of other steps to which those of a box refer.
struct FoundReferences {
  References steps;
  std::map<std::uint64_t, std::vector<ReferredPatch>> of_patches;  ///< by their indices

  std::span<const ReferredPatch> Of(std::uint64_t patch_index) const {
    const auto found = of_patches.find(patch_index);
    return found == of_patches.end() ? std::span<const ReferredPatch>() : std::span(found->second);
  }
};

/// Finds what patches refer to, directly and by way of others.
/// @param range    that has the patches
/// @param most     steps that a step may need
/// @param entries  the patches of the query
/// @errors those of PatchLocator::Find; kDataLoss: field and mask do not match, or references do not end
Result<FoundReferences> FollowReferences(const PatchLocator& locator, const FindReferences& find,
                                         const Query& query, const PatchRange& range, const PatchGrid& grid,
                                         int most, const std::vector<LocatedPatch>& entries);

/// In which order a patch and what it refers to are decoded: its references as they are, then itself.
ReferenceGraph GraphOf(const ReadPlan& plan, const PlannedPatch& patch);

}  // namespace quarry::query
