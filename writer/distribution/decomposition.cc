#include "writer/distribution/decomposition.h"

#include <algorithm>

namespace quarry::distribution {

std::vector<Box> ProcessGridBoxes(const Index3& dims, const Index3& process_grid) {
  std::vector<Box> boxes;
  for (std::int64_t k = 0; k < process_grid[2]; ++k) {
    for (std::int64_t j = 0; j < process_grid[1]; ++j) {
      for (std::int64_t i = 0; i < process_grid[0]; ++i) {
        const Index3 position = {i, j, k};
        Box box;
        for (std::size_t a = 0; a < 3; ++a) {
          box.begin[a] = dims[a] * position[a] / process_grid[a];
          box.end[a] = dims[a] * (position[a] + 1) / process_grid[a];
        }
        boxes.push_back(box);
      }
    }
  }
  return boxes;
}

std::vector<Box> ReadingBoxes(const Index3& dims, int ranks) {
  const std::int64_t slabs = std::min<std::int64_t>(ranks, dims[2]);
  const std::int64_t strips = std::min<std::int64_t>(ranks / slabs, dims[1]);
  std::vector<Box> boxes = ProcessGridBoxes(dims, {1, strips, slabs});
  boxes.resize(static_cast<std::size_t>(ranks));
  return boxes;
}

}  // namespace quarry::distribution
