#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "quarry/description.h"

/// Boxes by positions on the axes, for all who take them.
namespace quarry::query {

/// Positions along an axis, in its unit, both ends included.
struct AxisInterval {
  std::string axis;            ///< see FindAxis
  std::optional<double> low;   ///< left out: all that come before
  std::optional<double> high;  ///< left out: all that come behind
};

/// The box of the samples that lie in these intervals, whole along the axes without one. Which way positions
/// run along an axis changes nothing.
/// Example: samples at 60, 50, 40, 30, from 40 to 55 -> [1,3)
/// @param dimensions  the names of the axes, see NamesOfDimensions
/// @errors kInvalidArgument: no such axis, or one twice; a low end above the high one; no sample between them
Result<Box> BoxOfRegion(const GridDescription& grid, const std::array<std::string, 3>& dimensions,
                        std::span<const AxisInterval> intervals);

/// "lat=40:50,z=0:": intervals as the commands take them; a side may be left out.
/// @errors kInvalidArgument: the text is something else
Result<std::vector<AxisInterval>> ParseRegion(const std::string& text);

}  // namespace quarry::query
