// quarry-index: loads the patch tables of a dataset into LMDB, so that a server finds patches without opening
// subfiles.

#include "quarry/base/output.h"
#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/command_line/command_line.h"
#include "quarry/dataset/verify.h"
#include "quarry/index/index_writer.h"
#include "tools/index/list.h"

namespace {

struct Options {
  std::string dataset;
  std::string index;
  bool rebuild = false;
  bool verify = false;
  bool break_lock = false;
  bool list = false;
  quarry::tools::ListRequest listing;
};

quarry::Status Verify(const quarry::Dataset& dataset, const quarry::Location& folder) {
  quarry::Progress progress("verify", 1000, true);
  QUARRY_ASSIGN_OR_RETURN(const quarry::VerifyReport report,
                          quarry::VerifyDataset(dataset, [&](std::uint64_t done, std::uint64_t total) {
                            progress.Update(total == 0 ? 1000 : 1000 * done / total);
                          }));
  for (std::size_t i = 1; i < report.damage.size(); ++i)
    quarry::PrintOut("damaged: {}\n", report.damage[i].message());
  if (!report.damage.empty()) return report.damage.front();
  QUARRY_RETURN_IF_ERROR(quarry::index::VerifyIndex(dataset, folder));
  quarry::PrintOut("verified: {} steps, {} subfiles, {} patches, {} of payload, and the index over them\n",
                   report.steps, report.subfiles, report.patches, quarry::FormatBytes(report.bytes));
  return quarry::Status::Ok();
}

quarry::Status Run(const Options& options) {
  // No text of the user is in this message: a URL may hold a secret.
  for (const std::string& place : {options.dataset, options.index}) {
    if (place.find("://") == std::string::npos) continue;
    return quarry::InvalidArgument(
        "an index is for a dataset in a directory, and is written to one: it saves opening many local files; "
        "behind a URL, servers read the tables of the subfiles instead");
  }
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, quarry::Dataset::Open(options.dataset));
  const std::filesystem::path folder =
      options.index.empty() ? quarry::index::DefaultIndexFolder(options.dataset).path : options.index;
  if (options.list) return quarry::tools::ListSubfiles(dataset, folder, options.listing);
  if (options.verify && !options.rebuild) return Verify(*dataset, folder);
  quarry::index::IndexReport report;
  {
    quarry::Progress progress("index", dataset->steps().size(), true);
    QUARRY_ASSIGN_OR_RETURN(report, quarry::index::UpdateIndex(
                                        *dataset, folder, options.rebuild,
                                        [&](std::uint64_t done, std::uint64_t) { progress.Update(done); },
                                        quarry::LockOptions{.break_lock = options.break_lock}));
  }
  if (!report.rebuilt_because.empty()) quarry::PrintOut("built anew: {}\n", report.rebuilt_because);
  if (report.steps_added + report.steps_removed == 0) {
    quarry::PrintOut("{}: nothing new, {} steps in the index\n", options.dataset, report.steps);
  } else {
    quarry::PrintOut("{}: {} patches of {} fields in {} steps loaded, {} steps in the index\n",
                     options.dataset, report.patches_added, report.fields_added, report.steps_added,
                     report.steps);
  }
  return options.verify ? Verify(*dataset, folder) : quarry::Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app("quarry-index",
                                   "Updates the index of a dataset, which servers use to find patches.");
  app.AddOption("DATASET", &options.dataset, "NAME.quarry directory").Path().Required();
  app.AddOption("--index", &options.index,
                "folder for the index, on a local disk; default: NAME.quarry/index");
  app.AddFlag("--rebuild", &options.rebuild, "rebuild the index");
  app.AddFlag("--verify", &options.verify,
              "check every checksum of the dataset and every record of the index");
  app.AddFlag("--break-lock", &options.break_lock,
              "remove the stale lock of a killed quarry-index, on file systems without flock");
  app.SetHeading("Files of a region");
  app.AddFlag("--list", &options.list,
              "print the subfiles of the dataset with their boxes, out of the index, and change nothing")
      .Excludes("--rebuild")
      .Excludes("--verify");
  app.AddOption("--box", &options.listing.box,
                "only subfiles that meet this box, X0:X1,Y0:Y1,Z0:Z1, in samples of full resolution")
      .Needs("--list");
  app.AddOption("--step", &options.listing.step, "only this step").Needs("--list");
  app.AddOption("--field", &options.listing.field, "only this field").Needs("--list");
  app.AddFlag("--json", &options.listing.json, "print one JSON array").Needs("--list");
  app.SetFooter(
      "Examples:\n  quarry-index run42.quarry\n  quarry-index run42.quarry --list --step 7 --box "
      "0:64,0:64,0:64"
      "\nExit codes: 0 done, 2 bad usage or out of date, 3 not "
      "found, 4 damaged data, 6 I/O error.");
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    QUARRY_RETURN_IF_ERROR(Run(options));
    return 0;
  });
}
