#include "quarry/query/choose_level.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "quarry/query/patch_rows.h"
#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

PatchParts PartsOf(const LevelCandidates& all) { return {all.grid.levels, all.field.layers()}; }

/// Whether a patch has samples of a level in the box.
bool HasSamples(const LevelCandidates& all, const LocatedPatch& entry, int level) {
  const Box samples = all.patches.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
  return !LevelBox(Intersect(all.query.box, samples), level).empty();
}

/// Whether a level shows all of a patch's valid samples in the box within `max_error`.
bool Shows(const LevelCandidates& all, const LocatedPatch& entry, const LevelChoice& choice,
           double max_error) {
  return HasSamples(all, entry, choice.level) &&
         KeepsError(EntryOf(entry, PartsOf(all), choice.layer, choice.level), max_error);
}

double LargestError(const LevelCandidates& all, const LevelChoice& choice) {
  double error = 0;
  for (const LocatedPatch& entry : all.entries)
    error = std::max(error, EntryOf(entry, PartsOf(all), choice.layer, choice.level).max_error);
  return error;
}

/// Payload of an answer at a level, masks included, with all layers up to one and all that its patches refer
/// to.
std::uint64_t PayloadOf(const LevelCandidates& all, const LevelChoice& choice) {
  const PatchParts parts = PartsOf(all);
  std::uint64_t bytes = 0;
  for (const LocatedPatch& entry : all.entries) {
    if (!HasSamples(all, entry, choice.level)) continue;
    for (int level = choice.level; level < parts.levels; ++level) {
      bytes += LayersOf(entry, parts, {0, choice.layer}, level);
      for (const ReferredPatch& reference : all.references.Of(entry.patch.patch_index)) {
        bytes += LayersOf(reference.entry, parts, {0, choice.layer}, level);
        if (reference.mask) bytes += MaskEntryOf(*reference.mask, level).size;
      }
    }
  }
  for (const LocatedPatch& mask : all.masks) {
    if (!HasSamples(all, mask, choice.level)) continue;
    for (int level = choice.level; level < parts.levels; ++level) bytes += MaskEntryOf(mask, level).size;
  }
  return bytes;
}

/// Samples of an answer, with the coarser levels from first_level on and the rougher layers from first_layer
/// on.
std::uint64_t SamplesOf(const LevelCandidates& all, const LevelChoice& choice) {
  const Query& query = all.query;
  std::uint64_t samples = 0;
  for (int l = choice.level; l <= std::max(choice.level, query.first_level); ++l)
    samples += SampleCount(query.box, all.left_out, SpacingAt(query.target, l));
  const int again = std::max(choice.layer - query.first_layer, 0);
  return samples + static_cast<std::uint64_t>(again) *
                       SampleCount(query.box, all.left_out, SpacingAt(query.target, choice.level));
}

/// The choice with the least cost, one of each layer that the query may take; among equals, the roughest
/// layer.
/// @param level_of  gives the level for a layer, or nothing if no level of it is good enough
/// @param cost_of  gives the cost of a choice, a number
template <typename LevelOf, typename CostOf>
std::optional<LevelChoice> ChooseAmongLayers(const Query& query, const LevelOf& level_of,
                                             const CostOf& cost_of) {
  std::optional<LevelChoice> best;
  decltype(cost_of(LevelChoice{})) least = 0;
  for (int layer = query.any_layer ? 0 : query.layer; layer <= query.layer; ++layer) {
    const std::optional<int> level = level_of(layer);
    if (!level) continue;
    const LevelChoice choice{*level, layer};
    const auto cost = cost_of(choice);
    if (!best || cost < least) {
      best = choice;
      least = cost;
    }
  }
  return best;
}

/// The level and layer with the least payload at which every patch that meets the box has samples in the box,
/// covers all its valid samples, and is recorded with an error within the target's. Of one layer that is
/// the coarsest such level, as finer ones cost more. Records are of whole patches: a box that cuts a patch
/// may lack outside samples that the interpolation at its faces would take.
/// @errors kNotFound with the error of level 0 of the last layer when no level keeps it
Result<LevelChoice> Choose(const LevelCandidates& all, const WithinError& within) {
  const auto coarsest = [&](int layer) -> std::optional<int> {
    for (int level = all.grid.levels - 1; level >= 0; --level) {
      const auto shows = [&](const LocatedPatch& entry) {
        return Shows(all, entry, {level, layer}, within.error);
      };
      if (std::ranges::all_of(all.entries, shows)) return level;
    }
    return std::nullopt;
  };
  const std::optional<LevelChoice> cheapest = ChooseAmongLayers(
      all.query, coarsest, [&](const LevelChoice& choice) { return PayloadOf(all, choice); });
  if (cheapest) return *cheapest;
  return NotFound(
      "no level of {} keeps an error of {}: level 0, the finest, has {}; ask for an error of at least that, "
      "or for level 0",
      ToString(all.query.box), within.error, LargestError(all, {0, all.query.layer}));
}

/// Chooses among the finest levels of the layers whose whole answer, with the coarser levels from first_level
/// on, keeps to the number of bytes: the one with the smallest recorded error, as coarser levels of a layer
/// show less. The bound holds for payload and for samples, as either may be sent. Levels without samples in
/// the box are skipped.
/// @errors kNotFound with the least number of bytes that brings samples
Result<LevelChoice> Choose(const LevelCandidates& all, const WithinBytes& within) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const auto finest = [&](int layer) -> std::optional<int> {
    for (int level = 0; level < all.grid.levels; ++level) {
      if (LevelBox(all.query.box, level).empty()) continue;
      const LevelChoice choice{level, layer};
      const std::uint64_t bytes =
          std::max(SamplesOf(all, choice) * SizeOf(all.field.type), PayloadOf(all, choice));
      least = std::min(least, bytes);
      if (bytes <= within.bytes) return level;
    }
    return std::nullopt;
  };
  const std::optional<LevelChoice> best = ChooseAmongLayers(
      all.query, finest, [&](const LevelChoice& choice) { return LargestError(all, choice); });
  if (best) return *best;
  return NotFound(
      "no level of {} fits into {} bytes: the least that brings samples is {}; allow at least that, "
      "or ask for a smaller box",
      ToString(all.query.box), within.bytes, least);
}

Result<LevelChoice> Choose(const LevelCandidates& all, const AtStride& at) {
  const PatchCoder* coder = FindCoder(all.field.coder);
  if (coder == nullptr)
    return DataLoss("field \"{}\" has coder {}, which this version does not know; use a newer Quarry",
                    all.field.name, static_cast<int>(all.field.coder));
  return LevelChoice{LevelForStride(all.grid, *coder, at.stride), all.query.layer};
}

Result<LevelChoice> Choose(const LevelCandidates& all, const AtLevel& at) {
  return LevelChoice{at.level, all.query.layer};
}

}  // namespace

int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride) {
  if (!coder.traits().bounds_every_level) return 0;
  int level = grid.levels - 1;
  for (std::size_t a = 0; a < 3; ++a) {
    if (grid.dims[a] > 1) level = std::min(level, std::countr_zero(static_cast<std::uint64_t>(stride[a])));
  }
  return level;
}

Result<LevelChoice> ChooseLevel(const LevelCandidates& candidates) {
  return std::visit([&](const auto& target) { return Choose(candidates, target); }, candidates.query.target);
}

}  // namespace quarry::query
