#pragma once

#include <cstdint>
#include <vector>

#include "writer/distribution/placement.h"
#include "writer/redistribute/mapping.h"

namespace quarry::redistribute {

/// One rank's share of moving samples to whole patches.
struct PatchSchedule {
  /// `needed` has the patches of this rank. A send has the index of its patch as needed_box, which orders the
  /// sends between two ranks like the receives there. Rounds are not counted: only Method::kAlltoallw has
  /// any.
  RankSchedule schedule;
  std::vector<std::int64_t> patches;  ///< placed on this rank, ascending
};

/// Collects what concerns a rank while patches are placed: only its own patches and those that it shares are
/// kept.
class PatchScheduler {
 public:
  /// @param owned  in the coordinates of the grid; must outlive this
  PatchScheduler(const PatchGrid& grid, const distribution::RankBoxes& owned, int rank);

  /// A patch of ForEachPlacement.
  void Add(const distribution::PlacedPatch& placed);
  PatchSchedule Finish() &&;

 private:
  void AddOwnParts(const distribution::PlacedPatch& placed, const Box& patch);
  void AddReceives(const Box& patch);

  const PatchGrid& grid_;
  const distribution::RankBoxes& owned_;
  const int rank_;
  distribution::BoxIndex own_;  ///< boxes of this rank
  PatchSchedule result_;
};

}  // namespace quarry::redistribute
