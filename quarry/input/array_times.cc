#include "quarry/input/array_times.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "quarry/input/coordinates.h"
#include "quarry/input/stored_values.h"

namespace quarry::input::internal {
namespace {

std::vector<double> Positions(const ArrayFile& file, std::size_t coordinate) {
  const ArrayInfo& array = file.arrays()[coordinate];
  if (array.kind != ArrayInfo::Kind::kNumbers) return {};
  Result<std::vector<double>> read = file.ReadNumbers(coordinate);
  if (!read.ok()) return {};
  std::vector<double> positions = *std::move(read);
  MissingRule missing;
  if (array.type) missing = FindMissing(array, nullptr);
  const std::optional<Packing> packing = FindPacking(array);
  for (double& position : positions) {
    const auto is_position = [&](const SampleValue& value) { return value.nearest() == position; };
    const bool is_valid = std::ranges::none_of(missing.values, is_position);
    if (!is_valid) position = std::nan("");
    if (packing) position = position * packing->scale + packing->offset;
  }
  return positions;
}

/// Dates as text: WRF's Times.
Result<Times> TimesOfTexts(const std::vector<std::string>& texts) {
  Times times;
  times.unit.units = "seconds since 1970-01-01 00:00:00";
  for (const std::string& text : texts) {
    QUARRY_ASSIGN_OR_RETURN(const double seconds, TimeOfDate(text, times.unit));
    times.values.push_back(seconds);
  }
  return times;
}

}  // namespace

SourceAxis DescribeAxis(const ArrayFile& file, const ArrayDimension& dimension,
                        std::vector<std::string>* warnings) {
  SourceAxis axis = dimension.described;
  if (axis.name.empty()) axis.name = dimension.name;
  if (!dimension.coordinate) {
    axis.unplaced = !axis.name.empty() && !axis.origin;
    return axis;
  }
  const ArrayInfo& coordinate = file.arrays()[*dimension.coordinate];
  PlaceAxis(Positions(file, *dimension.coordinate), coordinate.type, &axis);
  if (axis.origin) {
    axis.units = UnitsOf(coordinate.attributes);
    axis.type = coordinate.type && !FindPacking(coordinate) ? StoredType(coordinate) : DataType::kFloat64;
    axis.attributes = KeptAttributes(coordinate.attributes, coordinate.name, {}, warnings);
    return axis;
  }
  axis.unplaced = true;
  if (coordinate.kind == ArrayInfo::Kind::kText) return axis;  // see FindBeside
  // A unit without positions would make 0, 1, 2, ... look like them.
  warnings->push_back(fmt::format(
      "the coordinate {} {}; its axis has no positions, and its samples lie at 0, 1, 2, ... (--origin and "
      "--spacing place them)",
      coordinate.name,
      coordinate.kind == ArrayInfo::Kind::kNumbers ? "is not finite, or neither ascends nor descends"
                                                   : fmt::format("holds {}", coordinate.type_name)));
  return axis;
}

Times FindTimes(const ArrayFile& file, const Conventions& conventions, const ArrayInfo& of,
                const ArrayDimension& dimension, std::vector<std::string>* warnings) {
  Times times;
  std::optional<std::size_t> found = conventions.TimeAlong(of, dimension);
  if (!found && !CountsSteps(dimension.name)) found = dimension.coordinate;
  if (found) {
    const ArrayInfo& coordinate = file.arrays()[*found];
    times.values = Positions(file, *found);
    times.coordinate = found;
    times.unit = {Text(coordinate.attributes, "units"), Text(coordinate.attributes, "calendar")};
    const auto is_finite = [](double time) { return std::isfinite(time); };
    if (times.values.empty() || !std::ranges::all_of(times.values, is_finite)) {
      warnings->push_back(
          fmt::format("times of {} are not all numbers; steps without one have none", coordinate.name));
    }
    return times;
  }
  for (std::size_t i = 0; i < file.arrays().size(); ++i) {
    const ArrayInfo& array = file.arrays()[i];
    if (array.kind != ArrayInfo::Kind::kText || array.dimensions.empty() || array.field != "Times" ||
        array.dimensions[0].name != dimension.name)
      continue;
    const Result<std::vector<std::string>> texts = file.ReadTexts(i);
    Result<Times> read = texts.ok() ? TimesOfTexts(*texts) : Result<Times>(texts.status());
    if (read.ok()) return *std::move(read);
    warnings->push_back(fmt::format("the dates of {} cannot be parsed ({}); steps have no time", array.name,
                                    read.status().message()));
  }
  return times;
}

std::optional<std::size_t> FindMoment(const ArrayFile& file, const Conventions& conventions,
                                      const ArrayInfo& array, InputInfo* info) {
  if (array.time) {
    info->time = array.time;
    info->time_unit = array.time_unit;
    return std::nullopt;
  }
  const std::vector<std::size_t> found = conventions.Moments(array);
  if (found.size() > 1) {
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const std::size_t i : found) names.push_back(file.arrays()[i].name);
    info->warnings.push_back(
        fmt::format("{}: its time is ambiguous: any of {}; give --time", array.name, fmt::join(names, ", ")));
  }
  if (found.size() != 1) return std::nullopt;
  const std::vector<double> positions = Positions(file, found.front());
  if (positions.size() != 1 || !std::isfinite(positions.front())) return std::nullopt;
  const FileAttributes& attributes = file.arrays()[found.front()].attributes;
  info->time = positions.front();
  info->time_unit = {Text(attributes, "units"), Text(attributes, "calendar")};
  return found.front();
}

}  // namespace quarry::input::internal
