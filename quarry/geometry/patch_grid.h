#pragma once

#include <cstdint>
#include <vector>

#include "quarry/box.h"

namespace quarry {

/// Samples of level `level` on an axis of `samples`: level sample i lies on fine sample i * 2^level.
constexpr std::int64_t LevelExtent(std::int64_t samples, int level) {
  return (samples >> level) + ((samples & ((std::int64_t{1} << level) - 1)) != 0 ? 1 : 0);
}
constexpr Index3 LevelShape(const Index3& shape, int level) {
  return {LevelExtent(shape[0], level), LevelExtent(shape[1], level), LevelExtent(shape[2], level)};
}

/// Level samples whose fine position lies in `box`: [ceil(begin / 2^l), ceil(end / 2^l)). May be empty for a
/// thin box. Example: box [3, 9) at level 1 -> [2, 5), the fine samples 4, 6 and 8.
Box LevelBox(const Box& box, int level);

/// Positions in `box` that are multiples of `spacing`, divided by it: [ceil(begin / s), ceil(end / s)). May
/// be empty. LevelBox is the case of spacing 2^l along every axis.
Box SpacedBox(const Box& box, const Index3& spacing);

/// A grid cut into power-of-two patches from its origin; patches at the far ends are cut short, not padded.
/// Patch, sample and level coordinates are x, y, z. Immutable and thread-safe.
/// Example: 13 samples, patch 4 -> patches [0,4) [4,8) [8,12) [12,13).
class PatchGrid {
 public:
  /// Largest number of samples in a patch: keeps one encoded patch below 2 GiB, the largest MPI message.
  static constexpr std::int64_t kMaxPatchVolume = std::int64_t{1} << 26;
  static constexpr std::int64_t kMaxPatchCount = std::int64_t{1} << 40;

  /// @errors kInvalidArgument: a dimension below 1 or above 2^31, patch not a power of two or too large, too
  /// many patches
  static Result<PatchGrid> Create(const Index3& dims, const Index3& patch);

  const Index3& dims() const { return dims_; }
  const Index3& patch() const { return patch_; }
  /// Patches along each axis.
  const Index3& patches() const { return patches_; }
  std::int64_t patch_count() const { return Volume(patches_); }
  Box domain() const { return {{0, 0, 0}, dims_}; }

  /// Linear patch index x + px * (y + py * z) of a position, and back.
  std::int64_t PatchIndex(const Index3& position) const {
    return position[0] + patches_[0] * (position[1] + patches_[1] * position[2]);
  }
  Index3 PatchPosition(std::int64_t index) const;
  std::uint64_t PatchMorton(std::int64_t index) const;

  /// The samples of a patch, cut at the domain's edge.
  Box PatchBox(const Index3& position) const;
  Box PatchBox(std::int64_t index) const { return PatchBox(PatchPosition(index)); }

  /// Half-open box of patch positions that meet a box of samples.
  Box PatchesMeeting(const Box& samples) const;

  /// How many patches lie before this one along the Morton curve, and back: curve positions are 0 to
  /// patch_count() - 1 without gaps, unlike codes.
  /// @complexity the logarithm of the longest side
  std::int64_t CurvePosition(std::int64_t index) const;
  std::int64_t PatchAtCurvePosition(std::int64_t curve_position) const;

  /// All patch indices, sorted along the Morton curve.
  std::vector<std::int64_t> MortonOrder() const;

 private:
  PatchGrid(const Index3& dims, const Index3& patch, const Index3& patches)
      : dims_(dims), patch_(patch), patches_(patches) {}

  Index3 dims_;
  Index3 patch_;
  Index3 patches_;
};

/// Largest allowed number of levels: log2(p) + 1 for the smallest patch extent p among axes with more than
/// one sample.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section III.A, L =
/// log2(min(px, py, pz)) + 1
int MaxLevels(const Index3& dims, const Index3& patch);

/// The default patch of a grid: at most 2^18 samples, 64^3 of a volume, whatever the shape of the grid. Short
/// axes leave their share to the others. An axis of one sample has 1, every other one at least 64, as far as
/// PatchGrid::kMaxPatchVolume allows, so that a thin grid has levels as well. Example: 1440x721 -> 512x512x1,
/// 1440x721x10 -> 128x128x64.
Index3 DefaultPatch(const Index3& dims);

/// The number of levels unless somebody asks for another: MaxLevels, but at most 10. Coarser levels of a
/// patch would have fewer bytes than their place in the patch table.
int DefaultLevels(const Index3& dims, const Index3& patch);

/// Samples of the largest patch of a grid: `patch`, cut at the domain's edge.
Index3 LargestPatchShape(const Index3& dims, const Index3& patch);

}  // namespace quarry
