#include "writer/upkeep/upgrade.h"

#include <utility>

#include "quarry/format/catalogue.h"
#include "quarry/storage/location.h"
#include "writer/upkeep/catalogue_writer.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

/// The head as it is, and whether its records count; nothing without one.
std::pair<Bytes, bool> HeadOf(const fs::path& dataset) {
  const Result<Bytes> head = Location(dataset / format::kHeadFile).ReadWhole(format::kHeadLimit);
  std::error_code ignored;
  return {head.ok() ? *head : Bytes(), fs::exists(dataset / "steps" / format::kCurrentFile, ignored)};
}

}  // namespace

Result<UpgradeReport> Upgrade(const fs::path& dataset,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                              const LockOptions& locking) {
  std::error_code ignored;
  if (!fs::is_directory(dataset, ignored))
    return NotFound("there is no dataset \"{}\"; give the path of a NAME.quarry directory", dataset.string());
  QUARRY_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Acquire(dataset, locking));
  QUARRY_ASSIGN_OR_RETURN(const DatasetDescription description, ReadDescription(dataset));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  const auto before = HeadOf(dataset);
  UpgradeReport report;
  QUARRY_ASSIGN_OR_RETURN(const auto steps, ListSteps(dataset));
  report.steps = steps.size();
  CatalogueWriter catalogue = CatalogueWriter::Found(dataset);
  QUARRY_RETURN_IF_ERROR(RemakeCatalogue(
      &catalogue, dataset, description, [&](std::uint64_t done) { progress(done, report.steps); },
      [&](Status damage) {
        if (report.damage.size() < UpgradeReport::kMaxDamage) report.damage.push_back(std::move(damage));
      }));
  QUARRY_RETURN_IF_ERROR(catalogue.RemoveUnnamed());
  report.records = catalogue.steps();
  report.pages = catalogue.pages();
  report.changed = HeadOf(dataset) != before;
  return report;
}

}  // namespace quarry::writer
