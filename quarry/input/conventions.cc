#include "quarry/input/conventions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>

#include "quarry/base/missing.h"
#include "quarry/base/numbers.h"
#include "quarry/base/utf8.h"
#include "quarry/calendar.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/description_rules.h"

namespace quarry::input {

std::vector<bool> FindHelpers(const std::vector<VariableWords>& variables) {
  std::vector<internal::ArrayInfo> arrays;
  for (const VariableWords& variable : variables) {
    internal::ArrayInfo& array = arrays.emplace_back();
    array.name = array.field = variable.name;
    for (const std::string& name : variable.dimensions) array.dimensions.emplace_back().name = name;
    for (const auto& [name, text] : variable.attributes) array.attributes[name].texts = {text};
  }
  const internal::Conventions conventions(arrays);
  std::vector<bool> helpers;
  helpers.reserve(arrays.size());
  for (const internal::ArrayInfo& array : arrays) helpers.push_back(conventions.is_helper(array));
  return helpers;
}

}  // namespace quarry::input

namespace quarry::input::internal {
namespace {

DataType WithSign(DataType type, bool is_signed) {
  return IsFloat(type) ? type : *IntegerOf(SizeOf(type), is_signed);
}

/// How sure it is that a coordinate without dimensions is the moment of an array: 2 if that names it, and 1
/// more if it is "time", and not the start of a forecast.
int RankOfMoment(const ArrayInfo& moment, const ArrayInfo& array) {
  const std::string names = fmt::format(" {} ", Text(array.attributes, "coordinates"));
  const bool is_named = names.find(fmt::format(" {} ", moment.field)) != std::string::npos;
  const bool is_time = Text(moment.attributes, "standard_name") == "time" ||
                       Lower(Text(moment.attributes, "axis")) == "t" || Lower(moment.field) == "time";
  return (is_named ? 2 : 0) + (is_time ? 1 : 0);
}

/// Whether an array names a list without a scale (of HDF5) as its coordinate, and means this dimension: of
/// those with its length the one with a name of steps, else the slowest.
bool IsNamedAlong(const ArrayInfo& list, const ArrayInfo& array, const ArrayDimension& dimension) {
  const std::string named = fmt::format(" {} ", Text(array.attributes, "coordinates"));
  if (named.find(fmt::format(" {} ", list.field)) == std::string::npos) return false;
  const ArrayDimension* meant = nullptr;
  for (const ArrayDimension& one : array.dimensions) {
    if (one.length != list.dimensions[0].length) continue;
    if (meant == nullptr || (NamesSteps(one.name) && !NamesSteps(meant->name))) meant = &one;
  }
  return meant == &dimension;
}

Attribute ToAttribute(const std::string& name, const FileAttribute& attribute, bool* is_utf8) {
  const auto text = [&](const std::string& bytes) {
    *is_utf8 = *is_utf8 && IsUtf8(bytes);
    return ToUtf8(bytes);
  };
  if (attribute.texts.size() == 1) return {ToUtf8(name), text(attribute.texts.front())};
  if (!attribute.texts.empty() || (attribute.numbers.empty() && !attribute.is_list)) {
    std::vector<std::string> texts;
    for (const std::string& one : attribute.texts) texts.push_back(text(one));
    return {ToUtf8(name), std::move(texts)};
  }
  AttributeNumbers numbers;
  numbers.type = attribute.type;
  numbers.is_list = attribute.is_list || attribute.numbers.size() > 1;
  numbers.values = attribute.exact;
  if (numbers.values.empty()) numbers.values.assign(attribute.numbers.begin(), attribute.numbers.end());
  return {ToUtf8(name), std::move(numbers)};
}

}  // namespace

std::string GroupOf(const ArrayInfo& array) {
  return array.name.substr(0, array.name.size() - std::min(array.name.size(), array.field.size()));
}

void FileAttributes::Add(FileAttributes inner) {
  for (auto& [name, attribute] : inner) insert_or_assign(name, std::move(attribute));
  left.insert(left.end(), inner.left.begin(), inner.left.end());
}

std::string Text(const FileAttributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() || found->second.texts.size() != 1 ? "" : found->second.texts.front();
}

std::optional<double> Number(const FileAttributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  const std::vector<SampleValue> numbers = AllNumbers(found->second);
  return numbers.empty() ? std::nullopt : std::optional(numbers.front().nearest());
}

std::vector<SampleValue> AllNumbers(const FileAttribute& attribute) {
  std::vector<SampleValue> numbers = attribute.exact;
  if (numbers.empty()) numbers.assign(attribute.numbers.begin(), attribute.numbers.end());
  for (const std::string& text : attribute.texts) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = text.find_last_not_of(" \t\r\nfF") + 1;  // as ncdump writes floats, "1.e+20f"
    double number = 0;
    if (end <= begin) continue;
    const std::string_view digits = std::string_view(text).substr(begin, end - begin);
    if (const auto integer = ParseInteger(digits)) {
      numbers.push_back(*integer);
      continue;
    }
    if (ReadNumber(digits, &number)) numbers.emplace_back(number);
  }
  return numbers;
}

