#include "quarry/query/make_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "quarry/format/description_rules.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/choose_level.h"
#include "quarry/query/distance_order.h"
#include "quarry/query/left_out.h"
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

/// The patches that meet the box of a query and hold requested values.
struct FoundPatches {
  std::vector<LocatedPatch> entries;
  std::vector<LocatedPatch> masks;
  FoundReferences references;
};

/// Removes the patches that hold none of the requested values.
/// @param left_out  gets them; null: nobody asks which
void LeaveOut(const PatchParts& parts, const Query& query, FoundPatches* found, LeftOutPatches* left_out) {
  if (!query.values) return;
  std::set<std::uint64_t> out;
  for (const LocatedPatch& entry : found->entries) {
    if (MayHold(entry.patch, parts, *query.values)) continue;
    out.insert(entry.patch.patch_index);
    if (left_out != nullptr) left_out->Add(entry.patch.patch_index);
  }
  const auto is_out = [&](const LocatedPatch& entry) { return out.contains(entry.patch.patch_index); };
  std::erase_if(found->entries, is_out);
  std::erase_if(found->masks, is_out);
}

void Widen(const Bounds& by, Bounds* range) {
  range->low = std::min(range->low, by.low);
  range->high = std::max(range->high, by.high);
}

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

/// The codes of listed patches in a run.
std::vector<MortonRun> CodesOf(const PatchList& list, const MortonRun& within) {
  std::vector<MortonRun> runs;
  for (auto code = std::ranges::lower_bound(list.codes, within.begin);
       code != list.codes.end() && *code < within.end; ++code) {
    if (!runs.empty() && runs.back().end == *code) {
      ++runs.back().end;
    } else {
      runs.push_back({*code, *code + 1});
    }
  }
  return runs;
}

/// The codes of a shell where they do not follow from the box and a piece of the curve alone.
std::optional<std::vector<MortonRun>> ListedCodes(const PatchFinder& finder, const Query& query,
                                                  const Shell& shell) {
  if (query.only_patches) return CodesOf(*query.only_patches, shell.codes);
  if (!query.focus || shell == Shell{}) return std::nullopt;
  return DistanceOrder(finder.grid, finder.grid.PatchesMeeting(query.box), *query.focus).CodesOf(shell);
}

/// @param left_out  gets the patches without requested values; null: nobody asks which
Result<FoundPatches> FindPatches(const PatchFinder& finder, const Shell& shell, const ReadPlan& plan,
                                 LeftOutPatches* left_out) {
  const Query& query = plan.query;
  const Box positions = finder.grid.PatchesMeeting(query.box);
  const std::optional<std::vector<MortonRun>> listed = ListedCodes(finder, query, shell);
  const PatchRange range = listed ? PatchRange(positions, *listed) : PatchRange(positions, shell.codes);
  FoundPatches found;
  QUARRY_ASSIGN_OR_RETURN(found.entries, finder.locator.Find(query.step, query.field_number, range));
  if (query.mask != 0) {
    QUARRY_ASSIGN_OR_RETURN(found.masks, finder.locator.FindMask(query.step, query.field_number, range));
  }
  LeaveOut(plan.parts, query, &found, left_out);
  QUARRY_ASSIGN_OR_RETURN(found.references,
                          FollowReferences(finder.locator, finder.references, query, range, finder.grid,
                                           finder.FieldOf(query).keyframe, found.entries));
  return found;
}

