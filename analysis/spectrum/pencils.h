#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "quarry/box.h"

/// Which rank has which lines of a domain: pure functions, no MPI.
namespace quarry::spectrum {

/// Ranks along two axes; rank = first + second * index of the second axis.
struct PencilGrid {
  int first = 1;
  int second = 1;

  int ranks() const { return first * second; }
  friend bool operator==(const PencilGrid&, const PencilGrid&) = default;
};

/// How many samples the transform has along x for `n` real samples: the others are conjugates of these.
constexpr std::int64_t HalfOf(std::int64_t n) { return n / 2 + 1; }

/// Samples of the transform of `dims` real samples.
constexpr Index3 TransformDims(const Index3& dims) { return {HalfOf(dims[0]), dims[1], dims[2]}; }

/// Chooses the grid of `ranks` ranks that moves the fewest samples, among those whose busiest rank has at
/// most a tenth more samples than in the most even grid. The two transposes keep a share of 1 / first and 1 /
/// second on their rank. So slabs, 1 x ranks, as long as there are planes enough.
/// @param dims  real samples
PencilGrid ChoosePencilGrid(const Index3& dims, int ranks);

/// The boxes of all ranks, by rank, whose lines along `axis` are whole; some are empty where there are more
/// ranks than lines. Coordinate i of p ranks has [floor(n i / p), floor(n (i + 1) / p)).
///
///     axis 0: all                | shared by `first`  | shared by `second`
///     axis 1: shared by `first`  | all                | shared by `second`
///     axis 2: shared by `first`  | shared by `second` | all
///
/// From one axis to the next, only ranks with the same coordinate along the unchanged share exchange samples.
/// Example: 5 x 4 x 2 on 2 x 1: axis 0: [0:5,0:2,0:2) [0:5,2:4,0:2); axis 1: [0:2,0:4,0:2) [2:5,0:4,0:2)
std::vector<Box> Pencils(const Index3& dims, const PencilGrid& grid, int axis);

}  // namespace quarry::spectrum
