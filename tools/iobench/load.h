#pragma once

#include <vector>

#include "quarry/base/endian.h"
#include "writer/distribution/size_grid.h"

/// Written data: units of bytes, and the ranks that hold them.
namespace quarry::iobench {

/// Units are what patches are to the writer: the smallest parts that can go to different files. They lie on a
/// grid of their own, of which every rank of the process grid has an even share.
struct Load {
  Index3 process_grid{};
  Index3 unit_grid{};
  std::vector<std::uint64_t> bytes;  ///< size of each unit, in Morton order
  std::vector<int> owner;            ///< rank of each unit

  std::size_t units() const { return bytes.size(); }
  std::uint64_t total() const;
  /// Units of a rank, ascending.
  std::vector<std::size_t> UnitsOf(int rank) const;
  std::vector<std::uint64_t> BytesPerRank() const;
};

/// @param sizes         of the units, by their place on the grid; at least as many units as ranks on every
/// axis
/// @errors kInvalidArgument: no bytes at all, or a unit too large for one message
Result<Load> MakeLoad(const distribution::SizeGrid& sizes, const Index3& process_grid);

/// Bytes that no file system can compress or share: pseudo-random, the same in every run.
Bytes MakeUnit(std::size_t unit, std::uint64_t bytes);

}  // namespace quarry::iobench
