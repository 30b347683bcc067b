#include "quarry/query/plan_totals.h"

#include <algorithm>

#include "quarry/query/encoding_choice.h"
#include "quarry/query/fetch.h"
#include "quarry/query/patch_rows.h"
#include "quarry/query/plan_memory.h"
#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

/// The fetch of a whole batch, when nothing is in memory yet.
Fetch WholeFetch(const ReadPlan& plan, const Pass& pass, const Batch& batch) {
  std::vector<Piece> pieces;
  pieces.reserve(batch.patch_count);
  for (std::size_t i = batch.first_patch; i < batch.end(); ++i)
    pieces.push_back(pass.PieceOf(i, plan.patches[i]));
  return PlanFetch(plan, std::move(pieces), pass.layer);
}

void AddPass(const ReadPlan& plan, const Pass& pass, PlanTotals* totals) {
  PlanTotals::OfLevel& of_level = totals->levels.emplace_back();
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    const PlannedPatch& patch = plan.patches[i];
    const format::LevelEntry& entry = EntryOf(patch.entry, plan.parts, pass.layer, pass.finest);
    const auto valid = static_cast<double>(patch.entry.patch.valid);
    const std::uint64_t payload = PayloadBytes(plan, pass.PieceOf(i, patch), pass.layer);
    of_level.max_error = std::max(of_level.max_error, entry.max_error);
    of_level.valid += valid;
    of_level.covered += valid * static_cast<double>(entry.coverage);
    of_level.samples += static_cast<double>(LevelBox(patch.samples, pass.finest).volume()) *
                        static_cast<double>(1 + patch.references.size());
    of_level.bytes += payload;
    totals->largest_payload = std::max(totals->largest_payload, payload);
  }
  for (const Batch& batch : pass.batches) {
    const Fetch fetch = WholeFetch(plan, pass, batch);
    totals->reads += fetch.ranges.size();
    totals->bytes_read += fetch.bytes();
  }
}

/// Adds a patch to the answers at each level alone.
void AddAlone(const ReadPlan& plan, std::size_t index, PlanTotals* totals) {
  const Box part = Intersect(plan.query.box, plan.patches[index].samples);
  std::uint64_t bytes = 0;
  for (int level = plan.dataset_levels - 1; level >= plan.query.level; --level) {
    bytes += PayloadBytes(plan, {index, level, level}, plan.query.layer);
    if (SpacedBox(part, SpacingAt(plan.query.target, level)).empty()) continue;
    totals->alone[static_cast<std::size_t>(level)] += bytes;
  }
}

}  // namespace

PlanTotals& PlanTotals::operator+=(const PlanTotals& other) {
  patches += other.patches;
  masked = masked || other.masked;
  levels.resize(std::max(levels.size(), other.levels.size()));
  for (std::size_t i = 0; i < other.levels.size(); ++i) {
    levels[i].max_error = std::max(levels[i].max_error, other.levels[i].max_error);
    levels[i].valid += other.levels[i].valid;
    levels[i].covered += other.levels[i].covered;
    levels[i].samples += other.levels[i].samples;
    levels[i].bytes += other.levels[i].bytes;
  }
  layer_errors.resize(std::max(layer_errors.size(), other.layer_errors.size()));
  for (std::size_t k = 0; k < other.layer_errors.size(); ++k)
    layer_errors[k] = std::max(layer_errors[k], other.layer_errors[k]);
  alone.resize(std::max(alone.size(), other.alone.size()));
  for (std::size_t l = 0; l < other.alone.size(); ++l) alone[l] += other.alone[l];
  largest_payload = std::max(largest_payload, other.largest_payload);
  largest_decoded = std::max(largest_decoded, other.largest_decoded);
  reads += other.reads;
  bytes_read += other.bytes_read;
  return *this;
}

PlanTotals TotalsOf(const ReadPlan& plan) {
  PlanTotals totals;
  totals.patches = plan.patches.size();
  totals.layer_errors.resize(static_cast<std::size_t>(plan.parts.layers));
  totals.alone.resize(static_cast<std::size_t>(plan.dataset_levels));
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    const PlannedPatch& patch = plan.patches[i];
    totals.masked = totals.masked || patch.mask != nullptr;
    for (int k = 0; k < plan.parts.layers; ++k) {
      double& error = totals.layer_errors[static_cast<std::size_t>(k)];
      error = std::max(error, EntryOf(patch.entry, plan.parts, k, 0).max_error);
    }
    totals.largest_decoded = std::max(totals.largest_decoded, DecodedBytes(plan, patch, plan.query.level));
    AddAlone(plan, i, &totals);
  }
  for (const Pass& pass : MakePasses(plan)) AddPass(plan, pass, &totals);
  return totals;
}

std::vector<LevelExtent> LevelsOf(const ReadPlan& plan) {
  std::vector<LevelExtent> levels;
  for (const Pass& pass : PassesOf(plan)) {
    LevelExtent& described = levels.emplace_back();
    described.level = pass.finest;
    described.layer = pass.layer;
    described.spacing = SpacingAt(plan.query.target, pass.finest);
    described.extent = SpacedBox(plan.query.box, described.spacing);
  }
  return levels;
}

void AddTotals(const PlanTotals& totals, ReadPlan* plan) {
  plan->totals = totals;
  Cost cost;
  cost.patches = totals.patches;
  cost.reads = totals.reads;
  cost.bytes_read = totals.bytes_read;
  for (std::size_t i = 0; i < plan->levels.size(); ++i) {
    const PlanTotals::OfLevel& of_level = totals.levels[i];
    LevelExtent& level = plan->levels[i];
    level.max_error = of_level.max_error;
    level.coverage = of_level.valid > 0 ? of_level.covered / of_level.valid : 1;
    level.bytes = of_level.bytes;
    cost.bytes += level.bytes;
    cost.reply_bytes += SampleCount(plan->query.box, plan->left_out, level.spacing) * SizeOf(plan->type);
  }
  plan->cost = cost;
  plan->cost.coded_bytes = CodedBytes(*plan);
}

}  // namespace quarry::query
