// The D3Q19 velocity set and the units of everything built on it.
//
// Lattice units throughout: lengths in cells, times in steps, and a mean
// density of 1. The speed of sound is then 1/sqrt(3) cells per step.

#pragma once

#include <array>

namespace lbm {

/// A triple in axis order x, y, z.
using Int3 = std::array<int, 3>;

/// One rest population and nine pairs of opposite directions: directions 2p + 1 and 2p + 2 are mirror
/// images, for p = 0..8. The collision works on whole pairs.
inline constexpr int kDirections = 19;
inline constexpr int kPairs = 9;

/// Cells travelled per step, by direction.
inline constexpr std::array<Int3, kDirections> kVelocity = {{
    {0, 0, 0},                //
    {1, 0, 0},  {-1, 0, 0},   //
    {0, 1, 0},  {0, -1, 0},   //
    {0, 0, 1},  {0, 0, -1},   //
    {1, 1, 0},  {-1, -1, 0},  //
    {1, -1, 0}, {-1, 1, 0},   //
    {1, 0, 1},  {-1, 0, -1},  //
    {1, 0, -1}, {-1, 0, 1},   //
    {0, 1, 1},  {0, -1, -1},  //
    {0, 1, -1}, {0, -1, 1},   //
}};

/// Weights of Qian, d'Humieres and Lallemand, "Lattice BGK models for
/// Navier-Stokes equation", Europhys. Lett. 17 (1992).
inline constexpr float kRestWeight = 1.0f / 3.0f;
inline constexpr float kAxisWeight = 1.0f / 18.0f;
inline constexpr float kDiagonalWeight = 1.0f / 36.0f;

constexpr float Weight(int direction) {
  if (direction == 0) return kRestWeight;
  return direction <= 6 ? kAxisWeight : kDiagonalWeight;
}

constexpr int Opposite(int direction) {
  if (direction == 0) return 0;
  return direction % 2 == 1 ? direction + 1 : direction - 1;
}

/// Equilibrium population of one direction, less its weight. Storing only the
/// deviation from the fluid at rest keeps float32 rounding errors relative to
/// the flow and not to the much larger weights (Skordos, Phys. Rev. E 48, 1993).
constexpr float EquilibriumDeviation(int direction, float density, float ux, float uy, float uz) {
  const Int3& c = kVelocity[direction];
  const float cu =
      static_cast<float>(c[0]) * ux + static_cast<float>(c[1]) * uy + static_cast<float>(c[2]) * uz;
  const float uu = ux * ux + uy * uy + uz * uz;
  return Weight(direction) * ((density - 1.0f) + density * (3.0f * cu + 4.5f * cu * cu - 1.5f * uu));
}

}  // namespace lbm
