#include "quarry/query/points.h"

#include <algorithm>
#include <cmath>

namespace quarry::query {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
/// Takes less time than waiting for a turn.
constexpr std::size_t kAtOncePoints = 1024;

/// The sample at or before a coordinate of an axis, and the distance from it.
struct Place {
  std::int64_t sample;
  double fraction;
};
Place PlaceOf(double coordinate) {
  const double sample = std::floor(coordinate);
  return {static_cast<std::int64_t>(sample), coordinate - sample};
}

/// The coordinates of an axis are strictly monotonic.
double BetweenCoordinates(const std::vector<double>& coordinates, double position) {
  const bool ascending = coordinates.size() < 2 || coordinates[0] < coordinates[1];
  const auto before = [&](double a, double b) { return ascending ? a < b : a > b; };
  const auto behind = std::upper_bound(coordinates.begin(), coordinates.end(), position, before);
  if (behind == coordinates.begin()) return position == coordinates.front() ? 0 : -1;
  const auto last = static_cast<double>(coordinates.size() - 1);
  if (behind == coordinates.end()) return position == coordinates.back() ? last : last + 1;
  const double from = *(behind - 1);
  return static_cast<double>(behind - 1 - coordinates.begin()) + (position - from) / (*behind - from);
}

}  // namespace

Point ToSampleCoordinates(const GridDescription& grid, const Point& position) {
  Point point{};
  for (std::size_t a = 0; a < 3; ++a) {
    point[a] = grid.coordinates[a].empty() ? (position[a] - grid.origin[a]) / grid.spacing[a]
                                           : BetweenCoordinates(grid.coordinates[a], position[a]);
  }
  return point;
}

Status CheckPoints(const Index3& dims, std::span<const Point> points) {
  if (points.empty()) return InvalidArgument("no point is asked for; give at least one");
  if (points.size() > kMaxPoints)
    return InvalidArgument("{} points are asked for at once; ask for at most {}", points.size(), kMaxPoints);
  for (std::size_t p = 0; p < points.size(); ++p) {
    const Point& point = points[p];
    for (std::size_t a = 0; a < 3; ++a) {
      if (point[a] >= 0 && point[a] <= static_cast<double>(dims[a] - 1)) continue;
      return InvalidArgument(
          "point {} ({}, {}, {}) is outside the grid {} along {}; sample coordinates run from 0 to {}", p,
          point[0], point[1], point[2], ToString(dims), kAxisNames[a], dims[a] - 1);
    }
  }
  return Status::Ok();
}

Box BoxAround(std::span<const Point> points) {
  Box box;
  for (const Point& point : points) {
    Box one;
    for (std::size_t a = 0; a < 3; ++a) {
      const Place place = PlaceOf(point[a]);
      one.begin[a] = place.sample;
      one.end[a] = place.sample + (place.fraction > 0 ? 2 : 1);
    }
    box = BoundingBox(box, one);
  }
  return box;
}

/// @param compute  takes the first of some points, and the one behind the last
template <typename Compute>
void PointInterpolator::InParts(const InTurn& in_turn, const Compute& compute) const {
  if (points_.size() <= kAtOncePoints) return compute(0, points_.size());
  for (std::size_t first = 0; first < points_.size(); first += kPartPoints) {
    const std::size_t end = std::min(first + kPartPoints, points_.size());
    in_turn((end - first) * kBytesPerPoint, [&] { compute(first, end); });
  }
}

Result<PointInterpolator> PointInterpolator::Create(const PatchGrid& grid, std::vector<Point> points,
                                                    const InTurn& in_turn) {
  QUARRY_RETURN_IF_ERROR(CheckPoints(grid.dims(), points));
  PointInterpolator made;
  made.points_ = std::move(points);
  made.samples_.resize(made.points_.size());
  made.corners_.reserve(8 * made.points_.size());
  made.InParts(in_turn, [&](std::size_t first, std::size_t end) {
    const auto begin = static_cast<std::ptrdiff_t>(made.corners_.size());
    for (std::size_t p = first; p < end; ++p) made.AddCorners(grid, static_cast<std::uint32_t>(p));
    std::sort(made.corners_.begin() + begin, made.corners_.end());
    made.parts_.push_back(made.corners_.size());
  });
  return made;
}

