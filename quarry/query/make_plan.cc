#include "quarry/query/make_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "quarry/format/description_rules.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/choose_level.h"
#include "quarry/query/fetch.h"
#include "quarry/query/patch_rows.h"
#include "quarry/query/question_rules.h"
#include "quarry/query/references.h"

namespace quarry::query {
namespace {

/// Attaches the rows of the mask to the patches that have one.
/// @param masks  rows of the patches that meet the box
Status AddMasks(const Query& query, std::vector<LocatedPatch> masks, std::vector<PlannedPatch>* patches) {
  auto next = masks.begin();
  for (PlannedPatch& patch : *patches) {
    const std::uint64_t index = patch.entry.patch.patch_index;
    while (next != masks.end() && next->patch.patch_index != index) ++next;
    const bool masked = next != masks.end() && next->patch.payload_bytes() > 0;
    QUARRY_RETURN_IF_ERROR(CheckMask(query.step, patch.entry.patch, patch.samples.volume(), masked));
    if (masked) patch.mask = std::make_shared<const LocatedPatch>(std::move(*next));
  }
  return Status::Ok();
}

/// Squared distance of a point from the nearest sample of a box.
double SquaredDistance(const std::array<double, 3>& point, const Box& box) {
  double sum = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const double nearest =
        std::clamp(point[a], static_cast<double>(box.begin[a]), static_cast<double>(box.end[a] - 1));
    sum += (point[a] - nearest) * (point[a] - nearest);
  }
  return sum;
}

void SortByDistance(const std::array<double, 3>& focus, std::vector<PlannedPatch>* patches) {
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(patches->size());
  for (std::size_t i = 0; i < patches->size(); ++i)
    order.emplace_back(SquaredDistance(focus, (*patches)[i].samples), i);
  std::sort(order.begin(), order.end());
  std::vector<PlannedPatch> sorted;
  sorted.reserve(order.size());
  for (const auto& [distance, i] : order) sorted.push_back(std::move((*patches)[i]));
  *patches = std::move(sorted);
}

/// Whether a patch may hold a value between these, in the original or at level 0 of any layer.
bool MayHold(const format::PatchEntry& row, const PatchParts& parts, const Bounds& values) {
  // Rounding never narrows the range. Without valid samples the infinite ends stay as they are.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double error = 0;
  for (int k = 0; k < parts.layers; ++k) error = std::max(error, row.levels[parts.Of(k, 0)].max_error);
  return std::nextafter(row.min - error, -kInfinity) <= values.high &&
         std::nextafter(row.max + error, kInfinity) >= values.low && row.valid > 0;
}

/// Removes the patches that hold none of the requested values.
/// @returns the samples of the box in them
std::vector<Box> LeaveOut(const PatchGrid& grid, const PatchParts& parts, const Query& query,
                          std::vector<LocatedPatch>* entries, std::vector<LocatedPatch>* masks) {
  if (!query.values) return {};
  std::vector<Box> boxes;
  std::set<std::uint64_t> out;
  for (const LocatedPatch& entry : *entries) {
    if (MayHold(entry.patch, parts, *query.values)) continue;
    out.insert(entry.patch.patch_index);
    boxes.push_back(Intersect(query.box, grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index))));
  }
  const auto is_out = [&](const LocatedPatch& entry) { return out.contains(entry.patch.patch_index); };
  std::erase_if(*entries, is_out);
  std::erase_if(*masks, is_out);
  return JoinBoxes(std::move(boxes));
}

void Widen(const format::PatchEntry& row, Bounds* range) {
  range->low = std::min(range->low, row.min);
  range->high = std::max(range->high, row.max);
}

/// The patches that meet the box of a query and hold requested values.
struct FoundPatches {
  std::vector<LocatedPatch> entries;
  std::vector<LocatedPatch> masks;
  FoundReferences references;
};

/// @param plan  its parts; gets the samples that are left out
Result<FoundPatches> FindPatches(const PatchGrid& grid, const PatchLocator& locator,
                                 const FindReferences& references, int keyframe, ReadPlan* plan) {
  const Query& query = plan->query;
  const Box positions = grid.PatchesMeeting(query.box);
  FoundPatches found;
  QUARRY_ASSIGN_OR_RETURN(found.entries, locator.Find(query.step, query.field_number, positions));
  if (query.mask != 0) {
    QUARRY_ASSIGN_OR_RETURN(found.masks, locator.FindMask(query.step, query.field_number, positions));
  }
  plan->left_out = LeaveOut(grid, plan->parts, query, &found.entries, &found.masks);
  QUARRY_ASSIGN_OR_RETURN(found.references,
                          FollowReferences(locator, references, query, grid, keyframe, found.entries));
  return found;
}

/// Takes over the patches that hold a sample of the answer, and widens the recorded ranges by all.
Status AddPatches(const PatchGrid& grid, FoundPatches found, ReadPlan* plan) {
  const Query& query = plan->query;
  const auto is_wanted = [&](std::uint64_t index) {
    return !query.only_patches ||
           std::binary_search(query.only_patches->begin(), query.only_patches->end(), index);
  };
  plan->patches.reserve(query.only_patches ? std::min(query.only_patches->size(), found.entries.size())
                                           : found.entries.size());
  for (LocatedPatch& entry : found.entries) {
    const Box samples = grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
    Widen(entry.patch, &plan->recorded.all);
    if (!is_wanted(entry.patch.patch_index)) continue;
    if (query.box.Contains(samples)) Widen(entry.patch, &plan->recorded.inside);
    // A box may be so thin that it misses all samples of a patch at this level: nothing to fetch there.
    if (SpacedBox(Intersect(query.box, samples), SpacingAt(query.target, query.level)).empty()) continue;
    const auto referred = found.references.of_patches.find(entry.patch.patch_index);
    plan->patches.push_back({std::move(entry), nullptr, samples, {}});
    if (referred != found.references.of_patches.end())
      plan->patches.back().references = std::move(referred->second);
  }
  found.entries = {};
  QUARRY_RETURN_IF_ERROR(AddMasks(query, std::move(found.masks), &plan->patches));
  plan->references = std::move(found.references.steps);
  return Status::Ok();
}

}  // namespace

Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap) {
  const FieldDescription& field = dataset.fields[query.field_number];
  const GridDescription& grid = dataset.GridOf(field);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid patches, PatchesOf(grid));
  ReadPlan plan;
  plan.query = query;
  plan.field = field.name;
  plan.type = field.type;
  plan.coder = field.coder;
  plan.dataset_levels = grid.levels;
  plan.parts = {plan.dataset_levels, field.layers()};
  plan.read_gap = read_gap;
  QUARRY_ASSIGN_OR_RETURN(FoundPatches found,
                          FindPatches(patches, locator, references, field.keyframe, &plan));
  QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice,
                          ChooseLevel({query, field, grid, patches, found.entries, found.masks,
                                       found.references, plan.left_out}));
  plan.query.level = choice.level;
  plan.query.layer = choice.layer;
  plan.query.first_level = std::max(query.first_level, plan.query.level);
  plan.query.first_layer = std::min(query.first_layer, plan.query.layer);
  QUARRY_RETURN_IF_ERROR(AddPatches(patches, std::move(found), &plan));
  if (query.focus) SortByDistance(*query.focus, &plan.patches);
  plan.levels = DescribeLevels(plan);
  plan.cost = CostOf(plan);
  return plan;
}

}  // namespace quarry::query
