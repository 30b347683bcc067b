#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/query/plan.h"

/// The field between its samples: trilinear interpolation of level 0 at points.
namespace quarry::query {

/// Level-0 sample coordinates x, y, z: (0, 0, 0) is the first sample, (nx - 1, ny - 1, nz - 1) the last.
using Point = std::array<double, 3>;

struct PointsRequest {
  std::string field;
  std::optional<std::uint64_t> step;  ///< left out: the first step that has the field
  std::vector<Point> points;          ///< at most kMaxPoints; each inside the grid
  bool price_only = false;            ///< answers without values, and reads nothing
};

/// Points of one request: what is kept of each fits into a message and into memory. Clients split more.
inline constexpr std::size_t kMaxPoints = 100'000;
/// Memory that a point takes while its request is answered, at most.
inline constexpr std::uint64_t kBytesPerPoint = 384;

struct PointsAnswer {
  std::uint64_t step = 0;
  /// [unit of the field] the same interpolation of the original samples is nowhere further away
  double max_error = 0;
  Price price;
  /// One for each point, NaN where a sample that takes part in the interpolation is missing; none where only
  /// the price was asked for.
  std::vector<double> values;
};

/// A position on the axes of a grid in sample coordinates: (position - origin) / spacing, and linearly
/// between the coordinates of an axis that has some. Positions outside the grid give coordinates outside.
Point ToSampleCoordinates(const GridDescription& grid, const Point& position);

/// Gathers the samples around points from patches, in any order, and interpolates. A sample takes part when
/// its weight is not 0: a point on a sample depends on that one alone. One caller at a time.
class PointInterpolator {
 public:
  /// @errors kInvalidArgument: no point, too many, or one outside the grid
  static Result<PointInterpolator> Create(const PatchGrid& grid, std::vector<Point> points);

  /// Indices of the patches whose samples take part, ascending.
  std::vector<std::uint64_t> patches() const;
  /// The smallest box that holds these samples.
  const Box& box() const { return box_; }

  /// @param samples   level 0 of the patch, whole
  /// @param validity  of the samples; empty: all are valid
  void Add(const PlannedPatch& patch, DataType type, ByteSpan samples, Validity validity);

  /// The values, once all patches were added. NaN where a sample is missing.
  std::vector<double> Interpolate() const;

 private:
  /// One sample that takes part at one point.
  struct Corner {
    std::uint64_t patch;
    std::uint32_t sample;  // in the patch
    std::uint32_t point;
    std::uint32_t number;  // bit a: the upper one along axis a
  };

  PointInterpolator() = default;
  void AddCorners(const PatchGrid& grid, std::uint32_t point);

  std::vector<Point> points_;
  std::vector<Corner> corners_;  // by patch
  std::vector<std::array<double, 8>> samples_;
  Box box_;
};

/// What answers a question about points.
struct PointsPlan {
  ReadPlan read;
  PointInterpolator interpolator;
  bool price_only = false;
};

/// The answer to a plan but for its values.
PointsAnswer Describe(const PointsPlan& plan);

}  // namespace quarry::query
