#include "writer/subset/subset.h"

#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/region.h"
#include "tools/quarry/cp.h"
#include "writer/subset/cut.h"

namespace quarry::tools {
namespace {

/// The last name of a path or URL.
std::string NameOf(std::string place) {
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  return place.substr(place.rfind('/') + 1);
}

Result<std::optional<Box>> BoxOf(const CpOptions& options, const DatasetDescription& dataset) {
  if (options.box.empty() && options.region.empty()) return std::optional<Box>();
  std::vector<std::size_t> fields;
  for (std::size_t f = 0; f < dataset.fields.size(); ++f) {
    if (options.fields.empty() || std::ranges::count(options.fields, dataset.fields[f].name) > 0)
      fields.push_back(f);
  }
  if (fields.empty()) return std::optional<Box>();  // the copy says so
  const std::size_t grid = writer::ReferenceGrid(dataset, fields);
  if (!options.box.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const Box box, ParseBox(options.box, dataset.grids[grid].dims));
    return std::optional(box);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<query::AxisInterval> intervals,
                          query::ParseRegion(options.region));
  QUARRY_ASSIGN_OR_RETURN(
      const Box box,
      query::BoxOfRegion(dataset.grids[grid], NamesOfDimensions(dataset).axes[grid], intervals));
  return std::optional(box);
}

void PrintReport(const CpOptions& options, const writer::SubsetReport& report) {
  for (const std::string& warning : report.warnings) WriteError(Printable("warning: " + warning) + "\n");
  if (options.dry_run) {
    Print("{}: {} would be copied: {} of samples\n", options.to, CountText(report.steps, "step"),
          FormatBytes(report.sample_bytes));
    return;
  }
  Print("{}: {} copied, {} there already: {} of samples in {}\n", options.to,
        CountText(report.steps - report.there, "step"), report.there, FormatBytes(report.sample_bytes),
        FormatBytes(report.bytes));
}

void PrintJson(const CpOptions& options, const writer::SubsetReport& report) {
  const nlohmann::ordered_json json = {{"steps", report.steps},      {"there", report.there},
                                       {"samples", report.samples},  {"sample_bytes", report.sample_bytes},
                                       {"bytes", report.bytes},      {"dry_run", options.dry_run},
                                       {"warnings", report.warnings}};
  PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

Result<int> CpSubset(CpOptions options) {
  if (options.allow_damage)
    return InvalidArgument(
        "--allow-damage copies files as they are; a box or level is coded anew, and damaged samples would "
        "look "
        "like others there; leave it out");
  writer::SubsetOptions wanted;
  QUARRY_ASSIGN_OR_RETURN(const client::Transfer transfer, client::ParseTransfer("coded", options.recode));
  wanted.recode = transfer.recode;
  wanted.level = options.level.value_or(0);
  wanted.fields = options.fields;
  if (!options.steps.empty()) {
    QUARRY_ASSIGN_OR_RETURN(wanted.steps, ParseSteps(options.steps));
  }
  QUARRY_ASSIGN_OR_RETURN(wanted.memory, ParseBytes(options.memory).Annotate("--memory"));
  QUARRY_ASSIGN_OR_RETURN(client::Options reading, options.server.Resolve());
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset,
                          client::Dataset::Open(options.from, reading));
  QUARRY_ASSIGN_OR_RETURN(wanted.box, BoxOf(options, dataset->description()));
  wanted.source_name = NameOf(options.from);
  wanted.dry_run = options.dry_run;
  wanted.break_lock = options.break_lock;
  wanted.allow_http = options.server.allow_http;
  Progress progress("cp", 1000, !options.json && !options.dry_run);
  wanted.progress = [&](std::uint64_t done, std::uint64_t all) {
    progress.Update(all == 0 ? 1000 : 1000 * done / all);
  };
  QUARRY_ASSIGN_OR_RETURN(const writer::SubsetReport report,
                          writer::CopySubset(*dataset, options.to, wanted));
  if (options.json) {
    PrintJson(options, report);
  } else {
    PrintReport(options, report);
  }
  return 0;
}

}  // namespace quarry::tools
