#pragma once

#include <string>
#include <vector>

#include "quarry/input/array_file.h"
#include "quarry/input/conventions.h"

/// Coordinates that lie beside an array of a file, other than positions along one axis.
namespace quarry::input::internal {

struct Beside {
  std::vector<TextCoordinate> texts;  ///< without their grid; axes 0 to 2 are x, y, z of the array's
  std::vector<std::string> arrays;    ///< names of numeric arrays in the file: fields of their own
};

/// The coordinates of an array that a dataset keeps: texts along one axis, and numbers along some axes, or
/// along none; none of them along time.
/// @param warnings  gets a sentence that names the others
/// @errors kDataLoss: some cannot be read
Result<Beside> FindBeside(const ArrayFile& file, const Conventions& conventions, const ArrayInfo& array,
                          const AxisRoles& roles, std::vector<std::string>* warnings);

}  // namespace quarry::input::internal
