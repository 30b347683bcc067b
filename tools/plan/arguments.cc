#include "tools/plan/arguments.h"

#include <limits>

#include "quarry/base/checked_math.h"
#include "quarry/base/file.h"
#include "quarry/base/units.h"

namespace quarry::plan {

Result<Index3> ParsePatch(const std::string& text, const Index3& dims) {
  if (text.empty()) return DefaultPatch(dims);
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParseShape(text, "--patch"));
  if (text.find('x') != std::string::npos) return patch;
  Index3 cube{};
  for (std::size_t a = 0; a < 3; ++a) cube[a] = dims[a] > 1 ? patch[0] : 1;
  return cube;
}

Result<Index3> ParseProcessGrid(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 grid, ParseShape(text, "--ranks"));
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
  std::int64_t ranks = 0;
  if (!CheckedMultiply(grid[0], grid[1], &ranks) || !CheckedMultiply(ranks, grid[2], &ranks) ||
      ranks > kMostRanks) {
    return InvalidArgument("--ranks {} is more than {} ranks; give a smaller process grid", text, kMostRanks);
  }
  return grid;
}

Result<PatchGrid> MakeGrid(const Index3& dims, const Index3& patch) {
  QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, PatchGrid::Create(dims, patch));
  // Placement and sharers take about 50 bytes for each patch.
  constexpr std::int64_t kMostPatches = std::int64_t{1} << 28;
  if (grid.patch_count() > kMostPatches) {
    return InvalidArgument(
        "grid {} in patches of {} makes {} patches; at most {} can be planned: use larger patches",
        ToString(dims), ToString(patch), grid.patch_count(), kMostPatches);
  }
  return grid;
}

Result<model::Machine> LoadMachine(const std::string& path, const std::vector<std::string>& constants) {
  constexpr std::uint64_t kJsonLimit = std::uint64_t{1} << 20;
  model::Machine machine;
  if (!path.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::string json, ReadTextFile(path, kJsonLimit));
    QUARRY_ASSIGN_OR_RETURN(machine, model::ParseMachine(json, path));
  }
  for (const std::string& constant : constants)
    QUARRY_RETURN_IF_ERROR(model::SetConstant(constant, &machine));
  return machine;
}

}  // namespace quarry::plan
