#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quarry/result.h"

namespace quarry {

/// Three integers x, y, z. Always in this order; x is the fastest in memory.
using Index3 = std::array<std::int64_t, 3>;

inline constexpr std::array<char, 3> kAxisNames = {'x', 'y', 'z'};

/// Number of samples in an array of this shape. The caller keeps the product below 2^63.
constexpr std::int64_t Volume(const Index3& shape) { return shape[0] * shape[1] * shape[2]; }

/// A half-open box [begin, end) of grid samples, x, y, z.
struct Box {
  Index3 begin{};
  Index3 end{};

  friend bool operator==(const Box&, const Box&) = default;

  bool empty() const { return end[0] <= begin[0] || end[1] <= begin[1] || end[2] <= begin[2]; }
  /// Samples along each axis, 0 where the box is empty: it may be empty along one axis only.
  Index3 shape() const {
    return {std::max<std::int64_t>(0, end[0] - begin[0]), std::max<std::int64_t>(0, end[1] - begin[1]),
            std::max<std::int64_t>(0, end[2] - begin[2])};
  }
  std::int64_t volume() const { return Volume(shape()); }
  bool Contains(const Box& other) const;
};

/// Samples in both; possibly empty.
Box Intersect(const Box& a, const Box& b);

/// The smallest box that holds both; an empty box adds nothing.
Box BoundingBox(const Box& a, const Box& b);

/// The same samples in fewer boxes: boxes that form one box together are joined, along x first, then y, then
/// z.
/// @param boxes  no two overlap, none is empty
std::vector<Box> JoinBoxes(std::vector<Box> boxes);

/// The box in coordinates in which `origin` is (0,0,0); Translate(box, {-x, -y, -z}) goes back.
Box Translate(const Box& box, const Index3& origin);

/// "[0:64,0:64,0:27)": the form of boxes in messages.
std::string ToString(const Box& box);

/// "2025x1600x400".
std::string ToString(const Index3& shape);

/// "x0:x1,y0:y1,z0:z1", half-open; parts left out at the end, or empty sides of a colon, mean the whole axis
/// of `dims`.
/// @errors kInvalidArgument: not of this form, empty, or outside [0, dims)
Result<Box> ParseBox(const std::string& text, const Index3& dims);

/// "X", "XxY" or "XxYxZ", each >= 1; missing axes are 1. `what` names the option in the message.
Result<Index3> ParseShape(const std::string& text, const std::string& what);

/// @errors kInvalidArgument with box and grid, unless `box` is a non-empty part of [0, dims)
Status CheckBox(const Box& box, const Index3& dims);

}  // namespace quarry
