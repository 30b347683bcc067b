#include "writer/distribution/box_index.h"

#include <algorithm>

namespace quarry::distribution {
namespace {

/// Twice the centre of a box, in integers.
std::int64_t Centre(const Box& box, std::size_t axis) { return box.begin[axis] + box.end[axis]; }

}  // namespace

BoxIndex::BoxIndex(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.box.empty(); });
  if (!entries_.empty()) Build(0, entries_.size());
}

void BoxIndex::Build(std::size_t first, std::size_t last) {
  constexpr std::size_t kLeafEntries = 8;
  const std::size_t self = nodes_.size();
  nodes_.emplace_back();
  Box bounds;
  Box centres{
      {Centre(entries_[first].box, 0), Centre(entries_[first].box, 1), Centre(entries_[first].box, 2)}, {}};
  centres.end = centres.begin;
  for (std::size_t e = first; e < last; ++e) {
    bounds = BoundingBox(bounds, entries_[e].box);
    for (std::size_t a = 0; a < 3; ++a) {
      centres.begin[a] = std::min(centres.begin[a], Centre(entries_[e].box, a));
      centres.end[a] = std::max(centres.end[a], Centre(entries_[e].box, a));
    }
  }
  const bool leaf = last - first <= kLeafEntries;
  if (!leaf) {
    std::size_t axis = 0;
    for (std::size_t a = 1; a < 3; ++a) {
      if (centres.end[a] - centres.begin[a] > centres.end[axis] - centres.begin[axis]) axis = a;
    }
    const std::size_t middle = first + (last - first) / 2;
    const auto at = [&](std::size_t e) { return entries_.begin() + static_cast<std::ptrdiff_t>(e); };
    std::nth_element(at(first), at(middle), at(last), [axis](const Entry& a, const Entry& b) {
      return Centre(a.box, axis) < Centre(b.box, axis);
    });
    Build(first, middle);
    Build(middle, last);
  }
  nodes_[self] = {bounds, first, last, nodes_.size(), leaf};
}

}  // namespace quarry::distribution
