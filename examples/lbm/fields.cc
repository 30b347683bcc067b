#include "fields.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace lbm {
namespace {

// The positions of a cell's two neighbours along an axis, for differences.
struct Stencil {
  std::ptrdiff_t lower;
  std::ptrdiff_t upper;
  float inverse_distance;
};

// Nothing is known beyond the open ends of the domain, so the difference
// becomes one-sided there.
Stencil StencilAlongX(const Domain& domain, int x, std::ptrdiff_t cell) {
  const bool first = domain.AtInflow() && x == 1;
  const bool last = domain.AtOutflow() && x == domain.cells()[0];
  return {first ? cell : cell - 1, last ? cell : cell + 1, first || last ? 1.0f : 0.5f};
}

float Derivative(const std::vector<float>& values, const Stencil& s) {
  return (values[s.upper] - values[s.lower]) * s.inverse_distance;
}

using PaddedVelocity = std::array<std::vector<float>, 3>;

float VorticityMagnitude(const Domain& domain, const PaddedVelocity& u, int x, int y, int z) {
  const std::ptrdiff_t cell = domain.Index(x, y, z);
  const Stencil dx = StencilAlongX(domain, x, cell);
  const Stencil dy = {cell - domain.stride_y(), cell + domain.stride_y(), 0.5f};
  const Stencil dz = {cell - domain.stride_z(), cell + domain.stride_z(), 0.5f};
  const float wx = Derivative(u[2], dy) - Derivative(u[1], dz);
  const float wy = Derivative(u[0], dz) - Derivative(u[2], dx);
  const float wz = Derivative(u[1], dx) - Derivative(u[0], dy);
  return std::sqrt(wx * wx + wy * wy + wz * wz);
}

void ExchangeHalos(Domain& domain, PaddedVelocity& velocity) {
  const std::array<float*, 3> components = {velocity[0].data(), velocity[1].data(), velocity[2].data()};
  for (int axis = 0; axis < 3; ++axis) {
    domain.ShiftLayer(components, axis, -1);
    domain.ShiftLayer(components, axis, 1);
  }
}

bool IsFinite(const Field& field) {
  return std::ranges::all_of(field.values, [](float value) { return std::isfinite(value); });
}

}  // namespace

Fields SampleFields(Domain& domain, const Solver& solver) {
  Fields fields = {
      {{"density", {}}, {"velocity_x", {}}, {"velocity_y", {}}, {"velocity_z", {}}, {"vorticity", {}}}};
  for (Field& field : fields) field.values.reserve(domain.size());
  PaddedVelocity velocity;
  for (auto& component : velocity) component.resize(domain.padded_size());

  ForEachOwnCell(domain, [&](int x, int y, int z) {
    const CellState state = solver.State(x, y, z);
    fields[0].values.push_back(state.density);
    for (int axis = 0; axis < 3; ++axis) {
      fields[axis + 1].values.push_back(state.velocity[axis]);
      velocity[axis][domain.Index(x, y, z)] = state.velocity[axis];
    }
  });

  ExchangeHalos(domain, velocity);
  ForEachOwnCell(domain, [&](int x, int y, int z) {
    fields[4].values.push_back(solver.IsSolid(x, y, z) ? 0.0f
                                                       : VorticityMagnitude(domain, velocity, x, y, z));
  });
  return fields;
}

Summary Summarize(const Domain& domain, const Fields& fields) {
  double sum = 0.0;
  double max = 0.0;
  for (std::size_t i = 0; i < domain.size(); ++i) {
    const double ux = fields[1].values[i];
    const double uy = fields[2].values[i];
    const double uz = fields[3].values[i];
    const double speed = std::sqrt(ux * ux + uy * uy + uz * uz);
    sum += speed;
    max = std::max(max, speed);
  }
  int finite = std::ranges::all_of(fields, IsFinite) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, domain.comm());
  MPI_Allreduce(MPI_IN_PLACE, &max, 1, MPI_DOUBLE, MPI_MAX, domain.comm());
  MPI_Allreduce(MPI_IN_PLACE, &finite, 1, MPI_INT, MPI_MIN, domain.comm());
  const auto [nx, ny, nz] = domain.global_cells();
  const double cells = static_cast<double>(nx) * ny * nz;
  return {.mean_speed = sum / cells, .max_speed = max, .finite = finite == 1};
}

}  // namespace lbm
