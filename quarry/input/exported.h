#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/input/array_file.h"

/// What exports of Quarry say of their samples in JSON, where the format has no place for it: beside .npy, in
/// .npz, and in ImageJ's "Info" of .tif.
namespace quarry::input::internal {

/// Positions of samples, or times of steps.
struct ExportedCoordinate {
  std::string name;
  std::string dimension;
  std::vector<double> values;
  Attributes attributes;
};

struct ExportedField {
  std::string name;
  std::vector<std::string> dimensions;  ///< of the samples, slowest first
  Attributes attributes;
};

/// The longest text that is read: the positions of ten million samples.
inline constexpr std::uint64_t kMostExported = std::uint64_t{1} << 28;

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

}  // namespace quarry::input::internal
