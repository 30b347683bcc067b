#include "quarry/query/make_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "quarry/format/description_rules.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/choose_level.h"
#include "quarry/query/patch_rows.h"
#include "quarry/query/plan_memory.h"
#include "quarry/query/plan_totals.h"
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

void Widen(const Bounds& by, Bounds* range) {
  range->low = std::min(range->low, by.low);
  range->high = std::max(range->high, by.high);
}

/// The patches that meet the box of a query and hold requested values.
struct FoundPatches {
  std::vector<LocatedPatch> entries;
  std::vector<LocatedPatch> masks;
  FoundReferences references;
};

/// Finds the patches of a query.
struct PatchFinder {
  const DatasetDescription& dataset;
  const PatchLocator& locator;
  const FindReferences& references;
  PatchGrid grid;

  const FieldDescription& FieldOf(const Query& query) const { return dataset.fields[query.field_number]; }
};

Result<PatchFinder> FinderOf(const DatasetDescription& dataset, const PatchLocator& locator,
                             const FindReferences& references, const Query& query) {
  QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, PatchesOf(dataset.GridOf(query.field_number)));
  return PatchFinder{dataset, locator, references, std::move(grid)};
}

/// @param codes  piece of the curve
/// @param plan   its parts; gets the samples that are left out
Result<FoundPatches> FindPatches(const PatchFinder& finder, const MortonRun& codes, ReadPlan* plan) {
  const Query& query = plan->query;
  const PatchRange range(finder.grid.PatchesMeeting(query.box), codes);
  FoundPatches found;
  QUARRY_ASSIGN_OR_RETURN(found.entries, finder.locator.Find(query.step, query.field_number, range));
  if (query.mask != 0) {
    QUARRY_ASSIGN_OR_RETURN(found.masks, finder.locator.FindMask(query.step, query.field_number, range));
  }
  plan->left_out = LeaveOut(finder.grid, plan->parts, query, &found.entries, &found.masks);
  QUARRY_ASSIGN_OR_RETURN(found.references,
                          FollowReferences(finder.locator, finder.references, query, range, finder.grid,
                                           finder.FieldOf(query).keyframe, found.entries));
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
    Widen({entry.patch.min, entry.patch.max}, &plan->recorded.all);
    if (!is_wanted(entry.patch.patch_index)) continue;
    if (query.box.Contains(samples)) Widen({entry.patch.min, entry.patch.max}, &plan->recorded.inside);
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

/// A plan of the question alone.
ReadPlan PlanOf(const PatchFinder& finder, const Query& query, std::uint64_t read_gap) {
  const FieldDescription& field = finder.FieldOf(query);
  ReadPlan plan;
  plan.query = query;
  plan.field = field.name;
  plan.type = field.type;
  plan.coder = field.coder;
  plan.dataset_levels = finder.dataset.GridOf(field).levels;
  plan.parts = {plan.dataset_levels, field.layers()};
  plan.read_gap = read_gap;
  return plan;
}

/// Plans the levels of a level and layer that were chosen.
void SetLevels(const LevelChoice& choice, ReadPlan* plan) {
  Query& query = plan->query;
  query.level = choice.level;
  query.layer = choice.layer;
  query.first_level = std::max(query.first_level, query.level);
  query.first_layer = std::min(query.first_layer, query.layer);
  plan->levels = LevelsOf(*plan);
}

/// A plan with all patches in memory.
Result<ReadPlan> PlanAtOnce(const PatchFinder& finder, ReadPlan plan) {
  QUARRY_ASSIGN_OR_RETURN(FoundPatches found, FindPatches(finder, kAllCodes, &plan));
  LevelSurvey survey(plan.query, finder.FieldOf(plan.query), finder.dataset.GridOf(plan.query.field_number),
                     finder.grid);
  if (survey.NeedsPatches()) survey.Add(found.entries, found.masks, found.references);
  QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice, survey.Choose(plan.left_out));
  SetLevels(choice, &plan);
  QUARRY_RETURN_IF_ERROR(AddPatches(finder.grid, std::move(found), &plan));
  if (plan.query.focus) SortByDistance(*plan.query.focus, &plan.patches);
  AddTotals(TotalsOf(plan), &plan);
  return plan;
}

