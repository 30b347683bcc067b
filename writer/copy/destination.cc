#include "writer/copy/destination.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/dataset/step_listing.h"
#include "quarry/format/catalogue.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/pack.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/storage/directory_writer.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

namespace fs = std::filesystem;

using Records = std::map<std::uint64_t, format::StepRecord>;

namespace {

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

std::string HiddenRoot(const CopyTarget& to) {
  const std::string root = to.root.storage->AbsolutePath(to.root.path);
  if (!to.storage->renames_folders()) return root;
  const std::size_t slash = root.rfind('/');
  return fmt::format("{}/.{}.partial", root.substr(0, slash), root.substr(slash + 1));
}

Result<Destination> Destination::Open(const CopyTarget& to, const Selection& selection, bool look_only,
                                      const LockOptions& locking) {
  const DatasetDescription& wishes = selection.description();
  Destination target(to, wishes);
  target.text_ = selection.text();
  const Location manifest = to.root / "dataset.json";
  const Result<ObjectInfo> seen = manifest.Stat();
  if (!seen.ok() && seen.status().code() != StatusCode::kNotFound) return seen.status();
  target.shown_ = seen.ok();
  target.root_ = target.shown_ ? to.root.storage->AbsolutePath(to.root.path) : HiddenRoot(to);
  target.with_packs_ = WithPacks(Location(to.root.storage, target.root_));
  if (!look_only) {
    QUARRY_ASSIGN_OR_RETURN(target.lock_, to.storage->LockFolder(target.root_, locking));
    if (!to.storage->renames_folders()) QUARRY_RETURN_IF_ERROR(CheckUnclaimed(to, locking.break_lock));
    // The last holder of the lock may have shown it.
    if (!target.shown_ && manifest.Stat().ok())
      return Unavailable("\"{}\" was written by another process just now; start the copy again", to.root);
  }
  QUARRY_RETURN_IF_ERROR(target.shown_ ? target.OpenShown(wishes) : target.OpenHidden());
  if (!look_only && to.storage->renames_folders()) QUARRY_RETURN_IF_ERROR(target.RemoveTemporary());
  QUARRY_RETURN_IF_ERROR(target.ListSteps());
  return target;
}

Status Destination::OpenShown(const DatasetDescription& wishes) {
  const std::string path = PathOf("dataset.json");
  QUARRY_ASSIGN_OR_RETURN(tag_, to_.storage->TagOf(path));
  QUARRY_ASSIGN_OR_RETURN(before_, (to_.root / "dataset.json").ReadText(format::kManifestLimit));
  QUARRY_ASSIGN_OR_RETURN(const DatasetDescription known,
                          format::DecodeDatasetManifest(before_).Annotate(fmt::format("\"{}\"", path)));
  QUARRY_ASSIGN_OR_RETURN(description_, Joined(known, wishes).Annotate(fmt::format("\"{}\"", to_.root)));
  description_.has_packs = known.has_packs;
  return to_.storage->renames_folders() ? Status::Ok() : OpenHead();
}

Status Destination::OpenHead() {
  Result<CatalogueWriter> catalogue = CatalogueWriter::Read(Writable());
  if (MayPass(catalogue.status())) return catalogue.status();
  if (catalogue.ok() && catalogue->publishes()) catalogue_ = *std::move(catalogue);
  return Status::Ok();
}

/// Nothing else may be there: files of a copy are put beside no others.
Status Destination::OpenHidden() {
  const Result<ObjectInfo> seen = to_.root.Stat();
  if (seen.status().code() == StatusCode::kNotFound) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(seen.status());
  if (seen->kind != ObjectKind::kFolder)
    return FailedPrecondition("\"{}\" is a file; copy to another name", to_.root);
  QUARRY_ASSIGN_OR_RETURN(const auto names, DatasetNames(to_.root));
  const bool is_empty = names && names->empty();
  if (!names || (to_.storage->renames_folders() && !is_empty))
    return FailedPrecondition("\"{}\" is there, and is no dataset; copy to another name", to_.root);
  if (!to_.storage->renames_folders()) return Status::Ok();
  return FailedPrecondition("\"{}\" is there, and is empty; remove it, or copy to another name", to_.root);
}

/// Names that a killed copy has left would be shown with their folder. Folders that are shown have none, and
/// in a store only files.
Status Destination::RemoveTemporary() const {
  for (const char* const place : {"", "steps", "masks", "catalogue"}) {
    const Location folder = *place == '\0' ? Location(to_.root.storage, root_) : Plain(place);
    const Result<std::vector<FolderEntry>> entries = folder.List();
    if (entries.status().code() == StatusCode::kNotFound) continue;
    QUARRY_RETURN_IF_ERROR(entries.status());
    for (const FolderEntry& entry : *entries) {
      if (!entry.name.starts_with('.')) continue;
      const std::string path = (folder / entry.name).path;
      if (entry.kind == ObjectKind::kFolder && to_.storage->renames_folders()) {
        QUARRY_RETURN_IF_ERROR(to_.storage->RemoveLeftovers(path).status());
      } else if (entry.name.starts_with(DirectoryWriter::kTemporary)) {
        QUARRY_RETURN_IF_ERROR(to_.storage->Remove(path));
      }
    }
  }
  return Status::Ok();
}

/// Where the head publishes, folders of other steps are what a killed copy has left.
Status Destination::ListSteps() {
  if (catalogue_) {
    const std::vector<std::uint64_t> steps = catalogue_->PublishedSteps();
    steps_.insert(steps.begin(), steps.end());
    return Status::Ok();
  }
  const Result<std::vector<FolderEntry>> names = (with_packs_ / "steps").List();
  if (names.status().code() == StatusCode::kNotFound) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(names.status());
  for (const FolderEntry& entry : *names) {
    if (const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name)) steps_.insert(*step);
  }
  return Status::Ok();
}

