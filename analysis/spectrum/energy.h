#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/box.h"

/// From the transform of a real field to its energy in shells of wave numbers: pure functions, no MPI.
namespace quarry::spectrum {

/// Number of shells of a grid: one more than the largest |K|, rounded.
std::size_t ShellCount(const Index3& dims);

/// The last shell that holds all its wave vectors: beyond it, the grid cuts off parts of the sphere. An axis
/// of one sample has no waves and cuts off nothing.
std::int64_t LastWholeShell(const Index3& dims);

/// Adds the energy of some wave vectors: half of |u(K)|^2 to the shell |K|, rounded, where K counts the waves
/// along each axis of the box and u is the transform divided by the number of samples. There are no ties:
/// |K|^2 is a whole number, and the square of a half is not. Twice for each K whose conjugate -K the
/// transform of a real field leaves out.
/// @param dims   real samples
/// @param part   of TransformDims(dims)
/// @param waves  the transform in `part`, not divided; dense, x fastest
/// @param energy  by shell, ShellCount(dims) of them
void AddEnergy(const Index3& dims, const Box& part, std::span<const std::complex<double>> waves,
               std::span<double> energy);

}  // namespace quarry::spectrum
