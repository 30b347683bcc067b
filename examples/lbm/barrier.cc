#include "barrier.h"

#include <algorithm>

namespace lbm {
namespace {

// In parts of the domain's extent along the respective axis.
constexpr float kPositionX = 0.18f;
constexpr float kPositionY = 0.49f;

// In parts of the domain's extent along y, for a domain at least twice as long.
constexpr float kDiameter = 0.17f;

// Fewer cells would not block the flow.
constexpr float kMinDiameter = 3.0f;

}  // namespace

bool Barrier::Contains(int x, int y) const {
  const float dx = static_cast<float>(x) + 0.5f - center_x;
  const float dy = static_cast<float>(y) + 0.5f - center_y;
  return dx * dx + dy * dy < 0.25f * diameter * diameter;
}

Barrier MakeBarrier(const Int3& cells) {
  const auto nx = static_cast<float>(cells[0]);
  const auto ny = static_cast<float>(cells[1]);
  return {.center_x = kPositionX * nx,
          .center_y = kPositionY * ny,
          .diameter = std::max(kMinDiameter, kDiameter * std::min(0.5f * nx, ny))};
}

}  // namespace lbm
