#include "collision.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

// The regularised collision of Latt and Chopard, "Lattice Boltzmann method with
// regularized pre-collision distribution functions", Math. Comput. Simul. 72
// (2006): only density, momentum and stress survive a collision, and all else,
// which has no meaning for the flow but makes plain BGK unstable at low
// viscosity, is dropped. The populations that leave a cell are thus
//
//   f = w (density + 3 c.momentum + 9/2 (c c - I/3) : flux)
//   flux = density u u + (1 - 1 / tau) viscous
//
// with `viscous` the part of the populations' second moment that is not in
// equilibrium.

namespace lbm {
namespace {

// Smagorinsky's constant; 0.1 to 0.2 is customary.
constexpr float kSmagorinsky = 0.14f;

// Cells that are collided at once: their moments fit the L1 cache.
constexpr int kChunk = 128;

// Positions in a symmetric tensor.
enum Component { kXX, kYY, kZZ, kXY, kXZ, kYZ, kComponents };

struct alignas(64) ChunkArray : std::array<float, kChunk> {};

// Moments of a run of cells along x. Density less 1, and without the
// contributions of fluid at rest, like the populations.
struct Moments {
  // The density while summing, then what all directions share of the
  // populations: the density less 3/2 of the flux's trace.
  ChunkArray isotropic{};
  std::array<ChunkArray, 3> momentum{};
  // The second moment while summing, then `flux` (see above).
  std::array<ChunkArray, kComponents> flux{};
};

// Adds kFactor * value, for a factor of -1, 0 or 1. Leaves out the terms that
// the compiler must keep because 0 * x is not 0 for all floats.
template <int kFactor>
void AddMultiple(float& sum, float value) {
  if constexpr (kFactor > 0) sum += value;
  if constexpr (kFactor < 0) sum -= value;
}

template <std::size_t kPair>
void AddPair(const float* __restrict forward, const float* __restrict backward, int count, Moments& m) {
  constexpr Int3 c = kVelocity[2 * kPair + 1];
  for (int i = 0; i < count; ++i) {
    const float even = forward[i] + backward[i];
    const float odd = forward[i] - backward[i];
    m.isotropic[i] += even;
    AddMultiple<c[0]>(m.momentum[0][i], odd);
    AddMultiple<c[1]>(m.momentum[1][i], odd);
    AddMultiple<c[2]>(m.momentum[2][i], odd);
    AddMultiple<c[0] * c[0]>(m.flux[kXX][i], even);
    AddMultiple<c[1] * c[1]>(m.flux[kYY][i], even);
    AddMultiple<c[2] * c[2]>(m.flux[kZZ][i], even);
    AddMultiple<c[0] * c[1]>(m.flux[kXY][i], even);
    AddMultiple<c[0] * c[2]>(m.flux[kXZ][i], even);
    AddMultiple<c[1] * c[2]>(m.flux[kYZ][i], even);
  }
}

// Relaxation time with Smagorinsky's eddy viscosity, which the viscous stress
// of the cell itself determines (Hou, Sterling, Chen and Doolen, "A lattice
// Boltzmann subgrid model for high Reynolds number flows", 1996).
inline float EddyRelaxationTime(float relaxation_time, float stress_squared, float density) {
  constexpr float kFactor = 18.0f * 1.41421356f * kSmagorinsky * kSmagorinsky;
  return 0.5f * (relaxation_time + std::sqrt(relaxation_time * relaxation_time +
                                             kFactor * std::sqrt(stress_squared) / density));
}

void RelaxStress(const float* __restrict rest, int count, float relaxation_time, Moments& m) {
  for (int i = 0; i < count; ++i) {
    const float excess = m.isotropic[i] + rest[i];
    const float density = 1.0f + excess;
    const float pressure = excess / 3.0f;
    const float mx = m.momentum[0][i];
    const float my = m.momentum[1][i];
    const float mz = m.momentum[2][i];
    const float ux = mx / density;
    const float uy = my / density;
    const float uz = mz / density;
    const float xx = m.flux[kXX][i] - (mx * ux + pressure);
    const float yy = m.flux[kYY][i] - (my * uy + pressure);
    const float zz = m.flux[kZZ][i] - (mz * uz + pressure);
    const float xy = m.flux[kXY][i] - mx * uy;
    const float xz = m.flux[kXZ][i] - mx * uz;
    const float yz = m.flux[kYZ][i] - my * uz;
    const float squared = (xx * xx + yy * yy + zz * zz) + 2.0f * (xy * xy + xz * xz + yz * yz);
    const float kept = 1.0f - 1.0f / EddyRelaxationTime(relaxation_time, squared, density);
    const float flux_xx = mx * ux + kept * xx;
    const float flux_yy = my * uy + kept * yy;
    const float flux_zz = mz * uz + kept * zz;
    m.isotropic[i] = excess - 1.5f * (flux_xx + flux_yy + flux_zz);
    m.flux[kXX][i] = flux_xx;
    m.flux[kYY][i] = flux_yy;
    m.flux[kZZ][i] = flux_zz;
    m.flux[kXY][i] = mx * uy + kept * xy;
    m.flux[kXZ][i] = mx * uz + kept * xz;
    m.flux[kYZ][i] = my * uz + kept * yz;
  }
}

template <std::size_t kPair>
void EmitPair(const Moments& m, int count, float* __restrict forward, float* __restrict backward) {
  constexpr Int3 c = kVelocity[2 * kPair + 1];
  constexpr float kWeight = Weight(2 * kPair + 1);
  for (int i = 0; i < count; ++i) {
    float along = 0.0f;  // c.momentum
    AddMultiple<c[0]>(along, m.momentum[0][i]);
    AddMultiple<c[1]>(along, m.momentum[1][i]);
    AddMultiple<c[2]>(along, m.momentum[2][i]);
    float projected = 0.0f;  // c c : flux, off-diagonal terms occur twice
    AddMultiple<c[0] * c[1]>(projected, m.flux[kXY][i]);
    AddMultiple<c[0] * c[2]>(projected, m.flux[kXZ][i]);
    AddMultiple<c[1] * c[2]>(projected, m.flux[kYZ][i]);
    projected *= 2.0f;
    AddMultiple<c[0] * c[0]>(projected, m.flux[kXX][i]);
    AddMultiple<c[1] * c[1]>(projected, m.flux[kYY][i]);
    AddMultiple<c[2] * c[2]>(projected, m.flux[kZZ][i]);
    const float even = m.isotropic[i] + 4.5f * projected;
    const float odd = 3.0f * along;
    forward[i] = kWeight * (even + odd);
    backward[i] = kWeight * (even - odd);
  }
}

void EmitRest(const Moments& m, int count, float* __restrict rest) {
  for (int i = 0; i < count; ++i) rest[i] = kRestWeight * m.isotropic[i];
}

void CollideChunk(const PopulationsIn& in, const PopulationsOut& out, int first, int count,
                  float relaxation_time) {
  Moments m;
  [&]<std::size_t... kPair>(std::index_sequence<kPair...>) {
    (AddPair<kPair>(in[2 * kPair + 1] + first, in[2 * kPair + 2] + first, count, m), ...);
    RelaxStress(in[0] + first, count, relaxation_time, m);
    (EmitPair<kPair>(m, count, out[2 * kPair + 1] + first, out[2 * kPair + 2] + first), ...);
    EmitRest(m, count, out[0] + first);
  }
  (std::make_index_sequence<kPairs>());
}

}  // namespace

void Collide(const PopulationsIn& in, const PopulationsOut& out, int count, float relaxation_time) {
  for (int first = 0; first < count; first += kChunk) {
    CollideChunk(in, out, first, std::min(kChunk, count - first), relaxation_time);
  }
}

}  // namespace lbm
