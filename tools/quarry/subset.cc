#include "writer/subset/subset.h"

#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/region.h"
#include "quarry/remote/open_url.h"
#include "quarry/remote/url.h"
#include "tools/quarry/cp.h"
#include "writer/copy/copy.h"
#include "writer/subset/cut.h"

namespace quarry::tools {
namespace {

/// The last name of a path or URL, without a signature.
std::string NameOf(std::string place) {
  if (remote::IsUrl(place)) {
    if (const Result<remote::StoreUrl> url = remote::ParseUrl(place); url.ok()) place = url->path;
  }
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  return place.substr(place.rfind('/') + 1);
}

/// Positions of the fields that are chosen.
std::vector<std::size_t> FieldsOf(const CpOptions& options, const DatasetDescription& dataset) {
  std::vector<std::size_t> fields;
  for (std::size_t f = 0; f < dataset.fields.size(); ++f) {
    if (options.fields.empty() || std::ranges::count(options.fields, dataset.fields[f].name) > 0)
      fields.push_back(f);
  }
  return fields;
}

/// The grid that has all axes of a region, by their names; otherwise the one with the most axes.
std::size_t GridOfRegion(const DatasetDescription& dataset, const std::vector<std::size_t>& fields,
                         const std::vector<query::AxisInterval>& intervals) {
  for (const std::size_t field : fields) {
    const std::size_t grid = dataset.fields[field].grid;
    const auto& names = dataset.grids[grid].axis_names;
    const auto has = [&](const query::AxisInterval& one) { return std::ranges::count(names, one.axis) > 0; };
    if (std::ranges::all_of(intervals, has)) return grid;
  }
  return writer::ReferenceGrid(dataset, fields);
}

Status ChooseBox(const CpOptions& options, const DatasetDescription& dataset, writer::SubsetOptions* wanted) {
  const std::vector<std::size_t> fields = FieldsOf(options, dataset);
  if (fields.empty()) return Status::Ok();  // the copy says so
  if (!options.box.empty()) {
    wanted->box_grid = writer::ReferenceGrid(dataset, fields);
    QUARRY_ASSIGN_OR_RETURN(wanted->box, ParseBox(options.box, dataset.grids[wanted->box_grid].dims));
  } else if (!options.region.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<query::AxisInterval> intervals,
                            query::ParseRegion(options.region));
    wanted->box_grid = GridOfRegion(dataset, fields, intervals);
    QUARRY_ASSIGN_OR_RETURN(wanted->box,
                            query::BoxOfRegion(dataset.grids[wanted->box_grid],
                                               NamesOfDimensions(dataset).axes[wanted->box_grid], intervals));
  }
  if (wanted->box == dataset.grids[wanted->box_grid].domain()) wanted->box.reset();
  return Status::Ok();
}

/// A server's dataset lies elsewhere.
Status CheckPlaces(const CpOptions& options) {
  if (options.from.find("://") != std::string::npos && !remote::IsUrl(options.from)) return Status::Ok();
  const remote::UrlOptions reading{options.server.allow_http, {""}};
  QUARRY_ASSIGN_OR_RETURN(const Location from, remote::LocationOf(options.from, reading));
  QUARRY_ASSIGN_OR_RETURN(const Location to, remote::LocationOf(options.to, reading));
  return writer::CheckApart(from, to);
}

void PrintReport(const CpOptions& options, const writer::SubsetReport& report) {
  for (const std::string& warning : report.warnings) WriteError(Printable("warning: " + warning) + "\n");
  if (options.dry_run) {
    Print("{}: {} of {} would be copied: {} of samples\n", options.to,
          CountText(report.steps - report.there, "step"), report.steps, FormatBytes(report.sample_bytes));
    return;
  }
  Print("{}: {} copied, {} there already: {} of samples in {}\n", options.to,
        CountText(report.steps - report.there, "step"), report.there, FormatBytes(report.sample_bytes),
        FormatBytes(report.bytes));
}

void PrintJson(const CpOptions& options, const writer::SubsetReport& report) {
  nlohmann::ordered_json json = {{"steps", report.steps},      {"there", report.there},
                                 {"samples", report.samples},  {"sample_bytes", report.sample_bytes},
                                 {"bytes", report.bytes},      {"dry_run", options.dry_run},
                                 {"warnings", report.warnings}};
  if (options.dry_run) json["bytes"] = nullptr;  // known when samples are coded
  PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

Result<int> CpSubset(CpOptions options) {
  if (options.allow_damage)
    return InvalidArgument(
        "--allow-damage copies files as they are; a box or level is coded anew, and damaged samples would "
        "look "
        "like others there; leave it out");
  QUARRY_RETURN_IF_ERROR(CheckPlaces(options));
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
  QUARRY_RETURN_IF_ERROR(ChooseBox(options, dataset->description(), &wanted));
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
