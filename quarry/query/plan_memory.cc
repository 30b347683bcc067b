#include "quarry/query/plan_memory.h"

#include <algorithm>

#include "quarry/format/description_rules.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::query {
namespace {

/// Memory of decoded samples; if some are missing, with a second copy with the missing ones in place, and a
/// byte of validity for each.
std::uint64_t DecodedBytes(std::uint64_t samples, DataType type, bool masked) {
  return samples * (masked ? 2 * SizeOf(type) + 1 : SizeOf(type));
}

/// Overhead of the C library for an allocation.
constexpr std::uint64_t kAllocation = 16;
/// Memory of a plan without patches: its names, levels, passes and open files.
constexpr std::uint64_t kPlanObjects = 16 << 10;
/// Memory of a box that is left out: in the plan, in the header, in its message, and in the bytes of the
/// message.
constexpr std::uint64_t kLeftOutBytes = 512;

/// Memory of the parts of a row, and of the row of the mask.
std::uint64_t RowMemory(const PatchParts& parts, bool masked) {
  const auto row = [](int count) {
    return static_cast<std::uint64_t>(count) * sizeof(format::LevelEntry) + kAllocation;
  };
  const std::uint64_t bytes = row(parts.count());
  return masked ? bytes + row(parts.levels) + sizeof(LocatedPatch) + 2 * kAllocation : bytes;
}

/// Memory that decoding a piece takes beside its payload.
std::uint64_t PieceMemory(const ReadPlan& plan, const Piece& piece) {
  constexpr std::uint64_t kObjects = 2 << 10;  // table rows in the task, the decoder, its place in the store
  // Three times: coders hold a working form of the level beside its samples, and the coarser level. So do
  // those of the layers before.
  const auto layers = static_cast<std::uint64_t>(plan.query.layer) + 1;
  const PlannedPatch& patch = plan.patches[piece.patch];
  return kObjects + 3 * layers * (1 + patch.references.size()) * DecodedBytes(plan, patch, piece.finest);
}

/// Memory of a delivered patch, in decoded patches: the patch with its layers, and its cut samples.
std::uint64_t DeliveredForms(const Query& query) { return 2 * (static_cast<std::uint64_t>(query.layer) + 1); }

/// Memory that grows with all patches of a query, also where they are planned in runs.
std::uint64_t MemoryOfAll(const Query& query, std::uint64_t all, bool in_runs) {
  constexpr std::uint64_t kDistanceOrder = 256 << 10;
  std::uint64_t bytes = 0;
  if (query.only_patches) bytes += 2 * all * sizeof(std::uint64_t);  // a list that grows
  if (query.values) bytes += all / 8;
  if (!in_runs) return bytes;
  // Shells that are not full follow shells that are, and the list of them grows.
  const std::uint64_t runs = (query.focus ? 4 : 2) * (all / query.run_patches + 1);
  return bytes + runs * (sizeof(PatchRun) + sizeof(Shell) + sizeof(MortonRun)) +
         (query.focus ? kDistanceOrder : 0);
}

/// Memory of the fetches of a batch while they are planned: the batch itself, and a half of it beside it.
std::uint64_t FetchMemory(std::uint64_t patches, const PatchParts& parts, bool masked) {
  const auto layers = static_cast<std::uint64_t>(parts.layers);
  const std::uint64_t of_level =
      (layers + 1) * sizeof(Slice) + (layers + (masked ? 1 : 0)) * (sizeof(Wanted) + sizeof(ByteRange));
  const std::uint64_t of_patch = sizeof(Piece) + sizeof(std::vector<Slice>) + kAllocation +
                                 static_cast<std::uint64_t>(parts.levels) * of_level;
  return 2 * std::min<std::uint64_t>(patches, kBatchPatches) * of_patch;
}

}  // namespace

std::uint64_t DecodedBytes(const ReadPlan& plan, const PlannedPatch& patch, int level) {
  const auto samples = static_cast<std::uint64_t>(LevelBox(patch.samples, level).volume());
  return DecodedBytes(samples, plan.type, patch.mask != nullptr);
}

