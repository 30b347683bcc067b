#include "writer/distribution/ownership.h"

namespace quarry::distribution {

Ownership OneBoxEach(const std::vector<Box>& boxes) {
  Ownership owned(boxes.size());
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    if (!boxes[rank].empty()) owned[rank].push_back(boxes[rank]);
  }
  return owned;
}

Ownership CutToRegion(const Ownership& owned, const Box& region) {
  Ownership cut(owned.size());
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    for (const Box& box : owned[rank]) {
      const Box part = Intersect(box, region);
      if (!part.empty()) cut[rank].push_back(Translate(part, region.begin));
    }
  }
  return cut;
}

}  // namespace quarry::distribution
