#include "writer/pipeline/source_grid.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "quarry/format/dimension_names.h"

namespace quarry::writer {
namespace {

/// The axes of the source, as far as the layout does not overrule them.
SourceGrid Overruled(SourceGrid source, const LayoutRequest& layout) {
  for (std::size_t a = 0; a < 3; ++a) {
    SourceAxis& axis = source.axes[a];
    if (layout.origin || layout.spacing) axis.coordinates.clear();
    if (layout.origin) axis.origin = (*layout.origin)[a];
    if (layout.spacing) axis.spacing = (*layout.spacing)[a];
    if (layout.origin || layout.spacing) axis.unplaced = false;
    // Along an axis of one sample there is no distance.
    if (source.dims[a] == 1 && axis.spacing && !IsSpacing(*axis.spacing)) axis.spacing.reset();
  }
  return source;
}

GridDescription Describe(const SourceGrid& source) {
  GridDescription grid;
  grid.dims = source.dims;
  for (std::size_t a = 0; a < 3; ++a) {
    const SourceAxis& axis = source.axes[a];
    if (!axis.name.empty()) grid.axis_names[a] = axis.name;
    grid.axis_units[a] = axis.units;
    grid.has_axis[a] = axis.exists;
    grid.origin[a] = axis.origin.value_or(grid.origin[a]);
    grid.spacing[a] = axis.spacing.value_or(grid.spacing[a]);
    grid.coordinates[a] = axis.coordinates;
    grid.axis_attributes[a] = axis.attributes;
    grid.unplaced[a] = axis.unplaced;
    grid.position_types[a] = axis.type;
  }
  return grid;
}

bool IsPlaced(const SourceAxis& axis) { return axis.origin || axis.spacing || !axis.coordinates.empty(); }

/// Whether the positions along an axis, if the source says any, are those of the grid.
bool LiesOnAxis(const SourceAxis& axis, const GridDescription& grid, std::size_t a) {
  const auto near = [&](double here, double there) {
    const double rounding = 1e-6 * std::abs(grid.spacing[a]) + 1e-7 * std::abs(there);
    return std::abs(here - there) <= rounding;
  };
  const std::vector<double>& coordinates = grid.coordinates[a];
  if (!axis.coordinates.empty()) {
    return std::equal(axis.coordinates.begin(), axis.coordinates.end(), coordinates.begin(),
                      coordinates.end(), near);
  }
  if (axis.spacing && !(coordinates.empty() && near(*axis.spacing, grid.spacing[a]))) return false;
  return !axis.origin || near(*axis.origin, grid.origin[a]);
}

std::optional<std::size_t> FindOtherPlace(const SourceGrid& source, const GridDescription& grid) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (!LiesOnAxis(source.axes[a], grid, a)) return a;
  }
  return std::nullopt;
}

/// Whether what a source calls an axis and its unit does not contradict a grid. An axis that is called by its
/// letter and has no positions has no name: arrays seem to have all three.
bool HasAxis(const SourceAxis& axis, const GridDescription& grid, std::size_t a) {
  const bool is_named = !axis.name.empty() && (axis.name != std::string(1, kAxisNames[a]) || IsPlaced(axis));
  if (axis.exists != grid.has_axis[a] && (is_named || grid.has_axis[a])) return false;
  if (!axis.exists) return true;
  return (!is_named || axis.name == grid.axis_names[a]) &&
         (axis.units.empty() || axis.units == grid.axis_units[a]);
}

bool LiesOn(const SourceGrid& source, const GridDescription& grid) {
  if (source.dims != grid.dims) return false;
  for (std::size_t a = 0; a < 3; ++a) {
    if (!HasAxis(source.axes[a], grid, a)) return false;
  }
  return !FindOtherPlace(source, grid);
}

std::string PlaceText(const SourceAxis& axis, const GridDescription& grid, std::size_t a) {
  if (!axis.coordinates.empty()) return fmt::format("uneven, from {}", axis.coordinates.front());
  return fmt::format("origin {}, spacing {}", axis.origin.value_or(grid.origin[a]),
                     axis.spacing.value_or(grid.spacing[a]));
}

/// Refuses positions elsewhere than those of a field that the dataset has.
Status CheckSamePlace(const SourceGrid& source, const GridDescription& grid, std::string_view advice) {
  const std::optional<std::size_t> other = FindOtherPlace(source, grid);
  if (!other) return Status::Ok();
  const std::size_t a = *other;
  return WithAxes(
      InvalidArgument(
          "the positions along {} ({}) differ from those of the dataset (origin {}, spacing {}{}); {}",
          kAxisNames[a], PlaceText(source.axes[a], grid, a), grid.origin[a], grid.spacing[a],
          grid.coordinates[a].empty() ? "" : ", uneven",
          fmt::format(fmt::runtime(advice), fmt::arg("origin", fmt::join(grid.origin, ",")),
                      fmt::arg("spacing", fmt::join(grid.spacing, ",")))),
      grid);
}

}  // namespace

Result<std::size_t> ChooseGrid(const SourceGrid& given, const LayoutRequest& layout, const std::string& field,
                               std::string_view advice, DatasetDescription* dataset) {
  SourceGrid source = Overruled(given, layout);
  QUARRY_RETURN_IF_ERROR(CheckPlaces(Describe(source)));
  if (const std::optional<std::size_t> known = dataset->FindField(field)) {
    const std::size_t grid = dataset->fields[*known].grid;
    QUARRY_RETURN_IF_ERROR(CheckSameLayout(source.dims, layout, *dataset, grid));
    // A mean spacing says nothing against an origin that somebody gives.
    for (std::size_t a = 0; a < 3; ++a) {
      const bool is_uneven = !dataset->grids[grid].coordinates[a].empty();
      if (layout.origin && !layout.spacing && is_uneven) source.axes[a].spacing.reset();
    }
    QUARRY_RETURN_IF_ERROR(CheckSamePlace(source, dataset->grids[grid], advice));
    return grid;
  }
  const auto found =
      std::ranges::find_if(dataset->grids, [&](const GridDescription& grid) { return LiesOn(source, grid); });
  if (found == dataset->grids.end()) return AddGrid(Describe(source), layout, dataset);
  const auto grid = static_cast<std::size_t>(found - dataset->grids.begin());
  QUARRY_RETURN_IF_ERROR(CheckSameLayout(source.dims, layout, *dataset, grid));
  return grid;
}

}  // namespace quarry::writer