/// Takes over the patches that hold a sample of the answer, and widens the recorded ranges by all.
Status AddPatches(const PatchGrid& grid, FoundPatches found, ReadPlan* plan) {
  const Query& query = plan->query;
  plan->patches.reserve(found.entries.size());
  for (LocatedPatch& entry : found.entries) {
    const Box samples = grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
    Widen({entry.patch.min, entry.patch.max}, &plan->recorded.all);
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
  if (query.focus) SortByDistance(*query.focus, &plan->patches);
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
  plan.relative_error = ToleranceAs<PointwiseBound>(field.bound).value_or(0);
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

LevelSurvey SurveyFor(const PatchFinder& finder, const Query& query) {
  return {query, finder.FieldOf(query), finder.dataset.GridOf(query.field_number), finder.grid};
}

/// A plan with all patches in memory.
Result<ReadPlan> PlanAtOnce(const PatchFinder& finder, ReadPlan plan) {
  LeftOutPatches left_out(finder.grid, plan.query.values ? plan.query.box : Box());
  QUARRY_ASSIGN_OR_RETURN(FoundPatches found, FindPatches(finder, Shell(), plan, &left_out));
  QUARRY_ASSIGN_OR_RETURN(plan.left_out, left_out.Boxes(std::numeric_limits<std::size_t>::max()));
  LevelSurvey survey = SurveyFor(finder, plan.query);
  if (survey.NeedsPatches()) survey.Add(found.entries, found.masks, found.references);
  QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice, survey.Choose(plan.left_out));
  SetLevels(choice, &plan);
  QUARRY_RETURN_IF_ERROR(AddPatches(finder.grid, std::move(found), &plan));
  AddTotals(TotalsOf(plan), &plan);
  return plan;
}

/// The part of a plan that is one run, without its totals.
Result<ReadPlan> PlanPart(const PatchFinder& finder, const ReadPlan& plan, const Shell& shell) {
  ReadPlan part = PlanOf(finder, plan.query, plan.read_gap);
  part.levels = plan.levels;
  QUARRY_ASSIGN_OR_RETURN(FoundPatches found, FindPatches(finder, shell, part, nullptr));
  QUARRY_RETURN_IF_ERROR(AddPatches(finder.grid, std::move(found), &part));
  return part;
}

/// The patches of a query in pieces of the curve.
std::vector<MortonRun> PiecesOf(const PatchFinder& finder, const Query& query) {
  if (!query.only_patches) return CutCodes(finder.grid.PatchesMeeting(query.box), query.run_patches);
  CodeCutter cutter(query.run_patches);
  for (const std::uint64_t code : query.only_patches->codes) cutter.Add({code, code + 1});
  return cutter.pieces();
}

/// The patches of a query in the order of its answer.
std::vector<Shell> ShellsOf(const PatchFinder& finder, const Query& query,
                            const std::vector<MortonRun>& pieces) {
  if (query.focus && !query.only_patches)
    return DistanceOrder(finder.grid, finder.grid.PatchesMeeting(query.box), *query.focus)
        .Cut(query.run_patches);
  std::vector<Shell> shells;
  shells.reserve(pieces.size());
  for (const MortonRun& codes : pieces) shells.emplace_back().codes = codes;
  return shells;
}

/// The choice for a query whose patches are found run by run, and the samples that it leaves out.
Result<LevelChoice> ChooseInRuns(const PatchFinder& finder, std::span<const MortonRun> pieces,
                                 ReadPlan* plan) {
  const Query& query = plan->query;
  LevelSurvey survey = SurveyFor(finder, query);
  LeftOutPatches left_out(finder.grid, query.values ? query.box : Box());
  if (survey.NeedsPatches() || query.values) {
    for (const MortonRun& codes : pieces) {
      QUARRY_ASSIGN_OR_RETURN(const FoundPatches found, FindPatches(finder, {codes}, *plan, &left_out));
      survey.Add(found.entries, found.masks, found.references);
    }
  }
  QUARRY_ASSIGN_OR_RETURN(plan->left_out, left_out.Boxes(query.most_left_out));
  return survey.Choose(plan->left_out);
}

/// A plan whose patches are in memory a run at a time.
Result<ReadPlan> PlanInRuns(const PatchFinder& finder, ReadPlan plan) {
  const std::vector<MortonRun> pieces = PiecesOf(finder, plan.query);
  QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice, ChooseInRuns(finder, pieces, &plan));
  SetLevels(choice, &plan);
  PlanTotals totals;
  FingerprintSum fingerprint(plan);
  plan.run_memory = PlanningMemory(finder.dataset, plan.query);
  const std::vector<Shell> shells = ShellsOf(finder, plan.query, pieces);
  plan.runs.reserve(shells.size());
  for (const Shell& shell : shells) {
    QUARRY_ASSIGN_OR_RETURN(const ReadPlan part, PlanPart(finder, plan, shell));
    plan.runs.push_back({shell, totals.patches, part.patches.size()});
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
  const std::uint64_t patches =
      query.only_patches ? query.only_patches->codes.size() : MostPatches(dataset, query);
  return PlansInRuns(query, patches) ? PlanInRuns(finder, std::move(plan))
                                     : PlanAtOnce(finder, std::move(plan));
}

Result<ReadPlan> PlanRun(const DatasetDescription& dataset, const PatchLocator& locator,
                         const FindReferences& references, const ReadPlan& plan, const PatchRun& run) {
  QUARRY_ASSIGN_OR_RETURN(const PatchFinder finder, FinderOf(dataset, locator, references, plan.query));
  QUARRY_ASSIGN_OR_RETURN(ReadPlan part, PlanPart(finder, plan, run.shell));
  if (part.patches.size() != run.count)
    return DataLoss("{} of {} patches of step {} are found again; the dataset has changed, ask again",
                    part.patches.size(), run.count, plan.query.step);
  part.cost = plan.cost;
  part.totals = plan.totals;
  return part;
}

}  // namespace quarry::query