std::string UnitsOf(const FileAttributes& attributes) {
  const std::string units = Text(attributes, "units");
  return units.empty() ? Text(attributes, "Units") : units;
}

GivenType GivenTypeOf(const ArrayInfo& array) {
  const bool is_byte = array.type == DataType::kInt8 || array.type == DataType::kUint8;
  if (is_byte && Text(array.attributes, "dtype") == "bool") return GivenType::kBool;
  return array.given;
}

DataType StoredType(const ArrayInfo& array) {
  if (const GivenType given = GivenTypeOf(array); given != GivenType::kStored) return StoredTypeOf(given);
  const std::string as_unsigned = Lower(Text(array.attributes, "_Unsigned"));
  if (as_unsigned == "true") return WithSign(*array.type, false);
  if (as_unsigned == "false") return WithSign(*array.type, true);
  return *array.type;
}

Attributes KeptAttributes(const FileAttributes& attributes, const std::string& owner,
                          const std::set<std::string_view>& applied, std::vector<std::string>* warnings) {
  Attributes kept;
  std::vector<std::string> left;
  std::vector<std::string> changed;
  const auto is_other = [&](const std::string& name) {
    return IsSaidElsewhere(name) || applied.contains(name);
  };
  for (const auto& [name, attribute] : attributes) {
    if (is_other(name)) continue;
    bool is_utf8 = IsUtf8(name);
    if (!AddAttribute(ToAttribute(name, attribute, &is_utf8), &kept).ok()) {
      left.push_back(name);
    } else if (!is_utf8) {
      changed.push_back(name);
    }
  }
  std::ranges::copy_if(attributes.left, std::back_inserter(left), std::not_fn(is_other));
  if (!left.empty())
    warnings->push_back(
        fmt::format("{}: its attributes {} are not kept: they are neither numbers nor texts, or longer than "
                    "a dataset holds ({} bytes in all)",
                    owner, fmt::join(left, ", "), kMaxAttributeBytes));
  if (!changed.empty())
    warnings->push_back(fmt::format(
        "{}: its attributes {} are not UTF-8 text; bytes of other characters are kept as question marks",
        owner, fmt::join(changed, ", ")));
  return kept;
}

bool IsTimeCoordinate(const ArrayInfo& array) {
  return SaysTime(Text(array.attributes, "axis"), Text(array.attributes, "standard_name"),
                  Text(array.attributes, "units"));
}

