#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "quarry/description.h"
#include "quarry/query/curvilinear.h"

/// Which fields of a dataset say where the samples of another one lie, and what positions are called then.
namespace quarry::query {

/// Two fields along the axes x and y of another, that say where its samples lie.
struct CoordinateFields {
  std::size_t x = 0;  ///< longitudes, or x of a plane; position in DatasetDescription::fields
  std::size_t y = 0;  ///< latitudes, or y
  CoordinateKind kind = CoordinateKind::kDegrees;

  friend bool operator==(const CoordinateFields&, const CoordinateFields&) = default;
};

/// The coordinates of a field whose axes x and y have no positions: fields along these two axes that are
/// `coordinate`, one longitude and one latitude, or, if there is neither, one x and one y of a plane. What
/// they are is said by their standard_name, or their unit, or their attribute `axis`, or their name. Nothing
/// where axes have positions, or are those of an array that nobody has described.
/// @source CF conventions 1.11, sections 4.1, 4.2, 5.2 and 5.6
/// @errors kInvalidArgument, with all candidates: the source says of its axes that they have no positions, or
/// there are candidates, and these are not one of each
Result<std::optional<CoordinateFields>> FindCoordinateFields(const DatasetDescription& dataset,
                                                             std::size_t field);

/// Titles of the three numbers of a position, x, y, z.
struct PositionTitles {
  std::array<std::string, 3> names;
  std::array<std::string, 3> units;  ///< empty: none
};

/// @param physical  positions as ToSampleCoordinates and FindCoordinateFields take them; else samples, by the
///                  names of the axes
PositionTitles TitlesOfPositions(const DatasetDescription& dataset, std::size_t field, bool physical);

}  // namespace quarry::query