/// The part of a plan that is one run, without its totals.
Result<ReadPlan> PlanPart(const PatchFinder& finder, const ReadPlan& plan, const MortonRun& codes) {
  ReadPlan part = PlanOf(finder, plan.query, plan.read_gap);
  part.levels = plan.levels;
  QUARRY_ASSIGN_OR_RETURN(FoundPatches found, FindPatches(finder, codes, &part));
  QUARRY_RETURN_IF_ERROR(AddPatches(finder.grid, std::move(found), &part));
  return part;
}

/// The choice for a query whose patches are found run by run.
Result<LevelChoice> ChooseInRuns(const PatchFinder& finder, std::span<const MortonRun> pieces,
                                 ReadPlan* plan) {
  LevelSurvey survey(plan->query, finder.FieldOf(plan->query),
                     finder.dataset.GridOf(plan->query.field_number), finder.grid);
  if (survey.NeedsPatches()) {
    for (const MortonRun& codes : pieces) {
      QUARRY_ASSIGN_OR_RETURN(const FoundPatches found, FindPatches(finder, codes, plan));
      survey.Add(found.entries, found.masks, found.references);
    }
  }
  return survey.Choose({});
}

/// A plan whose patches are in memory a run at a time.
Result<ReadPlan> PlanInRuns(const PatchFinder& finder, ReadPlan plan) {
  const std::vector<MortonRun> pieces =
      CutCodes(finder.grid.PatchesMeeting(plan.query.box), plan.query.run_patches);
  QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice, ChooseInRuns(finder, pieces, &plan));
  SetLevels(choice, &plan);
  PlanTotals totals;
  FingerprintSum fingerprint(plan);
  plan.run_memory = PlanningMemory(finder.dataset, plan.query);
  plan.runs.reserve(pieces.size());
  for (const MortonRun& codes : pieces) {
    QUARRY_ASSIGN_OR_RETURN(const ReadPlan part, PlanPart(finder, plan, codes));
    plan.runs.push_back({codes, totals.patches, part.patches.size()});
    totals += TotalsOf(part);
    fingerprint.Add(part.patches);
    Widen(part.recorded.all, &plan.recorded.all);
    Widen(part.recorded.inside, &plan.recorded.inside);
    plan.run_memory = std::max(plan.run_memory, PlanMemory(part));
    if (plan.references.steps.empty()) plan.references = part.references;
  }
  AddTotals(totals, &plan);
  plan.fingerprint = fingerprint.Finish();
  return plan;
}

}  // namespace

Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap) {
  QUARRY_ASSIGN_OR_RETURN(const PatchFinder finder, FinderOf(dataset, locator, references, query));
  ReadPlan plan = PlanOf(finder, query, read_gap);
  const std::uint64_t patches = MostPatches(dataset, query);
  return PlansInRuns(query, patches) ? PlanInRuns(finder, std::move(plan))
                                     : PlanAtOnce(finder, std::move(plan));
}

Result<ReadPlan> PlanRun(const DatasetDescription& dataset, const PatchLocator& locator,
                         const FindReferences& references, const ReadPlan& plan, const PatchRun& run) {
  QUARRY_ASSIGN_OR_RETURN(const PatchFinder finder, FinderOf(dataset, locator, references, plan.query));
  QUARRY_ASSIGN_OR_RETURN(ReadPlan part, PlanPart(finder, plan, run.codes));
  if (part.patches.size() != run.count)
    return DataLoss("{} of {} patches of step {} are found again; the dataset has changed, ask again",
                    part.patches.size(), run.count, plan.query.step);
  part.cost = plan.cost;
  part.totals = plan.totals;
  return part;
}

}  // namespace quarry::query
