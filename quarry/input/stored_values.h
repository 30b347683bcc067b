#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/input/array_file.h"

/// Missing samples and packed values of arrays.
/// @source CF conventions 1.11, 2.5.1 and 8.1; NetCDF Users Guide, "Attribute Conventions"
namespace quarry::input::internal {

/// Value of unwritten samples in netCDF, unless a file says otherwise.
/// @source netCDF library, netcdf.h: NC_FILL_BYTE and so on
SampleValue NetcdfFill(DataType type);

/// Which stored samples are missing, beside NaN and infinity.
struct MissingRule {
  std::vector<SampleValue> values;   ///< without NaN; exactly as the stored type has them
  bool declared = false;             ///< the first of them is an attribute's, not a default of the format
  std::optional<SampleValue> least;  ///< smallest valid sample
  std::optional<SampleValue> most;

  bool empty() const { return values.empty() && !least && !most; }
  /// Whether samples stay as they are, because readers are told the value. Integers have no other way; zero
  /// in floats has two forms, and readers compare bits.
  bool is_one_value(bool is_float) const {
    return values.size() == 1 && !least && !most &&
           (!is_float || (declared && values.front().nearest() != 0));
  }
};

/// @param warnings  gets a sentence for each attribute that the stored type cannot have
MissingRule FindMissing(const ArrayInfo& array, std::vector<std::string>* warnings);

/// Physical values of samples that are stored as `stored * scale + offset`.
struct Packing {
  double scale = 1;
  double offset = 0;
  /// The type of the attributes, CF conventions 8.1, unless that loses digits of the stored samples.
  DataType unpacked = DataType::kFloat32;
};

std::optional<Packing> FindPacking(const ArrayInfo& array);

/// Replaces missing samples by one value: NaN in floats, the rule's first value in integers.
/// @pre integers: the rule has a value
void MarkMissing(const MissingRule& rule, DataType type, std::span<std::byte> samples);

/// Physical values of stored samples; missing ones become NaN.
void Unpack(const Packing& packing, const MissingRule& rule, DataType stored, std::span<const std::byte> from,
            std::span<std::byte> to);

}  // namespace quarry::input::internal
