#include "quarry/zarr/documents.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "quarry/format/description_rules.h"

namespace quarry::zarr {
namespace {

using nlohmann::json;

/// As Zarr writes numbers that JSON lacks.
json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/// The names of OME-Zarr for what people write as units; empty for others.
std::string OmeUnit(const std::string& unit) {
  static const auto& kUnits = *new const std::map<std::string, std::string>{{"m", "meter"},
                                                                            {"km", "kilometer"},
                                                                            {"dm", "decimeter"},
                                                                            {"cm", "centimeter"},
                                                                            {"mm", "millimeter"},
                                                                            {"um", "micrometer"},
                                                                            {"\u00b5m", "micrometer"},
                                                                            {"\u03bcm", "micrometer"},
                                                                            {"nm", "nanometer"},
                                                                            {"pm", "picometer"},
                                                                            {"fm", "femtometer"},
                                                                            {"\u00c5", "angstrom"},
                                                                            {"pc", "parsec"},
                                                                            {"ft", "foot"},
                                                                            {"in", "inch"}};
  if (const auto found = kUnits.find(unit); found != kUnits.end()) return found->second;
  for (const auto& [shorter, name] : kUnits)
    if (unit == name || unit == name + "s") return name;
  return "";
}

/// x, y, z as z, y, x.
template <typename T>
json Reversed(const std::array<T, 3>& values) {
  return json::array({values[2], values[1], values[0]});
}

// ---- Arrays

/// The fill value of a field of integers, with all its digits; 0 where none is declared.
json IntegerFill(const FieldDescription& field) {
  const SampleValue fill = field.fill.value_or(SampleValue(0));
  if (const auto integer = fill.As<std::int64_t>()) return *integer;
  return fill.As<std::uint64_t>().value_or(0);
}

/// Attributes of the source. Those of Quarry take the place of others of the same name.
json SourceAttributes(const Attributes& attributes) {
  json object = json::object();
  for (const Attribute& attribute : attributes) object[attribute.name] = json::parse(ValueJson(attribute));
  return object;
}

/// Names of what says where the samples of a field are, and is no dimension: numbers or times of its steps,
/// coordinate fields, and texts; of the same level, and along no other dimensions. There are spaces between
/// them, so that a name with a space cannot be here.
std::string CoordinatesOf(const Contents& contents, const Array& array, const Arrays& arrays) {
  std::string names;
  const auto add = [&](const std::string& name) { names += (names.empty() ? "" : " ") + name; };
  const auto is_along = [&](const std::string& name) {
    const auto found = arrays.find(fmt::format("{}/{}", array.level, name));
    return found != arrays.end() &&
           std::ranges::all_of(found->second.dimensions, [&](const std::string& dimension) {
             return std::ranges::find(array.dimensions, dimension) != array.dimensions.end();
           });
  };
  const StepNames steps = StepNamesOf(contents, array.field);
  for (const std::string& name : {steps.numbers, steps.times}) {
    const bool is_dimension = array.has_steps && name == steps.dimension;
    if (!array.field->description.still && !is_dimension && is_along(name)) add(name);
  }
  if (array.field->description.coordinate) return names;
  for (const FieldContents& other : contents.fields())
    if (other.description.coordinate && !other.steps.empty() && is_along(other.description.name))
      add(other.description.name);
  for (const std::string& name : NamesOfTexts(contents.dataset())) {
    const bool is_dimension = std::ranges::find(array.dimensions, name) != array.dimensions.end();
    if (!is_dimension && name.find(' ') == std::string::npos && is_along(name)) add(name);
  }
  return names;
}

json FieldAttributes(const Contents& contents, const Array& array, const Arrays& arrays) {
  const FieldContents& field = *array.field;
  const FieldDescription& said = field.description;
  json attributes = SourceAttributes(said.attributes);
  attributes["coder"] = Name(said.coder);
  if (!said.units.empty()) attributes["units"] = said.units;
  if (said.lossless() && !field.rounded) attributes["lossless"] = true;
  if (const auto tolerance = ToleranceAs<AbsoluteBound>(said.bound)) attributes["tolerance"] = *tolerance;
  if (const auto tolerance = ToleranceAs<RelativeBound>(said.bound))
    attributes["relative_tolerance"] = *tolerance;
  if (const auto tolerance = ToleranceAs<PointwiseBound>(said.bound))
    attributes["pointwise_relative_tolerance"] = *tolerance;
  if (field.rounded) attributes["stored_as"] = Name(said.type);
  if (said.layers() > 1) attributes["layer"] = field.layer;
  attributes["max_error"] = Number(field.max_error(array.level));
  attributes["level"] = array.level;
  if (std::string names = CoordinatesOf(contents, array, arrays); !names.empty())
    attributes["coordinates"] = std::move(names);
  if (said.fill && !IsFloat(said.type)) attributes["_FillValue"] = IntegerFill(said);
  return attributes;
}

json AxisAttributes(const Contents& contents, const Array& array) {
  const GridDescription& grid = contents.dataset().grids[array.grid];
  const std::size_t axis = 2 - array.number;
  json attributes = SourceAttributes(grid.axis_attributes[axis]);
  if (!attributes.contains("axis")) attributes["axis"] = std::string(1, "ZYX"[array.number]);
  if (!grid.axis_units[axis].empty()) attributes["units"] = grid.axis_units[axis];
  return attributes;
}

json AttributesOf(const Contents& contents, const Array& array, const Arrays& arrays) {
  switch (array.kind) {
    case Array::Kind::kField:
      return FieldAttributes(contents, array, arrays);
    case Array::Kind::kPositions:
      return AxisAttributes(contents, array);
    case Array::Kind::kSteps:
      return {{"long_name", "number of the step"}};
    case Array::Kind::kTexts:
      return SourceAttributes(contents.dataset().texts[array.number].attributes);
    case Array::Kind::kTimes:
      break;
  }
  return SourceAttributes(TimeAttributesOf(contents.dataset()));
}

json FillOf(const Array& array) {
  if (array.kind == Array::Kind::kTexts) return "";
  if (array.dtype.starts_with("float")) return "NaN";
  if (array.kind != Array::Kind::kField) return 0;
  if (array.field->description.given == GivenType::kBool) return false;
  return IntegerFill(array.field->description);
}

json CodecsOf(const Array& array) {
  json codec = {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}};
  if (array.kind == Array::Kind::kTexts) codec = json::object({{"name", "vlen-utf8"}});
  json codecs = json::array();
  codecs.push_back(std::move(codec));
  return codecs;
}

json ArrayDocument(const Contents& contents, const Array& array, const Arrays& arrays) {
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", array.shape},
          {"data_type", array.dtype},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", array.chunks}}}}},
          {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
          {"fill_value", FillOf(array)},
          {"codecs", CodecsOf(array)},
          {"attributes", AttributesOf(contents, array, arrays)},
          {"dimension_names", array.dimensions},
          {"storage_transformers", json::array()}};
}

// ---- Images

/// The first time and the distance of two, where the distance is always the same; otherwise steps are
/// counted.
std::pair<double, double> Evenly(const std::vector<HeldStep>& steps) {
  const bool known = std::ranges::none_of(steps, [](const HeldStep& s) { return std::isnan(s.time); });
  if (!known || steps.size() < 2) return {0, 1};
  const double first = steps.front().time;
  const double between = (steps.back().time - first) / static_cast<double>(steps.size() - 1);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!(std::abs(first + static_cast<double>(i) * between - steps[i].time) <= 1e-6 * std::abs(between)))
      return {0, 1};
  return between > 0 ? std::pair(first, between) : std::pair(0.0, 1.0);
}

