#pragma once

#include <vector>

#include "benchmarks/codec/volume.h"

namespace quarry::bench {

/// Prints how long each stage of `interpolate` takes, with every instruction set by name that this processor
/// has. The sets take turns patch by patch; of every patch the shortest pass counts.
/// @param relative  tolerance, of the range of the valid samples
/// @errors kInvalidArgument: a type that the coder does not take
Status PrintStages(const Volume& volume, double relative, const std::vector<std::string>& instruction_sets,
                   int repeats);

}  // namespace quarry::bench
