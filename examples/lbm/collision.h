// The collision of a run of cells: what the populations exchange within a cell.

#pragma once

#include <array>

#include "lattice.h"

namespace lbm {

/// One pointer per direction, to the population (less its weight, see lattice.h)
/// of the first of a run of cells that follow each other along x.
using PopulationsIn = std::array<const float*, kDirections>;
using PopulationsOut = std::array<float*, kDirections>;

/// Collides `count` cells: reads the populations that have streamed into them
/// and writes those that leave. `relaxation_time` in steps; the viscosity is
/// (relaxation_time - 1/2) / 3 plus an eddy viscosity where the grid is too
/// coarse for the shear. No output may overlap any input.
void Collide(const PopulationsIn& in, const PopulationsOut& out, int count, float relaxation_time);

}  // namespace lbm
