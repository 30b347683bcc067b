#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "quarry/geometry/morton.h"
#include "quarry/geometry/patch_grid.h"

/// The order of the patches of an answer with a focus: by distance, and along the curve where these are
/// equal.
namespace quarry::query {

/// Squared distance of a point from the nearest sample of a box.
double SquaredDistance(const std::array<double, 3>& point, const Box& box);

/// Patches whose squared distances from a point lie between two, both included, on a piece of the curve.
struct Shell {
  MortonRun codes = kAllCodes;
  double nearest = 0;
  double farthest = std::numeric_limits<double>::infinity();

  friend bool operator==(const Shell&, const Shell&) = default;
};

/// Finds the patches of shells from the grid alone: no list of them is made.
class DistanceOrder {
 public:
  /// @param grid       outlives this
  /// @param positions  of the patches
  DistanceOrder(const PatchGrid& grid, const Box& positions, const std::array<double, 3>& focus)
      : grid_(grid), positions_(positions), focus_(focus) {}

  /// All patches in shells of at most `most`, from the nearest on. Any two neighbours have more together,
  /// unless their patches are equally far away.
  /// @complexity time in the patches; 32 KiB for each 12 bits that distances have in common
  std::vector<Shell> Cut(std::uint64_t most) const;

  /// Codes of the patches of a shell, ascending.
  /// @complexity time in the patches of the shell and around it
  std::vector<MortonRun> CodesOf(const Shell& shell) const;

 private:
  class Cutter;

  /// A cube of the curve's hierarchy, cut to the positions.
  struct Cell {
    Box positions;
    MortonRun codes;
    bool whole = false;  ///< each of the codes is that of a position
    double nearest = 0;  ///< squared distances of its patches
    double farthest = 0;
  };

  /// Visits the patches of a shell along the curve, in cells whose patches all belong to it.
  /// @param take  whether it takes a cell as a whole; otherwise the parts of the cell follow. It takes a
  /// single patch
  template <typename Take>
  void Walk(const Shell& shell, const Take& take) const;
  bool CutCell(const Index3& origin, int level, Cell* cell) const;

  const PatchGrid& grid_;
  const Box positions_;
  const std::array<double, 3> focus_;
};

}  // namespace quarry::query
