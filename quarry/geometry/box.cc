#include "quarry/box.h"

#include <algorithm>
#include <vector>

#include "quarry/base/numbers.h"
#include "quarry/base/split.h"
#include "quarry/base/status.h"

namespace quarry {

bool Box::Contains(const Box& other) const {
  for (int a = 0; a < 3; ++a) {
    if (other.begin[a] < begin[a] || other.end[a] > end[a]) return false;
  }
  return true;
}

Box Intersect(const Box& a, const Box& b) {
  Box both;
  for (int axis = 0; axis < 3; ++axis) {
    both.begin[axis] = std::max(a.begin[axis], b.begin[axis]);
    both.end[axis] = std::min(a.end[axis], b.end[axis]);
  }
  return both;
}

std::vector<Box> JoinBoxes(std::vector<Box> boxes) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t u = (axis + 1) % 3;
    const std::size_t v = (axis + 2) % 3;
    const auto sides = [u, v](const Box& box) {
      return std::array{box.begin[u], box.end[u], box.begin[v], box.end[v]};
    };
    std::sort(boxes.begin(), boxes.end(), [&](const Box& a, const Box& b) {
      return std::pair(sides(a), a.begin[axis]) < std::pair(sides(b), b.begin[axis]);
    });
    std::vector<Box> joined;
    for (const Box& box : boxes) {
      if (!joined.empty() && sides(joined.back()) == sides(box) &&
          joined.back().end[axis] == box.begin[axis]) {
        joined.back().end[axis] = box.end[axis];
      } else {
        joined.push_back(box);
      }
    }
    boxes = std::move(joined);
  }
  return boxes;
}

Box Translate(const Box& box, const Index3& origin) {
  Box moved;
  for (std::size_t a = 0; a < 3; ++a) {
    moved.begin[a] = box.begin[a] - origin[a];
    moved.end[a] = box.end[a] - origin[a];
  }
  return moved;
}

Box BoundingBox(const Box& a, const Box& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Box all;
  for (int axis = 0; axis < 3; ++axis) {
    all.begin[axis] = std::min(a.begin[axis], b.begin[axis]);
    all.end[axis] = std::max(a.end[axis], b.end[axis]);
  }
  return all;
}

std::string ToString(const Box& box) {
  return fmt::format("[{}:{},{}:{},{}:{})", box.begin[0], box.end[0], box.begin[1], box.end[1], box.begin[2],
                     box.end[2]);
}

std::string ToString(const Index3& shape) { return fmt::format("{}x{}x{}", shape[0], shape[1], shape[2]); }

Result<Box> ParseBox(const std::string& text, const Index3& dims) {
  const auto malformed = [&] {
    return InvalidArgument("\"{}\" is not a box; write x0:x1,y0:y1,z0:z1 (half-open, in level-0 samples)",
                           text);
  };
  Box box{{0, 0, 0}, dims};
  const std::vector<std::string_view> axes = Split(text, ',');
  if (axes.size() > 3) return malformed();
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::vector<std::string_view> ends = Split(axes[a], ':');
    if (ends.size() != 2) return malformed();
    if (!ends[0].empty() && !ReadNumber(ends[0], &box.begin[a])) return malformed();
    if (!ends[1].empty() && !ReadNumber(ends[1], &box.end[a])) return malformed();
  }
  QUARRY_RETURN_IF_ERROR(CheckBox(box, dims));
  return box;
}

Result<Index3> ParseShape(const std::string& text, const std::string& what) {
  Index3 shape = {1, 1, 1};
  const std::vector<std::string_view> parts = Split(text, 'x');
  bool good = parts.size() <= 3;
  for (std::size_t a = 0; good && a < parts.size(); ++a)
    good = ReadNumber(parts[a], &shape[a]) && shape[a] >= 1;
  if (!good)
    return InvalidArgument(
        "{} \"{}\" is not a shape; write for example 128x64x64 (x fastest, each at least 1)", what, text);
  return shape;
}

Status CheckBox(const Box& box, const Index3& dims) {
  for (int a = 0; a < 3; ++a) {
    if (box.begin[a] < 0 || box.end[a] > dims[a] || box.begin[a] >= box.end[a]) {
      return InvalidArgument("box {} is empty or outside the grid {} along {}; give a part of {}",
                             ToString(box), ToString(dims), kAxisNames[a], ToString(Box{{0, 0, 0}, dims}));
    }
  }
  return Status::Ok();
}

}  // namespace quarry
