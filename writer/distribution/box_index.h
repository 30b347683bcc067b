#pragma once

#include <cstddef>
#include <vector>

#include "quarry/box.h"

namespace quarry::distribution {

/// Boxes of ranks in a tree of bounding boxes, for finding those that meet a given box. Leaves out empty
/// boxes. Immutable and thread-safe.
class BoxIndex {
 public:
  struct Entry {
    Box box;
    int rank = 0;
    std::size_t number = 0;  ///< among the boxes of the rank
  };

  /// @complexity O(n log n)
  explicit BoxIndex(std::vector<Entry> entries);

  /// In no particular order.
  const std::vector<Entry>& entries() const { return entries_; }

  /// Calls `visit` with every Entry that has samples in `query`, in no particular order.
  template <typename Visit>
  void ForEachMeeting(const Box& query, Visit visit) const {
    for (std::size_t n = 0; n < nodes_.size();) {
      const Node& node = nodes_[n];
      if (!Meet(node.bounds, query)) {
        n = node.next;
        continue;
      }
      if (node.leaf) {
        for (std::size_t e = node.first; e < node.last; ++e) {
          if (Meet(entries_[e].box, query)) visit(entries_[e]);
        }
      }
      ++n;
    }
  }

 private:
  /// Nodes are stored parents first, so that the subtree of node n is [n, next).
  struct Node {
    Box bounds;
    std::size_t first = 0;  ///< entries [first, last)
    std::size_t last = 0;
    std::size_t next = 0;
    bool leaf = false;
  };

  static bool Meet(const Box& a, const Box& b) { return !Intersect(a, b).empty(); }
  void Build(std::size_t first, std::size_t last);

  std::vector<Entry> entries_;
  std::vector<Node> nodes_;
};

}  // namespace quarry::distribution
