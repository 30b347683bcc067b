#include "quarry/input/conventions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>

#include "quarry/base/calendar.h"
#include "quarry/base/missing.h"
#include "quarry/base/utf8.h"

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
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return is_signed ? DataType::kInt8 : DataType::kUint8;
    case DataType::kInt16:
    case DataType::kUint16:
      return is_signed ? DataType::kInt16 : DataType::kUint16;
    case DataType::kInt32:
    case DataType::kUint32:
      return is_signed ? DataType::kInt32 : DataType::kUint32;
    case DataType::kInt64:
    case DataType::kUint64:
      return is_signed ? DataType::kInt64 : DataType::kUint64;
    default:
      return type;
  }
}

/// The numbers of an attribute; also those that are written as text, as "-9999.".
std::vector<SampleValue> AllNumbers(const FileAttribute& attribute) {
  std::vector<SampleValue> numbers = attribute.exact;
  if (numbers.empty()) numbers.assign(attribute.numbers.begin(), attribute.numbers.end());
  for (const std::string& text : attribute.texts) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = text.find_last_not_of(" \t\r\nfF") + 1;  // as ncdump writes floats, "1.e+20f"
    double number = 0;
    if (end <= begin) continue;
    if (const auto integer = ParseInteger(std::string_view(text).substr(begin, end - begin))) {
      numbers.push_back(*integer);
      continue;
    }
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (error == std::errc() && stop == text.data() + end) numbers.emplace_back(number);
  }
  return numbers;
}

/// A value of an attribute as a stored sample has it: attributes may have a wider type, or the other sign.
std::optional<SampleValue> AsStored(const SampleValue& value, DataType type) {
  if (type == DataType::kFloat32) {
    const auto narrow = static_cast<float>(value.nearest());
    if (std::isfinite(value.nearest()) && !std::isfinite(narrow)) return std::nullopt;
    return narrow;
  }
  if (CanHold(type, value)) return value;
  if (IsFloat(type)) return std::nullopt;
  if (IsWideInteger(type)) {
    if (const auto negative = value.As<std::int64_t>()) return static_cast<std::uint64_t>(*negative);
    if (const auto large = value.As<std::uint64_t>()) return static_cast<std::int64_t>(*large);
    return std::nullopt;
  }
  const double turn = std::ldexp(1, static_cast<int>(8 * SizeOf(type)));
  for (const double wrapped : {value.nearest() + turn, value.nearest() - turn}) {
    if (CanHold(type, wrapped) && (value.nearest() < 0) == (wrapped > value.nearest())) return wrapped;
  }
  return std::nullopt;
}

/// Reads attributes about missing samples.
class MissingReader {
 public:
  MissingReader(const ArrayInfo& array, std::vector<std::string>* warnings)
      : array_(array), type_(StoredType(array)), warnings_(warnings) {}

  MissingRule Read() {
    AddValues("_FillValue");
    const bool has_fill = array_.attributes.contains("_FillValue");
    AddValues("missing_value");
    // A bool has no third value; only a declared one makes it a number.
    const bool is_bool = GivenTypeOf(array_) == GivenType::kBool;
    if (!has_fill && array_.unwritten && !is_bool) Add(*array_.unwritten, false);
    ReadRange();
    ChooseMark();
    return rule_;
  }

 private:
  /// Integers have no NaN: a valid range alone needs a value for the samples outside it.
  void ChooseMark() {
    if (IsFloat(type_) || !rule_.values.empty() || (!rule_.least && !rule_.most)) return;
    DispatchType(type_, [&]<typename T>(T) {
      constexpr T kLowest = std::numeric_limits<T>::lowest();
      constexpr T kLargest = std::numeric_limits<T>::max();
      if (rule_.least && rule_.least->As<T>().value_or(kLowest) > kLowest) {
        rule_.values.emplace_back(kLowest);
      } else if (rule_.most && rule_.most->As<T>().value_or(kLargest) < kLargest) {
        rule_.values.emplace_back(kLargest);
      } else {
        rule_.least = rule_.most = std::nullopt;  // every value is valid
      }
    });
  }

  void Add(const SampleValue& value, bool declared) {
    const std::optional<SampleValue> stored = AsStored(value, type_);
    if (!stored) return Warn("missing_value or _FillValue", value);
    if (std::isnan(stored->nearest())) return;
    if (std::ranges::find(rule_.values, *stored) != rule_.values.end()) return;
    if (rule_.values.empty()) rule_.declared = declared;
    rule_.values.push_back(*stored);
  }

  void AddValues(const std::string& name) {
    const auto found = array_.attributes.find(name);
    if (found == array_.attributes.end()) return;
    const std::vector<SampleValue> numbers = AllNumbers(found->second);
    for (const SampleValue& value : numbers) Add(value, true);
    if (numbers.empty() && warnings_ != nullptr) {
      warnings_->push_back(
          fmt::format("{}: its attribute {} is no number and says nothing about missing samples; give --fill",
                      array_.name, name));
    }
  }

  std::optional<SampleValue> Limit(const std::string& name, const SampleValue& value) {
    const std::optional<SampleValue> stored = AsStored(value, type_);
    if (!stored || std::isnan(stored->nearest())) {
      if (!std::isnan(value.nearest())) Warn(name, value);
      return std::nullopt;
    }
    return stored;
  }

