#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/base/data_type.h"
#include "quarry/base/missing.h"
#include "quarry/base/status.h"

/// Attributes from the source, of a dataset, a field, an axis or the time: kept as they are, and not
/// interpreted.
namespace quarry {

struct AttributeNumbers {
  DataType type = DataType::kFloat64;
  bool is_list = false;  ///< false: one number
  std::vector<SampleValue> values;

  friend bool operator==(const AttributeNumbers&, const AttributeNumbers&) = default;
};

/// A JSON text, for what texts and numbers do not hold: true, null, an object, a list of mixed things.
struct JsonText {
  std::string text;

  friend bool operator==(const JsonText&, const JsonText&) = default;
};

struct Attribute {
  std::string name;
  std::variant<std::string, std::vector<std::string>, AttributeNumbers, JsonText> value;

  friend bool operator==(const Attribute&, const Attribute&) = default;
};

/// In the order of the source; no two have one name.
using Attributes = std::vector<Attribute>;

/// Bounds of the attributes of one owner: of a dataset, a field, an axis, the time.
inline constexpr std::size_t kMaxAttributes = 4096;
inline constexpr std::size_t kMaxAttributeName = 255;                        ///< [bytes]
inline constexpr std::size_t kMaxAttributeBytes = std::size_t{1} << 20;      ///< limit of one owner
inline constexpr std::size_t kMaxAllAttributeBytes = std::size_t{16} << 20;  ///< limit of a dataset
inline constexpr std::size_t kMaxJsonDepth = 32;

/// [bytes] of names and values, as they count for the bounds.
std::size_t SizeOf(const Attribute& attribute);
std::size_t SizeOf(const Attributes& attributes);

/// Checks one attribute: a name, UTF-8, numbers that their type has, JSON that is no deeper than
/// kMaxJsonDepth.
/// @errors kInvalidArgument
Status CheckAttribute(const Attribute& attribute);

/// Checks all of one owner: each by itself, no name twice, and the bounds.
/// @errors kInvalidArgument
Status CheckAttributes(const Attributes& attributes);

/// Adds one, unless it is wrong or goes beyond the bounds.
/// @errors kInvalidArgument: see CheckAttributes
Status AddAttribute(Attribute attribute, Attributes* to);

const Attribute* FindAttribute(const Attributes& attributes, std::string_view name);

/// Names of those that are not, or with another value, among `kept`.
std::vector<std::string> OtherAttributes(const Attributes& attributes, const Attributes& kept);

/// Whether Quarry stores the content of an attribute of this name itself: units, fill values, packing, and
/// the storage records of formats. It is not an attribute of a dataset then.
bool IsSaidElsewhere(std::string_view name);

/// For people and messages, on one line: "degrees_north", "0, 1, 2", {"a": 1}.
std::string ValueText(const Attribute& attribute);

/// The value as JSON: texts, numbers, lists of them; NaN and infinities as Zarr writes them.
std::string ValueJson(const Attribute& attribute);

}  // namespace quarry
