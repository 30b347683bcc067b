#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "quarry/attributes.h"

/// Attributes as Python has them, and back.
namespace quarry::python {

/// Attributes that a caller hands over, as far as a dataset can hold them.
struct GivenAttributes {
  Attributes kept;
  std::vector<std::string> left;  ///< names of the others
};

/// A text is str, several are list[str], a number is a scalar of numpy, several are an array, and the rest is
/// what json.loads gives.
nanobind::object ToPython(const Attribute& attribute);

/// {name: value} in the order of the source.
nanobind::dict ToPython(const Attributes& attributes);

void BindAttributes(nanobind::module_& m);

}  // namespace quarry::python
