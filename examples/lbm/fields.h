// The physical fields that a simulation dumps.

#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "domain.h"
#include "solver.h"

namespace lbm {

/// One field on one rank's block: padded, as Domain has it. The halo has no
/// meaning: use the own cells only.
struct Field {
  std::string_view name;
  std::vector<float> values;
};

/// The dumped fields, in lattice units:
///   density                     1 on average; the pressure is density / 3
///   velocity_x, _y, _z          cells per step
///   vorticity                   magnitude of the velocity's curl, per step
/// Solid cells hold density 1, velocity 0 and vorticity 0.
using Fields = std::array<Field, 5>;
inline constexpr std::array<std::string_view, 5> kFieldNames = {"density", "velocity_x", "velocity_y",
                                                                "velocity_z", "vorticity"};

/// Samples the current state. Collective over the domain's communicator.
Fields SampleFields(Domain& domain, const Solver& solver);

/// Numbers for the report of a dump, over the whole domain. In lattice units.
struct Summary {
  double mean_speed;  ///< over all cells
  double max_speed;
  bool finite;  ///< whether every value of every field is
};

/// Collective over the domain's communicator; all ranks get the same.
Summary Summarize(const Domain& domain, const Fields& fields);

}  // namespace lbm