/// Sample i of a level lies on sample i 2^level: its spacing grows, its first sample stays. An axis with one
/// sample stays as it is.
json Transformations(const GridDescription& grid, const FieldContents& field, bool has_steps, int level) {
  json scale = json::array();
  json translation = json::array();
  if (has_steps) {
    const auto [start, between] = Evenly(field.steps);
    scale.push_back(between);
    translation.push_back(start);
  }
  for (const std::size_t axis : {2, 1, 0}) {
    if (!grid.has_axis[axis]) continue;
    const double distance = grid.spacing[axis] == 0 ? 1.0 : grid.spacing[axis];
    const double times = grid.dims[axis] > 1 ? std::ldexp(1.0, level) : 1.0;
    scale.push_back(distance * times);
    translation.push_back(grid.origin[axis]);
  }
  return json::array(
      {{{"type", "scale"}, {"scale", scale}}, {{"type", "translation"}, {"translation", translation}}});
}

/// A field, as OME-Zarr describes images.
json Image(const Contents& contents, const FieldContents& field, const Array& finest) {
  const GridDescription& grid = contents.dataset().GridOf(field.description);
  json axes = json::array();
  if (finest.has_steps) axes.push_back({{"name", finest.dimensions[0]}, {"type", "time"}});
  for (const std::size_t axis : {2, 1, 0}) {
    if (!grid.has_axis[axis]) continue;
    json said = {{"name", finest.dimensions[axes.size()]}, {"type", "space"}};
    if (const std::string unit = OmeUnit(grid.axis_units[axis]); !unit.empty()) said["unit"] = unit;
    axes.push_back(std::move(said));
  }
  json levels = json::array();
  for (int level = 0; level < grid.levels; ++level)
    levels.push_back({{"path", fmt::format("{}/{}", level, field.description.name)},
                      {"coordinateTransformations", Transformations(grid, field, finest.has_steps, level)}});
  return {{"name", field.description.name}, {"axes", std::move(axes)}, {"datasets", std::move(levels)}};
}