Conventions::Conventions(const std::vector<ArrayInfo>& arrays) : arrays_(arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& array = arrays[i];
    if (array.dimensions.size() == 1 && array.kind == ArrayInfo::Kind::kNumbers &&
        (IsTimeCoordinate(array) || Lower(array.field) == "time"))
      time_lists_.push_back(i);
    if (array.dimensions.empty() && array.kind == ArrayInfo::Kind::kNumbers && IsTimeCoordinate(array))
      moments_.push_back(i);
    // The last ones are of UGRID.
    for (const char* attribute :
         {"coordinates", "bounds", "climatology", "grid_mapping", "node_coordinates", "edge_coordinates",
          "face_coordinates", "face_node_connectivity", "edge_node_connectivity", "face_edge_connectivity",
          "edge_face_connectivity", "face_face_connectivity", "boundary_node_connectivity"}) {
      const std::string text = Text(array.attributes, attribute);
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find_first_of(" :", begin), text.size());
        if (end > begin) named_.insert(text.substr(begin, end - begin));
        begin = end + 1;
      }
    }
  }
}

bool Conventions::is_helper(const ArrayInfo& array) const {
  const std::string standard_name = Text(array.attributes, "standard_name");
  const bool is_coordinate =
      array.dimensions.size() == 1 && !array.field.empty() && array.field == array.dimensions[0].name;
  return array.is_scale || is_coordinate || standard_name == "latitude" || standard_name == "longitude" ||
         array.attributes.contains("grid_mapping_name") || array.attributes.contains("cf_role") ||
         named_.contains(array.field);
}

std::optional<std::size_t> Conventions::TimeAlong(const ArrayInfo& array,
                                                  const ArrayDimension& dimension) const {
  if (dimension.coordinate && IsTimeCoordinate(arrays_[*dimension.coordinate])) return dimension.coordinate;
  if (dimension.name.empty()) return std::nullopt;
  std::optional<std::size_t> found;
  for (const std::size_t i : time_lists_) {
    const ArrayInfo& list = arrays_[i];
    if (list.dimensions[0].length != dimension.length || list.name == array.name) continue;
    const bool is_along = list.dimensions[0].name.empty() ? IsNamedAlong(list, array, dimension)
                                                          : list.dimensions[0].name == dimension.name;
    if (!is_along || !array.name.starts_with(GroupOf(list))) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::vector<std::size_t> Conventions::Moments(const ArrayInfo& array) const {
  std::vector<std::size_t> best;
  int best_rank = 0;
  for (const std::size_t i : moments_) {
    if (!array.name.starts_with(GroupOf(arrays_[i]))) continue;
    const int rank = RankOfMoment(arrays_[i], array);
    if (rank > best_rank) best.clear();
    if (rank >= best_rank) best.push_back(i);
    best_rank = std::max(rank, best_rank);
  }
  return best;
}

Role Conventions::RoleOf(const ArrayInfo& array, std::size_t i) const {
  const ArrayDimension& dimension = array.dimensions[i];
  // A list along time is a row of samples.
  if (dimension.role != Role::kUnknown || array.dimensions.size() == 1) return dimension.role;
  const ArrayInfo* coordinate = dimension.coordinate ? &arrays_[*dimension.coordinate] : nullptr;
  const std::string units = coordinate == nullptr ? "" : Text(coordinate->attributes, "units");
  const std::string axis = coordinate == nullptr ? "" : Lower(Text(coordinate->attributes, "axis"));
  const bool is_place = !axis.empty() && axis != "t";
  // A dimension that grows is none where the array has one moment.
  const std::vector<std::size_t> moments = Moments(array);
  const bool has_moment = !moments.empty() && RankOfMoment(arrays_[moments.front()], array) > 0;
  const bool is_leading_record =
      dimension.grows && i == 0 && !is_place && (units.empty() || IsTimeUnit(units)) && !has_moment;
  if (TimeAlong(array, dimension) || is_leading_record || BringsSteps(dimension.name, i == 0, axis, units))
    return Role::kTime;
  return IsNoAxis(dimension.name) && !is_place ? Role::kOther : Role::kUnknown;
}

std::vector<AxisDimension> Conventions::DescribeDimensions(const ArrayInfo& array) const {
  std::vector<AxisDimension> described;
  for (std::size_t i = 0; i < array.dimensions.size(); ++i)
    described.push_back({array.dimensions[i].name, array.dimensions[i].length, RoleOf(array, i)});
  return described;
}

}  // namespace quarry::input::internal
