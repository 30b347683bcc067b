#pragma once

#include <vector>

#include "quarry/geometry/patch_grid.h"

namespace quarry::writer {

/// A box of whole patches that all ranks process at a time: bounds the memory for a large field.
class Chunk {
 public:
  /// @param patches  patch positions in `whole`, not empty
  static Result<Chunk> Create(const PatchGrid& whole, const Box& patches);

  const Box& samples() const { return samples_; }  ///< in the whole grid
  /// The patches of the chunk as a grid of their own, from sample (0,0,0).
  const PatchGrid& grid() const { return grid_; }
  /// Index in the whole grid of a patch of grid().
  std::int64_t IndexInWhole(std::int64_t patch) const;

 private:
  Chunk(const PatchGrid& whole, const Box& patches, const Box& samples, const PatchGrid& grid)
      : whole_patches_(whole.patches()), first_(patches.begin), samples_(samples), grid_(grid) {}

  Index3 whole_patches_;
  Index3 first_;
  Box samples_;
  PatchGrid grid_;
};

/// Cuts a grid into chunks of at most `bytes`: runs of whole layers of patches; of whole rows if a layer is
/// too large; of patches if a row is. At least one patch each.
///
/// @param unit  see InputInfo::unit: an axis on which the unit is the whole grid is not cut, so that no image
/// of a
///              stack is read twice
std::vector<Box> CutToChunks(const PatchGrid& grid, std::size_t sample_bytes, std::uint64_t bytes,
                             const Index3& unit);

/// Cuts a box of a chunk into the pieces in which a rank loads it: runs of planes of at most `bytes`; of rows
/// if a plane is too large. At least one unit each, and cut between units of the file only.
/// @param unit  see InputInfo::unit
std::vector<Box> CutToPieces(const Box& box, std::size_t sample_bytes, std::uint64_t bytes,
                             const Index3& unit);

}  // namespace quarry::writer
