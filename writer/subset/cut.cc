#include "writer/subset/cut.h"

#include <algorithm>

#include "quarry/base/status.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::writer {
namespace {

/// Whether the name of an axis is shared by all grids that have it.
bool IsNamed(const GridDescription& grid, std::size_t axis) {
  const std::string& name = grid.axis_names[axis];
  return grid.has_axis[axis] && !name.empty() && name != std::string(1, kAxisNames[axis]);
}

int AxesOf(const GridDescription& grid) { return static_cast<int>(std::ranges::count(grid.has_axis, true)); }

/// The same axis of another grid; nothing: it has none.
std::optional<std::size_t> FindAxis(const GridDescription& grid, std::size_t axis,
                                    const GridDescription& other) {
  if (!IsNamed(grid, axis)) return std::nullopt;
  for (std::size_t a = 0; a < 3; ++a) {
    if (IsNamed(other, a) && other.axis_names[a] == grid.axis_names[axis]) return a;
  }
  return std::nullopt;
}

}  // namespace

Box Cut::Source(const Box& part) const {
  Box source;
  for (std::size_t a = 0; a < 3; ++a) {
    source.begin[a] = (extent.begin[a] + part.begin[a]) * spacing[a];
    source.end[a] = (extent.begin[a] + part.end[a] - 1) * spacing[a] + 1;
  }
  return source;
}

std::size_t ReferenceGrid(const DatasetDescription& dataset, const std::vector<std::size_t>& fields) {
  std::size_t best = dataset.fields[fields.front()].grid;
  for (const std::size_t field : fields) {
    const std::size_t grid = dataset.fields[field].grid;
    if (AxesOf(dataset.grids[grid]) > AxesOf(dataset.grids[best])) best = grid;
  }
  return best;
}

Result<Cut> CutOf(const DatasetDescription& dataset, std::size_t number, std::size_t reference,
                  const std::optional<Box>& box, int level) {
  const GridDescription& grid = dataset.grids[number];
  Cut cut;
  cut.box = grid.domain();
  if (box && number == reference) cut.box = *box;
  for (std::size_t a = 0; box && number != reference && a < 3; ++a) {
    if (!grid.has_axis[a]) continue;
    const std::optional<std::size_t> same = FindAxis(grid, a, dataset.grids[reference]);
    if (!same)
      return InvalidArgument("it lies on another grid than the box or region; choose --fields of one grid");
    cut.box.begin[a] = box->begin[*same];
    cut.box.end[a] = box->end[*same];
  }
  cut.extent = LevelBox(cut.box, level);
  for (std::size_t a = 0; a < 3; ++a) cut.spacing[a] = std::int64_t{1} << level;
  if (cut.extent.empty())
    return InvalidArgument("level {} has no sample in {}; choose a larger --box or a finer --level", level,
                           ToString(cut.box));
  // A coarse level that the grid lacks has samples all the same: those that lie on its positions.
  cut.target = query::AtStride{cut.spacing};
  if (level < grid.levels) cut.target = query::AtLevel{level};
  return cut;
}

GridDescription CutGrid(const GridDescription& grid, const Cut& cut) {
  GridDescription left = grid;
  left.dims = cut.extent.shape();
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t first = cut.extent.begin[a] * cut.spacing[a];
    const bool is_whole = left.dims[a] == grid.dims[a];
    if (is_whole) continue;
    // Without positions samples are 0, 1, 2, ... here too: numbers of others would be taken for positions.
    if (grid.unplaced[a]) continue;
    left.origin[a] = PositionOf(grid, a, first);
    left.spacing[a] = grid.spacing[a] * static_cast<double>(cut.spacing[a]);
    if (grid.coordinates[a].empty()) continue;
    std::vector<double> positions;
    for (std::int64_t i = 0; i < left.dims[a]; ++i)
      positions.push_back(grid.coordinates[a][static_cast<std::size_t>(first + i * cut.spacing[a])]);
    if (positions.size() > 1)
      left.spacing[a] = (positions.back() - positions.front()) / static_cast<double>(positions.size() - 1);
    left.coordinates[a] = std::move(positions);
  }
  return left;
}

TextCoordinate CutText(const TextCoordinate& text, const Cut& cut) {
  if (!text.axis) return text;
  const std::size_t a = *text.axis;
  TextCoordinate left = text;
  left.texts.clear();
  for (std::int64_t i = cut.extent.begin[a]; i < cut.extent.end[a]; ++i)
    left.texts.push_back(text.texts[static_cast<std::size_t>(i * cut.spacing[a])]);
  return left;
}

}  // namespace quarry::writer