std::string Destination::PathOf(std::string_view place) const { return Plain(place).path; }

Result<std::optional<std::string>> Destination::StepText(std::uint64_t step) const {
  if (!steps_.contains(step)) return std::optional<std::string>();
  Result<std::string> text =
      (with_packs_ / format::StepFolder(step) / "step.json").ReadText(format::kManifestLimit);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  QUARRY_RETURN_IF_ERROR(text.status());
  return std::optional(*std::move(text));
}

std::string Destination::StepPlace(std::uint64_t step) const {
  return to_.storage->renames_folders() ? fmt::format("steps/{}{}", kStagingPrefix, step)
                                        : format::StepFolder(step);
}

std::string Destination::MaskPlace(std::uint64_t mask) const {
  return to_.storage->renames_folders() ? fmt::format("masks/.{}.partial", format::MaskText(mask))
                                        : format::MaskFolder(mask);
}

bool Destination::HasMask(std::uint64_t mask) const {
  return to_.storage->renames_folders() &&
         Location(to_.root.storage, PathOf(format::MaskFolder(mask))).Stat().ok();
}

bool Destination::has_catalogue() const {
  const Result<Bytes> bytes = Plain(format::kHeadFile).ReadWhole(format::kHeadLimit);
  if (!bytes.ok() || !(Plain("steps") / format::kCurrentFile).Stat().ok()) return false;
  const Result<format::CatalogueHead> head = format::DecodeHead(*bytes);
  return head.ok() && head->steps == steps_.size();
}

Status Destination::Declare(bool has_packs) {
  description_.has_packs = description_.has_packs || has_packs;
  if (!shown_) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(description_, "dataset.json"));
  QUARRY_ASSIGN_OR_RETURN(const DatasetDescription known, format::DecodeDatasetManifest(before_));
  if (text == format::EncodeManifest(known)) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(to_.storage->Put(PathOf("dataset.json"), BytesOf(text), PutCondition::IfTag(tag_)));
  return to_.storage->SyncFolder(root_);
}

/// A file that is the same, whoever has put it, is there.
Status Destination::PutOnce(const std::string& path, const std::string& text) const {
  // Under a lock, in a folder that nobody sees, it can only be what an interrupted writer has left.
  if (to_.storage->renames_folders()) return to_.storage->Put(path, BytesOf(text), PutCondition::Always());
  return writer::PutOnce({Location(to_.root.storage, path), to_.storage}, text);
}

Status Destination::ShowStep(const StepToCopy& step) {
  const std::string place = StepPlace(step.step.step);
  QUARRY_RETURN_IF_ERROR(PutOnce(PathOf(place + "/step.json"), step.text));
  if (!to_.storage->renames_folders()) return Status::Ok();
  for (const FieldStepDescription& field : step.step.fields)
    QUARRY_RETURN_IF_ERROR(to_.storage->SyncFolder(PathOf(place + "/" + field.name)));
  QUARRY_RETURN_IF_ERROR(to_.storage->SyncFolder(PathOf(place)));
  QUARRY_RETURN_IF_ERROR(
      to_.storage->RenameFolder(PathOf(place), PathOf(format::StepFolder(step.step.step))));
  return to_.storage->SyncFolder(PathOf("steps"));
}

Status Destination::ShowMask(std::uint64_t mask) {
  if (!to_.storage->renames_folders()) return Status::Ok();
  const std::string place = PathOf(MaskPlace(mask));
  QUARRY_RETURN_IF_ERROR(to_.storage->SyncFolder(place));
  QUARRY_RETURN_IF_ERROR(to_.storage->RenameFolder(place, PathOf(format::MaskFolder(mask))));
  return to_.storage->SyncFolder(PathOf("masks"));
}

