#include "quarry/query/coordinate_fields.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/base/utf8.h"
#include "quarry/format/dimension_names.h"

namespace quarry::query {
namespace {

/// The meaning of a coordinate for positions.
struct CoordinateRole {
  bool is_x = true;  ///< longitude or x; else latitude or y
  CoordinateKind kind = CoordinateKind::kDegrees;
};

template <std::size_t count>
bool IsOneOf(std::string_view text, const std::array<std::string_view, count>& texts) {
  return std::ranges::find(texts, text) != texts.end();
}

std::string_view AttributeText(const FieldDescription& field, std::string_view name) {
  const Attribute* attribute = FindAttribute(field.attributes, name);
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(&attribute->value);
  return text == nullptr ? std::string_view() : *text;
}

bool IsInRadians(const FieldDescription& field) {
  constexpr std::array<std::string_view, 3> kNames = {"radian", "radians", "rad"};
  return IsOneOf(field.units, kNames);
}

CoordinateRole OnSphere(const FieldDescription& field, bool is_x) {
  return {is_x, IsInRadians(field) ? CoordinateKind::kRadians : CoordinateKind::kDegrees};
}

std::optional<CoordinateRole> RoleByStandardName(const FieldDescription& field) {
  const std::string_view name = AttributeText(field, "standard_name");
  if (name == "longitude" || name == "latitude") return OnSphere(field, name == "longitude");
  if (name == "projection_x_coordinate" || name == "projection_y_coordinate")
    return CoordinateRole{name == "projection_x_coordinate", CoordinateKind::kPlane};
  return std::nullopt;
}

std::optional<CoordinateRole> RoleByUnits(const FieldDescription& field) {
  constexpr std::array<std::string_view, 6> kEast = {"degrees_east", "degree_east", "degree_E",
                                                     "degrees_E",    "degreeE",     "degreesE"};
  constexpr std::array<std::string_view, 6> kNorth = {"degrees_north", "degree_north", "degree_N",
                                                      "degrees_N",     "degreeN",      "degreesN"};
  if (IsOneOf(field.units, kEast)) return CoordinateRole{true, CoordinateKind::kDegrees};
  if (IsOneOf(field.units, kNorth)) return CoordinateRole{false, CoordinateKind::kDegrees};
  return std::nullopt;
}

std::optional<CoordinateRole> RoleByAxis(const FieldDescription& field) {
  constexpr std::array<std::string_view, 2> kDegrees = {"degrees", "degree"};
  const std::string_view axis = AttributeText(field, "axis");
  if (axis != "X" && axis != "Y") return std::nullopt;
  if (IsOneOf(field.units, kDegrees) || IsInRadians(field)) return OnSphere(field, axis == "X");
  return CoordinateRole{axis == "X", CoordinateKind::kPlane};
}

/// By the names that models use: of CF's examples, NEMO and WRF.
std::optional<CoordinateRole> RoleByName(const FieldDescription& field) {
  constexpr std::array<std::string_view, 5> kLongitudes = {"lon", "longitude", "nav_lon", "glamt", "XLONG"};
  constexpr std::array<std::string_view, 5> kLatitudes = {"lat", "latitude", "nav_lat", "gphit", "XLAT"};
  if (IsOneOf(field.name, kLongitudes)) return OnSphere(field, true);
  if (IsOneOf(field.name, kLatitudes)) return OnSphere(field, false);
  return std::nullopt;
}

std::optional<CoordinateRole> RoleOf(const FieldDescription& field) {
  for (const auto by : {RoleByStandardName, RoleByUnits, RoleByAxis, RoleByName}) {
    if (const std::optional<CoordinateRole> role = by(field)) return role;
  }
  return std::nullopt;
}

/// Fields that may be the coordinates of one kind.
struct Candidates {
  CoordinateKind kind = CoordinateKind::kDegrees;
  std::vector<std::size_t> x;
  std::vector<std::size_t> y;

