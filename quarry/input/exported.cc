#include "quarry/input/exported.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quarry/input/conventions.h"

namespace quarry::input::internal {
namespace {

using Json = nlohmann::json;

const Json& Member(const Json& object, const char* name) {
  static const auto& kNothing = *new const Json;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNothing : *found;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : std::string();
}

/// Integers with all their digits.
std::vector<SampleValue> ExactOf(const Json& value) {
  if (value.is_number_unsigned()) return {SampleValue(value.get<std::uint64_t>())};
  if (value.is_number_integer()) return {SampleValue(value.get<std::int64_t>())};
  return {};
}

/// Numbers and texts; NaN and infinity are texts.
FileAttributes AttributesOf(const Json& object) {
  FileAttributes attributes;
  if (!object.is_object()) return attributes;
  for (const auto& [name, value] : object.items()) {
    const DataType type = value.is_number_unsigned()  ? DataType::kUint64
                          : value.is_number_integer() ? DataType::kInt64
                                                      : DataType::kFloat64;
    if (value.is_number()) attributes[name] = {{value.get<double>()}, {}, type, false, ExactOf(value)};
    if (value.is_string()) attributes[name].texts = {TextOf(value)};
  }
  return attributes;
}

std::vector<double> NumbersOf(const Json& list) {
  std::vector<double> numbers;
  for (const Json& number : list) {
    if (!number.is_number()) return {};
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

std::optional<ExportedField> ParseField(const Json& json) {
  ExportedField field;
  field.name = TextOf(Member(json, "field"));
  for (const Json& dimension : Member(json, "dimensions")) field.dimensions.push_back(TextOf(dimension));
  field.attributes = AttributesOf(Member(json, "attributes"));
  return field.name.empty() || field.dimensions.empty() ? std::nullopt : std::optional(std::move(field));
}

}  // namespace

const ExportedCoordinate* Exported::PositionsOf(std::string_view dimension) const {
  const auto found = std::ranges::find(coordinates, dimension, &ExportedCoordinate::name);
  return found == coordinates.end() || found->dimension != dimension ? nullptr : &*found;
}

const ExportedCoordinate* Exported::Times() const {
  const auto is_time = [](const ExportedCoordinate& one) {
    return SaysTime(Text(one.attributes, "axis"), Text(one.attributes, "standard_name"),
                    Text(one.attributes, "units"));
  };
  const auto found = std::ranges::find_if(coordinates, is_time);
  return found == coordinates.end() ? nullptr : &*found;
}

std::optional<Exported> ParseExported(std::string_view text) {
  // Text nested more deeply than an export's takes many times its bytes in memory.
  const auto is_shallow = [](int depth, Json::parse_event_t, const Json&) { return depth <= 6; };
  const Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  Exported exported;
  if (std::optional<ExportedField> only = ParseField(json)) exported.fields.push_back(*std::move(only));
  for (const Json& described : Member(json, "fields")) {
    if (std::optional<ExportedField> field = ParseField(described))
      exported.fields.push_back(*std::move(field));
  }
  if (exported.fields.empty()) return std::nullopt;
  const Json& coordinates = Member(json, "coordinates");
  if (!coordinates.is_object()) return std::nullopt;
  for (const auto& [name, coordinate] : coordinates.items()) {
    exported.coordinates.push_back({name, TextOf(Member(coordinate, "dimension")),
                                    NumbersOf(Member(coordinate, "values")), AttributesOf(coordinate)});
  }
  return exported;
}

Status CheckExportedSize(std::uint64_t bytes, const std::string& name) {
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  if (bytes <= kMost) return Status::Ok();
  return InvalidArgument(
      "\"{}\", which describes the samples, has {} bytes, and at most {} are read; remove it to convert them "
      "without names, units and positions",
      name, bytes, kMost);
}

}  // namespace quarry::input::internal
