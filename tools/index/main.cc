// quarry-index: loads the patch tables of a dataset into LMDB, so that a server finds patches without opening
// subfiles.
#include <CLI/CLI.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/base/version.h"
#include "quarry/dataset/verify.h"
#include "quarry/index/index_writer.h"

namespace {

struct Options {
  std::string dataset;
  std::string index;
  bool rebuild = false;
  bool verify = false;
};

quarry::Status Verify(const quarry::Dataset& dataset, const std::filesystem::path& folder) {
  quarry::Progress progress("verify", 1000, true);
  QUARRY_ASSIGN_OR_RETURN(const quarry::VerifyReport report,
                          quarry::VerifyDataset(dataset, [&](std::uint64_t done, std::uint64_t total) {
                            progress.Update(total == 0 ? 1000 : 1000 * done / total);
                          }));
  for (std::size_t i = 1; i < report.damage.size(); ++i)
    fmt::print("damaged: {}\n", report.damage[i].message());
  if (!report.damage.empty()) return report.damage.front();
  QUARRY_RETURN_IF_ERROR(quarry::index::VerifyIndex(dataset, folder));
  fmt::print("verified: {} steps, {} subfiles, {} patches, {} of payload, and the index over them\n",
             report.steps, report.subfiles, report.patches, quarry::FormatBytes(report.bytes));
  return quarry::Status::Ok();
}

quarry::Status Run(const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, quarry::Dataset::Open(options.dataset));
  const std::filesystem::path folder = options.index.empty()
                                           ? quarry::index::DefaultIndexFolder(options.dataset)
                                           : std::filesystem::path(options.index);
  if (options.verify && !options.rebuild) return Verify(*dataset, folder);
  quarry::index::IndexReport report;
  {
    quarry::Progress progress("index", dataset->steps().size(), true);
    QUARRY_ASSIGN_OR_RETURN(report, quarry::index::UpdateIndex(
                                        *dataset, folder, options.rebuild,
                                        [&](std::uint64_t done, std::uint64_t) { progress.Update(done); }));
  }
  if (!report.rebuilt_because.empty()) fmt::print("built anew: {}\n", report.rebuilt_because);
  if (report.steps_added + report.steps_removed == 0) {
    fmt::print("{}: nothing new, {} steps in the index\n", options.dataset, report.steps);
  } else {
    fmt::print("{}: {} patches of {} fields in {} steps loaded, {} steps in the index\n", options.dataset,
               report.patches_added, report.fields_added, report.steps_added, report.steps);
  }
  return options.verify ? Verify(*dataset, folder) : quarry::Status::Ok();
}

int Fail(const quarry::Status& status) {
  fmt::print(stderr, "quarry-index: {}\n", status.message());
  return quarry::ExitCode(status);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Loads what is new in a dataset into its index, which servers use to find patches.",
               "quarry-index");
  app.add_option("DATASET", options.dataset, "NAME.quarry directory")->required();
  app.add_option("--index", options.index,
                 "folder of the index, on a local disk; default: NAME.quarry/index");
  app.add_flag("--rebuild", options.rebuild, "build the index anew");
  app.add_flag("--verify", options.verify,
               "check every checksum of the dataset, and every record of the index");
  app.set_version_flag("--version", std::string("quarry-index ") + quarry::kVersion);
  app.footer(
      "Example:\n  quarry-index run42.quarry\nExit codes: 0 done, 2 bad usage or not up to date, 3 not "
      "found, 4 damaged data, 6 I/O error.");
  try {
    app.parse(argc, argv);
    const quarry::Status status = Run(options);
    return status.ok() ? 0 : Fail(status);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Fail(quarry::InvalidArgument("{}; run quarry-index --help", error.what()));
  } catch (const std::bad_alloc&) {
    return Fail(quarry::InternalError("out of memory"));
  } catch (const std::exception& error) {
    return Fail(quarry::InternalError("unexpected: {}", error.what()));
  }
}
