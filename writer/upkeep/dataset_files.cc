#include "writer/upkeep/dataset_files.h"

#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/catalogue.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"

namespace quarry::writer {

namespace fs = std::filesystem;

Result<DatasetDescription> ReadDescription(const fs::path& dataset) {
  const fs::path manifest = dataset / "dataset.json";
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(manifest, format::kManifestLimit));
  return format::DecodeDatasetManifest(text).Annotate(fmt::format("\"{}\"", manifest.string()));
}

Result<HeldDataset> HoldDataset(const fs::path& dataset, const LockOptions& locking) {
  std::error_code ignored;
  if (!fs::is_directory(dataset, ignored))
    return NotFound("there is no dataset \"{}\"; give the path of a NAME.quarry directory", dataset.string());
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(dataset, locking));
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription description, ReadDescription(dataset));
  return HeldDataset{std::move(lock), std::move(description)};
}

Result<StepDescription> ReadStep(const Location& folder, const DatasetDescription& dataset,
                                 std::string* text) {
  const Location manifest = folder / "step.json";
  QUARRY_ASSIGN_OR_RETURN(*text, manifest.ReadText(format::kManifestLimit));
  return format::DecodeStepManifest(*text, dataset).Annotate(fmt::format("\"{}\"", manifest));
}

Result<StepDescription> ReadStep(const Location& folder, const DatasetDescription& dataset) {
  std::string text;
  return ReadStep(folder, dataset, &text);
}

Result<format::StepRecord> ReadRecord(const Location& folder, const DatasetDescription& dataset) {
  std::string text;
  QUARRY_ASSIGN_OR_RETURN(const StepDescription step, ReadStep(folder, dataset, &text));
  return format::RecordOf(step, text);
}

Result<std::set<std::uint64_t>> ListSteps(const fs::path& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, (WithPacks(dataset) / "steps").List());
  std::set<std::uint64_t> steps;
  for (const FolderEntry& entry : entries) {
    if (const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name)) steps.insert(*step);
  }
  return steps;
}

Status ReplaceDescription(const fs::path& dataset, const DatasetDescription& description) {
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(description, "dataset.json"));
  const fs::path temporary = dataset / "steps" / fmt::format("{}dataset.json", kStagingPrefix);
  return ReplaceFile(dataset / "dataset.json", std::as_bytes(std::span(text)), temporary);
}

Status RemoveEntries(const fs::path& folder, const std::function<bool(const std::string&)>& is_stale) {
  const Result<std::vector<FolderEntry>> entries = Location(folder).List();
  if (entries.status().code() == StatusCode::kNotFound) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(entries.status());
  for (const FolderEntry& entry : *entries) {
    if (is_stale(entry.name)) QUARRY_RETURN_IF_ERROR(RemoveTree(folder / entry.name));
  }
  return Status::Ok();
}

Status RemoveStaged(const fs::path& dataset) {
  QUARRY_RETURN_IF_ERROR(RemoveEntries(dataset / "steps", [](const std::string& name) {
    return name.starts_with(kStagingPrefix) && name != format::kCurrentFile;
  }));
  QUARRY_RETURN_IF_ERROR(
      RemoveEntries(dataset / "masks", [](const std::string& name) { return name.starts_with("."); }));
  std::error_code ignored;
  fs::remove(dataset / "masks", ignored);  // where that has left it empty
  return Status::Ok();
}

}  // namespace quarry::writer