  void ReadRange() {
    const auto range = array_.attributes.find("valid_range");
    if (range != array_.attributes.end() && AllNumbers(range->second).size() == 2) {
      const std::vector<SampleValue> numbers = AllNumbers(range->second);
      rule_.least = Limit("valid_range", numbers[0]);
      rule_.most = Limit("valid_range", numbers[1]);
      return;
    }
    for (const bool upper : {false, true}) {
      const std::string name = upper ? "valid_max" : "valid_min";
      const auto found = array_.attributes.find(name);
      if (found == array_.attributes.end()) continue;
      const std::vector<SampleValue> numbers = AllNumbers(found->second);
      if (!numbers.empty()) (upper ? rule_.most : rule_.least) = Limit(name, numbers.front());
    }
  }

  void Warn(const std::string& name, const SampleValue& value) {
    if (warnings_ == nullptr) return;
    warnings_->push_back(fmt::format("{}: its attribute {}, {}, is no value of {} and is not used",
                                     array_.name, name, value, Name(type_)));
  }

  const ArrayInfo& array_;
  const DataType type_;
  std::vector<std::string>* warnings_;
  MissingRule rule_;
};

/// The value of a rule as a sample of this type. Only NaN has none; no sample equals it.
template <typename T>
T ValueOf(const SampleValue& value) {
  return value.As<T>().value_or(static_cast<T>(0));
}

/// Tests samples of one type.
template <typename T>
class MissingTest {
 public:
  explicit MissingTest(const MissingRule& rule) {
    for (const SampleValue& value : rule.values) values_.push_back(ValueOf<T>(value));
    if (rule.least) least_ = ValueOf<T>(*rule.least);
    if (rule.most) most_ = ValueOf<T>(*rule.most);
  }

  bool operator()(T sample) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(sample)) return true;
    }
    if (sample < least_ || sample > most_) return true;
    for (const T value : values_) {
      if (sample == value) return true;
    }
    return false;
  }

 private:
  std::vector<T> values_;
  T least_ = std::numeric_limits<T>::lowest();
  T most_ = std::numeric_limits<T>::max();
};

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

}  // namespace

std::string GroupOf(const ArrayInfo& array) {
  return array.name.substr(0, array.name.size() - std::min(array.name.size(), array.field.size()));
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

SampleValue NetcdfFill(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
      return 9.9692099683868690e+36;
    case DataType::kInt8:
      return -127;
    case DataType::kUint8:
      return 255;
    case DataType::kInt16:
      return -32767;
    case DataType::kUint16:
      return 65535;
    case DataType::kInt32:
      return -2147483647;
    case DataType::kUint32:
      return 4294967295;
    case DataType::kInt64:
      return std::int64_t{-9223372036854775806};
    case DataType::kUint64:
      break;
  }
  return std::uint64_t{18446744073709551614U};
}

MissingRule FindMissing(const ArrayInfo& array, std::vector<std::string>* warnings) {
  return MissingReader(array, warnings).Read();
}

std::optional<Packing> FindPacking(const ArrayInfo& array) {
  Packing packing;
  packing.scale = Number(array.attributes, "scale_factor").value_or(1);
  packing.offset = Number(array.attributes, "add_offset").value_or(0);
  if (packing.scale == 1 && packing.offset == 0) return std::nullopt;
  const bool is_wide = array.type && SizeOf(*array.type) >= 4 &&
                       *array.type != DataType::kFloat32;  // more digits than float32
  if (is_wide) packing.unpacked = DataType::kFloat64;
  for (const char* name : {"scale_factor", "add_offset"}) {
    const auto found = array.attributes.find(name);
    if (found != array.attributes.end() && found->second.type != DataType::kFloat32)
      packing.unpacked = DataType::kFloat64;
  }
  return packing;
}

namespace {

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
                    "a dataset holds "
                    "({} bytes in all)",
                    owner, fmt::join(left, ", "), kMaxAttributeBytes));
  if (!changed.empty())
    warnings->push_back(fmt::format(
        "{}: its attributes {} are no UTF-8 text; bytes of other characters are kept as question marks",
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

void MarkMissing(const MissingRule& rule, DataType type, std::span<std::byte> samples) {
  DispatchType(type, [&]<typename T>(T) {
    const MissingTest<T> is_missing(rule);
    T marked{};
    if constexpr (std::is_floating_point_v<T>) {
      marked = std::numeric_limits<T>::quiet_NaN();
    } else {
      marked = ValueOf<T>(rule.values.front());
    }
    for (std::size_t at = 0; at < samples.size(); at += sizeof(T)) {
      T sample;
      std::memcpy(&sample, samples.data() + at, sizeof(T));
      if (is_missing(sample)) std::memcpy(samples.data() + at, &marked, sizeof(T));
    }
  });
}

void Unpack(const Packing& packing, const MissingRule& rule, DataType stored, std::span<const std::byte> from,
            std::span<std::byte> to) {
  DispatchType(stored, [&]<typename S>(S) {
    DispatchType(packing.unpacked, [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<T>) {
        const MissingTest<S> is_missing(rule);
        for (std::size_t i = 0; i < from.size() / sizeof(S); ++i) {
          S sample;
          std::memcpy(&sample, from.data() + i * sizeof(S), sizeof(S));
          const T value = is_missing(sample)
                              ? std::numeric_limits<T>::quiet_NaN()
                              : static_cast<T>(static_cast<double>(sample) * packing.scale + packing.offset);
          std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
        }
      }
    });
  });
}

}  // namespace quarry::input::internal
