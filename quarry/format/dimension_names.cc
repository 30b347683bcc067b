#include "quarry/format/dimension_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "quarry/base/utf8.h"
#include "quarry/format/description_rules.h"

namespace quarry {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// The names of a dataset that have an owner.
class Taken {
 public:
  explicit Taken(const DatasetDescription& dataset) {
    for (const FieldDescription& field : dataset.fields) {
      names_.insert(field.name);
      if (field.complex) names_.insert(field.complex->of);
    }
    // One that is called as its axis is the coordinate of it.
    for (const TextCoordinate& text : dataset.texts) {
      if (!text.axis || dataset.grids[text.grid].axis_names[*text.axis] != text.name)
        names_.insert(text.name);
    }
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

/// The axes of all grids get their names, the slowest first.
class AxisNames {
 public:
  AxisNames(const std::vector<GridDescription>& grids, Taken* taken)
      : grids_(grids), taken_(taken), names_(grids.size()) {
    // Names that somebody gave come first: of r and z, z stays, and the axis without a name is "z_axis".
    ForEachAxis(
        [&](std::size_t g, std::size_t a) { Name(g, a, [&] { return taken_->Take(WantedName(g, a)); }); });
    ForEachAxis([&](std::size_t g, std::size_t a) {
      if (names_[g][a].empty()) Name(g, a, [&] { return taken_->TakeUsual(std::string(1, kAxisNames[a])); });
    });
  }

  std::vector<std::array<std::string, 3>> Take() && { return std::move(names_); }

 private:
  template <typename Do>
  void ForEachAxis(const Do& do_it) {
    for (std::size_t g = 0; g < grids_.size(); ++g) {
      for (const std::size_t a : {2, 1, 0}) {
        if (grids_[g].has_axis[a]) do_it(g, a);
      }
    }
  }

  const std::string& WantedName(std::size_t g, std::size_t a) const { return grids_[g].axis_names[a]; }

  /// The name of an axis of an earlier grid that is the same one, or a new name.
  template <typename New>
  void Name(std::size_t g, std::size_t a, const New& take_new) {
    for (const auto& [grid, axis] : named_[WantedName(g, a)]) {
      if (grid != g && IsSameAxis(grids_[grid], axis, grids_[g], a)) {
        names_[g][a] = names_[grid][axis];
        return;
      }
    }
    names_[g][a] = take_new();
    if (!names_[g][a].empty()) named_[WantedName(g, a)].emplace_back(g, a);
  }

  const std::vector<GridDescription>& grids_;
  Taken* const taken_;
  std::vector<std::array<std::string, 3>> names_;
  /// Grids and axes by their names in the dataset.
  std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> named_;
};

/// Axes that grids lack get names last, since no dimension is called so: one for each letter.
void NameLacking(const std::vector<GridDescription>& grids, Taken* taken,
                 std::vector<std::array<std::string, 3>>* names) {
  std::array<std::string, 3> lacking;
  for (std::size_t g = 0; g < grids.size(); ++g) {
    for (const std::size_t a : {2, 1, 0}) {
      if (grids[g].has_axis[a]) continue;
      if (lacking[a].empty()) lacking[a] = taken->TakeUsual(std::string(1, kAxisNames[a]));
      (*names)[g][a] = lacking[a];
    }
  }
}

StepNames InOrder(bool along_times, std::string numbers, std::string times) {
  std::string dimension = along_times ? times : numbers;
  return {std::move(dimension), std::move(numbers), std::move(times)};
}

DimensionNames TakeAll(const DatasetDescription& dataset, Taken* taken) {
  DimensionNames names;
  const bool along_times = !dataset.time_name.empty();
  // Dimensions are named before the axes.
  std::string times = taken->Take(dataset.time_name);
  if (along_times && times.empty()) times = taken->TakeUsual("time");
  std::string numbers = along_times ? "" : taken->TakeUsual("step");
  names.axes = AxisNames(dataset.grids, taken).Take();
  if (along_times) {
    numbers = taken->TakeUsual("step");
  } else {
    times = taken->TakeUsual("time");
  }
  names.steps = InOrder(along_times, std::move(numbers), std::move(times));
  NameLacking(dataset.grids, taken, &names.axes);
  return names;
}

}  // namespace

bool IsDimensionName(const std::string& name) {
  constexpr std::size_t kLongest = 255;
  if (name.empty() || name.size() > kLongest || name == "zarr.json" || !IsUtf8(name)) return false;
  const auto first = static_cast<unsigned char>(name.front());
  if (std::isalnum(first) == 0 && first != '_' && first < 0x80) return false;
  if (name.starts_with("__") || name.back() == ' ') return false;
  return std::ranges::none_of(name, [](char c) { return c == '/' || IsControl(c); });
}

DimensionNames NamesOfDimensions(const DatasetDescription& dataset) {
  Taken taken(dataset);
  return TakeAll(dataset, &taken);
}

std::optional<std::size_t> FindAxis(const GridDescription& grid, const std::array<std::string, 3>& dimensions,
                                    const std::string& name) {
  const auto find = [&](const std::array<std::string, 3>& names) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  };
  if (const auto axis = find(dimensions)) return axis;
  if (std::ranges::count(grid.axis_names, name) == 1) return find(grid.axis_names);
  return find({"x", "y", "z"});
}

StepNames NamesOfSteps(const DatasetDescription& dataset, const std::string& field) {
  Taken taken(dataset);
  TakeAll(dataset, &taken);
  std::string numbers = taken.TakeUsual("step_" + field);
  return InOrder(!dataset.time_name.empty(), std::move(numbers), taken.TakeUsual("time_" + field));
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
