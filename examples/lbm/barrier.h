// The obstacle in the flow.

#pragma once

#include "lattice.h"

namespace lbm {

/// A solid cylinder across the flow. Its axis is parallel to z and, the domain
/// being periodic, has no ends. All lengths and positions in cells.
struct Barrier {
  float center_x;
  float center_y;
  float diameter;

  /// Whether the centre of the cells at these global coordinates is solid.
  bool Contains(int x, int y) const;
};

/// A cylinder in proportion to a domain of `cells`: near the inflow, so that
/// most of the domain shows the wake, slightly off the centre line, and clear of
/// the domain's sides.
Barrier MakeBarrier(const Int3& cells);

}  // namespace lbm
