#include "clients/python/attributes.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>

#include "quarry/data_type.h"
#include "quarry/format/attribute_rules.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

nb::object NumberToPython(const SampleValue& value, DataType type) {
  if (IsFloat(type)) return nb::cast(value.nearest());
  if (type == DataType::kUint64) return nb::cast(value.As<std::uint64_t>().value_or(0));
  return nb::cast(value.As<std::int64_t>().value_or(0));
}

nb::object NumbersToPython(const AttributeNumbers& numbers) {
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object dtype = numpy.attr("dtype")(std::string(Name(numbers.type)));
  if (!numbers.is_list) return dtype.attr("type")(NumberToPython(numbers.values.front(), numbers.type));
  nb::list list;
  for (const SampleValue& value : numbers.values) list.append(NumberToPython(value, numbers.type));
  return numpy.attr("array")(list, dtype);
}

/// A text of Python in UTF-8; nothing for one with surrogates that stand alone.
std::optional<std::string> TextOf(nb::handle text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes != nullptr) return std::string(bytes, static_cast<std::size_t>(size));
  PyErr_Clear();
  return std::nullopt;
}

std::optional<std::vector<std::string>> TextsOf(nb::handle list) {
  std::vector<std::string> texts;
  for (const nb::handle one : list) {
    if (!nb::isinstance<nb::str>(one)) return std::nullopt;
    std::optional<std::string> text = TextOf(one);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  return texts;
}

SampleValue NumberOf(nb::handle number, DataType type) {
  if (IsFloat(type)) return nb::cast<double>(number);
  if (type == DataType::kUint64) return nb::cast<std::uint64_t>(number);
  return nb::cast<std::int64_t>(number);
}

/// A scalar of numpy, or its arrays with one axis, of the types that samples have.
std::optional<AttributeNumbers> NumbersOf(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "ndim")) return std::nullopt;
  const auto axes = nb::cast<int>(value.attr("ndim"));
  std::string name = nb::cast<std::string>(nb::str(value.attr("dtype").attr("name")));
  if (name == "float16") name = "float32";
  const Result<DataType> type = ParseDataType(name);
  if (axes > 1 || !type.ok()) return std::nullopt;
  AttributeNumbers numbers{*type, axes == 1, {}};
  const nb::object plain = value.attr("tolist")();
  if (axes == 0) {
    numbers.values.push_back(NumberOf(plain, *type));
  } else {
    for (const nb::handle one : plain) numbers.values.push_back(NumberOf(one, *type));
  }
  return numbers;
}

/// Floats of which some are NaN or infinite, which JSON does not hold.
std::optional<AttributeNumbers> FloatsOf(nb::handle value) {
  AttributeNumbers numbers;
  if (nb::isinstance<nb::float_>(value)) {
    numbers.values.push_back(nb::cast<double>(value));
    return numbers;
  }
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) return std::nullopt;
  numbers.is_list = true;
  for (const nb::handle one : value) {
    if (!nb::isinstance<nb::float_>(one)) return std::nullopt;
    numbers.values.push_back(nb::cast<double>(one));
  }
  return numbers;
}

std::optional<JsonText> JsonOf(nb::handle value) {
  nb::object plain = nb::borrow(value);
  if (nb::hasattr(value, "dtype") && nb::hasattr(value, "tolist")) plain = value.attr("tolist")();
  try {
    const nb::object text =
        nb::module_::import_("json").attr("dumps")(plain, "ensure_ascii"_a = false, "allow_nan"_a = false);
    std::optional<std::string> bytes = TextOf(text);
    return bytes ? std::optional(JsonText{*std::move(bytes)}) : std::nullopt;
  } catch (nb::python_error&) {  // no JSON: dates, objects, NaN, what contains itself
    return std::nullopt;
  }
}

std::optional<Attribute> ToAttribute(std::string name, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) {
    std::optional<std::string> text = TextOf(value);
    return text ? std::optional(Attribute{std::move(name), *std::move(text)}) : std::nullopt;
  }
  if (nb::isinstance<nb::list>(value) && nb::len(value) > 0) {
    if (auto texts = TextsOf(value)) return Attribute{std::move(name), *std::move(texts)};
  }
  if (auto numbers = NumbersOf(value)) return Attribute{std::move(name), *std::move(numbers)};
  if (auto json = JsonOf(value)) return Attribute{std::move(name), *std::move(json)};
  if (auto floats = FloatsOf(value)) return Attribute{std::move(name), *std::move(floats)};
  return std::nullopt;
}

/// @param all  also what Quarry says in its own way
GivenAttributes ToAttributes(nb::handle mapping, bool all) {
  GivenAttributes given;
  const nb::object items = nb::module_::import_("builtins").attr("dict")(mapping).attr("items")();
  for (const nb::handle item : items) {
    const nb::handle key = item[0];
    std::optional<std::string> name = nb::isinstance<nb::str>(key) ? TextOf(key) : std::nullopt;
    if (name && !all && IsSaidElsewhere(*name)) continue;
    std::optional<Attribute> attribute = name ? ToAttribute(*name, item[1]) : std::nullopt;
    if (attribute && CheckAttribute(*attribute).ok()) {
      given.kept.push_back(*std::move(attribute));
    } else {
      given.left.push_back(name ? *name : nb::cast<std::string>(nb::repr(key)));
    }
  }
  return given;
}

}  // namespace

nb::object ToPython(const Attribute& attribute) {
  if (const auto* text = std::get_if<std::string>(&attribute.value)) return nb::cast(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) return nb::cast(*texts);
  if (const auto* numbers = std::get_if<AttributeNumbers>(&attribute.value)) return NumbersToPython(*numbers);
  return nb::module_::import_("json").attr("loads")(std::get<JsonText>(attribute.value).text);
}

nb::dict ToPython(const Attributes& attributes) {
  nb::dict dict;
  for (const Attribute& attribute : attributes) dict[nb::cast(attribute.name)] = ToPython(attribute);
  return dict;
}

void BindAttributes(nb::module_& m) {
  nb::class_<GivenAttributes>(m, "Attributes", "Attributes that a dataset is to keep.")
      .def(nb::new_([](nb::typed<nb::mapping, std::string, nb::any> mapping, bool all) {
             return ToAttributes(mapping, all);
           }),
           "mapping"_a, "all"_a = false)
      .def_ro("left", &GivenAttributes::left, "Names of those that a dataset cannot hold.");
}

}  // namespace quarry::python
