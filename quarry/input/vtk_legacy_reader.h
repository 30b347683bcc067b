#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/box.h"
#include "quarry/data_type.h"

/// The keywords of VTK's older files.
namespace quarry::input::internal {

/// Numbers of an array, in the file.
struct LegacyArray {
  std::string name;
  std::string type_name;
  std::optional<DataType> type;
  std::int64_t components = 1;
  std::int64_t tuples = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< length of the text, or of the bytes
  bool of_cells = false;
};

struct LegacyContents {
  bool ascii = true;
  Index3 dims{};  ///< points
  std::array<double, 3> origin{};
  std::array<double, 3> spacing = {1, 1, 1};
  std::array<std::optional<LegacyArray>, 3> coordinates;  ///< positions of a rectilinear grid
  bool rectilinear = false;
  std::vector<LegacyArray> arrays;
  std::optional<LegacyArray> time;
  std::optional<double> title_time;
};

/// Where the arrays of a file lie, and on which grid.
/// @errors kDataLoss, kInvalidArgument
Result<LegacyContents> ReadLegacy(const RandomAccessFile& file);

}  // namespace quarry::input::internal