json RootAttributes(const Contents& contents, const Arrays& arrays) {
  json images = json::array();
  for (const FieldContents& field : contents.fields())
    if (!field.steps.empty() && !field.description.coordinate)
      images.push_back(Image(contents, field, arrays.find("0/" + field.description.name)->second));
  json patches = json::object();
  for (const FieldContents& field : contents.fields())
    patches[field.description.name] = Reversed(contents.dataset().GridOf(field.description).patch);
  json attributes = SourceAttributes(contents.dataset().attributes);
  attributes["ome"] = {{"version", "0.5"}, {"multiscales", std::move(images)}};
  int layers = 1;
  for (const FieldContents& field : contents.fields()) layers = std::max(layers, field.description.layers());
  attributes["quarry"] = {{"levels", LevelsOf(contents.dataset())},
                          {"layers", layers},
                          {"patches", std::move(patches)},
                          {"created_by", contents.dataset().created_by}};
  return attributes;
}

// ---- Groups

/// A group with the documents of all below it, by path: put together as text, which takes a tenth of the
/// memory.
class GroupDocument {
 public:
  explicit GroupDocument(const json& attributes) {
    const json group = {{"zarr_format", 3}, {"node_type", "group"}, {"attributes", attributes}};
    alone_ = group.dump();
    text_ = alone_.substr(0, alone_.size() - 1) +
            R"(,"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{)";
  }

  /// Without those below it.
  const std::string& alone() const { return alone_; }
  void Add(const std::string& path, const std::string& document) {
    if (std::exchange(begun_, true)) text_ += ',';
    text_ += json(path).dump();
    text_ += ':';
    text_ += document;
  }
  std::string Take() && { return std::move(text_) + "}}}"; }

 private:
  std::string alone_;
  std::string text_;
  bool begun_ = false;
};

}  // namespace

StepNames StepNamesOf(const Contents& contents, const FieldContents* field) {
  const auto same = [](const HeldStep& a, const HeldStep& b) { return a.step == b.step; };
  const bool common = field == nullptr || std::ranges::equal(field->steps, contents.steps(), same);
  if (!common) return NamesOfSteps(contents.dataset(), field->description.name);
  return NamesOfDimensions(contents.dataset()).steps;
}

Documents MakeDocuments(const Contents& contents, const Arrays& arrays) {
  Documents documents;
  GroupDocument root(RootAttributes(contents, arrays));
  for (int level = 0; level < LevelsOf(contents.dataset()); ++level) {
    const std::string prefix = fmt::format("{}/", level);
    json attributes = SourceAttributes(contents.dataset().attributes);
    attributes["level"] = level;
    GroupDocument group(attributes);
    root.Add(std::to_string(level), group.alone());
    for (auto it = arrays.lower_bound(prefix); it != arrays.end() && it->first.starts_with(prefix); ++it) {
      auto document = std::make_shared<const std::string>(ArrayDocument(contents, it->second, arrays).dump());
      root.Add(it->first, *document);
      group.Add(it->first.substr(prefix.size()), *document);
      documents[it->first + "/zarr.json"] = std::move(document);
    }
    documents[prefix + "zarr.json"] = std::make_shared<const std::string>(std::move(group).Take());
  }
  documents["zarr.json"] = std::make_shared<const std::string>(std::move(root).Take());
  return documents;
}

}  // namespace quarry::zarr
