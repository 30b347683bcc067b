#include "quarry/index/box_tree.h"

#include <algorithm>
#include <span>
#include <utility>

#include "quarry/geometry/morton.h"

namespace quarry::index {
namespace {

constexpr std::size_t kEntryBytes = 7 * sizeof(std::uint32_t);

std::uint64_t NodesFor(std::uint64_t count) { return (count + kBoxesPerNode - 1) / kBoxesPerNode; }

void Put(const NumberedBox& entry, Bytes* to) {
  for (std::size_t a = 0; a < 3; ++a) {
    PutLittleEndian(to, static_cast<std::uint32_t>(entry.box.begin[a]));
    PutLittleEndian(to, static_cast<std::uint32_t>(entry.box.end[a]));
  }
  PutLittleEndian(to, entry.number);
}

NumberedBox EntryAt(ByteSpan value, std::size_t index) {
  const std::byte* const at = value.data() + index * kEntryBytes;
  const auto number = [&](std::size_t i) {
    return GetLittleEndian<std::uint32_t>(at + i * sizeof(std::uint32_t));
  };
  NumberedBox entry;
  for (std::size_t a = 0; a < 3; ++a) {
    entry.box.begin[a] = number(2 * a);
    entry.box.end[a] = number(2 * a + 1);
  }
  entry.number = number(6);
  return entry;
}

/// The code of the middle of a box, on a lattice that Morton codes can hold.
std::uint64_t CodeOf(const Box& box, int shift) {
  Index3 middle{};
  for (std::size_t a = 0; a < 3; ++a) middle[a] = (box.begin[a] + (box.end[a] - box.begin[a]) / 2) >> shift;
  return MortonEncode(middle);
}

void SortAlongCurve(std::vector<NumberedBox>* boxes) {
  std::int64_t largest = 0;
  for (const auto& [box, number] : *boxes) largest = std::max({largest, box.end[0], box.end[1], box.end[2]});
  int shift = 0;
  while (largest >> shift >= kMaxPatchesPerAxis) ++shift;
  std::ranges::stable_sort(*boxes, {}, [&](const NumberedBox& one) { return CodeOf(one.box, shift); });
}

Box BoundsOf(std::span<const NumberedBox> entries) {
  Box bounds;
  for (const NumberedBox& entry : entries) bounds = BoundingBox(bounds, entry.box);
  return bounds;
}

/// How many boxes a node has: all nodes of a level are full but the last.
std::uint64_t SizeOfNode(std::uint64_t of_level, std::uint32_t number) {
  return std::min<std::uint64_t>(kBoxesPerNode, of_level - std::uint64_t{number} * kBoxesPerNode);
}

/// A search through the levels, from the root down.
class Search {
 public:
  Search(const Box& box, std::uint64_t count, std::uint32_t numbers, const ReadNode& read)
      : box_(box), numbers_(numbers), read_(read) {
    for (std::uint64_t n = count; n > 0; n = NodesFor(n)) {
      counts_.push_back(n);
      if (n <= kBoxesPerNode) break;
    }
  }

  Result<std::vector<std::uint32_t>> Run() {
    if (counts_.empty()) return std::vector<std::uint32_t>();
    std::vector<std::uint32_t> nodes = {0};
    for (std::size_t level = counts_.size(); level-- > 0;) {
      std::vector<std::uint32_t> below;
      for (const std::uint32_t node : nodes) QUARRY_RETURN_IF_ERROR(Enter(level, node, &below));
      nodes = std::move(below);
    }
    std::ranges::sort(nodes);
    if (std::ranges::adjacent_find(nodes) != nodes.end()) return DataLoss("a box is there twice");
    return nodes;
  }

 private:
  Status Enter(std::size_t level, std::uint32_t node, std::vector<std::uint32_t>* below) const {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan value, read_(static_cast<std::uint8_t>(level), node));
    const std::uint64_t size = SizeOfNode(counts_[level], node);
    if (value.size() != size * kEntryBytes)
      return DataLoss("node {} of level {} has {} bytes instead of {}", node, level, value.size(),
                      size * kEntryBytes);
    for (std::uint64_t i = 0; i < size; ++i) {
      const NumberedBox entry = EntryAt(value, i);
      const std::uint64_t expected = std::uint64_t{node} * kBoxesPerNode + i;
      const bool is_good = level == 0 ? entry.number < numbers_ : entry.number == expected;
      if (!is_good || entry.box.empty())
        return DataLoss("node {} of level {} has an impossible box", node, level);
      if (!Intersect(entry.box, box_).empty()) below->push_back(entry.number);
    }
    return Status::Ok();
  }

  const Box& box_;
  const std::uint32_t numbers_;
  const ReadNode& read_;
  std::vector<std::uint64_t> counts_;  ///< boxes in each level, the leaves first
};

}  // namespace

std::vector<BoxNode> MakeBoxTree(std::vector<NumberedBox> boxes) {
  SortAlongCurve(&boxes);
  std::vector<BoxNode> nodes;
  for (std::uint8_t level = 0; !boxes.empty(); ++level) {
    std::vector<NumberedBox> above;
    for (std::size_t begin = 0; begin < boxes.size(); begin += kBoxesPerNode) {
      const std::span<const NumberedBox> part =
          std::span(boxes).subspan(begin, std::min(kBoxesPerNode, boxes.size() - begin));
      BoxNode node{level, static_cast<std::uint32_t>(above.size()), {}};
      for (const NumberedBox& entry : part) Put(entry, &node.value);
      above.push_back({BoundsOf(part), node.number});
      nodes.push_back(std::move(node));
    }
    if (above.size() == 1) break;
    boxes = std::move(above);
  }
  return nodes;
}

Result<std::vector<std::uint32_t>> FindBoxes(std::uint64_t count, std::uint32_t numbers, const Box& box,
                                             const ReadNode& read) {
  return Search(box, count, numbers, read).Run();
}

Status CheckBoxTree(std::vector<NumberedBox> boxes, const ReadNode& read) {
  for (const BoxNode& expected : MakeBoxTree(std::move(boxes))) {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan value, read(expected.level, expected.number));
    if (!std::ranges::equal(value, expected.value))
      return DataLoss("node {} of level {} has other boxes", expected.number, expected.level);
  }
  return Status::Ok();
}

}  // namespace quarry::index
