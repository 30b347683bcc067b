#pragma once

#include <vector>

#include "benchmarks/codec/volume.h"

namespace quarry::bench {

/// Codes a volume in layers of accuracy with `interpolate`, and each of its tolerances alone beside it, and
/// prints bytes, errors and speeds of all as one JSON object.
/// @param ladder   tolerances, of the range of the valid samples, descending; 0 as the last one: bit by bit
/// @param repeats  passes over all patches; the shortest time of each patch counts
/// @returns whether every layer kept its tolerance
/// @errors kInvalidArgument: what the coder refuses
Result<bool> PrintLadder(const Volume& volume, const std::vector<double>& ladder, int repeats);

}  // namespace quarry::bench
