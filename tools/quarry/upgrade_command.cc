#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "tools/quarry/command.h"
#include "writer/upkeep/upgrade.h"

namespace quarry::tools {
namespace {

struct UpgradeOptions {
  std::string target;
  bool break_lock = false;
  bool json = false;
};

Result<int> Upgrade(const UpgradeOptions& options) {
  if (options.target.find("://") != std::string::npos)
    return InvalidArgument("a server or store changes nothing; upgrade the dataset directory where it lies");
  Progress progress("upgrade", 1000, !options.json);
  QUARRY_ASSIGN_OR_RETURN(
      const writer::UpgradeReport report,
      writer::Upgrade(options.target,
                      [&](std::uint64_t done, std::uint64_t all) { progress.Update(1000 * done / all); },
                      {.break_lock = options.break_lock}));
  if (options.json) {
    nlohmann::ordered_json json = {{"steps", report.steps},
                                   {"records", report.records},
                                   {"pages", report.pages},
                                   {"sectioned", report.sectioned},
                                   {"coarse", report.coarse},
                                   {"changed", report.changed},
                                   {"damage", nlohmann::json::array()}};
    for (const Status& damage : report.damage) json["damage"].push_back(damage.message());
    PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    Print("{}: {} of {} steps are in the catalogue, in {} page{}{}\n", options.target, report.records,
          report.steps, report.pages, report.pages == 1 ? "" : "s",
          report.changed ? "" : "; nothing was to be done");
    if (report.sectioned > 0)
      Print("{} step{} of many fields {} in sections now\n", report.sectioned,
            report.sectioned == 1 ? "" : "s", report.sectioned == 1 ? "is" : "are");
    if (report.coarse > 0)
      Print("{} coarse object{} made\n", report.coarse, report.coarse == 1 ? " was" : "s were");
    for (std::size_t i = 1; i < report.damage.size(); ++i) Print("damaged: {}\n", report.damage[i].message());
  }
  if (!report.damage.empty()) return report.damage.front();
  return 0;
}

}  // namespace

Command DeclareUpgrade(command_line::Parser* app) {
  auto options = std::make_shared<UpgradeOptions>();
  app->AddOption("TARGET", &options->target, "dataset directory").Path().Required();
  app->AddFlag("--break-lock", &options->break_lock,
               "remove the stale lock of a killed writer, on file systems without flock");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter("Example:\n  quarry upgrade run42.quarry");
  return [options] { return Upgrade(*options); };
}

}  // namespace quarry::tools
