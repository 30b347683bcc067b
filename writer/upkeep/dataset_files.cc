#include "writer/upkeep/dataset_files.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/format/catalogue.h"
#include "quarry/format/manifest.h"
#include "quarry/format/pack.h"
#include "quarry/format/subfile.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/storage/directory_writer.h"

namespace quarry::writer {

namespace fs = std::filesystem;

Result<DatasetDescription> ReadDescription(const Location& dataset) {
  const Location manifest = dataset / "dataset.json";
  QUARRY_ASSIGN_OR_RETURN(const std::string text, manifest.ReadText(format::kManifestLimit));
  return format::DecodeDatasetManifest(text).Annotate(fmt::format("\"{}\"", manifest));
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

Result<std::set<std::uint64_t>> ListSteps(const Location& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, (WithPacks(dataset) / "steps").List());
  std::set<std::uint64_t> steps;
  for (const FolderEntry& entry : entries) {
    if (const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name)) steps.insert(*step);
  }
  return steps;
}

Status ReplaceDescription(const WritableLocation& dataset, const DatasetDescription& description) {
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(description, "dataset.json"));
  QUARRY_RETURN_IF_ERROR(dataset.storage->Put((dataset.root / "dataset.json").path,
                                              std::as_bytes(std::span(text)), PutCondition::Always()));
  return dataset.storage->SyncFolder(dataset.root.path);
}

bool HasFooter(const Location& file, std::uint64_t size, std::uint64_t checksum) {
  static_assert(format::SubfileFooter::kEncodedSize == format::kPackFooter);
  const Result<OpenedFile> end = file.OpenWith(FileEnd::kBack, format::kPackFooter, nullptr);
  if (!end.ok() || end->object->size() != size || end->bytes.size() != format::kPackFooter) return false;
  const Result<format::SubfileFooter> footer = format::SubfileFooter::DecodeFrom(end->bytes);
  if (footer.ok()) return footer->file_size == size && footer->table_checksum == checksum;
  const Result<format::PackFooter> pack = format::DecodePackFooter(end->bytes, size);
  return pack.ok() && pack->table_checksum == checksum;
}

Status Claimed(const Location& file, const std::string& line) {
  const std::size_t end = line.find_last_not_of("\n ");
  return Unavailable(
      "another process writes there, or was killed when it did: \"{}\" says \"{}\" (host, process, time); "
      "wait "
      "for it to end, or if it no longer runs, give --break-lock",
      file, line.substr(0, end == std::string::npos ? 0 : end + 1));
}

Status CheckUnclaimed(const WritableLocation& root, bool break_lock) {
  const Location file = root.root / "steps" / kClaimFile;
  if (break_lock) return root.storage->Remove(file.path);
  const Result<std::string> line = file.ReadText(kMostClaim);
  if (line.status().code() == StatusCode::kNotFound) return Status::Ok();
  return line.ok() ? Claimed(file, *line) : line.status();
}

Status PutOnce(const WritableLocation& file, const std::string& text) {
  const Status put =
      file.storage->Put(file.root.path, std::as_bytes(std::span(text)), PutCondition::IfAbsent());
  if (put.code() != StatusCode::kAlreadyExists) return put;
  QUARRY_ASSIGN_OR_RETURN(const std::string there, file.root.ReadText(format::kManifestLimit));
  if (there == text) return Status::Ok();
  return FailedPrecondition("\"{}\" is there with other contents: another process writes the dataset",
                            file.root);
}

namespace {

bool IsOfDataset(const std::string& name) {
  return name == "steps" || name == "masks" || name == format::kCatalogueFolder || name == format::kHeadFile;
}

}  // namespace

Result<std::optional<std::set<std::string>>> DatasetNames(const Location& root) {
  std::set<std::string> names;
  const Result<std::vector<FolderEntry>> entries = root.ListNames();
  if (entries.status().code() == StatusCode::kNotFound) return std::optional(names);
  QUARRY_RETURN_IF_ERROR(entries.status());
  for (const FolderEntry& entry : *entries) {
    if (!IsOfDataset(entry.name)) return std::optional<std::set<std::string>>();
    names.insert(entry.name);
  }
  return std::optional(std::move(names));
}

Result<std::uint64_t> RemoveFiles(const WritableLocation& folder,
                                  const std::function<bool(const std::string&)>& chosen) {
  const Result<std::vector<FolderEntry>> entries = folder.root.List();
  if (entries.status().code() == StatusCode::kNotFound) return std::uint64_t{0};
  QUARRY_RETURN_IF_ERROR(entries.status());
  std::vector<Result<std::uint64_t>> removed(entries->size(), std::uint64_t{0});
  folder.root.storage->AtOnce(entries->size(), [&](std::size_t i) {
    const FolderEntry& entry = (*entries)[i];
    if (chosen && !chosen(entry.name)) return;
    const Location path = folder.root / entry.name;
    if (entry.kind == ObjectKind::kFolder) {
      removed[i] = RemoveFiles({path, folder.storage});
    } else {
      const Status status = folder.storage->Remove(path.path);
      removed[i] = status.ok() ? Result<std::uint64_t>(1) : Result<std::uint64_t>(status);
    }
  });
  std::uint64_t all = 0;
  for (const Result<std::uint64_t>& one : removed) {
    QUARRY_RETURN_IF_ERROR(one.status());
    all += *one;
  }
  return all;
}

Result<std::uint64_t> RemoveDatasetFiles(const WritableLocation& root, std::string_view keep) {
  std::uint64_t removed = 0;
  for (const std::string_view folder :
       {std::string_view("steps"), std::string_view("masks"), format::kCatalogueFolder}) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t files,
                            RemoveFiles({root.root / folder, root.storage},
                                        [&](const std::string& name) { return name != keep; }));
    removed += files;
  }
  const Location head = root.root / format::kHeadFile;
  const Status there = head.Stat().status();
  if (there.code() == StatusCode::kNotFound) return removed;
  QUARRY_RETURN_IF_ERROR(there);
  QUARRY_RETURN_IF_ERROR(root.storage->Remove(head.path));
  return removed + 1;
}

Result<std::uint64_t> RemoveUnpublished(const WritableLocation& root,
                                        const std::vector<std::uint64_t>& published) {
  return RemoveFiles({root.root / "steps", root.storage}, [&](const std::string& name) {
    const auto is_known = [&](std::uint64_t step) { return std::ranges::binary_search(published, step); };
    const std::optional<std::uint64_t> step = format::StepOfFolder(name);
    if (step) return !is_known(*step);
    const Result<std::vector<format::StepRun>> of_pack = format::StepsOfPack(name);
    return of_pack.ok() && !std::ranges::all_of(format::StepsOf(*of_pack), is_known);
  });
}

Status AddsNoSteps(const Location& root) {
  return FailedPrecondition(
      "no steps can be added to \"{}\": its readers take the steps from names of files, as another tool or "
      "an "
      "older Quarry has copied it, and would see steps in part. Copy to another name",
      root);
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
  QUARRY_RETURN_IF_ERROR(RemoveEntries(
      dataset, [](const std::string& name) { return name.starts_with(DirectoryWriter::kTemporary); }));
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
