#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "tools/plan/command.h"
#include "writer/distribution/decomposition.h"
#include "writer/model/traffic.h"

namespace quarry::plan {
namespace {

struct PlacementOptions {
  std::string dims;
  std::string ranks;
  std::string patch;  ///< empty: the default of the grid
  std::string placement = "balanced";
  std::string type = "float64";
  bool json = false;
};

/// Smallest, largest and mean over ranks.
struct Spread {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  double mean = 0;
};

template <typename Value>
Spread SpreadOf(const std::vector<model::RankTraffic>& ranks, Value value) {
  Spread spread{value(ranks.front()), 0, 0};
  for (const model::RankTraffic& rank : ranks) {
    spread.min = std::min(spread.min, value(rank));
    spread.max = std::max(spread.max, value(rank));
    spread.mean += static_cast<double>(value(rank));
  }
  spread.mean /= static_cast<double>(ranks.size());
  return spread;
}

nlohmann::ordered_json ToJson(const Spread& spread) {
  return {{"min", spread.min}, {"max", spread.max}, {"mean", spread.mean}};
}

std::string ToText(const Spread& spread) {
  return fmt::format("{} to {}, mean {}", FormatBytes(spread.min), FormatBytes(spread.max),
                     FormatBytes(static_cast<std::uint64_t>(spread.mean)));
}

struct PlacementPlan {
  Index3 dims{};
  Index3 patch{};
  Index3 process_grid{};
  std::int64_t patches = 0;
  std::uint64_t bytes = 0;
  std::map<std::int64_t, std::int64_t> ranks_by_patches;
  model::Traffic traffic;
  Spread sent;
  Spread received;
};

Result<PlacementPlan> MakePlan(const PlacementOptions& options) {
  PlacementPlan plan;
  QUARRY_ASSIGN_OR_RETURN(plan.dims, ParseShape(options.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(plan.patch, ParsePatch(options.patch, plan.dims));
  QUARRY_ASSIGN_OR_RETURN(plan.process_grid, ParseProcessGrid(options.ranks));
  QUARRY_ASSIGN_OR_RETURN(const DataType type, ParseDataType(options.type));
  QUARRY_ASSIGN_OR_RETURN(const auto strategy, distribution::ParsePlacement(options.placement));
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, MakeGrid(plan.dims, plan.patch));

  const int ranks = static_cast<int>(Volume(plan.process_grid));
  const auto owned = distribution::OneBoxEach(distribution::ProcessGridBoxes(plan.dims, plan.process_grid));
  const distribution::Sharers sharers = distribution::FindSharers(grid, owned);
  const distribution::Placement placement = distribution::PlacePatches(
      grid, owned, strategy, distribution::TargetCounts(grid.patch_count(), ranks));
  plan.patches = grid.patch_count();
  plan.bytes = static_cast<std::uint64_t>(Volume(plan.dims)) * SizeOf(type);
  for (const std::int64_t count : distribution::CountPerRank(placement, ranks))
    ++plan.ranks_by_patches[count];
  plan.traffic = model::ExchangeTraffic(grid, owned, sharers, placement, SizeOf(type), 0);
  plan.sent = SpreadOf(plan.traffic.ranks, [](const model::RankTraffic& rank) { return rank.sent_bytes; });
  plan.received =
      SpreadOf(plan.traffic.ranks, [](const model::RankTraffic& rank) { return rank.received_bytes; });
  return plan;
}

void PrintJson(const PlacementOptions& options, const PlacementPlan& plan) {
  nlohmann::ordered_json json;
  json["dims"] = plan.dims;
  json["type"] = options.type;
  json["patch"] = plan.patch;
  json["ranks"] = plan.process_grid;
  json["placement"] = options.placement;
  json["patches"] = plan.patches;
  for (const auto& [patches, ranks] : plan.ranks_by_patches)
    json["patches_per_rank"][std::to_string(patches)] = ranks;
  json["bytes"] = plan.bytes;
  json["bytes_moved"] = plan.traffic.bytes_moved;
  json["messages"] = plan.traffic.messages;
  json["rank_pairs"] = plan.traffic.rank_pairs;
  json["bytes_sent_per_rank"] = ToJson(plan.sent);
  json["bytes_received_per_rank"] = ToJson(plan.received);
  PrintOut("{}\n", json.dump());
}

void PrintText(const PlacementOptions& options, const PlacementPlan& plan) {
  const double moved =
      100.0 * static_cast<double>(plan.traffic.bytes_moved) / static_cast<double>(plan.bytes);
  PrintOut(
      "{} of {} in {} patches of {}, {} placement on {} = {} ranks\n"
      "  moved      {} of {} ({:.1f} %)\n"
      "  messages   {} one for each part of a patch, {} one for each pair of ranks\n"
      "  sent       {} per rank\n"
      "  received   {} per rank\n"
      "  {:>10} {:>10}\n",
      ToString(plan.dims), options.type, plan.patches, ToString(plan.patch), options.placement,
      ToString(plan.process_grid), Volume(plan.process_grid), FormatBytes(plan.traffic.bytes_moved),
      FormatBytes(plan.bytes), moved, plan.traffic.messages, plan.traffic.rank_pairs, ToText(plan.sent),
      ToText(plan.received), "patches", "ranks");
  for (const auto& [patches, ranks] : plan.ranks_by_patches) PrintOut("  {:>10} {:>10}\n", patches, ranks);
}

}  // namespace

Command DeclarePlacement(command_line::Parser* app) {
  auto options = std::make_shared<PlacementOptions>();
  app->AddOption("--dims", &options->dims, "samples, XxYxZ, x fastest").Required();
  app->AddOption("--ranks", &options->ranks, "the simulation's process grid, XxYxZ, x fastest; even shares")
      .Required();
  app->AddOption("--patch", &options->patch,
                 "samples of a patch, powers of two, N or XxYxZ; default: that of quarry-write");
  app->AddOption("--placement", &options->placement, "balanced (default) or greedy");
  app->AddOption("--type", &options->type, "type of the samples; default: float64");
  app->AddFlag("--json", &options->json, "print one JSON object; sizes in bytes");
  app->SetFooter(
      "Example:\n  quarry-plan placement --dims 1600x1600x1600 --ranks 16x16x16 --patch 64 --placement "
      "greedy");
  return [options]() -> Result<int> {
    QUARRY_ASSIGN_OR_RETURN(const PlacementPlan plan, MakePlan(*options));
    options->json ? PrintJson(*options, plan) : PrintText(*options, plan);
    return 0;
  };
}

}  // namespace quarry::plan