std::uint64_t DecodeMemory(const ReadPlan& plan, const Piece& piece) {
  return PayloadBytes(plan, piece, plan.query.layer) + PieceMemory(plan, piece);
}

std::uint64_t DecodeMemory(const ReadPlan& plan, const Fetch& fetch) {
  std::uint64_t bytes = fetch.bytes();
  for (const Piece& piece : fetch.pieces) bytes += PieceMemory(plan, piece);
  return bytes;
}

std::uint64_t DeliveryMemory(const ReadPlan& plan) {
  return DeliveredForms(plan.query) * plan.totals.largest_decoded;
}

std::uint64_t DeliveryMemory(const DatasetDescription& dataset, const Query& query) {
  const auto samples = static_cast<std::uint64_t>(
      LevelBox(Box{{0, 0, 0}, dataset.GridOf(query.field_number).patch}, query.level).volume());
  return DeliveredForms(query) *
         DecodedBytes(samples, dataset.fields[query.field_number].type, query.mask != 0);
}

std::uint64_t MostPatches(const DatasetDescription& dataset, const Query& query) {
  const Result<PatchGrid> grid = PatchesOf(dataset.GridOf(query.field_number));
  if (!grid.ok()) return 0;  // MakePlan says why
  const auto in_box = static_cast<std::uint64_t>(grid->PatchesMeeting(query.box).volume());
  return query.only_patches ? std::min(in_box, query.only_patches->most) : in_box;
}

bool PlansInRuns(const Query& query, std::uint64_t patches) {
  return query.run_patches > 0 && patches > query.run_patches;
}

std::uint64_t MostLeftOut(std::uint64_t bytes) { return bytes / kLeftOutBytes; }
std::uint64_t LeftOutMemory(std::uint64_t boxes) { return boxes * kLeftOutBytes; }

std::uint64_t PlanningMemory(const DatasetDescription& dataset, const Query& query) {
  const std::uint64_t all = MostPatches(dataset, query);
  const bool in_runs = PlansInRuns(query, all);
  const std::uint64_t patches = in_runs ? query.run_patches : all;
  const FieldDescription& field = dataset.fields[query.field_number];
  const PatchParts parts{dataset.GridOf(field).levels, field.layers()};
  // All other steps that are needed may have missing samples.
  const bool masked = query.mask != 0 || field.keyframe > 0;
  // The rows as they are located, beside the plan that takes them over.
  std::uint64_t each =
      RowMemory(parts, masked) + sizeof(LocatedPatch) * (masked ? 2 : 1) + sizeof(PlannedPatch);
  if (query.focus) each += sizeof(PlannedPatch) + sizeof(std::pair<double, std::size_t>);
  if (query.focus || query.only_patches) each += sizeof(MortonRun);
  if (query.values) each += kLeftOutBytes;
  const auto steps = 1 + static_cast<std::uint64_t>(field.keyframe);
  return kPlanObjects + MemoryOfAll(query, all, in_runs) +
         steps * (patches * each + FetchMemory(patches, parts, masked));
}

std::uint64_t PlanMemory(const ReadPlan& plan) {
  const std::size_t steps = 1 + plan.references.steps.size();
  const bool masked = plan.query.mask != 0 || steps > 1;
  const std::uint64_t left_out = LeftOutMemory(plan.left_out.size());
  if (!plan.runs.empty())
    return kPlanObjects + left_out + plan.runs.capacity() * sizeof(PatchRun) + plan.run_memory;
  constexpr std::uint64_t kFillingState = 1;  // state of a patch while an array is filled
  std::uint64_t bytes =
      kPlanObjects + left_out + plan.patches.capacity() * (sizeof(PlannedPatch) + kFillingState);
  for (const PlannedPatch& patch : plan.patches)
    bytes += (1 + patch.references.size()) * (RowMemory(plan.parts, masked) + sizeof(ReferredPatch));
  if (plan.query.only_patches) bytes += plan.query.only_patches->codes.capacity() * sizeof(std::uint64_t);
  return bytes + steps * FetchMemory(plan.patches.size(), plan.parts, masked);
}

}  // namespace quarry::query
