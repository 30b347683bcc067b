#pragma once

#include <vector>

#include "quarry/query/read_plan.h"

/// Coded answers: the tiles into which they are cut, and the errors that they keep.
namespace quarry::query {

/// [unit of the field] The largest recorded error of level 0 in a layer.
double ErrorOfSamples(const ReadPlan& plan, int layer);

/// Errors of a level of a coded answer.
struct CodedError {
  double kept = 0;  ///< [unit of the field] of stored samples and coding together, see LevelExtent::max_error
  double coding = 0;  ///< [unit of the field] the part that coding adds at most
};

/// The errors of each level of a plan.
/// @param recode  as CheckRecode wants it
std::vector<CodedError> CodedErrors(const ReadPlan& plan, const Recode& recode);

/// Cuts a level of an answer into tiles. Each has the samples in a cube of 2^k patches along each axis, with
/// the largest k for which no tile has more than kMaxTileSamples; patches that are larger are their own
/// tiles. So the patches of a tile follow each other in Morton order. Patches that the plan leaves out make
/// no holes: k is then 0.
/// Example: a plane across z of 6 x 6 patches of 64^3 -> one tile of 384 x 384 x 1.
class TileCut {
 public:
  /// @param patch  samples of a patch of the grid that is not cut
  TileCut(const ReadPlan& plan, const Index3& patch, const LevelExtent& level);

  /// The tile of a patch with samples of the level, in the coordinates of its extent.
  Box TileOf(const PlannedPatch& patch) const;

 private:
  const Box box_;         ///< level-0 samples of the answer
  const Index3 spacing_;  ///< spacing of the level
  Index3 side_;           ///< side of a cube, in level-0 samples
};

}  // namespace quarry::query
