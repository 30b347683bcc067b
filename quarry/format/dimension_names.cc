#include "quarry/format/dimension_names.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "quarry/base/utf8.h"

namespace quarry {
namespace {

constexpr std::size_t kLongest = 255;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Whether NetCDF, HDF5 and Zarr can have a dimension of this name.
/// @source NetCDF: NC_check_name; HDF5: names of links; Zarr 3: names of nodes
bool IsDimensionName(const std::string& name) {
  if (name.empty() || name.size() > kLongest || name == "zarr.json" || !IsUtf8(name)) return false;
  const auto first = static_cast<unsigned char>(name.front());
  if (std::isalnum(first) == 0 && first != '_' && first < 0x80) return false;
  if (name.starts_with("__") || name.back() == ' ') return false;
  return std::ranges::none_of(name, [](char c) { return c == '/' || IsControl(c); });
}

/// The names of a dataset that have an owner.
class Taken {
 public:
  explicit Taken(const DatasetDescription& dataset) {
    for (const FieldDescription& field : dataset.fields) names_.insert(field.name);
  }

  /// The wanted name, if formats can have it and it is free.
  std::string Take(const std::string& wanted) {
    return IsDimensionName(wanted) && names_.insert(wanted).second ? wanted : "";
  }

  /// The usual name, or that with "_axis" behind it that is free.
  std::string TakeUsual(std::string usual) {
    while (!names_.insert(usual).second) usual += "_axis";
    return usual;
  }

 private:
  std::set<std::string> names_;
};

DimensionNames TakeAll(const GridDescription& grid, Taken* taken) {
  DimensionNames names;
  names.step = taken->TakeUsual("step");
  // Names that somebody gave come first: of r and z, z stays, and the axis without a name is "z_axis".
  for (const std::size_t a : {2, 1, 0}) names.axes[a] = taken->Take(grid.axis_names[a]);
  for (const std::size_t a : {2, 1, 0}) {
    if (names.axes[a].empty()) names.axes[a] = taken->TakeUsual(std::string(1, kAxisNames[a]));
  }
  names.time = taken->TakeUsual("time");
  return names;
}

}  // namespace

DimensionNames NamesOfDimensions(const DatasetDescription& dataset) {
  Taken taken(dataset);
  return TakeAll(dataset.grid, &taken);
}

std::optional<std::size_t> FindAxis(const DatasetDescription& dataset, const std::string& name) {
  const auto find = [&](const std::array<std::string, 3>& names) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  };
  if (const auto axis = find(NamesOfDimensions(dataset).axes)) return axis;
  if (std::ranges::count(dataset.grid.axis_names, name) == 1) return find(dataset.grid.axis_names);
  return find({"x", "y", "z"});
}

StepNames NamesOfSteps(const DatasetDescription& dataset, const std::string& field) {
  Taken taken(dataset);
  TakeAll(dataset.grid, &taken);
  return {taken.TakeUsual("step_" + field), taken.TakeUsual("time_" + field)};
}

Status WithAxes(Status status, const GridDescription& grid) {
  if (status.ok()) return status;
  std::string names;
  for (const std::size_t a : {2, 1, 0}) {
    const std::string& name = grid.axis_names[a];
    if (name.empty() || name == std::string(1, kAxisNames[a])) continue;
    names += fmt::format("{}{} is {}", names.empty() ? "" : ", ", kAxisNames[a], Printable(name));
  }
  return names.empty() ? status : Status(status.code(), status.message() + "; " + names);
}

}  // namespace quarry
