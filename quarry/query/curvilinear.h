#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "quarry/base/status.h"

/// Places among samples that lie on no straight axes: each has its own longitude and latitude.
namespace quarry::query {

/// Kind of the two coordinates of a position.
enum class CoordinateKind : std::uint8_t {
  kDegrees = 0,  ///< longitude and latitude on a sphere
  kRadians = 1,  ///< the same
  kPlane = 2,    ///< x and y of a plane, in any unit
};

/// A grid in two dimensions whose samples may lie anywhere. Four neighbours are the corners of a cell. On a
/// sphere, sides of cells are great circles, or parallels and meridians where all four lie along those;
/// longitudes may be counted from anywhere, and cells may hold a pole. Cells with a missing corner hold
/// nothing. Immutable: safe from any number of threads.
class CurvilinearGrid {
 public:
  /// Lowest and highest coordinate of the samples that have both.
  struct Range {
    double low = 0;
    double high = 0;
  };

  /// @param kind    unit of all coordinates, here and in Find
  /// @param nx, ny  samples along x and y, at least 1 each
  /// @param x, y    coordinates of the samples, [ny][nx], x fastest: longitudes and latitudes, or x and y. A
  ///                sample without a place has NaN in one of them, or what is no longitude (beyond two turns)
  ///                or no latitude (beyond the poles)
  /// @errors kInvalidArgument: arrays of another size
  /// @complexity O(nx ny); 20 bytes a sample are kept
  static Result<CurvilinearGrid> Create(CoordinateKind kind, std::int64_t nx, std::int64_t ny,
                                        std::vector<double> x, std::vector<double> y);

  /// Sample coordinates along x and y of a place, from 0 to nx - 1 and ny - 1: the inverse of bilinear
  /// interpolation between the corners of its cell. Nothing where it lies in no cell. A place on a side
  /// belongs to one of the cells there, and so does one that is up to a hundredth of a cell outside of all:
  /// coordinates are rounded. Of cells that overlap, as in the halo of a global grid, the first holds a
  /// place, unless another one is far smaller: one between samples and a filler that lies elsewhere.
  /// @complexity about O(log(nx ny))
  std::optional<std::array<double, 2>> Find(double x, double y) const;

  /// Ranges of the samples that have a position; nothing if none has.
  const std::optional<std::array<Range, 2>>& ranges() const { return ranges_; }
  /// [bytes] that it keeps.
  std::uint64_t bytes() const;

 private:
  /// A place in space: on the sphere of radius 1, or in the plane z = 0.
  using Vector = std::array<double, 3>;
  /// Coordinates of a place, and where that is in space.
  struct Spot {
    double x;
    double y;
    Vector at;
  };
  /// Corners at (i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1).
  using Cell = std::array<Spot, 4>;
  /// Corners of a cell in a plane in which a place is the origin, and sides are straight.
  using Flat = std::array<std::array<double, 2>, 4>;
  /// A box in space.
  struct Extent {
    Vector low;
    Vector high;
  };
  /// Boxes around blocks of cells.
  struct Layer {
    std::int64_t nx = 0;
    std::int64_t ny = 0;
    std::vector<Extent> extents;  ///< [ny][nx]; low > high: no place is in the block
  };
  struct Search;

  CurvilinearGrid() = default;
  bool is_sphere() const { return kind_ != CoordinateKind::kPlane; }
  double turn() const;
  double radians() const;
  bool IsPlace(double x, double y) const;
  double Apart(double to, double from) const;
  static bool IsWhole(const Cell& cell);
  bool IsAligned(const Cell& cell) const;
  double Margin(const Cell& cell) const;
  bool Flatten(const Cell& cell, const Spot& from, Flat* flat) const;
  Spot SpotOf(double x, double y) const;
  Spot SampleAt(std::int64_t i, std::int64_t j) const;
  void DropPlacesThatAreNone();
  void MakeBlocks();
  void JoinBlocks();
  void LookInto(std::size_t layer, std::int64_t i, std::int64_t j, Search* search) const;
  void LookIntoCells(std::int64_t i, std::int64_t j, Search* search) const;
  void LookIntoCell(const Cell& cell, std::int64_t i, std::int64_t j, Search* search) const;

  CoordinateKind kind_ = CoordinateKind::kPlane;
  std::int64_t nx_ = 0;
  std::int64_t ny_ = 0;
  std::vector<double> x_;
  std::vector<double> y_;
  std::vector<Layer> layers_;  ///< the finest first; each joins two by two blocks of the one before
  std::optional<std::array<Range, 2>> ranges_;
};

}  // namespace quarry::query
