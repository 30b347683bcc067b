#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/geometry/patch_grid.h"

namespace quarry::query {

/// The patches of a box that an answer leaves out: a bit for each patch of the box.
class LeftOutPatches {
 public:
  /// @param grid  outlives this
  LeftOutPatches(const PatchGrid& grid, const Box& box);

  void Add(std::uint64_t patch_index);
  /// The samples of the box in them, joined as JoinBoxes does.
  /// @errors kResourceExhausted: more boxes than `most`
  /// @complexity memory of the boxes, besides
  Result<std::vector<Box>> Boxes(std::size_t most) const;

 private:
  std::vector<Box> BoxesOfRow(std::int64_t y, std::int64_t z) const;

  const PatchGrid& grid_;
  const Box box_;
  const Box positions_;
  std::vector<bool> bits_;  ///< a bit for each position, x first
};

}  // namespace quarry::query
