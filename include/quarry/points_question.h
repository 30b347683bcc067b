#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "quarry/question.h"

/// Questions about single points of a field, and their answers.
namespace quarry::query {

/// Level-0 sample coordinates x, y, z: (0, 0, 0) is the first sample, (nx - 1, ny - 1, nz - 1) the last.
using Point = std::array<double, 3>;

struct PointsRequest {
  std::string field;
  std::optional<std::uint64_t> step;  ///< left out: the first step that has the field
  std::vector<Point> points;          ///< at most kMaxPoints; each inside the grid
  bool cost_only = false;             ///< answers without values, and reads nothing
  std::optional<int> layer;           ///< layer of accuracy, 0 the roughest; left out: the last
};

/// Most points of one request: they fit into a message and into memory. Clients split larger requests.
inline constexpr std::size_t kMaxPoints = 100'000;

struct PointsAnswer {
  std::uint64_t step = 0;
  /// [unit of the field] the same interpolation of the original samples differs by no more than this
  double max_error = 0;
  Cost cost;
  /// One for each point, NaN where a sample that takes part in the interpolation is missing; empty if only
  /// the cost was asked for.
  std::vector<double> values;
};

/// A position on the axes of a grid in sample coordinates: (position - origin) / spacing, or linear between
/// the coordinates of an axis that has them. Positions outside the grid give coordinates outside.
Point ToSampleCoordinates(const GridDescription& grid, const Point& position);

}  // namespace quarry::query