void PointInterpolator::AddCorners(const PatchGrid& grid, std::uint32_t point) {
  for (std::uint32_t number = 0; number < 8; ++number) {
    Index3 sample{};
    bool weighs = true;
    for (std::size_t a = 0; a < 3; ++a) {
      const Place place = PlaceOf(points_[point][a]);
      const bool upper = ((number >> a) & 1) != 0;
      weighs = weighs && (!upper || place.fraction > 0);
      sample[a] = place.sample + (upper ? 1 : 0);
    }
    if (!weighs) continue;
    const Box one{sample, {sample[0] + 1, sample[1] + 1, sample[2] + 1}};
    const std::int64_t patch = grid.PatchIndex(grid.PatchesMeeting(one).begin);
    const Box samples = grid.PatchBox(patch);
    const Index3 shape = samples.shape();
    const std::int64_t in_patch =
        sample[0] - samples.begin[0] +
        shape[0] * (sample[1] - samples.begin[1] + shape[1] * (sample[2] - samples.begin[2]));
    corners_.push_back(
        {static_cast<std::uint64_t>(patch), static_cast<std::uint32_t>(in_patch), 8 * point + number});
  }
}

std::vector<std::uint64_t> PointInterpolator::Codes(const PatchGrid& grid) const {
  std::vector<std::uint64_t> codes;
  for (auto corner = corners_.begin(); corner != corners_.end(); ++corner) {
    if (corner != corners_.begin() && (corner - 1)->patch == corner->patch) continue;
    codes.push_back(grid.PatchMorton(static_cast<std::int64_t>(corner->patch)));
  }
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  codes.shrink_to_fit();
  return codes;
}

void PointInterpolator::Add(const PlannedPatch& patch, DataType type, ByteSpan samples, Validity validity) {
  const std::uint64_t index = patch.entry.patch.patch_index;
  DispatchType(type, [&]<typename T>(T) {
    const std::span typed(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T));
    std::size_t first = 0;
    for (const std::size_t end : parts_) {
      const std::span part = std::span(corners_).subspan(first, end - first);
      first = end;
      for (auto c = std::ranges::lower_bound(part, index, {}, &Corner::patch);
           c != part.end() && c->patch == index; ++c) {
        const bool valid = validity.empty() || validity[c->sample] != 0;
        samples_[c->place / 8][c->place % 8] = valid ? static_cast<double>(typed[c->sample]) : kMissing;
      }
    }
  });
}

std::vector<double> PointInterpolator::Interpolate(const InTurn& in_turn) const {
  std::vector<double> values(points_.size());
  InParts(in_turn, [&](std::size_t first, std::size_t end) {
    for (std::size_t p = first; p < end; ++p) values[p] = ValueAt(p);
  });
  return values;
}

double PointInterpolator::ValueAt(std::size_t point) const {
  double sum = 0;
  for (std::size_t number = 0; number < 8; ++number) {
    double weight = 1;
    for (std::size_t a = 0; a < 3; ++a) {
      const double fraction = PlaceOf(points_[point][a]).fraction;
      weight *= ((number >> a) & 1) != 0 ? fraction : 1 - fraction;
    }
    // A weight may round to 0 although its sample takes part: a missing sample still shows.
    const double sample = samples_[point][number];
    if (weight > 0 || std::isnan(sample)) sum += weight * sample;
  }
  return sum;
}

PointsAnswer Describe(const PointsPlan& plan) {
  return {plan.read.query.step, plan.read.levels.back().max_error, plan.read.cost, {}};
}

}  // namespace quarry::query
