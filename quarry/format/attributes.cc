#include "quarry/attributes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "quarry/base/missing.h"
#include "quarry/base/status.h"
#include "quarry/base/utf8.h"
#include "quarry/format/attribute_rules.h"

namespace quarry {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Case>
struct Cases : Case... {
  using Case::operator()...;
};
template <typename... Case>
Cases(Case...) -> Cases<Case...>;

/// How deep brackets nest in a JSON text, whether it is right or not.
std::size_t DepthOf(std::string_view json) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_text && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

Status CheckText(const std::string& name, const std::string& text) {
  if (IsUtf8(text)) return Status::Ok();
  return InvalidArgument("attribute \"{}\" is not UTF-8 text; encode it as UTF-8", Printable(name));
}

Status CheckNumbers(const std::string& name, const AttributeNumbers& numbers) {
  if (SizeOf(numbers.type) == 0)
    return InvalidArgument("attribute \"{}\" has numbers of the unknown type {}", name,
                           static_cast<int>(numbers.type));
  if (!numbers.is_list && numbers.values.size() != 1)
    return InvalidArgument("attribute \"{}\" is one number and has {}", name, numbers.values.size());
  const auto fits = [&](const SampleValue& value) {
    const bool is_finite = std::isfinite(value.nearest());
    return CanHold(numbers.type, value) || (IsFloat(numbers.type) && !is_finite);
  };
  const auto wrong = std::ranges::find_if_not(numbers.values, fits);
  if (wrong == numbers.values.end()) return Status::Ok();
  return InvalidArgument("attribute \"{}\" has the number {}, which is not a {}", name, *wrong,
                         Name(numbers.type));
}

Status CheckJson(const std::string& name, const JsonText& json) {
  if (const std::size_t depth = DepthOf(json.text); depth > kMaxJsonDepth)
    return InvalidArgument("attribute \"{}\" is nested {} deep; the maximum is {}", name, depth,
                           kMaxJsonDepth);
  if (Json::accept(json.text)) return Status::Ok();
  return InvalidArgument("attribute \"{}\" must be JSON, and is not", name);
}

Json ToJson(const SampleValue& value, DataType type) {
  if (const auto integer = value.As<std::int64_t>(); integer && !IsFloat(type)) return *integer;
  if (const auto natural = value.As<std::uint64_t>(); natural && !IsFloat(type)) return *natural;
  const double number = value.nearest();
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
}

Json ToJson(const AttributeNumbers& numbers) {
  if (!numbers.is_list) return ToJson(numbers.values.front(), numbers.type);
  Json list = Json::array();
  for (const SampleValue& value : numbers.values) list.push_back(ToJson(value, numbers.type));
  return list;
}

Status TooLarge(std::size_t count, std::size_t bytes) {
  return InvalidArgument(
      "there are {} attributes with {} bytes; the maximum of one owner is {} with {} bytes", count, bytes,
      kMaxAttributes, kMaxAttributeBytes);
}

}  // namespace

std::size_t SizeOf(const Attribute& attribute) {
  return attribute.name.size() +
         std::visit(Cases{[](const std::string& text) { return text.size(); },
                          [](const std::vector<std::string>& texts) {
                            std::size_t bytes = texts.size();
                            for (const std::string& text : texts) bytes += text.size();
                            return bytes;
                          },
                          [](const AttributeNumbers& numbers) { return numbers.values.size() * 8; },
                          [](const JsonText& json) { return json.text.size(); }},
                    attribute.value);
}

std::size_t SizeOf(const Attributes& attributes) {
  std::size_t bytes = 0;
  for (const Attribute& attribute : attributes) bytes += SizeOf(attribute);
  return bytes;
}

