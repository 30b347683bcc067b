#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"

/// Names of axes, for all who show a dataset as arrays with named dimensions: Python, xarray, Zarr,
/// exports.
namespace quarry {

/// Whether NetCDF, HDF5 and Zarr can have a dimension, or a variable beside fields, of this name.
/// @source NetCDF: NC_check_name; HDF5: names of links; Zarr 3: names of nodes
bool IsDimensionName(const std::string& name);

/// Names of the dimension and the coordinates of the steps.
struct StepNames {
  std::string dimension;
  std::string numbers;  ///< variable with the numbers of the steps: coordinate of the dimension, or auxiliary
  std::string
      times;  ///< variable with their times: coordinate of the dimension where the dataset has a time name
};

/// The dimensions of all fields. Different dimensions have different names, which no field has.
struct DimensionNames {
  StepNames steps;
  /// Names of x, y, z, for each grid. Axes of two grids have one name if they have the same name in the
  /// dataset, or both none, and the same samples, positions and unit. An axis that a grid lacks has its
  /// letter too, or what is free.
  std::vector<std::array<std::string, 3>> axes;
};

/// An axis has its name in the dataset. It has its letter instead if it has no name, if something else has
/// that name, or if NetCDF, HDF5 or Zarr cannot have it; and its letter with "_axis" where the letter is
/// taken too; a second axis of that name has "_axis" as well. Example: a field "lat", and axes "lon", "lat",
/// "" -> "lon", "y", "z".
DimensionNames NamesOfDimensions(const DatasetDescription& dataset);

/// The axis of a grid that a name means, 0 to 2: that of this dimension, or the only one that the dataset
/// calls so, or that of this letter. Nothing if there is none.
/// @param dimensions  the names of its axes, see NamesOfDimensions
std::optional<std::size_t> FindAxis(const GridDescription& grid, const std::array<std::string, 3>& dimensions,
                                    const std::string& name);

/// Names that one field has for itself: "step_NAME" and "time_NAME".
StepNames NamesOfSteps(const DatasetDescription& dataset, const std::string& field);

/// Adds the dataset's names to an error about x, y and z: "... along z; z is depth, y is lat".
Status WithAxes(Status status, const GridDescription& grid);

}  // namespace quarry
