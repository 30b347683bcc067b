#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/data_type.h"
#include "quarry/sample_value.h"

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

/// The attribute of this name; null if there is none.
const Attribute* FindAttribute(const Attributes& attributes, std::string_view name);

/// For people and messages, on one line: "degrees_north", "0, 1, 2", {"a": 1}.
std::string ValueText(const Attribute& attribute);

/// The value as JSON: texts, numbers, lists of them; NaN and infinities as Zarr writes them.
std::string ValueJson(const Attribute& attribute);

}  // namespace quarry
