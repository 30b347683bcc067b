#include "writer/insitu/setup.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "quarry/format/proto_convert.h"

namespace quarry::insitu {
namespace {

using nlohmann::json;

template <typename T>
json ToJson(const std::optional<T>& value) {
  return value ? json(*value) : json();
}
template <typename T>
std::optional<T> FromJson(const json& value) {
  return value.is_null() ? std::optional<T>() : value.get<T>();
}
template <typename T>
json EnumToJson(const std::optional<T>& value) {
  return value ? json(static_cast<int>(*value)) : json();
}
template <typename T>
std::optional<T> EnumFromJson(const json& value) {
  return value.is_null() ? std::optional<T>() : static_cast<T>(value.get<int>());
}

/// Numbers of JSON are float64.
json FillToJson(const std::optional<SampleValue>& fill) {
  if (!fill) return {};
  return fill->is_double() ? json(fill->nearest()) : json(ToString(*fill));
}
std::optional<SampleValue> FillFromJson(const json& value) {
  if (value.is_string()) return ParseInteger(value.get<std::string>());
  if (value.is_null()) return std::nullopt;
  return SampleValue(value.get<double>());
}

/// As messages of the format.
json ToJson(const Attributes& attributes) {
  json list = json::array();
  for (const Attribute& attribute : attributes)
    list.push_back(format::ToProto(attribute).SerializeAsString());
  return list;
}
/// @errors throws json::exception: they are none
Attributes AttributesFromJson(const json& list) {
  Attributes attributes;
  for (const json& bytes : list) {
    format::pb::Attribute message;
    Result<Attribute> attribute = message.ParseFromString(bytes.get<std::string>())
                                      ? format::FromProto(message)
                                      : Result<Attribute>(DataLoss("an attribute is damaged"));
    if (!attribute.ok()) throw json::other_error::create(0, attribute.status().message(), nullptr);
    attributes.push_back(*std::move(attribute));
  }
  return attributes;
}

json ToJson(const SourceAxis& axis) {
  return {{"name", axis.name},
          {"units", axis.units},
          {"origin", ToJson(axis.origin)},
          {"spacing", ToJson(axis.spacing)},
          {"coordinates", axis.coordinates},
          {"exists", axis.exists},
          {"unplaced", axis.unplaced},
          {"type", static_cast<int>(axis.type)},
          {"attributes", ToJson(axis.attributes)}};
}

SourceAxis AxisFromJson(const json& j) {
  return {j.at("name"),
          j.at("units"),
          FromJson<double>(j.at("origin")),
          FromJson<double>(j.at("spacing")),
          j.at("coordinates").get<std::vector<double>>(),
          j.at("exists"),
          j.at("unplaced"),
          static_cast<DataType>(j.at("type").get<int>()),
          AttributesFromJson(j.at("attributes"))};
}

json ToJson(const TextCoordinate& text) {
  return {{"name", text.name},
          {"axis", ToJson(text.axis)},
          {"texts", text.texts},
          {"attributes", ToJson(text.attributes)}};
}

TextCoordinate TextFromJson(const json& j) {
  return {j.at("name"), 0, FromJson<std::size_t>(j.at("axis")), j.at("texts").get<std::vector<std::string>>(),
          AttributesFromJson(j.at("attributes"))};
}

json ToJson(const std::optional<ComplexPart>& part) {
  return part ? json{{"of", part->of}, {"imaginary", part->imaginary}} : json();
}

std::optional<ComplexPart> PartFromJson(const json& j) {
  if (j.is_null()) return std::nullopt;
  return ComplexPart{j.at("of"), j.at("imaginary")};
}

json ToJson(const Field& field) {
  return {{"name", field.name},
          {"type", static_cast<int>(field.type)},
          {"tolerance", ToJson(field.tolerance)},
          {"relative", ToJson(field.relative)},
          {"lossless", field.lossless},
          {"units", field.units},
          {"fill", FillToJson(field.fill)},
          {"coder", EnumToJson(field.coder)},
          {"layers", field.layers},
          {"relative_layers", field.relative_layers},
          {"pointwise_relative", ToJson(field.pointwise_relative)},
          {"keyframe", ToJson(field.keyframe)},
          {"given", static_cast<int>(field.given)},
          {"attributes", ToJson(field.attributes)},
          {"still", field.still},
          {"coordinate", field.coordinate},
          {"complex", ToJson(field.complex)}};
}

Field FieldFromJson(const json& j) {
  return {j.at("name"),
          static_cast<DataType>(j.at("type").get<int>()),
          FromJson<double>(j.at("tolerance")),
          FromJson<double>(j.at("relative")),
          j.at("lossless"),
          j.at("units"),
          FillFromJson(j.at("fill")),
          EnumFromJson<CoderId>(j.at("coder")),
          j.at("layers").get<std::vector<double>>(),
          j.at("relative_layers"),
          FromJson<double>(j.at("pointwise_relative")),
          FromJson<int>(j.at("keyframe")),
          static_cast<GivenType>(j.at("given").get<int>()),
          AttributesFromJson(j.at("attributes")),
          j.at("still"),
          j.at("coordinate"),
          PartFromJson(j.at("complex"))};
}

json ToJson(const Setup& setup) {
  const Declaration& d = setup.declaration;
  const PipelineOptions& p = setup.pipeline;
  const auto list = [](const auto& parts) {
    json all = json::array();
    for (const auto& part : parts) all.push_back(ToJson(part));
    return all;
  };
  return {{"path", setup.path},
          {"mode", static_cast<int>(setup.mode)},
          {"dims", d.dims},
          {"origin", ToJson(d.origin)},
          {"spacing", ToJson(d.spacing)},
          {"patch", ToJson(d.patch)},
          {"levels", ToJson(d.levels)},
          {"order", EnumToJson(d.order)},
          {"axes", list(d.axes)},
          {"fields", list(d.fields)},
          {"time_units", d.time_unit.units},
          {"calendar", d.time_unit.calendar},
          {"attributes", ToJson(d.attributes)},
          {"texts", list(d.texts)},
          {"files", ToJson(p.files)},
          {"placement", static_cast<int>(p.placement)},
          {"aggregation", static_cast<int>(p.aggregation)},
          {"exchange", p.exchange},
          {"memory", ToJson(p.memory_per_rank)},
          {"break_lock", p.break_lock}};
}

Setup FromJson(const json& j) {
  Setup setup;
  setup.path = j.at("path");
  setup.mode = static_cast<OpenMode>(j.at("mode").get<int>());
  Declaration& d = setup.declaration;
  d.dims = j.at("dims").get<Index3>();
  d.origin = FromJson<std::array<double, 3>>(j.at("origin"));
  d.spacing = FromJson<std::array<double, 3>>(j.at("spacing"));
  d.patch = FromJson<Index3>(j.at("patch"));
  d.levels = FromJson<int>(j.at("levels"));
  d.order = EnumFromJson<format::PayloadOrder>(j.at("order"));
  for (std::size_t a = 0; a < 3; ++a) d.axes[a] = AxisFromJson(j.at("axes").at(a));
  for (const json& field : j.at("fields")) d.fields.push_back(FieldFromJson(field));
  d.time_unit = {j.at("time_units"), j.at("calendar")};
  d.attributes = AttributesFromJson(j.at("attributes"));
  for (const json& text : j.at("texts")) d.texts.push_back(TextFromJson(text));
  PipelineOptions& p = setup.pipeline;
  p.files = FromJson<int>(j.at("files"));
  p.placement = static_cast<distribution::PlacementStrategy>(j.at("placement").get<int>());
  p.aggregation = static_cast<distribution::AggregationStrategy>(j.at("aggregation").get<int>());
  p.exchange = j.at("exchange");
  p.memory_per_rank = FromJson<std::uint64_t>(j.at("memory"));
  p.break_lock = j.at("break_lock");
  return setup;
}

}  // namespace

// CBOR, unlike text, keeps NaN as a fill value and strings that are not UTF-8.
Bytes EncodeSetup(const Setup& setup) {
  const std::vector<std::uint8_t> cbor = json::to_cbor(ToJson(setup));
  Bytes bytes(cbor.size());
  std::memcpy(bytes.data(), cbor.data(), cbor.size());
  return bytes;
}

Result<Setup> DecodeSetup(ByteSpan bytes) {
  try {
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return FromJson(json::from_cbor(first, first + bytes.size()));
  } catch (const json::exception& error) {
    return DataLoss("the declaration of the simulation arrived damaged: {}", error.what());
  }
}

}  // namespace quarry::insitu
