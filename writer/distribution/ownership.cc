#include "writer/distribution/ownership.h"

namespace quarry::distribution {

Ownership OneBoxEach(const std::vector<Box>& boxes) {
  Ownership owned(boxes.size());
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    if (!boxes[rank].empty()) owned[rank].push_back(boxes[rank]);
  }
  return owned;
}

}  // namespace quarry::distribution
