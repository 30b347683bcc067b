#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/input/array_file.h"

/// JSON in which exports of Quarry describe their samples, where the format has no place for it: beside .npy,
/// in .npz, and in ImageJ's "Info" of .tif.
namespace quarry::input::internal {

/// Positions of samples, or times of steps.
struct ExportedCoordinate {
  std::string name;
  std::string dimension;
  std::vector<double> values;
  FileAttributes attributes;
};

struct ExportedField {
  std::string name;
  std::vector<std::string> dimensions;  ///< dimensions of the samples, slowest first
  FileAttributes attributes;
};

struct Exported {
  std::vector<ExportedField> fields;
  std::vector<ExportedCoordinate> coordinates;

  /// The coordinate with the name of a dimension; nothing if there is none.
  const ExportedCoordinate* PositionsOf(std::string_view dimension) const;
  /// The times of the steps; nothing if they have none.
  const ExportedCoordinate* Times() const;
};

/// @returns nothing for any other text
std::optional<Exported> ParseExported(std::string_view json);

/// Bounds the memory of a description: positions of three million samples.
/// @param name  of the text, for the message
/// @errors kInvalidArgument: it has more bytes
Status CheckExportedSize(std::uint64_t bytes, const std::string& name);

}  // namespace quarry::input::internal