Status CheckAttribute(const Attribute& attribute) {
  const std::string& name = attribute.name;
  if (name.empty() || name.size() > kMaxAttributeName || !IsUtf8(name))
    return InvalidArgument("an attribute has the name \"{}\", of {} bytes; it must be UTF-8 of 1 to {}",
                           Printable(Beginning(name, kMaxAttributeName)), name.size(), kMaxAttributeName);
  return std::visit(Cases{[&](const std::string& text) { return CheckText(name, text); },
                          [&](const std::vector<std::string>& texts) {
                            for (const std::string& text : texts)
                              QUARRY_RETURN_IF_ERROR(CheckText(name, text));
                            return Status::Ok();
                          },
                          [&](const AttributeNumbers& numbers) { return CheckNumbers(name, numbers); },
                          [&](const JsonText& json) { return CheckJson(name, json); }},
                    attribute.value);
}

Status CheckAttributes(const Attributes& attributes) {
  const std::size_t bytes = SizeOf(attributes);
  if (attributes.size() > kMaxAttributes || bytes > kMaxAttributeBytes)
    return TooLarge(attributes.size(), bytes);
  std::set<std::string_view> names;
  for (const Attribute& attribute : attributes) {
    QUARRY_RETURN_IF_ERROR(CheckAttribute(attribute));
    if (!names.insert(attribute.name).second)
      return InvalidArgument("there are two attributes \"{}\"", attribute.name);
  }
  return Status::Ok();
}

Status AddAttribute(Attribute attribute, Attributes* to) {
  QUARRY_RETURN_IF_ERROR(CheckAttribute(attribute));
  if (FindAttribute(*to, attribute.name) != nullptr)
    return InvalidArgument("there are two attributes \"{}\"", attribute.name);
  const std::size_t bytes = SizeOf(*to) + SizeOf(attribute);
  if (to->size() == kMaxAttributes || bytes > kMaxAttributeBytes) return TooLarge(to->size() + 1, bytes);
  to->push_back(std::move(attribute));
  return Status::Ok();
}

const Attribute* FindAttribute(const Attributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::vector<std::string> OtherAttributes(const Attributes& attributes, const Attributes& kept) {
  std::vector<std::string> names;
  for (const Attribute& attribute : attributes) {
    const Attribute* there = FindAttribute(kept, attribute.name);
    // As texts, NaN is the same as NaN.
    if (there == nullptr || ValueText(*there) != ValueText(attribute)) names.push_back(attribute.name);
  }
  return names;
}

bool IsSaidElsewhere(std::string_view name) {
  // Names of NetCDF and CF; then of the libraries of NetCDF, HDF5 and xarray for Zarr. `coordinates` names
  // arrays beside, which are fields or are not there.
  static const auto& kNames = *new const std::set<std::string_view>{"units",
                                                                    "_FillValue",
                                                                    "missing_value",
                                                                    "scale_factor",
                                                                    "add_offset",
                                                                    "_Unsigned",
                                                                    "coordinates",
                                                                    "_ChunkSizes",
                                                                    "_Encoding",
                                                                    "_NCProperties",
                                                                    "_Netcdf4Dimid",
                                                                    "_nc3_strict",
                                                                    "DIMENSION_LIST",
                                                                    "_Netcdf4Coordinates",
                                                                    "_ARRAY_DIMENSIONS",
                                                                    "REFERENCE_LIST",
                                                                    "CLASS",
                                                                    "NAME"};
  return kNames.contains(name);
}

std::string ValueText(const Attribute& attribute) {
  return std::visit(Cases{[](const std::string& text) { return Printable(text); },
                          [](const std::vector<std::string>& texts) {
                            return Printable(fmt::format("{}", fmt::join(texts, ", ")));
                          },
                          [](const AttributeNumbers& numbers) {
                            return fmt::format("{}", fmt::join(numbers.values, ", "));
                          },
                          [](const JsonText& json) { return Printable(json.text); }},
                    attribute.value);
}

std::string ValueJson(const Attribute& attribute) {
  return std::visit(Cases{[](const std::string& text) { return Json(text).dump(); },
                          [](const std::vector<std::string>& texts) { return Json(texts).dump(); },
                          [](const AttributeNumbers& numbers) { return ToJson(numbers).dump(); },
                          [](const JsonText& json) { return json.text; }},
                    attribute.value);
}

}  // namespace quarry