  bool empty() const { return x.empty() && y.empty(); }
};

/// Candidates of the first kind that has any.
Candidates FindCandidates(const DatasetDescription& dataset, std::size_t field,
                          const std::vector<std::array<std::string, 3>>& axes) {
  const std::size_t grid = dataset.fields[field].grid;
  std::array<Candidates, 3> found;
  for (std::size_t f = 0; f < dataset.fields.size(); ++f) {
    const FieldDescription& other = dataset.fields[f];
    // One dimension has one name, and no two have the same.
    const bool is_along = dataset.GridOf(other).has_axis == std::array{true, true, false} &&
                          axes[other.grid][0] == axes[grid][0] && axes[other.grid][1] == axes[grid][1];
    if (!other.coordinate || !is_along) continue;
    const std::optional<CoordinateRole> role = RoleOf(other);
    if (!role) continue;
    Candidates& of_kind = found[static_cast<std::size_t>(role->kind)];
    (role->is_x ? of_kind.x : of_kind.y).push_back(f);
  }
  for (std::size_t kind = 0; kind < found.size(); ++kind) {
    found[kind].kind = static_cast<CoordinateKind>(kind);
    if (!found[kind].empty()) return std::move(found[kind]);
  }
  return {};
}

/// Whether samples along an axis lie at 0, 1, 2, ... because nobody has said anything else.
bool LacksPositions(const GridDescription& grid, std::size_t axis) {
  const bool is_undescribed = grid.axis_names[axis] == std::string(1, kAxisNames[axis]) &&
                              grid.axis_units[axis].empty() && grid.coordinates[axis].empty() &&
                              grid.origin[axis] == 0 && grid.spacing[axis] == 1;
  return grid.has_axis[axis] && (grid.unplaced[axis] || is_undescribed);
}

std::string NamesOf(const DatasetDescription& dataset, const std::vector<std::size_t>& fields) {
  std::string names;
  for (const std::size_t f : fields)
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", Printable(dataset.fields[f].name));
  return names.empty() ? "none" : names;
}

Status NotOneOfEach(const DatasetDescription& dataset, std::size_t field,
                    const std::array<std::string, 3>& axes, const Candidates& candidates) {
  const bool is_plane = candidates.kind == CoordinateKind::kPlane;
  return InvalidArgument(
      "the axes \"{}\" and \"{}\" of \"{}\" have no positions, and the coordinates along both are not one {} "
      "({}: {}; {}: {}); give sample coordinates, without --physical",
      Printable(axes[1]), Printable(axes[0]), Printable(dataset.fields[field].name),
      is_plane ? "x and one y" : "longitude and one latitude", is_plane ? "x" : "longitude",
      NamesOf(dataset, candidates.x), is_plane ? "y" : "latitude", NamesOf(dataset, candidates.y));
}

}  // namespace

Result<std::optional<CoordinateFields>> FindCoordinateFields(const DatasetDescription& dataset,
                                                             std::size_t field) {
  const GridDescription& grid = dataset.GridOf(field);
  if (!LacksPositions(grid, 0) || !LacksPositions(grid, 1)) return std::optional<CoordinateFields>();
  const std::vector<std::array<std::string, 3>> axes = NamesOfDimensions(dataset).axes;
  const Candidates candidates = FindCandidates(dataset, field, axes);
  if (candidates.x.size() == 1 && candidates.y.size() == 1)
    return std::optional(CoordinateFields{candidates.x.front(), candidates.y.front(), candidates.kind});
  if (candidates.empty() && !grid.unplaced[0] && !grid.unplaced[1]) return std::optional<CoordinateFields>();
  return NotOneOfEach(dataset, field, axes[dataset.fields[field].grid], candidates);
}

PositionTitles TitlesOfPositions(const DatasetDescription& dataset, std::size_t field, bool physical) {
  PositionTitles titles;
  titles.names = NamesOfDimensions(dataset).axes[dataset.fields[field].grid];
  if (!physical) return titles;
  titles.units = dataset.GridOf(field).axis_units;
  const Result<std::optional<CoordinateFields>> found = FindCoordinateFields(dataset, field);
  if (!found.ok() || !*found) return titles;
  const std::array<std::size_t, 2> fields = {(*found)->x, (*found)->y};
  for (std::size_t a = 0; a < fields.size(); ++a) {
    titles.names[a] = dataset.fields[fields[a]].name;
    titles.units[a] = dataset.fields[fields[a]].units;
  }
  return titles;
}

}  // namespace quarry::query
