#include <nlohmann/json.hpp>

#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct LsOptions {
  ServerOptions server;
  std::string target;
  bool json = false;
};

/// "96x96x96", or "96x96x96 and 2 more".
std::string GridsText(const client::DatasetSummary& dataset) {
  const std::vector<GridDescription>& grids = dataset.grids;
  if (grids.empty()) return dataset.late ? "not read in time" : "";
  const std::string first = ToString(grids.front().dims);
  return grids.size() == 1 ? first : fmt::format("{} and {} more", first, grids.size() - 1);
}

Result<int> Ls(const LsOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const client::Options access, options.server.Resolve());
  QUARRY_ASSIGN_OR_RETURN(const std::vector<client::DatasetSummary> datasets,
                          client::ListDatasets(options.target, access));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!options.json && !datasets.empty())
    Print("{:<32} {:>18} {:>7} {:>7}\n", "name", "grid", "steps", "fields");
  for (const client::DatasetSummary& dataset : datasets) {
    nlohmann::ordered_json dims = nlohmann::ordered_json::array();
    for (const GridDescription& grid : dataset.grids) dims.push_back(grid.dims);
    if (options.json) {
      list.push_back({{"name", dataset.name},
                      {"dims", dims.empty() ? nlohmann::ordered_json::array() : dims.front()},
                      {"grids", dims},
                      {"steps", dataset.steps},
                      {"fields", dataset.fields},
                      {"late", dataset.late}});
    } else {
      Print("{:<32} {:>18} {:>7} {:>7}\n", dataset.name, GridsText(dataset), dataset.steps, dataset.fields);
    }
  }
  if (options.json)
    PrintOut("{}\n", list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!options.json && datasets.empty()) Print("no datasets in {}\n", options.target);
  return 0;
}

}  // namespace

Command DeclareLs(command_line::Parser* app) {
  auto options = std::make_shared<LsOptions>();
  app->AddOption("TARGET", &options->target,
                 "directory that holds datasets, its URL s3://BUCKET/FOLDER, or grpc://HOST:PORT")
      .Path()
      .Required();
  app->AddFlag("--json", &options->json, "print one JSON array");
  options->server.DeclareOn(app);
  app->SetFooter("Example:\n  quarry ls grpc://127.0.0.1:50051");
  return [options] { return Ls(*options); };
}

}  // namespace quarry::tools
