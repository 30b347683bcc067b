#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <tuple>

#include "quarry/description.h"

/// The parts of the module, and all type casters: without one, a function refuses its arguments at run time.
namespace quarry::python {

using NamedInterval = std::tuple<std::string, std::optional<double>, std::optional<double>>;

/// A coordinate of text, with the name of its dimension.
struct NamedText {
  TextCoordinate text;
  std::string name;
  std::string dim;  ///< empty: it is one text
};

/// A grid of a dataset, and what its dimensions are called.
struct FieldGrid {
  GridDescription grid;
  std::array<std::string, 3> dim_names;  ///< x, y, z
};

/// In this order: types come before what uses them.
void BindDescriptions(nanobind::module_& m);
void BindAnswers(nanobind::module_& m);
void BindStatistics(nanobind::module_& m);
void BindDataset(nanobind::module_& m);

}  // namespace quarry::python
