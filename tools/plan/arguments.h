#pragma once

#include <string>
#include <vector>

#include "quarry/geometry/patch_grid.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"
#include "writer/model/machine.h"

/// Values of the options of `quarry-plan`, from their texts.
namespace quarry::plan {

/// "64" is a cube, "64x64x32" a box; an axis with a single sample has patches of one. Without a text the
/// default of quarry-write.
Result<Index3> ParsePatch(const std::string& text, const Index3& dims);

/// "16x16x8". @errors kInvalidArgument, also above the number of ranks that MPI can have
Result<Index3> ParseProcessGrid(const std::string& text);

/// A grid that fits in memory patch by patch.
Result<PatchGrid> MakeGrid(const Index3& dims, const Index3& patch);

/// The file of --machine, or the default; then each name=value of --set.
Result<model::Machine> LoadMachine(const std::string& path, const std::vector<std::string>& constants);

}  // namespace quarry::plan
