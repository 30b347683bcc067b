#include "tools/iobench/file_plan.h"

#include <algorithm>
#include <numeric>

#include "writer/distribution/aggregation.h"

namespace quarry::iobench {
namespace {

/// One file for each of `groups` groups of ranks.
std::vector<FilePlan> PlanGroups(const Load& load, int groups) {
  const int ranks = static_cast<int>(Volume(load.process_grid));
  std::vector<FilePlan> plans(static_cast<std::size_t>(groups));
  std::vector<std::vector<std::size_t>> units(static_cast<std::size_t>(ranks));
  for (std::size_t u = 0; u < load.units(); ++u) units[static_cast<std::size_t>(load.owner[u])].push_back(u);
  for (int g = 0; g < groups; ++g) {
    FilePlan& plan = plans[static_cast<std::size_t>(g)];
    for (int rank = GroupBegin(g, groups, ranks); rank < GroupBegin(g + 1, groups, ranks); ++rank) {
      const std::vector<std::size_t>& of_rank = units[static_cast<std::size_t>(rank)];
      plan.units.insert(plan.units.end(), of_rank.begin(), of_rank.end());
    }
  }
  return plans;
}

std::vector<FilePlan> PlanAggregation(const Load& load, std::size_t files,
                                      distribution::AggregationStrategy strategy) {
  const distribution::Assignment begin =
      distribution::AssignPatches(load.bytes, distribution::UsableFiles(load.units(), files), strategy);
  std::vector<FilePlan> plans(begin.size() - 1);
  for (std::size_t f = 0; f < plans.size(); ++f) {
    plans[f].units.resize(begin[f + 1] - begin[f]);
    std::iota(plans[f].units.begin(), plans[f].units.end(), begin[f]);
  }
  return plans;
}

std::vector<FilePlan> PlanUnits(Pipeline pipeline, const Load& load, std::size_t files) {
  const int ranks = static_cast<int>(Volume(load.process_grid));
  switch (pipeline) {
    case Pipeline::kFilePerProcess:
      return PlanGroups(load, ranks);
    case Pipeline::kCollective:
      return PlanGroups(load, 1);
    case Pipeline::kGroupCollective:
      return PlanGroups(load, GroupCount(files, ranks));
    case Pipeline::kEqual:
      return PlanAggregation(load, files, distribution::AggregationStrategy::kEqual);
    case Pipeline::kBalanced:
      break;
  }
  return PlanAggregation(load, files, distribution::AggregationStrategy::kBalanced);
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

int GroupCount(std::size_t files, int ranks) {
  return static_cast<int>(std::min(files, static_cast<std::size_t>(ranks)));
}

std::vector<FilePlan> PlanFiles(Pipeline pipeline, const Load& load, std::size_t files) {
  std::vector<FilePlan> plans = PlanUnits(pipeline, load, files);
  for (FilePlan& plan : plans) {
    for (const std::size_t unit : plan.units) plan.bytes += load.bytes[unit];
  }
  return plans;
}

}  // namespace quarry::iobench
