#include "solver.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "collision.h"

namespace lbm {
namespace {

// Cross-flow added to the initial state, in parts of the inflow.
constexpr float kPerturbation = 0.4f;

// Uniform flow with a cross-flow that makes the wake unsteady and varied along
// the barrier right away. The cross-flow varies only across its own direction,
// so it is free of divergence and makes no sound.
std::array<float, 3> InitialVelocity(const Int3& cell, const Int3& cells, float inflow) {
  const auto phase = [&](int axis, double waves) {
    return 2.0 * std::numbers::pi * waves * (cell[axis] + 0.5) / cells[axis];
  };
  const double amplitude = kPerturbation * inflow;
  const double uy = amplitude * std::sin(phase(0, 2)) *
                    (1.0 + 0.25 * std::sin(phase(2, 1) + 0.7) + 0.25 * std::sin(phase(2, 3)));
  const double uz = cells[2] == 1 ? 0 : amplitude * 0.5 * std::sin(phase(0, 3) + phase(1, 2));
  return {inflow, static_cast<float>(uy), static_cast<float>(uz)};
}

}  // namespace

Solver::Solver(Domain& domain, const Barrier& barrier, const Flow& flow) : domain_(domain) {
  const float viscosity = flow.inflow * barrier.diameter / flow.reynolds;
  relaxation_time_ = 3.0f * viscosity + 0.5f;

  for (int q = 0; q < kDirections; ++q) {
    const Int3& c = kVelocity[q];
    reach_[q] = domain.Index(c[0], c[1], c[2]);
    current_[q].resize(domain.padded_size());
    next_[q].resize(domain.padded_size());
  }
  MarkSolidCells(barrier);
  FindWallLinks();
  SetInitialState(flow.inflow);
  if (domain.AtInflow()) {
    SetInflowHalo(current_, flow.inflow);
    SetInflowHalo(next_, flow.inflow);
  }
}

// Marks the halo too: walls there act on own fluid cells. The barrier is clear
// of the periodic sides, so coordinates beyond them need not be wrapped.
void Solver::MarkSolidCells(const Barrier& barrier) {
  const auto [nx, ny, nz] = domain_.cells();
  const auto [x0, y0, z0] = domain_.offset();
  solid_.resize(domain_.padded_size());
  for (int z = 0; z <= nz + 1; ++z) {
    for (int y = 0; y <= ny + 1; ++y) {
      for (int x = 0; x <= nx + 1; ++x) {
        const bool solid = barrier.Contains(x0 + x - 1, y0 + y - 1);
        solid_[domain_.Index(x, y, z)] = solid ? 1 : 0;
      }
    }
  }
}

void Solver::FindWallLinks() {
  ForEachOwnCell(domain_, [&](int x, int y, int z) {
    const std::ptrdiff_t cell = domain_.Index(x, y, z);
    if (solid_[cell]) {
      solid_cells_.push_back(cell);
      return;
    }
    for (int q = 1; q < kDirections; ++q) {
      const std::ptrdiff_t neighbor = cell + reach_[q];
      if (solid_[neighbor]) wall_links_.push_back({q, cell, neighbor});
    }
  });
}

void Solver::SetInitialState(float inflow) {
  const auto [x0, y0, z0] = domain_.offset();
  ForEachOwnCell(domain_, [&, x0 = x0, y0 = y0, z0 = z0](int x, int y, int z) {
    if (IsSolid(x, y, z)) return;
    const auto [ux, uy, uz] =
        InitialVelocity({x0 + x - 1, y0 + y - 1, z0 + z - 1}, domain_.global_cells(), inflow);
    for (int q = 0; q < kDirections; ++q) {
      current_[q][domain_.Index(x, y, z)] = EquilibriumDeviation(q, 1.0f, ux, uy, uz);
    }
  });
}

// Beyond the inflow lies undisturbed fluid, at all times.
void Solver::SetInflowHalo(Populations& populations, float inflow) const {
  for (int z = 0; z < domain_.cells()[2] + 2; ++z) {
    for (int y = 0; y < domain_.cells()[1] + 2; ++y) {
      for (int q = 0; q < kDirections; ++q) {
        populations[q][domain_.Index(0, y, z)] = EquilibriumDeviation(q, 1.0f, inflow, 0.0f, 0.0f);
      }
    }
  }
}

// Beyond the outflow the motion continues as in the last cells, so that
// vortices can leave, but at the pressure of undisturbed fluid: left free, the
// pressure would drift. Only populations that move upstream come back in.
void Solver::SetOutflowHalo() {
  const auto [nx, ny, nz] = domain_.cells();
  for (int z = 1; z <= nz; ++z) {
    for (int y = 1; y <= ny; ++y) {
      const std::ptrdiff_t last = domain_.Index(nx, y, z);
      const float excess = State(nx, y, z).density - 1.0f;
      for (int q = 0; q < kDirections; ++q) {
        if (kVelocity[q][0] >= 0) continue;
        current_[q][last + 1] = current_[q][last] - Weight(q) * excess;
      }
    }
  }
}

// Populations only move into a block along their own direction, so five of the
// nineteen need to cross each face.
void Solver::ExchangeHalos() {
  if (domain_.AtOutflow()) SetOutflowHalo();
  for (int axis = 0; axis < 3; ++axis) {
    for (const int direction : {-1, 1}) {
      std::array<float*, 5> crossing;
      std::size_t count = 0;
      for (int q = 0; q < kDirections; ++q) {
        if (kVelocity[q][axis] == direction) {
          crossing[count++] = current_[q].data();
        }
      }
      domain_.ShiftLayer(crossing, axis, direction);
    }
  }
}

// Half-way bounce-back: what leaves a fluid cell towards a solid one comes back
// reversed, which puts a no-slip wall half-way between the two (Krueger et al.,
// "The Lattice Boltzmann Method", 2017, section 5.3.3). Placing it in the solid
// cell lets streaming treat walls like everything else.
void Solver::ReflectAtWalls() {
  for (const auto& [outgoing, fluid, solid] : wall_links_) {
    current_[Opposite(outgoing)][solid] = current_[outgoing][fluid];
  }
}

// Streaming is the shift by which the collision reads its inputs.
void Solver::UpdateRow(int y, int z) {
  const std::ptrdiff_t first = domain_.Index(1, y, z);
  PopulationsIn in;
  PopulationsOut out;
  for (int q = 0; q < kDirections; ++q) {
    in[q] = current_[q].data() + first - reach_[q];
    out[q] = next_[q].data() + first;
  }
  Collide(in, out, domain_.cells()[0], relaxation_time_);
}

// Rows are collided whole, solid cells included, whose results mean nothing.
void Solver::ClearSolidCells() {
  for (auto& population : next_) {
    for (const std::ptrdiff_t cell : solid_cells_) population[cell] = 0.0f;
  }
}

void Solver::Step() {
  ExchangeHalos();
  ReflectAtWalls();
  for (int z = 1; z <= domain_.cells()[2]; ++z) {
    for (int y = 1; y <= domain_.cells()[1]; ++y) UpdateRow(y, z);
  }
  ClearSolidCells();
  std::swap(current_, next_);
}

CellState Solver::State(int x, int y, int z) const {
  if (IsSolid(x, y, z)) return {1.0f, {0.0f, 0.0f, 0.0f}};
  const std::ptrdiff_t cell = domain_.Index(x, y, z);
  float deviation = 0.0f;
  std::array<float, 3> momentum = {0.0f, 0.0f, 0.0f};
  for (int q = 0; q < kDirections; ++q) {
    const float value = current_[q][cell];
    deviation += value;
    for (int axis = 0; axis < 3; ++axis) {
      momentum[axis] += static_cast<float>(kVelocity[q][axis]) * value;
    }
  }
  const float density = 1.0f + deviation;
  return {density, {momentum[0] / density, momentum[1] / density, momentum[2] / density}};
}

}  // namespace lbm
