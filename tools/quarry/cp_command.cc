#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/remote/open_url.h"
#include "quarry/remote/url.h"
#include "tools/quarry/cp.h"
#include "writer/copy/copy.h"

namespace quarry::tools {
namespace {

/// Copies are made from directories and stores: a server has no files to give.
Status CheckPlace(const std::string& place) {
  if (place.find("://") == std::string::npos || remote::IsUrl(place)) return Status::Ok();
  return InvalidArgument(
      "\"{}\" is no directory and no URL of a store; copy where the files are, or give --level 0, which "
      "reads "
      "samples",
      place);
}

Result<writer::CopyTarget> TargetOf(const CpOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckPlace(options.to));
  writer::CopyTarget target;
  // The store is compared with the source, not a copy that a cache has of it.
  QUARRY_ASSIGN_OR_RETURN(target.root, remote::LocationOf(options.to, {options.server.allow_http, {""}}));
  QUARRY_ASSIGN_OR_RETURN(target.storage, remote::WriterOf(options.to, options.server.allow_http));
  return target;
}

void PrintReport(const CpOptions& options, const writer::CopyReport& report) {
  if (options.dry_run) {
    Print("{}: {} of {} would be copied: {} in {}\n", options.to,
          CountText(report.steps - report.there, "step"), report.steps, FormatBytes(report.bytes),
          CountText(report.objects, "file"));
    return;
  }
  Print(
      "{}: {} copied, {} there already: {} in {}{}\n", options.to,
      CountText(report.steps - report.there, "step"), report.there, FormatBytes(report.bytes),
      CountText(report.objects, "file"),
      report.kept > 0 ? fmt::format(", {} left by an interrupted copy", CountText(report.kept, "more")) : "");
  if (!report.keeps_conditions)
    Print("the store ignores conditions: see to it that no other copy writes there\n");
  for (const Status& damage : report.damage) Print("damaged: {}\n", damage.message());
}

void PrintJson(const CpOptions& options, const writer::CopyReport& report) {
  nlohmann::ordered_json json = {{"steps", report.steps},
                                 {"there", report.there},
                                 {"files", report.objects},
                                 {"bytes", report.bytes},
                                 {"kept", report.kept},
                                 {"dry_run", options.dry_run},
                                 {"keeps_conditions", report.keeps_conditions},
                                 {"damage", nlohmann::json::array()}};
  for (const Status& damage : report.damage) json["damage"].push_back(damage.message());
  PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Result<int> Clean(const CpOptions& options, const writer::CopyTarget& target) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t removed,
                          writer::CleanCopy(target, {.break_lock = options.break_lock}));
  if (options.json) {
    PrintOut("{}\n", nlohmann::ordered_json{{"removed", removed}}.dump(2));
  } else {
    Print("{}: {} of interrupted copies removed\n", options.to, CountText(removed, "leftover"));
  }
  return 0;
}

Result<int> Cp(const CpOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckPlace(options.to));
  if (options.is_subset() && !options.clean) return CpSubset(options);
  QUARRY_RETURN_IF_ERROR(CheckPlace(options.from));
  QUARRY_ASSIGN_OR_RETURN(const writer::CopyTarget target, TargetOf(options));
  if (options.clean) return Clean(options, target);
  QUARRY_ASSIGN_OR_RETURN(const Location from,
                          remote::LocationOf(options.from, {options.server.allow_http, {""}}));
  writer::CopyOptions wanted;
  if (!options.steps.empty()) {
    QUARRY_ASSIGN_OR_RETURN(wanted.steps, ParseSteps(options.steps));
  }
  QUARRY_ASSIGN_OR_RETURN(wanted.memory, ParseBytes(options.memory).Annotate("--memory"));
  wanted.fields = options.fields;
  wanted.allow_damage = options.allow_damage;
  wanted.dry_run = options.dry_run;
  wanted.locking.break_lock = options.break_lock;
  Progress progress("cp", 1000, !options.json && !options.dry_run);
  wanted.progress = [&](std::uint64_t done, std::uint64_t all) {
    progress.Update(all == 0 ? 1000 : 1000 * done / all);
  };
  QUARRY_ASSIGN_OR_RETURN(const writer::CopyReport report, writer::Copy(from, target, wanted));
  if (options.json) {
    PrintJson(options, report);
  } else {
    PrintReport(options, report);
  }
  return 0;
}

}  // namespace

std::string CountText(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Command DeclareCp(command_line::Parser* app) {
  auto options = std::make_shared<CpOptions>();
  app->AddOption("FROM", &options->from,
                 "dataset directory, or its URL: https://, s3://; with --box or --level also "
                 "grpc://HOST:PORT/NAME of a server")
      .Path()
      .Required();
  app->AddOption("TO", &options->to, "dataset directory to write, or its URL: s3://").Path().Required();
  app->AddOption("--steps", &options->steps,
                 "the steps in this range: BEGIN:END or BEGIN:END:STRIDE, half-open; default: all");
  app->AddOption("--fields", &options->fields, "fields, separated by commas; default: all").SeparatedBy(',');
  app->AddOption(
      "--box", &options->box,
      "x0:x1,y0:y1,z0:z1, half-open, level-0 samples: only these; samples are coded anew; default: "
      "the whole grid");
  app->AddOption("--region", &options->region,
                 "instead of --box: AXIS=LOW:HIGH, in the units of the axes, both ends included")
      .Excludes("--box");
  app->AddOption("--level", &options->level,
                 "only the samples of this level, which become level 0; they are coded anew; default: all "
                 "levels")
      .Between(0, 30);
  app->AddOption("--recode", &options->recode,
                 "error that coding anew may add to that of the stored samples: 2x makes it at most twice as "
                 "large, a number adds at most so much, in the field's unit; default: none, samples stay the "
                 "same bit by bit");
  app->AddFlag("--allow-damage", &options->allow_damage,
               "copy damaged payloads as they are, and list them; default: damage ends the command with exit "
               "code 4");
  app->AddOption("--memory", &options->memory, "most memory for buffers; default: 256MiB");
  app->AddFlag("--dry-run", &options->dry_run, "print what would be copied, and write nothing");
  app->AddFlag("--clean", &options->clean,
               "copy nothing, and remove what interrupted copies have left at TO");
  app->AddFlag("--break-lock", &options->break_lock,
               "remove the stale lock of a killed writer, in stores and on file systems without flock");
  app->AddFlag("--json", &options->json, "print one JSON object");
  options->server.DeclareConnectionOn(app);
  app->SetFooter(
      "Example:\n  quarry cp s3://bucket/run42.quarry part.quarry --steps 10:20 --fields density\n"
      "  quarry cp run42.quarry small.quarry --level 2 --recode 2x");
  return [options] { return Cp(*options); };
}

}  // namespace quarry::tools
