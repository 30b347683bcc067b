#pragma once

#include <optional>

#include "quarry/input/array_file.h"
#include "quarry/input/hdf5_parts.h"

/// Types of HDF5 and the types of our samples.
namespace quarry::input::internal {

std::optional<DataType> ToDataType(hid_t type);

/// Complex numbers as h5py and others write them: a compound of two floats, the real part first. Nothing for
/// other types.
std::optional<DataType> TypeOfParts(hid_t type);

/// A type in memory that has one part of a compound alone.
hid_t TypeOfPart(hid_t dataset, Part part, hid_t native);

hid_t NativeType(DataType type);

/// The type of a dataset in native byte order: nothing is converted.
hid_t BitsOfType(hid_t dataset);

/// float16 of IEEE 754, and bool as h5py and PyTables write it: an enumeration of a byte, FALSE and TRUE.
GivenType ToGivenType(hid_t type);

}  // namespace quarry::input::internal
