#include "tools/iobench/file_layout.h"

#include <algorithm>
#include <numeric>

#include "writer/distribution/aggregation.h"

namespace quarry::iobench {
namespace {

/// One file for each of `groups` groups of ranks.
std::vector<FileLayout> LayOutGroups(const Load& load, int groups) {
  const int ranks = static_cast<int>(Volume(load.process_grid));
  std::vector<FileLayout> layouts(static_cast<std::size_t>(groups));
  std::vector<std::vector<std::size_t>> units(static_cast<std::size_t>(ranks));
  for (std::size_t u = 0; u < load.units(); ++u) units[static_cast<std::size_t>(load.owner[u])].push_back(u);
  for (int g = 0; g < groups; ++g) {
    FileLayout& layout = layouts[static_cast<std::size_t>(g)];
    for (int rank = GroupBegin(g, groups, ranks); rank < GroupBegin(g + 1, groups, ranks); ++rank) {
      const std::vector<std::size_t>& of_rank = units[static_cast<std::size_t>(rank)];
      layout.units.insert(layout.units.end(), of_rank.begin(), of_rank.end());
    }
  }
  return layouts;
}

std::vector<FileLayout> LayOutAggregation(const Load& load, std::size_t files,
                                          distribution::AggregationStrategy strategy) {
  const distribution::Assignment begin =
      distribution::AssignPatches(load.bytes, distribution::UsableFiles(load.units(), files), strategy);
  std::vector<FileLayout> layouts(begin.size() - 1);
  for (std::size_t f = 0; f < layouts.size(); ++f) {
    layouts[f].units.resize(begin[f + 1] - begin[f]);
    std::iota(layouts[f].units.begin(), layouts[f].units.end(), begin[f]);
  }
  return layouts;
}

std::vector<FileLayout> LayOutUnits(Pipeline pipeline, const Load& load, std::size_t files) {
  const int ranks = static_cast<int>(Volume(load.process_grid));
  switch (pipeline) {
    case Pipeline::kFilePerProcess:
      return LayOutGroups(load, ranks);
    case Pipeline::kCollective:
      return LayOutGroups(load, 1);
    case Pipeline::kGroupCollective:
      return LayOutGroups(load, static_cast<int>(std::min(files, static_cast<std::size_t>(ranks))));
    case Pipeline::kEqual:
      return LayOutAggregation(load, files, distribution::AggregationStrategy::kEqual);
    case Pipeline::kBalanced:
      break;
  }
  return LayOutAggregation(load, files, distribution::AggregationStrategy::kBalanced);
}

}  // namespace

std::string_view Name(Pipeline pipeline) {
  switch (pipeline) {
    case Pipeline::kFilePerProcess:
      return "fpp";
    case Pipeline::kCollective:
      return "collective";
    case Pipeline::kGroupCollective:
      return "group-collective";
    case Pipeline::kEqual:
      return "equal";
    case Pipeline::kBalanced:
      break;
  }
  return "balanced";
}

std::optional<Pipeline> FindPipeline(std::string_view name) {
  for (const Pipeline pipeline : kPipelines) {
    if (Name(pipeline) == name) return pipeline;
  }
  return std::nullopt;
}

std::vector<FileLayout> LayOutFiles(Pipeline pipeline, const Load& load, std::size_t files) {
  std::vector<FileLayout> layouts = LayOutUnits(pipeline, load, files);
  for (FileLayout& layout : layouts) {
    for (const std::size_t unit : layout.units) layout.bytes += load.bytes[unit];
  }
  return layouts;
}

}  // namespace quarry::iobench
