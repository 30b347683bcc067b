#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/points_question.h"
#include "quarry/query/read_plan.h"

/// The field between its samples: trilinear interpolation of level 0 at points.
namespace quarry::query {

/// Most memory that a point takes while its request is answered: eight corners of 16 bytes, their samples,
/// the indices of their patches, and the value, three times while its message is made.
inline constexpr std::uint64_t kBytesPerPoint = 8 * (16 + 8) + 3 * 8;

/// Runs a part of a long computation, now or when it is its turn. The first argument says how long it takes:
/// about as long as decoding so many bytes.
using InTurn = std::function<void(std::uint64_t, const std::function<void()>&)>;
inline void AtOnce(std::uint64_t, const std::function<void()>& compute) { compute(); }

/// @errors kInvalidArgument: no point, too many, or one outside the grid
Status CheckPoints(const Index3& dims, std::span<const Point> points);

/// The smallest box that holds the samples that take part at checked points.
Box BoxAround(std::span<const Point> points);

/// Gathers the samples around points from patches, in any order, and interpolates. A sample takes part when
/// its weight is not 0: a point on a sample depends on that sample alone. One caller at a time.
class PointInterpolator {
 public:
  /// @errors those of CheckPoints
  static Result<PointInterpolator> Create(const PatchGrid& grid, std::vector<Point> points,
                                          const InTurn& in_turn = AtOnce);

  /// Codes of the patches whose samples take part, ascending.
  std::vector<std::uint64_t> Codes(const PatchGrid& grid) const;
  /// @param samples   level 0 of the patch, whole
  /// @param validity  of the samples; empty: all are valid
  void Add(const PlannedPatch& patch, DataType type, ByteSpan samples, Validity validity);

  /// The values, once all patches are added. NaN where a sample is missing.
  std::vector<double> Interpolate(const InTurn& in_turn = AtOnce) const;

 private:
  /// Points of a part of the work: some milliseconds.
  static constexpr std::size_t kPartPoints = 8192;

  /// One sample that takes part at one point.
  struct Corner {
    std::uint64_t patch;
    std::uint32_t sample;  // in the patch
    std::uint32_t place;   // 8 point + number; bit a of the number: the upper one along axis a

    friend auto operator<=>(const Corner&, const Corner&) = default;  // NOLINT(modernize-use-nullptr)
  };

  PointInterpolator() = default;
  template <typename Compute>
  void InParts(const InTurn& in_turn, const Compute& compute) const;
  void AddCorners(const PatchGrid& grid, std::uint32_t point);
  double ValueAt(std::size_t point) const;

  std::vector<Point> points_;
  std::vector<Corner> corners_;     // corners of each part of the points by patch
  std::vector<std::size_t> parts_;  // where the corners of a part end
  std::vector<std::array<double, 8>> samples_;
};

/// The plan that answers a question about points.
struct PointsPlan {
  ReadPlan read;
  PointInterpolator interpolator;
  bool cost_only = false;
};

/// The answer to a plan, without its values.
PointsAnswer Describe(const PointsPlan& plan);

}  // namespace quarry::query
