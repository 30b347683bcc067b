#include "quarry/query/read_plan.h"

#include <algorithm>

namespace quarry::query {

ForEachPart OnlyPart(const ReadPlan& plan) {
  return [&plan](const std::function<void(const ReadPlan&)>& look) { look(plan); };
}

AnswerHeader HeaderOf(const ReadPlan& plan) {
  AnswerHeader header;
  header.field = plan.field;
  header.type = plan.type;
  header.step = plan.query.step;
  header.levels = plan.levels;
  header.cost = plan.cost;
  header.left_out = plan.left_out;
  header.layer = plan.query.layer;
  header.may_miss = plan.totals.masked;
  return header;
}

void BeginWith(std::size_t start, ReadPlan* plan) {
  const auto begin = plan->patches.begin();
  std::rotate(begin, begin + static_cast<std::ptrdiff_t>(start), plan->patches.end());
}

FingerprintSum::FingerprintSum(const ReadPlan& plan) {
  const auto add = [&](const auto& value) { checksum_.Update(std::as_bytes(std::span(&value, 1))); };
  add(plan.type);
  for (const LevelExtent& level : plan.levels) {
    add(level.level);
    if (plan.parts.layers > 1) add(level.layer);
    add(level.extent);
    add(level.spacing);
  }
  for (const Box& box : plan.left_out) add(box);
}

void FingerprintSum::Add(std::span<const PlannedPatch> patches) {
  const auto add = [&](const auto& value) { checksum_.Update(std::as_bytes(std::span(&value, 1))); };
  for (const PlannedPatch& patch : patches) {
    add(patch.entry.patch.patch_index);
    const auto add_rows = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask) {
      for (const format::LevelEntry& level : entry.patch.levels) add(level.checksum);
      if (!mask) return;
      for (const format::LevelEntry& level : mask->patch.levels) add(level.checksum);
    };
    add_rows(patch.entry, patch.mask);
    for (const ReferredPatch& reference : patch.references) add_rows(reference.entry, reference.mask);
  }
}

std::uint64_t Fingerprint(const ReadPlan& plan) {
  if (!plan.runs.empty()) return plan.fingerprint;
  FingerprintSum sum(plan);
  sum.Add(plan.patches);
  return sum.Finish();
}

}  // namespace quarry::query
