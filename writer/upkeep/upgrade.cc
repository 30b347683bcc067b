#include "writer/upkeep/upgrade.h"

#include <set>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/catalogue.h"
#include "quarry/format/step_sections.h"
#include "quarry/storage/directory_writer.h"
#include "quarry/storage/location.h"
#include "writer/upkeep/catalogue_writer.h"
#include "writer/upkeep/coarse_writer.h"
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

/// Whether a step.json in one piece is so large that a new one has sections.
bool NeedsSections(const fs::path& manifest) {
  const auto file = Location(manifest).Open();
  if (!file.ok() || (*file)->size() <= format::SectionLimits().whole) return false;
  const auto front = format::ReadTextAt(**file, 0, format::kFrontBytes);
  return front.ok() && !format::IsInSections(*front);
}

/// Writes the step.json of steps of many fields anew, in sections. A damaged one is reported when its record
/// is made.
/// @return how many
Result<std::uint64_t> PutIntoSections(const fs::path& dataset, const DatasetDescription& description,
                                      const std::set<std::uint64_t>& steps) {
  const fs::path temporary = dataset / "steps" / fmt::format("{}step.json", kStagingPrefix);
  std::uint64_t changed = 0;
  for (const std::uint64_t number : steps) {
    const fs::path folder = dataset / format::StepFolder(number);
    if (!NeedsSections(folder / "step.json")) continue;
    const Result<StepDescription> step = ReadStep(folder, description);
    if (!step.ok()) continue;
    QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(*step, "step.json"));
    if (changed++ == 0) QUARRY_RETURN_IF_ERROR(CatalogueWriter::DoubtAll(dataset));
    QUARRY_RETURN_IF_ERROR(ReplaceFile(folder / "step.json", std::as_bytes(std::span(text)), temporary));
  }
  return changed;
}

/// Makes the coarse objects that are missing or outdated. Packed steps have none, and damaged ones are
/// reported when their record is made. dataset.json says so once the first is there.
/// @return how many
Result<std::uint64_t> MakeCoarseObjects(const fs::path& dataset, DatasetDescription description,
                                        const std::set<std::uint64_t>& steps) {
  if (description.order == format::PayloadOrder::kPatch) return 0;
  std::uint64_t made = 0;
  for (const std::uint64_t number : steps) {
    const fs::path folder = dataset / format::StepFolder(number);
    std::error_code ignored;
    if (!fs::exists(folder, ignored)) continue;
    const Result<StepDescription> step = ReadStep(folder, description);
    if (!step.ok()) continue;
    bool changed = false;
    const Result<bool> has =
        WriteCoarseObject({dataset, folder}, description, *step, DirectoryWriter(), &changed);
    if (!has.ok() && has.status().code() != StatusCode::kDataLoss) return has.status();
    if (changed) ++made;
    if (!has.ok() || !*has || description.has_coarse_objects) continue;
    description.has_coarse_objects = true;
    QUARRY_RETURN_IF_ERROR(ReplaceDescription(dataset, description));
  }
  return made;
}

}  // namespace

Result<UpgradeReport> Upgrade(const fs::path& dataset,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                              const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(const HeldDataset held, HoldDataset(dataset, locking));
  const DatasetDescription& description = held.description;
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  const auto before = HeadOf(dataset);
  UpgradeReport report;
  QUARRY_ASSIGN_OR_RETURN(const auto steps, ListSteps(dataset));
  report.steps = steps.size();
  QUARRY_ASSIGN_OR_RETURN(report.sectioned, PutIntoSections(dataset, description, steps));
  QUARRY_ASSIGN_OR_RETURN(report.coarse, MakeCoarseObjects(dataset, description, steps));
  CatalogueWriter catalogue = CatalogueWriter::Found(dataset);
  QUARRY_RETURN_IF_ERROR(RemakeCatalogue(
      &catalogue, dataset, description, [&](std::uint64_t done) { progress(done, report.steps); },
      [&](Status damage) {
        if (report.damage.size() < UpgradeReport::kMaxDamage) report.damage.push_back(std::move(damage));
      }));
  QUARRY_RETURN_IF_ERROR(catalogue.RemoveUnnamed());
  report.records = catalogue.steps();
  report.pages = catalogue.pages();
  report.changed = report.sectioned > 0 || report.coarse > 0 || HeadOf(dataset) != before;
  return report;
}

}  // namespace quarry::writer
