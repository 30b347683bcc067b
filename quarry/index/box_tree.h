#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/box.h"

/// A packed R-tree of boxes, as records of the index: a question reads the nodes that meet its box, wherever
/// the boxes lie. Level 0 has the leaves, in the order of the Morton codes of their middles; a node above has
/// the bounds of up to kBoxesPerNode nodes below it. The number of boxes alone says how many nodes there are,
/// so that nothing has to be believed of a record but its boxes.
/// @source Kamel and Faloutsos 1993 (packing along a curve); paper 000, section III.B (box, then patch)
namespace quarry::index {

inline constexpr std::size_t kBoxesPerNode = 16;

struct NumberedBox {
  Box box;  ///< level-0 samples, not empty
  std::uint32_t number = 0;
};

/// A node of the tree.
struct BoxNode {
  std::uint8_t level = 0;
  std::uint32_t number = 0;  ///< in its level
  Bytes value;               ///< for each box: its begin and end, u32 each, and a number, u32
};

/// All nodes, level by level from the leaves. A node above the leaves has the bounds and numbers of the nodes
/// below it.
std::vector<BoxNode> MakeBoxTree(std::vector<NumberedBox> boxes);

/// Returns the value of a node, or an error.
using ReadNode = std::function<Result<ByteSpan>(std::uint8_t level, std::uint32_t number)>;

/// The numbers of the boxes that meet `box`, ascending.
/// @param count    of the boxes in the tree
/// @param numbers  bound of the numbers of the boxes
/// @errors those of `read`; kDataLoss: a node is not one of this tree
Result<std::vector<std::uint32_t>> FindBoxes(std::uint64_t count, std::uint32_t numbers, const Box& box,
                                             const ReadNode& read);

/// Compares a tree with the boxes that it is of.
/// @errors those of `read`; kDataLoss: they differ
Status CheckBoxTree(std::vector<NumberedBox> boxes, const ReadNode& read);

}  // namespace quarry::index
