#include "quarry/query/left_out.h"

#include <algorithm>
#include <iterator>

#include "quarry/base/status.h"

namespace quarry::query {
namespace {

/// Joins slices that follow one another along an axis: JoinBoxes of all of them, of which only the boxes of
/// the result are in memory.
/// @param slice_of  gives the joined boxes of a slice, all as thick as it
template <typename SliceOf>
Result<std::vector<Box>> JoinSlices(std::size_t axis, std::int64_t begin, std::int64_t end, std::size_t most,
                                    const SliceOf& slice_of) {
  std::vector<Box> closed;
  std::vector<Box> open;  // they reach the last slice
  for (std::int64_t i = begin; i < end; ++i) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<Box> slice, slice_of(i));
    if (slice.empty()) {
      closed.insert(closed.end(), open.begin(), open.end());
      open.clear();
      continue;
    }
    const std::int64_t reached = slice.front().end[axis];
    open.insert(open.end(), slice.begin(), slice.end());
    open = JoinBoxes(std::move(open));
    const auto rest =
        std::partition(open.begin(), open.end(), [&](const Box& box) { return box.end[axis] < reached; });
    closed.insert(closed.end(), open.begin(), rest);
    open.erase(open.begin(), rest);
    if (closed.size() + open.size() > most)
      return ResourceExhausted(
          "the answer leaves out more than {} boxes without requested values; ask for a smaller box, or for "
          "values that more patches have",
          most);
  }
  closed.insert(closed.end(), open.begin(), open.end());
  return JoinBoxes(std::move(closed));
}

}  // namespace

LeftOutPatches::LeftOutPatches(const PatchGrid& grid, const Box& box)
    : grid_(grid),
      box_(box),
      positions_(grid.PatchesMeeting(box)),
      bits_(static_cast<std::size_t>(positions_.volume())) {}

void LeftOutPatches::Add(std::uint64_t patch_index) {
  const Index3 at =
      Translate({grid_.PatchPosition(static_cast<std::int64_t>(patch_index)), {}}, positions_.begin).begin;
  const Index3 shape = positions_.shape();
  bits_[static_cast<std::size_t>(at[0] + shape[0] * (at[1] + shape[1] * at[2]))] = true;
}

std::vector<Box> LeftOutPatches::BoxesOfRow(std::int64_t y, std::int64_t z) const {
  const Index3 shape = positions_.shape();
  const auto row =
      bits_.begin() + (y - positions_.begin[1] + shape[1] * (z - positions_.begin[2])) * shape[0];
  const auto end = row + shape[0];
  std::vector<Box> boxes;
  for (auto first = std::find(row, end, true); first != end; first = std::find(first, end, true)) {
    const auto last = std::find(first, end, false);
    const Box from = grid_.PatchBox(Index3{positions_.begin[0] + (first - row), y, z});
    const Box to = grid_.PatchBox(Index3{positions_.begin[0] + (last - row) - 1, y, z});
    boxes.push_back(Intersect(box_, {from.begin, to.end}));
    first = last;
  }
  return boxes;
}

Result<std::vector<Box>> LeftOutPatches::Boxes(std::size_t most) const {
  return JoinSlices(2, positions_.begin[2], positions_.end[2], most, [&](std::int64_t z) {
    return JoinSlices(1, positions_.begin[1], positions_.end[1], most,
                      [&](std::int64_t y) -> Result<std::vector<Box>> { return BoxesOfRow(y, z); });
  });
}

}  // namespace quarry::query
