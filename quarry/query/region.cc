#include "quarry/query/region.h"

#include <array>
#include <utility>
#include <vector>

#include "quarry/base/numbers.h"
#include "quarry/base/split.h"
#include "quarry/base/utf8.h"
#include "quarry/format/dimension_names.h"

namespace quarry::query {
namespace {

/// The first of `count` samples that has reached something, as all behind it have; `count` if none has.
template <typename Reached>
std::int64_t FirstOf(std::int64_t count, const Reached& reached) {
  std::int64_t begin = 0;
  while (begin < count) {
    const std::int64_t middle = begin + (count - begin) / 2;
    if (reached(middle)) {
      count = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

/// The samples of an axis in an interval, half-open; where there is none, the place where they would be.
std::pair<std::int64_t, std::int64_t> SamplesIn(const GridDescription& grid, std::size_t axis,
                                                const AxisInterval& interval) {
  const std::int64_t count = grid.dims[axis];
  const auto below = [&](std::int64_t i) {
    return interval.low && PositionOf(grid, axis, i) < *interval.low;
  };
  const auto above = [&](std::int64_t i) {
    return interval.high && PositionOf(grid, axis, i) > *interval.high;
  };
  if (PositionOf(grid, axis, 0) > PositionOf(grid, axis, count - 1)) {
    return {FirstOf(count, [&](std::int64_t i) { return !above(i); }), FirstOf(count, below)};
  }
  return {FirstOf(count, [&](std::int64_t i) { return !below(i); }), FirstOf(count, above)};
}

std::string TextOf(const AxisInterval& interval) {
  if (!interval.high) return fmt::format("from {} on", *interval.low);
  if (!interval.low) return fmt::format("up to {}", *interval.high);
  return fmt::format("from {} to {}", *interval.low, *interval.high);
}

/// @param place  where they would be
Status NoSample(const GridDescription& grid, std::size_t axis, const AxisInterval& interval,
                std::int64_t place) {
  const std::int64_t last = grid.dims[axis] - 1;
  const std::string unit = grid.axis_units[axis].empty() ? "" : " " + Printable(grid.axis_units[axis]);
  std::string nearest;
  if (place > 0) nearest = fmt::format("{}", PositionOf(grid, axis, place - 1));
  if (place <= last)
    nearest += fmt::format("{}{}", nearest.empty() ? "" : " and ", PositionOf(grid, axis, place));
  return InvalidArgument(
      "no sample lies {} along {}; samples lie from {} to {}{}, the nearest at {}; give an interval that "
      "holds "
      "one",
      TextOf(interval), Printable(interval.axis), PositionOf(grid, axis, 0), PositionOf(grid, axis, last),
      unit, nearest);
}

Status UnknownAxis(const std::array<std::string, 3>& axes, const std::string& name) {
  return InvalidArgument("there is no axis \"{}\"; the axes are {}, {} and {}", Printable(name),
                         Printable(axes[2]), Printable(axes[1]), Printable(axes[0]));
}

Status CheckOrder(const AxisInterval& interval) {
  // "Not in order" also refuses NaN.
  const double low = interval.low.value_or(interval.high.value_or(0));
  if (low <= interval.high.value_or(low)) return Status::Ok();
  return InvalidArgument(
      "the first end of the interval {} along {} is not the smaller one; give that first, whichever way the "
      "axis runs, and two boxes for what passes the end of an axis",
      TextOf(interval), Printable(interval.axis));
}

}  // namespace

Result<Box> BoxOfRegion(const GridDescription& grid, const std::array<std::string, 3>& dimensions,
                        std::span<const AxisInterval> intervals) {
  Box box = grid.domain();
  std::array<const AxisInterval*, 3> given{};
  for (const AxisInterval& interval : intervals) {
    const std::optional<std::size_t> axis = FindAxis(grid, dimensions, interval.axis);
    if (!axis) return UnknownAxis(dimensions, interval.axis);
    if (const AxisInterval* other = std::exchange(given[*axis], &interval)) {
      return InvalidArgument("\"{}\" and \"{}\" are the same axis; give it once", Printable(other->axis),
                             Printable(interval.axis));
    }
    QUARRY_RETURN_IF_ERROR(CheckOrder(interval));
    std::tie(box.begin[*axis], box.end[*axis]) = SamplesIn(grid, *axis, interval);
    if (box.begin[*axis] >= box.end[*axis]) return NoSample(grid, *axis, interval, box.begin[*axis]);
  }
  return box;
}

Result<std::vector<AxisInterval>> ParseRegion(const std::string& text) {
  const Status wrong = InvalidArgument(
      "\"{}\" is not a region; write AXIS=LOW:HIGH for each axis, between commas, for example "
      "lat=40:50,z=0:100",
      text);
  std::vector<AxisInterval> intervals;
  for (const std::string_view part : Split(text, ',')) {
    const std::size_t equals = part.rfind('=');
    const std::size_t colon = part.find(':', std::min(equals, part.size()));
    if (equals == std::string_view::npos || colon == std::string_view::npos || equals == 0) return wrong;
    AxisInterval interval{std::string(part.substr(0, equals)), std::nullopt, std::nullopt};
    const std::pair<std::string_view, std::optional<double>*> sides[] = {
        {part.substr(equals + 1, colon - equals - 1), &interval.low},
        {part.substr(colon + 1), &interval.high}};
    for (const auto& [side, to] : sides) {
      if (side.empty()) continue;
      const Result<double> number = ParseNumber<double>(side);
      if (!number.ok()) return wrong;
      *to = *number;
    }
    intervals.push_back(std::move(interval));
  }
  return intervals;
}

}  // namespace quarry::query
