#include "quarry/query/fetch.h"

#include <algorithm>
#include <tuple>

#include "quarry/query/patch_rows.h"

namespace quarry::query {
namespace {

std::uint64_t LevelSampleBytes(const ReadPlan& plan, const PlannedPatch& patch, int level) {
  return static_cast<std::uint64_t>(LevelBox(patch.samples, level).volume()) * SizeOf(plan.type);
}

/// Sorts the wanted payloads by place and joins those with at most `gap` bytes between them.
std::vector<ByteRange> JoinNeighbours(std::vector<Wanted> wanted, std::uint64_t gap) {
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  std::vector<ByteRange> ranges;
  for (const Wanted& want : wanted) {
    const bool joins = !ranges.empty() && ranges.back().file == want.file &&
                       want.offset <= ranges.back().offset + ranges.back().size + gap;
    if (!joins) ranges.push_back({want.file, want.offset, 0});
    ByteRange& range = ranges.back();
    range.size = std::max(range.size, want.offset + want.size - range.offset);
    *want.slice = {ranges.size() - 1, want.offset - range.offset};
  }
  return ranges;
}

void CutIntoBatches(const ReadPlan& plan, Pass* pass) {
  std::size_t first = 0;
  std::uint64_t payload = 0;
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    payload += PayloadBytes(plan, pass->PieceOf(i, plan.patches[i]), pass->layer);
    samples += LevelSampleBytes(plan, plan.patches[i], pass->finest);
    const bool full =
        payload >= kBatchPayloadBytes || samples >= kBatchSampleBytes || i + 1 - first >= kBatchPatches;
    if (full || i + 1 == plan.patches.size()) {
      pass->batches.push_back({first, i + 1 - first, payload});
      first = i + 1;
      payload = samples = 0;
    }
  }
}

std::size_t LevelCount(const Piece& piece) {
  return static_cast<std::size_t>(piece.coarsest) + 1 - static_cast<std::size_t>(piece.finest);
}

}  // namespace

std::vector<Pass> PassesOf(const ReadPlan& plan) {
  const Query& query = plan.query;
  std::vector<Pass> passes;
  int coarsest = plan.dataset_levels - 1;
  for (int level = query.first_level; level >= query.level; --level) {
    passes.push_back({coarsest, level, 0, query.first_layer, {}});
    coarsest = level - 1;
  }
  for (int layer = query.first_layer + 1; layer <= query.layer; ++layer)
    passes.push_back({plan.dataset_levels - 1, query.level, layer, layer, {}});
  return passes;
}

std::vector<Pass> MakePasses(const ReadPlan& plan) {
  std::vector<Pass> passes = PassesOf(plan);
  for (Pass& pass : passes) CutIntoBatches(plan, &pass);
  return passes;
}

std::uint64_t Fetch::bytes() const {
  std::uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.size;
  return sum;
}

std::vector<std::size_t> Fetch::RangesOf(std::size_t first, std::size_t end) const {
  std::vector<std::size_t> needed;
  for (std::size_t piece = first; piece < end; ++piece) {
    for (const Slice& slice : slices[piece]) {
      if (slice.range != Slice::kNone && (needed.empty() || needed.back() != slice.range))
        needed.push_back(slice.range);
    }
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  return needed;
}

Fetch PlanFetch(const ReadPlan& plan, std::vector<Piece> pieces, int layer) {
  Fetch fetch;
  fetch.pieces = std::move(pieces);
  fetch.layers = layer + 1;
  fetch.slices.resize(fetch.pieces.size());
  std::vector<Wanted> wanted;
  std::size_t most_wanted = 0;
  const auto per_level = static_cast<std::size_t>(fetch.layers) + 1;
  for (const Piece& piece : fetch.pieces) {
    const PlannedPatch& patch = plan.patches[piece.patch];
    std::size_t payloads = patch.mask ? per_level : per_level - 1;
    for (const ReferredPatch& reference : patch.references)
      payloads += reference.mask ? per_level : per_level - 1;
    most_wanted += LevelCount(piece) * payloads;
  }
  wanted.reserve(most_wanted);
  const auto want = [&](FileNumber file, const format::LevelEntry& payload, Slice* slice) {
    if (payload.size > 0) wanted.push_back({file, payload.offset, payload.size, slice});
  };
  for (std::size_t i = 0; i < fetch.pieces.size(); ++i) {
    const Piece& piece = fetch.pieces[i];
    const PlannedPatch& patch = plan.patches[piece.patch];
    fetch.slices[i].resize((1 + patch.references.size()) * LevelCount(piece) * per_level);
    const auto want_levels = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask,
                                 std::size_t number, std::size_t step) {
      for (int level = piece.finest; level <= piece.coarsest; ++level) {
        Slice* slices = fetch.slices[i].data() + fetch.SliceOf(i, level, number);
        for (int k = piece.first_layer; k < fetch.layers; ++k)
          want({false, entry.subfile, static_cast<std::uint32_t>(step)}, EntryOf(entry, plan.parts, k, level),
               slices + k);
        if (mask && piece.first_layer == 0)
          want({true, mask->subfile, static_cast<std::uint32_t>(step)}, MaskEntryOf(*mask, level),
               slices + fetch.layers);
      }
    };
    want_levels(patch.entry, patch.mask, 0, 0);
    for (std::size_t r = 0; r < patch.references.size(); ++r) {
      const ReferredPatch& reference = patch.references[r];
      want_levels(reference.entry, reference.mask, r + 1, reference.step + 1);
    }
  }
  for (const Wanted& want : wanted) fetch.payload_bytes += want.size;
  fetch.ranges = JoinNeighbours(std::move(wanted), plan.read_gap);
  return fetch;
}

std::uint64_t PayloadBytes(const ReadPlan& plan, const Piece& piece, int layer) {
  std::uint64_t bytes = 0;
  const auto add = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask) {
    for (int level = piece.finest; level <= piece.coarsest; ++level) {
      bytes += LayersOf(entry, plan.parts, {piece.first_layer, layer}, level);
      if (mask && piece.first_layer == 0) bytes += MaskEntryOf(*mask, level).size;
    }
  };
  const PlannedPatch& patch = plan.patches[piece.patch];
  add(patch.entry, patch.mask);
  for (const ReferredPatch& reference : patch.references) add(reference.entry, reference.mask);
  return bytes;
}

}  // namespace quarry::query
