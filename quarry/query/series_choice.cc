#include "quarry/query/series_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "quarry/query/choose_level.h"

namespace quarry::query {
namespace {

struct Held {
  const BoundedField* bound = nullptr;
  const FieldDescription* field = nullptr;
  bool is_single = false;  ///< its grid has one sample
  int levels = 1;
};

Result<Held> Find(const DatasetDescription& dataset, const BoundedField& bound) {
  const std::optional<std::size_t> number = dataset.FindField(bound.name);
  if (!number) return InvalidArgument("there is no field \"{}\"", bound.name);
  if (!(bound.max_error >= 0))
    return InvalidArgument("max_error {} of \"{}\" is not a number from 0 on", bound.max_error, bound.name);
  const GridDescription& grid = dataset.GridOf(*number);
  return Held{&bound, &dataset.fields[*number], grid.samples() == 1, grid.levels};
}

bool Keeps(const Held& held, int level, int layer) {
  return std::ranges::all_of(held.bound->steps, [&](const FieldRecord* step) {
    return KeepsError(step->LevelsOf(layer)[static_cast<std::size_t>(level)], held.bound->max_error);
  });
}

/// [bytes] of all steps, without masks.
std::uint64_t PayloadAt(const Held& held, int level, int layer) {
  std::uint64_t bytes = 0;
  for (const FieldRecord* step : held.bound->steps) {
    for (int k = 0; k <= layer; ++k) {
      const std::vector<LevelRecord>& records = step->LevelsOf(k);
      for (std::size_t l = static_cast<std::size_t>(level); l < records.size(); ++l)
        bytes += records[l].bytes;
    }
  }
  return bytes;
}

struct Candidate {
  int layer = 0;
  std::uint64_t bytes = 0;
};

/// The layer with the least payload that keeps the error at a level.
std::optional<Candidate> BestLayer(const Held& held, int level) {
  std::optional<Candidate> best;
  const int own = held.is_single ? std::min(level, held.levels - 1) : level;
  for (int layer = 0; layer < held.field->layers(); ++layer) {
    if (!Keeps(held, own, layer)) continue;
    const std::uint64_t bytes = PayloadAt(held, own, layer);
    if (!best || bytes < best->bytes) best = Candidate{layer, bytes};
  }
  return best;
}

Status NoLevel(std::span<const Held> fields) {
  std::vector<std::string> kept_by_none;
  for (const Held& held : fields) {
    double error = 0;
    for (const FieldRecord* step : held.bound->steps) error = std::max(error, step->levels[0].max_error);
    if (error > held.bound->max_error)
      kept_by_none.push_back(
          fmt::format("no level of \"{}\" keeps an error of {}: level 0, the finest, has {}",
                      held.bound->name, held.bound->max_error, error));
  }
  return NotFound("{}; ask for an error of at least that, or for level 0", fmt::join(kept_by_none, "; "));
}

}  // namespace

Result<SeriesChoice> ChooseForSeries(const DatasetDescription& dataset,
                                     std::span<const BoundedField> fields) {
  std::vector<Held> all;
  int levels = std::numeric_limits<int>::max();
  for (const BoundedField& field : fields) {
    QUARRY_ASSIGN_OR_RETURN(all.emplace_back(), Find(dataset, field));
    if (!all.back().is_single) levels = std::min(levels, all.back().levels);
  }
  if (levels == std::numeric_limits<int>::max()) levels = 1;
  std::optional<SeriesChoice> chosen;
  std::uint64_t least = 0;
  for (int level = levels - 1; level >= 0; --level) {
    SeriesChoice choice{level, {}};
    std::uint64_t bytes = 0;
    for (const Held& held : all) {
      const std::optional<Candidate> best = BestLayer(held, level);
      if (!best) break;
      choice.layers.push_back(best->layer);
      bytes += best->bytes;
    }
    if (choice.layers.size() < all.size()) continue;
    if (!chosen || bytes < least) {
      chosen = std::move(choice);
      least = bytes;
    }
  }
  if (chosen) return *std::move(chosen);
  return NoLevel(all);
}

}  // namespace quarry::query
