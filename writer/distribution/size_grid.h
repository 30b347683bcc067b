#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/box.h"

/// How unevenly a real dataset loads the ranks, at any scale, without its samples. Pure functions, as in
/// placement.h.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section V.C
namespace quarry::distribution {

/// Bytes in the cells of a regular division of the domain: cells are patches, or the ranks of a process grid.
struct SizeGrid {
  Index3 shape{};                    ///< cells along x, y, z
  std::vector<std::uint64_t> bytes;  ///< bytes of each cell, x fastest; Volume(shape) of them

  std::uint64_t at(const Index3& cell) const {
    return bytes[static_cast<std::size_t>(cell[0] + shape[0] * (cell[1] + shape[1] * cell[2]))];
  }

  friend bool operator==(const SizeGrid&, const SizeGrid&) = default;
};

/// The grid in the report of `quarry-write --report`: {"size_grid": {"shape": [x, y, z], "bytes": [...]}}, or
/// an object that holds shape and bytes itself.
/// @param where  names the text in messages: the path of the file
/// @errors kInvalidArgument: not JSON, no such grid, or one whose shape and bytes do not match
Result<SizeGrid> ParseSizeGrid(std::string_view json, const std::string& where);

/// Sizes for a grid of another shape over the same domain: trilinear interpolation between the centres of the
/// cells, constant outside the outermost centres, rounded to the nearest byte. Values are not scaled: a new
/// cell is as large as an old one at its place, as in weak scaling (more ranks with as much work each). The
/// same shape gives the same grid.
///
/// No new size is outside the range of the old ones. Interpolation smooths, so it keeps the distribution only
/// where busy regions span several cells: from 8x8x8 to 16x16x16 cells, quartiles stay within 10 % for a
/// flame five cells thick; for one that is one cell thick, the quiet cells beside it become rare and the
/// lower quartile grows by half (tests/unit/distribution/size_grid_test.cc). A coarser shape picks samples
/// and skips what lies between.
///
/// @param grid   at least one cell
/// @param shape  at least 1 on every axis; the same on every rank gives the same sizes
/// Example: bytes 10, 20 on x, shape 4x1x1: centres at 1/8, 3/8, 5/8, 7/8, of the old cells 1/4, 3/4
///          -> 10, 12.5, 17.5, 20 -> 10, 13, 18, 20
SizeGrid Extrapolate(const SizeGrid& grid, const Index3& shape);

}  // namespace quarry::distribution
