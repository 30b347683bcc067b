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

int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride) {
  if (!coder.traits().bounds_every_level) return 0;
  int level = grid.levels - 1;
  for (std::size_t a = 0; a < 3; ++a) {
    if (grid.dims[a] > 1) level = std::min(level, std::countr_zero(static_cast<std::uint64_t>(stride[a])));
  }
  return level;
}

LevelSurvey::LevelSurvey(const Query& query, const FieldDescription& field, const GridDescription& grid,
                         const PatchGrid& patches)
    : query_(query),
      field_(field),
      grid_(grid),
      patches_(patches),
      parts_{grid.levels, field.layers()},
      wanted_(std::holds_alternative<WithinError>(query.target) ? std::get<WithinError>(query.target).error
                                                                : 0),
      candidates_(static_cast<std::size_t>(parts_.count())) {}

bool LevelSurvey::NeedsPatches() const {
  return std::holds_alternative<WithinError>(query_.target) ||
         std::holds_alternative<WithinBytes>(query_.target);
}

/// The samples of a patch in the box.
Box LevelSurvey::PartOf(const LocatedPatch& entry) const {
  return Intersect(query_.box, patches_.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index)));
}

/// Payload of one level of a patch in all layers up to one, with all that the patch refers to.
std::uint64_t LevelSurvey::PayloadOf(const LocatedPatch& entry, std::span<const ReferredPatch> references,
                                     int layer, int level) const {
  std::uint64_t bytes = LayersOf(entry, parts_, {0, layer}, level);
  for (const ReferredPatch& reference : references) {
    bytes += LayersOf(reference.entry, parts_, {0, layer}, level);
    if (reference.mask) bytes += MaskEntryOf(*reference.mask, level).size;
  }
  return bytes;
}

void LevelSurvey::Add(std::span<const LocatedPatch> entries, std::span<const LocatedPatch> masks,
                      const FoundReferences& references) {
  const int first_layer = query_.any_layer ? 0 : query_.layer;
  for (const LocatedPatch& entry : entries) {
    const Box part = PartOf(entry);
    const auto referred = references.Of(entry.patch.patch_index);
    for (int layer = first_layer; layer <= query_.layer; ++layer) {
      std::uint64_t bytes = 0;
      for (int level = parts_.levels - 1; level >= 0; --level) {
        const format::LevelEntry& record = EntryOf(entry, parts_, layer, level);
        const bool has_samples = !LevelBox(part, level).empty();
        Candidate& candidate = At(layer, level);
        bytes += PayloadOf(entry, referred, layer, level);
        if (has_samples) candidate.bytes += bytes;
        candidate.max_error = std::max(candidate.max_error, record.max_error);
        candidate.shows = candidate.shows && has_samples && KeepsError(record, wanted_);
      }
    }
  }
  for (const LocatedPatch& mask : masks) {
    const Box part = PartOf(mask);
    std::uint64_t bytes = 0;
    for (int level = parts_.levels - 1; level >= 0; --level) {
      bytes += MaskEntryOf(mask, level).size;
      if (LevelBox(part, level).empty()) continue;
      for (int layer = first_layer; layer <= query_.layer; ++layer) At(layer, level).bytes += bytes;
    }
  }
}

/// Samples of an answer, with the coarser levels from first_level on and the rougher layers from first_layer
/// on.
std::uint64_t LevelSurvey::SamplesOf(const std::vector<Box>& left_out, const LevelChoice& choice) const {
  std::uint64_t samples = 0;
  for (int l = choice.level; l <= std::max(choice.level, query_.first_level); ++l)
    samples += SampleCount(query_.box, left_out, SpacingAt(query_.target, l));
  const int again = std::max(choice.layer - query_.first_layer, 0);
  return samples + static_cast<std::uint64_t>(again) *
                       SampleCount(query_.box, left_out, SpacingAt(query_.target, choice.level));
}

/// The choice with the least cost, one of each layer that the query may take; among equals, the roughest
/// layer.
/// @param level_of  gives the level for a layer, or nothing if no level of it is good enough
/// @param cost_of  gives the cost of a choice, a number
template <typename LevelOf, typename CostOf>
std::optional<LevelChoice> LevelSurvey::ChooseAmongLayers(const LevelOf& level_of,
                                                          const CostOf& cost_of) const {
  std::optional<LevelChoice> best;
  decltype(cost_of(LevelChoice{})) least = 0;
  for (int layer = query_.any_layer ? 0 : query_.layer; layer <= query_.layer; ++layer) {
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
Result<LevelChoice> LevelSurvey::ChooseFor(const WithinError& within, const std::vector<Box>&) const {
  const auto coarsest = [&](int layer) -> std::optional<int> {
    for (int level = grid_.levels - 1; level >= 0; --level)
      if (At({level, layer}).shows) return level;
    return std::nullopt;
  };
  const std::optional<LevelChoice> cheapest =
      ChooseAmongLayers(coarsest, [&](const LevelChoice& choice) { return At(choice).bytes; });
  if (cheapest) return *cheapest;
  return NotFound(
      "no level of {} keeps an error of {}: level 0, the finest, has {}; ask for an error of at least that, "
      "or for level 0",
      ToString(query_.box), within.error, At({0, query_.layer}).max_error);
}

/// Chooses among the finest levels of the layers whose whole answer, with the coarser levels from first_level
/// on, keeps to the number of bytes: the one with the smallest recorded error, as coarser levels of a layer
/// show less. The bound holds for payload and for samples, as either may be sent. Levels without samples in
/// the box are skipped.
/// @errors kNotFound with the least number of bytes that brings samples
Result<LevelChoice> LevelSurvey::ChooseFor(const WithinBytes& within,
                                           const std::vector<Box>& left_out) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const auto finest = [&](int layer) -> std::optional<int> {
    for (int level = 0; level < grid_.levels; ++level) {
      if (LevelBox(query_.box, level).empty()) continue;
      const LevelChoice choice{level, layer};
      const std::uint64_t bytes =
          std::max(SamplesOf(left_out, choice) * SizeOf(field_.type), At(choice).bytes);
      least = std::min(least, bytes);
      if (bytes <= within.bytes) return level;
    }
    return std::nullopt;
  };
  const std::optional<LevelChoice> best =
      ChooseAmongLayers(finest, [&](const LevelChoice& choice) { return At(choice).max_error; });
  if (best) return *best;
  return NotFound(
      "no level of {} fits into {} bytes: the least that brings samples is {}; allow at least that, "
      "or ask for a smaller box",
      ToString(query_.box), within.bytes, least);
}

Result<LevelChoice> LevelSurvey::ChooseFor(const AtStride& at, const std::vector<Box>&) const {
  const PatchCoder* coder = FindCoder(field_.coder);
  if (coder == nullptr)
    return DataLoss("field \"{}\" has coder {}, which this version does not know; use a newer Quarry",
                    field_.name, static_cast<int>(field_.coder));
  return LevelChoice{LevelForStride(grid_, *coder, at.stride), query_.layer};
}

Result<LevelChoice> LevelSurvey::ChooseFor(const AtLevel& at, const std::vector<Box>&) const {
  return LevelChoice{at.level, query_.layer};
}

Result<LevelChoice> LevelSurvey::Choose(const std::vector<Box>& left_out) const {
  return std::visit([&](const auto& target) { return ChooseFor(target, left_out); }, query_.target);
}

}  // namespace quarry::query
