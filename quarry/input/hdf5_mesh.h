#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/input/array_file.h"
#include "quarry/input/hdf5_parts.h"

/// Descriptions of the grid in HDF5 files: openPMD, and the marks of other codes.
namespace quarry::input::internal {

/// The openPMD description of a mesh: attributes of the dataset, or of the group of its components.
/// @source openPMD standard 1.1.0, "Required Attributes for each Mesh Record"
struct OpenPmdMesh {
  bool component = false;  ///< the attributes are those of the group
  std::vector<std::string> labels;
  std::vector<double> spacing;
  std::vector<double> offset;
  std::vector<double> position;  ///< position of the sample in its cell, as a fraction of the spacing
  double unit = 1;               ///< unit of spacing and offset, in metres if the mesh is cartesian
  std::string geometry;
  std::string units;  ///< units of the samples
};

std::optional<OpenPmdMesh> FindMesh(hid_t file, hid_t dataset, const std::string& path, std::size_t rank);

void DescribeMesh(const OpenPmdMesh& mesh, ArrayInfo* array);

/// Physical time of the iteration that a dataset belongs to: from the nearest enclosing group that has one.
void FindTime(hid_t file, ArrayInfo* array);

/// Names the kind of a file that is not one grid, by marks of the code that has written it: "a FLASH file".
/// @returns the kind, and what it is made of
std::optional<std::pair<const char*, const char*>> FindOtherMesh(hid_t file);

}  // namespace quarry::input::internal
