// The lattice-Boltzmann solver: collision, streaming and boundaries.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "barrier.h"
#include "domain.h"
#include "lattice.h"

namespace lbm {

struct Flow {
  float reynolds;  ///< inflow * barrier diameter / viscosity
  float inflow;    ///< speed along x, cells per step
};

/// Density and velocity of one cell, in lattice units.
struct CellState {
  float density;
  std::array<float, 3> velocity;
};

/// Integrates the flow past the barrier on this rank's block of a domain.
///
/// Every cell is updated from its own and its neighbours' values by the same
/// operations in the same order wherever the block boundaries are, so results
/// are bitwise independent of the number of ranks.
class Solver {
 public:
  /// `domain` must outlive the solver.
  Solver(Domain& domain, const Barrier& barrier, const Flow& flow);

  /// Advances by one time step. Collective over the domain's communicator.
  void Step();

  /// State of an own cell, given in padded coordinates. Solid cells report a
  /// density of 1 and no velocity.
  CellState State(int x, int y, int z) const;

  bool IsSolid(int x, int y, int z) const { return solid_[domain_.Index(x, y, z)] != 0; }

 private:
  /// One padded array per direction; each holds f - weight (see lattice.h).
  using Populations = std::array<std::vector<float>, kDirections>;

  /// A population that leaves a fluid cell towards a solid one.
  struct WallLink {
    int outgoing;          ///< its direction
    std::ptrdiff_t fluid;  ///< the two cells, as positions in a padded field
    std::ptrdiff_t solid;
  };

  void MarkSolidCells(const Barrier& barrier);
  void FindWallLinks();
  void SetInitialState(float inflow);
  void SetInflowHalo(Populations& populations, float inflow) const;
  void SetOutflowHalo();
  void ExchangeHalos();
  void ReflectAtWalls();
  void UpdateRow(int y, int z);
  void ClearSolidCells();

  Domain& domain_;
  float relaxation_time_ = 1.0f;  ///< steps
  Populations current_;           ///< as left by the last collision
  Populations next_;
  std::array<std::ptrdiff_t, kDirections> reach_;  ///< index step per direction
  std::vector<std::uint8_t> solid_;                ///< padded, 1 in solid cells
  std::vector<std::ptrdiff_t> solid_cells_;        ///< own ones
  std::vector<WallLink> wall_links_;               ///< links of own fluid cells
};

}  // namespace lbm
