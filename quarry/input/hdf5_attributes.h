#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/input/array_file.h"
#include "quarry/input/hdf5_parts.h"

/// Attributes and texts of HDF5 objects.
namespace quarry::input::internal {

/// The cause of the library's last error, in its own words.
std::string Hdf5Error();

Handle OpenAttribute(hid_t object, const char* name);

/// All texts of a list, or a single text.
Result<std::vector<std::string>> ReadStrings(hid_t dataset, hid_t type, std::size_t count);

FileAttributes ReadAttributes(hid_t object);

std::vector<double> Numbers(hid_t object, const char* name);
std::optional<double> Number(hid_t object, const char* name);
std::vector<std::string> Texts(hid_t object, const char* name);
std::string Text(hid_t object, const char* name);

/// "/data/1/meshes/B/x" -> "/data/1/meshes/B"
std::string Parent(const std::string& path);

}  // namespace quarry::input::internal
