#include "writer/pipeline/chunks.h"

#include <algorithm>
#include <limits>

namespace quarry::writer {
namespace {

/// Where the run that contains `at` ends; runs begin at 0, and the last one ends at `end`.
std::int64_t EndOfRun(std::int64_t at, std::int64_t run, std::int64_t end) {
  const std::int64_t begin = at - at % run;
  return end - begin <= run ? end : begin + run;
}

}  // namespace

Result<Chunk> Chunk::Create(const PatchGrid& whole, const Box& patches) {
  const Index3 last = {patches.end[0] - 1, patches.end[1] - 1, patches.end[2] - 1};
  const Box samples = {whole.PatchBox(patches.begin).begin, whole.PatchBox(last).end};
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(samples.shape(), whole.patch()));
  return Chunk(whole, patches, samples, grid);
}

std::int64_t Chunk::IndexInWhole(std::int64_t patch) const {
  const Index3 p = grid_.PatchPosition(patch);
  return first_[0] + p[0] + whole_patches_[0] * (first_[1] + p[1] + whole_patches_[1] * (first_[2] + p[2]));
}

std::vector<Box> CutToChunks(const PatchGrid& grid, std::size_t sample_bytes, std::uint64_t bytes,
                             const Index3& unit) {
  const Index3& patches = grid.patches();
  // Starting from the whole grid, shortens z first, then y, then x, each only if one patch along the axis
  // before is still too much.
  Index3 shape = patches;
  for (std::size_t axis = 3; axis-- > 0;) {
    if (unit[axis] > 1 && unit[axis] >= grid.dims()[axis]) continue;
    Index3 slice = {std::min(shape[0] * grid.patch()[0], grid.dims()[0]),
                    std::min(shape[1] * grid.patch()[1], grid.dims()[1]),
                    std::min(shape[2] * grid.patch()[2], grid.dims()[2])};
    slice[axis] = std::min(grid.patch()[axis], grid.dims()[axis]);
    const std::uint64_t slice_bytes = static_cast<std::uint64_t>(Volume(slice)) * sample_bytes;
    shape[axis] = std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / slice_bytes), 1, patches[axis]);
    if (slice_bytes <= bytes) break;
  }
  std::vector<Box> chunks;
  for (std::int64_t z = 0; z < patches[2]; z += shape[2]) {
    for (std::int64_t y = 0; y < patches[1]; y += shape[1]) {
      for (std::int64_t x = 0; x < patches[0]; x += shape[0]) {
        const Index3 begin = {x, y, z};
        Box chunk{begin, begin};
        for (std::size_t a = 0; a < 3; ++a) chunk.end[a] = std::min(begin[a] + shape[a], patches[a]);
        chunks.push_back(chunk);
      }
    }
  }
  return chunks;
}

std::vector<Box> CutToPieces(const Box& box, std::size_t sample_bytes, std::uint64_t bytes,
                             const Index3& unit) {
  constexpr std::int64_t kUncut = std::numeric_limits<std::int64_t>::max();
  Index3 shape = box.shape();
  Index3 run = {kUncut, kUncut, kUncut};
  for (const std::size_t axis : {2, 1}) {
    shape[axis] = std::min(unit[axis], shape[axis]);
    const std::uint64_t units = bytes / (static_cast<std::uint64_t>(Volume(shape)) * sample_bytes);
    const std::uint64_t most = static_cast<std::uint64_t>(box.end[axis] / unit[axis]) + 1;
    run[axis] = static_cast<std::int64_t>(std::clamp<std::uint64_t>(units, 1, most)) * unit[axis];
    if (units > 0) break;
  }
  std::vector<Box> pieces;
  Box piece = box;
  for (; piece.begin[2] < box.end[2]; piece.begin[2] = piece.end[2]) {
    piece.end[2] = EndOfRun(piece.begin[2], run[2], box.end[2]);
    for (piece.begin[1] = box.begin[1]; piece.begin[1] < box.end[1]; piece.begin[1] = piece.end[1]) {
      piece.end[1] = EndOfRun(piece.begin[1], run[1], box.end[1]);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

}  // namespace quarry::writer
