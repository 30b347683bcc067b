#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "tools/quarry/command.h"
#include "writer/upkeep/pack.h"

namespace quarry::tools {
namespace {

struct PackOptions {
  std::string target;
  std::string smaller_than = "64KiB";
  std::uint64_t keep = 0;
  bool unpack = false;
  bool break_lock = false;
  bool json = false;
};

std::string Steps(std::uint64_t count) { return fmt::format("{} step{}", count, count == 1 ? "" : "s"); }

/// The report as one or two lines.
void PrintReport(const PackOptions& options, const writer::PackReport& report) {
  if (report.packed == 0) {
    Print("{}: nothing was to be done: {} of {} are in packs, no other is smaller than {}\n", options.target,
          report.in_packs, Steps(report.steps), options.smaller_than);
  } else {
    Print("{}: {} of {} are in packs, {} of them since now: {} instead of {} bytes of the disk\n",
          options.target, report.in_packs, Steps(report.steps), report.packed, report.disk_after,
          report.disk_before);
  }
  for (std::size_t i = 1; i < report.damage.size(); ++i) Print("damaged: {}\n", report.damage[i].message());
}

Result<int> PackSteps(const PackOptions& options) {
  writer::PackOptions wanted;
  QUARRY_ASSIGN_OR_RETURN(wanted.smaller_than, ParseBytes(options.smaller_than));
  wanted.keep = options.keep;
  Progress progress("pack", 1000, !options.json);
  QUARRY_ASSIGN_OR_RETURN(
      const writer::PackReport report,
      writer::Pack(options.target, wanted,
                   [&](std::uint64_t done, std::uint64_t all) { progress.Update(1000 * done / all); },
                   {.break_lock = options.break_lock}));
  if (options.json) {
    nlohmann::ordered_json json = {{"steps", report.steps},           {"packed", report.packed},
                                   {"packs", report.packs},           {"in_packs", report.in_packs},
                                   {"not_small", report.left},        {"disk_before", report.disk_before},
                                   {"disk_after", report.disk_after}, {"damage", nlohmann::json::array()}};
    for (const Status& damage : report.damage) json["damage"].push_back(damage.message());
    PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    PrintReport(options, report);
  }
  if (!report.damage.empty()) return report.damage.front();
  return 0;
}

Result<int> UnpackAll(const PackOptions& options) {
  Progress progress("unpack", 1000, !options.json);
  QUARRY_ASSIGN_OR_RETURN(
      const std::uint64_t steps,
      writer::Unpack(options.target,
                     [&](std::uint64_t done, std::uint64_t all) { progress.Update(1000 * done / all); },
                     {.break_lock = options.break_lock}));
  if (options.json) {
    PrintOut("{}\n", nlohmann::ordered_json{{"unpacked", steps}}.dump(2));
  } else {
    Print("{}: {} were in packs and have folders now\n", options.target, Steps(steps));
  }
  return 0;
}

Result<int> Pack(const PackOptions& options) {
  if (options.target.find("://") != std::string::npos)
    return InvalidArgument("a server or store changes nothing; pack the dataset directory where it lies");
  return options.unpack ? UnpackAll(options) : PackSteps(options);
}

}  // namespace

Command DeclarePack(command_line::Parser* app) {
  auto options = std::make_shared<PackOptions>();
  app->AddOption("TARGET", &options->target, "dataset directory").Path().Required();
  app->AddOption("--smaller-than", &options->smaller_than,
                 "pack steps whose files have fewer bytes, up to 1MiB");
  app->AddOption("--keep", &options->keep, "so many of the newest steps stay folders");
  app->AddFlag("--unpack", &options->unpack, "move all packed steps back to folders");
  app->AddFlag("--break-lock", &options->break_lock,
               "remove the stale lock of a killed writer, on file systems without flock");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter("Example:\n  quarry pack run42.quarry");
  return [options] { return Pack(*options); };
}

}  // namespace quarry::tools
