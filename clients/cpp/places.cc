#include "quarry/places.h"

#include <limits>
#include <utility>

#include "quarry/base/missing.h"
#include "quarry/base/utf8.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/coordinate_fields.h"
#include "quarry/query/curvilinear.h"

namespace quarry::client {
namespace {

/// Points between two looks at whether the call was cancelled.
constexpr std::size_t kPointsOfALook = 1024;

/// All samples of a field, [y][x]; NaN where they are missing.
Result<std::vector<double>> ReadCoordinates(const Dataset& dataset, std::size_t number,
                                            std::optional<std::uint64_t> step, const CallOptions& call) {
  const FieldDescription& field = dataset.description().fields[number];
  CallOptions options = call;
  options.buffer = {};
  QUARRY_ASSIGN_OR_RETURN(const LevelSamples samples,
                          dataset.Read({.field = field.name, .step = step}, options));
  std::vector<double> values;
  DispatchType(samples.type, [&]<typename T>(T) {
    const std::span<const T> typed = samples.SamplesAs<T>();
    values.reserve(typed.size());
    for (const T sample : typed) {
      values.push_back(IsMissing(sample, field.fill_bits()) ? std::numeric_limits<double>::quiet_NaN()
                                                            : static_cast<double>(sample));
    }
  });
  return values;
}

Result<std::shared_ptr<const query::CurvilinearGrid>> ReadCurvilinear(const Dataset& dataset,
                                                                      const query::CoordinateFields& fields,
                                                                      std::optional<std::uint64_t> step,
                                                                      const CallOptions& call) {
  const DatasetDescription& description = dataset.description();
  const GridDescription& grid = description.GridOf(fields.x);
  if (grid.samples() > kMaxPlaces) {
    return ResourceExhausted(
        "the coordinates \"{}\" and \"{}\" have {} samples each, and at most {} are "
        "kept in memory; give sample coordinates, without --physical",
        Printable(description.fields[fields.x].name), Printable(description.fields[fields.y].name),
        grid.samples(), kMaxPlaces);
  }
  QUARRY_ASSIGN_OR_RETURN(std::vector<double> x, ReadCoordinates(dataset, fields.x, step, call));
  QUARRY_ASSIGN_OR_RETURN(std::vector<double> y, ReadCoordinates(dataset, fields.y, step, call));
  QUARRY_ASSIGN_OR_RETURN(
      query::CurvilinearGrid made,
      query::CurvilinearGrid::Create(fields.kind, grid.dims[0], grid.dims[1], std::move(x), std::move(y)));
  return std::shared_ptr<const query::CurvilinearGrid>(
      std::make_shared<query::CurvilinearGrid>(std::move(made)));
}

}  // namespace

struct Places::State {
  Status Outside(std::size_t number, const query::Point& position, std::size_t axis) const;

  GridDescription grid;
  std::string field;
  query::PositionTitles titles;
  std::optional<query::CoordinateFields> fields;
  std::optional<std::uint64_t> step;  ///< the step, if coordinates change with time
  std::shared_ptr<const query::CurvilinearGrid> curvilinear;
};

Result<Places> Places::Of(const Dataset& dataset, const std::string& field, std::optional<std::uint64_t> step,
                          const CallOptions& call, const Places& known) {
  const DatasetDescription& description = dataset.description();
  const std::optional<std::size_t> number = description.FindField(field);
  if (!number) return Places();
  State state;
  state.grid = description.GridOf(*number);
  state.field = field;
  state.titles = query::TitlesOfPositions(description, *number, true);
  QUARRY_ASSIGN_OR_RETURN(state.fields, query::FindCoordinateFields(description, *number));
  if (state.fields) {
    const query::CoordinateFields& fields = *state.fields;
    if (!description.fields[fields.x].still || !description.fields[fields.y].still) {
      state.step = step;
      if (!step) {
        QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader header, dataset.PlanRead({.field = field}, call));
        state.step = header.step;
      }
    }
    if (known.state_ && known.state_->fields == state.fields && known.state_->step == state.step) {
      state.curvilinear = known.state_->curvilinear;
    } else {
      QUARRY_ASSIGN_OR_RETURN(state.curvilinear, ReadCurvilinear(dataset, fields, state.step, call));
    }
  }
  Places places;
  places.state_ = std::make_shared<const State>(std::move(state));
  return places;
}

std::uint64_t Places::bytes() const {
  return state_ && state_->curvilinear ? state_->curvilinear->bytes() : 0;
}

Status Places::State::Outside(std::size_t number, const query::Point& position, std::size_t axis) const {
  const std::string point =
      fmt::format("point {} ({}, {}, {})", number, position[0], position[1], position[2]);
  const auto range = [&](std::size_t a, double low, double high) {
    const std::string& units = titles.units[a];
    return fmt::format("\"{}\" runs from {} to {}{}", Printable(titles.names[a]), low, high,
                       units.empty() ? "" : " " + Printable(units));
  };
  if (axis == 2) {
    return InvalidArgument("{} is outside the grid of \"{}\": {}", point, Printable(field),
                           range(2, PositionOf(grid, 2, 0), PositionOf(grid, 2, grid.dims[2] - 1)));
  }
  const auto& ranges = curvilinear->ranges();
  if (!ranges) {
    return InvalidArgument("{} is outside the grid of \"{}\": \"{}\" and \"{}\" have no valid position",
                           point, Printable(field), Printable(titles.names[0]), Printable(titles.names[1]));
  }
  return InvalidArgument(
      "{} is outside the grid of \"{}\": no four samples with positions enclose it; {}, and {}", point,
      Printable(field), range(0, (*ranges)[0].low, (*ranges)[0].high),
      range(1, (*ranges)[1].low, (*ranges)[1].high));
}

Result<std::vector<query::Point>> Places::SampleCoordinatesOf(std::span<const query::Point> positions,
                                                              const CancelToken& cancel) const {
  if (!state_) return std::vector<query::Point>(positions.begin(), positions.end());
  std::vector<query::Point> points;
  points.reserve(positions.size());
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const query::Point& position = positions[p];
    query::Point point = query::ToSampleCoordinates(state_->grid, position);
    if (state_->curvilinear) {
      if (p % kPointsOfALook == 0 && cancel.cancelled())
        return Status(StatusCode::kCancelled, "the search for positions was cancelled");
      const auto found = state_->curvilinear->Find(position[0], position[1]);
      if (!found) return state_->Outside(p, position, 0);
      if (!(point[2] >= 0 && point[2] <= static_cast<double>(state_->grid.dims[2] - 1)))
        return state_->Outside(p, position, 2);
      point[0] = (*found)[0];
      point[1] = (*found)[1];
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace quarry::client