Status Destination::WriteCatalogue(Records records) {
  return catalogue_ ? AddToCatalogue(records) : MakeCatalogue(std::move(records));
}

/// Only the head and the last page of the catalogue are fetched.
Status Destination::AddToCatalogue(const Records& records) {
  std::vector<format::StepRecord> added;
  for (const auto& [step, record] : records) {
    if (!steps_.contains(step)) added.push_back(record);
  }
  const Status put = catalogue_->PutNew(std::move(added));
  if (put.code() == StatusCode::kFailedPrecondition)
    return Unavailable("{}; run the command again, which copies no file twice", put.message());
  QUARRY_RETURN_IF_ERROR(put);
  return catalogue_->RemoveUnnamed();
}

Status Destination::MakeCatalogue(Records records) const {
  const bool in_store = !to_.storage->renames_folders();
  for (const std::uint64_t step : steps_) {
    if (records.contains(step)) continue;
    Result<format::StepRecord> record = ReadRecord(with_packs_ / format::StepFolder(step), description_);
    if (record.ok()) records.emplace(step, *std::move(record));  // readers look at the other step.json
  }
  // In a store, a step without step.json is what an earlier copy with other options has begun.
  std::set<std::uint64_t> steps = in_store ? std::set<std::uint64_t>() : steps_;
  for (const auto& [step, record] : records) steps.insert(step);
  CatalogueWriter catalogue = CatalogueWriter::Found(Writable());
  if (in_store) catalogue.PublishSteps();
  auto next = records.begin();
  QUARRY_RETURN_IF_ERROR(
      catalogue.Remake(format::RunsOf(std::vector<std::uint64_t>(steps.begin(), steps.end())),
                       [&]() -> Result<std::optional<format::StepRecord>> {
                         if (next == records.end()) return std::optional<format::StepRecord>();
                         return std::optional((next++)->second);
                       }));
  return catalogue.RemoveUnnamed();
}

Status Destination::Finish(Records records) {
  QUARRY_RETURN_IF_ERROR(WriteCatalogue(std::move(records)));
  if (shown_) return Status::Ok();
  // A killed copy may have left the file with which it has looked whether the store keeps conditions.
  QUARRY_RETURN_IF_ERROR(RemoveTemporary());
  if (text_.empty()) {
    QUARRY_ASSIGN_OR_RETURN(text_, ManifestText(description_, "dataset.json"));
  }
  QUARRY_RETURN_IF_ERROR(PutOnce(PathOf("dataset.json"), text_));
  if (!to_.storage->renames_folders()) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(to_.storage->SyncFolder(root_));
  const std::string root = to_.root.storage->AbsolutePath(to_.root.path);
  QUARRY_RETURN_IF_ERROR(to_.storage->RenameFolder(root_, root));
  return to_.storage->SyncFolder(fs::path(root).parent_path().string());
}

Result<std::uint64_t> CleanCopy(const CopyTarget& to, const LockOptions& locking) {
  std::uint64_t removed = 0;
  const bool shown = (to.root / "dataset.json").Stat().ok();
  const std::string hidden = HiddenRoot(to);
  if (to.storage->renames_folders()) {
    if (Location(to.root.storage, hidden).Stat().ok()) {
      QUARRY_ASSIGN_OR_RETURN(const auto lock, to.storage->LockFolder(hidden, locking));
      QUARRY_RETURN_IF_ERROR(RemoveTree(hidden));
      ++removed;
    }
    if (!shown) return removed;
    QUARRY_ASSIGN_OR_RETURN(const auto lock, to.storage->LockFolder(to.root.path, locking));
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t names, to.storage->RemoveLeftovers(to.root.path));
    removed += names;
    for (const char* const folder : {"steps", "masks"}) {
      const Result<std::vector<FolderEntry>> entries = (to.root / folder).List();
      if (!entries.ok()) continue;
      for (const FolderEntry& entry : *entries)
        removed += entry.name.starts_with('.') && entry.name != format::kCurrentFile ? 1 : 0;
    }
    QUARRY_RETURN_IF_ERROR(RemoveStaged(to.root.path));
    return removed;
  }
  QUARRY_RETURN_IF_ERROR(CheckUnclaimed(to, locking.break_lock));
  QUARRY_ASSIGN_OR_RETURN(removed, to.storage->RemoveLeftovers(hidden));
  if (!shown) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t files, RemoveDatasetFiles(to));
    return removed + files;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::optional<format::CatalogueHead> head, PublishingHead(to.root));
  if (!head) return removed;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t files, RemoveUnpublished(to, format::StepsOf(head->runs)));
  removed += files;
  return removed;
}

}  // namespace quarry::writer
