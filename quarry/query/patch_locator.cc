#include "quarry/query/patch_locator.h"

#include <algorithm>

namespace quarry::query {
namespace {

MortonRun Common(const MortonRun& a, const MortonRun& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

std::uint64_t PatchRange::count() const {
  if (!listed) return CountCodes(positions, codes);
  std::uint64_t count = 0;
  for (const MortonRun& run : *listed) count += run.end - run.begin;
  return count;
}

RangeRuns::RangeRuns(const PatchRange& range, const MortonRun& within)
    : within_(Common(range.codes, within)) {
  if (!range.listed) {
    of_box_.emplace(range.positions, within_);
    return;
  }
  listed_ = *range.listed;
  const auto behind = [&](const MortonRun& run) { return run.end > within_.begin; };
  const auto first =
      std::ranges::partition_point(listed_, [&](const MortonRun& run) { return !behind(run); });
  listed_ = listed_.subspan(static_cast<std::size_t>(first - listed_.begin()));
}

std::optional<MortonRun> RangeRuns::Next() {
  if (of_box_) return of_box_->Next();
  if (listed_.empty() || listed_.front().begin >= within_.end) return std::nullopt;
  const MortonRun run = Common(listed_.front(), within_);
  listed_ = listed_.subspan(1);
  return run;
}

}  // namespace quarry::query
