#include "fields.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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

float VorticityMagnitude(const Domain& domain, const Fields& fields, int x, int y, int z) {
  const std::vector<float>& ux = fields[1].values;
  const std::vector<float>& uy = fields[2].values;
  const std::vector<float>& uz = fields[3].values;
  const std::ptrdiff_t cell = domain.Index(x, y, z);
  const Stencil dx = StencilAlongX(domain, x, cell);
  const Stencil dy = {cell - domain.stride_y(), cell + domain.stride_y(), 0.5f};
  const Stencil dz = {cell - domain.stride_z(), cell + domain.stride_z(), 0.5f};
  const float wx = Derivative(uz, dy) - Derivative(uy, dz);
  const float wy = Derivative(ux, dz) - Derivative(uz, dx);
  const float wz = Derivative(uy, dx) - Derivative(ux, dy);
  return std::sqrt(wx * wx + wy * wy + wz * wz);
}

void ExchangeVelocityHalos(Domain& domain, Fields& fields) {
  const std::array<float*, 3> components = {fields[1].values.data(), fields[2].values.data(),
                                            fields[3].values.data()};
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
  Fields fields;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    fields[f] = {kFieldNames[f], std::vector<float>(domain.padded_size())};
  }
  ForEachOwnCell(domain, [&](int x, int y, int z) {
    const std::ptrdiff_t cell = domain.Index(x, y, z);
    const CellState state = solver.State(x, y, z);
    fields[0].values[cell] = state.density;
    for (int axis = 0; axis < 3; ++axis) fields[axis + 1].values[cell] = state.velocity[axis];
  });
  ExchangeVelocityHalos(domain, fields);
  ForEachOwnCell(domain, [&](int x, int y, int z) {
    fields[4].values[domain.Index(x, y, z)] =
        solver.IsSolid(x, y, z) ? 0.0f : VorticityMagnitude(domain, fields, x, y, z);
  });
  return fields;
}

Summary Summarize(const Domain& domain, const Fields& fields) {
  double sum = 0.0;
  double max = 0.0;
  ForEachOwnCell(domain, [&](int x, int y, int z) {
    const std::ptrdiff_t cell = domain.Index(x, y, z);
    const double ux = fields[1].values[cell];
    const double uy = fields[2].values[cell];
    const double uz = fields[3].values[cell];
    const double speed = std::sqrt(ux * ux + uy * uy + uz * uz);
    sum += speed;
    max = std::max(max, speed);
  });
  int finite = std::ranges::all_of(fields, IsFinite) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, domain.comm());
  MPI_Allreduce(MPI_IN_PLACE, &max, 1, MPI_DOUBLE, MPI_MAX, domain.comm());
  MPI_Allreduce(MPI_IN_PLACE, &finite, 1, MPI_INT, MPI_MIN, domain.comm());
  const auto [nx, ny, nz] = domain.global_cells();
  const double cells = static_cast<double>(nx) * ny * nz;
  return {.mean_speed = sum / cells, .max_speed = max, .finite = finite == 1};
}

}  // namespace lbm
