#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/input/array_file.h"

/// Meaning of the attributes of arrays, for all formats alike.
/// @source CF conventions 1.11; NetCDF Users Guide, "Attribute Conventions"; where they leave a choice, what
/// netCDF4-python masks by default

namespace quarry::input::internal {

/// Original type of the samples: bool also where xarray says so, in a format without that type.
GivenType GivenTypeOf(const ArrayInfo& array);

/// The type of stored samples: `_Unsigned`, "true" or "false", changes the sign of what a format declares.
DataType StoredType(const ArrayInfo& array);

/// The name of the group of an array, with its slash; empty: it has none.
std::string GroupOf(const ArrayInfo& array);

/// The unit of an array: its attribute `units`, or `Units` as HDF-EOS has it; empty if there is none.
std::string UnitsOf(const FileAttributes& attributes);

/// The numbers of an attribute; also those that are written as text, as "-9999.".
std::vector<SampleValue> AllNumbers(const FileAttribute& attribute);

/// The attributes of an array, a coordinate or a file that a dataset keeps: those that say what Quarry says
/// in its own way are none, nor those that have been applied to the samples.
/// @param owner     for the warnings
/// @param applied   names of more that are none
/// @param warnings  gets a sentence for those that a dataset cannot hold
Attributes KeptAttributes(const FileAttributes& attributes, const std::string& owner,
                          const std::set<std::string_view>& applied, std::vector<std::string>* warnings);

/// Relations between the arrays of one file: times, bounds, coordinates. Looked up once: files may hold
/// thousands.
class Conventions {
 public:
  explicit Conventions(const std::vector<ArrayInfo>& arrays);

  /// Whether arrays of such a name and such attributes are never fields: bounds, grid mappings, coordinates
  /// that others name.
  bool is_helper(const ArrayInfo& array) const;

  /// The array with the times along a dimension: its coordinate, if that is time, or the only list along it
  /// that is.
  std::optional<std::size_t> TimeAlong(const ArrayInfo& array, const ArrayDimension& dimension) const;

  /// The moment of an array, a coordinate without dimensions: rather one that the array names, rather one
  /// that is "time" than the start of a forecast. Several, if they are alike.
  std::vector<std::size_t> Moments(const ArrayInfo& array) const;

  /// The roles of an array's dimensions, as far as the file tells.
  std::vector<AxisDimension> DescribeDimensions(const ArrayInfo& array) const;

 private:
  Role RoleOf(const ArrayInfo& array, std::size_t dimension) const;

  const std::vector<ArrayInfo>& arrays_;
  std::vector<std::size_t> time_lists_;  ///< arrays of one dimension that hold times
  std::vector<std::size_t> moments_;     ///< single times
  std::set<std::string> named_;          ///< by an attribute of another array
};

/// Whether an array has positions in time: by `axis`, a standard name, or a unit with a reference date.
bool IsTimeCoordinate(const ArrayInfo& array);

}  // namespace quarry::input::internal
