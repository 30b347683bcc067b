#include "writer/pipeline/directory_publisher.h"

#include <algorithm>
#include <span>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/upkeep/dataset_files.h"
#include "writer/upkeep/pack.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

/// A new dataset grows beside its final name.
fs::path DatasetStaging(const fs::path& dataset) {
  return dataset.parent_path() / fmt::format(".{}.partial", dataset.filename().string());
}

/// Empties a locked folder.
Status RemoveAllButOwner(const fs::path& folder) {
  return RemoveEntries(folder, [](const std::string& name) { return name != DirectoryLock::kOwnerFile; });
}

/// Makes the folder in which a new dataset grows, and locks it.
Result<DirectoryLock> LockStaging(const fs::path& staging, const LockOptions& options) {
  while (true) {
    QUARRY_RETURN_IF_ERROR(CreateDirectories(staging));
    Result<DirectoryLock> lock = DirectoryLock::Acquire(staging, options);
    // The last holder has published the folder or removed it.
    if (lock.status().code() != StatusCode::kNotFound) return lock;
  }
}

/// Locks the name against other writers, and removes what an interrupted run left behind.
Result<DirectoryLock> LockNewDataset(const fs::path& dataset, const LockOptions& options = {}) {
  const fs::path staging = DatasetStaging(dataset);
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, LockStaging(staging, options));
  // The previous holder of the lock may just have published under the same name.
  std::error_code ignored;
  if (fs::exists(dataset, ignored)) {
    std::move(lock).RemoveDirectory();
    return CreatedMeanwhile(dataset.string());
  }
  QUARRY_RETURN_IF_ERROR(RemoveAllButOwner(staging));
  return lock;
}

}  // namespace

Result<std::unique_ptr<Publisher>> DirectoryPublisher::Open(const WritableLocation& place, bool append,
                                                            bool break_lock) {
  const LockOptions locking{.break_lock = break_lock};
  const fs::path path = place.root.path;
  fs::path dataset = fs::absolute(path).lexically_normal();
  if (!dataset.has_filename()) dataset = dataset.parent_path();
  const WritableLocation absolute{Location(place.root.storage, dataset.string()), place.storage};
  const auto make = [&](DirectoryLock lock) {
    return std::unique_ptr<DirectoryPublisher>(new DirectoryPublisher(absolute, std::move(lock)));
  };
  std::error_code ignored;
  if (!append) {
    if (fs::exists(dataset, ignored)) {
      return AlreadyExists(
          "\"{}\" exists already; append to it (--append), or choose another name (--output)", path.string());
    }
    if (!fs::is_directory(dataset.parent_path(), ignored)) {
      return NotFound("there is no directory \"{}\" for the dataset; create it first",
                      dataset.parent_path().string());
    }
    QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, LockNewDataset(dataset, locking));
    return Result<std::unique_ptr<Publisher>>(make(std::move(lock)));
  }
  if (!fs::is_directory(dataset, ignored)) {
    if (fs::exists(dataset, ignored))
      return AlreadyExists("\"{}\" is a file, and no dataset; choose another name", path.string());
    return NotFound("there is no dataset \"{}\" to append to; create it (without --append)", path.string());
  }
  if (!fs::exists(dataset / "dataset.json", ignored))
    return AlreadyExists("\"{}\" is there, and is no dataset; choose another name", path.string());
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(dataset, locking));
  auto publisher = make(std::move(lock));
  QUARRY_ASSIGN_OR_RETURN(publisher->existing_, ReadDescription(absolute.root));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  QUARRY_ASSIGN_OR_RETURN(const auto names, publisher->At("steps").ListNames());
  QUARRY_ASSIGN_OR_RETURN(publisher->packs_, PacksAmong(names));
  publisher->catalogue_ = CatalogueWriter::Open(absolute, *publisher->existing_);
  return Result<std::unique_ptr<Publisher>>(std::move(publisher));
}

Result<PublishedStep> DirectoryPublisher::Published(std::uint64_t step) const {
  if (!existing_) return PublishedStep();
  if (IsPacked(step)) return ReadPublished(WithPacks(root()) / format::StepFolder(step), *existing_);
  const Location folder = At(format::StepFolder(step));
  return folder.Stat().ok() ? ReadPublished(folder, *existing_) : PublishedStep();
}

bool DirectoryPublisher::IsPacked(std::uint64_t step) const {
  return std::ranges::any_of(packs_, [&](const PackRef& pack) { return pack.Has(step); });
}

/// A packed step cannot change: all steps of its pack become folders. More of them will follow, so this run
/// makes no packs any more.
Status DirectoryPublisher::MakeFolder(std::uint64_t step) {
  if (!IsPacked(step)) return Status::Ok();
  gathers_ = false;
  QUARRY_RETURN_IF_ERROR(UnpackSteps(dataset_, {step}));
  std::erase_if(packs_, [&](const PackRef& pack) { return pack.Has(step); });
  return Status::Ok();
}

Location DirectoryPublisher::root() const {
  return existing_ ? place_.root : Location(place_.root.storage, DatasetStaging(dataset_).string());
}

Location DirectoryPublisher::StepStaging(std::uint64_t step) const {
  return At(existing_ ? fmt::format("steps/{}{}", kStagingPrefix, step) : format::StepFolder(step));
}

Result<std::string> DirectoryPublisher::StageField(std::uint64_t step, const std::string& field) {
  if (!lock_) {
    QUARRY_ASSIGN_OR_RETURN(lock_, LockNewDataset(dataset_));
  }
  std::string folder = (StepStaging(step) / field).path;
  QUARRY_RETURN_IF_ERROR(storage().MakeFolder(folder));
  return folder;
}

Location DirectoryPublisher::MaskStaging(std::uint64_t name) const {
  return At(fmt::format("masks/.{}.partial", format::MaskText(name)));
}

Result<std::string> DirectoryPublisher::StageMask(std::uint64_t name) {
  std::string folder = MaskStaging(name).path;
  QUARRY_RETURN_IF_ERROR(storage().MakeFolder(folder));
  staged_masks_.insert(name);
  return folder;
}

/// Before the step that names them: a mask that no step names is harmless, a step without its mask is not.
Status DirectoryPublisher::PublishMasks() {
  if (staged_masks_.empty()) return Status::Ok();
  for (const std::uint64_t name : staged_masks_) {
    const std::string staged = MaskStaging(name).path;
    QUARRY_RETURN_IF_ERROR(storage().SyncFolder(staged));
    QUARRY_RETURN_IF_ERROR(storage().RenameFolder(staged, At(format::MaskFolder(name)).path));
  }
  staged_masks_.clear();
  QUARRY_RETURN_IF_ERROR(storage().SyncFolder(At("masks").path));
  return storage().SyncFolder(root().path);
}

/// Into a folder that no reader sees.
Status DirectoryPublisher::WriteManifest(const Location& folder, const std::string& name,
                                         const std::string& text) const {
  QUARRY_ASSIGN_OR_RETURN(const auto file, storage().Create((folder / name).path, text.size()));
  QUARRY_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  QUARRY_RETURN_IF_ERROR(file->Finish());
  return storage().SyncFolder(folder.path);
}

/// Makes the rename durable by which a step has become visible.
/// @errors kUnknown: that has failed, and the rename cannot be undone
Status DirectoryPublisher::KeepPublished(std::uint64_t step, const std::string& folder) const {
  Status synced = storage().SyncFolder(folder);
  if (synced.ok()) return synced;
  return {StatusCode::kUnknown,
          fmt::format("step {} is published and visible, but may not survive a power cut: {}; check the file "
                      "system, and go on with the next step (quarry-write: --resume)",
                      step, synced.message())};
}

Status DirectoryPublisher::PublishStep(const DatasetDescription& dataset, const StepDescription& step) {
  const Location staged = StepStaging(step.step);
  for (const FieldStepDescription& field : step.fields)
    QUARRY_RETURN_IF_ERROR(storage().SyncFolder((staged / field.name).path));
  QUARRY_RETURN_IF_ERROR(PublishMasks());
  if (!existing_) return PublishNewDataset(dataset, step);

  // New fields are declared before the step that has them: a declared field without data is harmless, data of
  // an unknown field is not. So is a unit without times.
  if (Declares(dataset, *existing_)) {
    DatasetDescription next = dataset;
    next.has_packs = existing_->has_packs;
    next.has_coarse_objects = existing_->has_coarse_objects;
    QUARRY_RETURN_IF_ERROR(ReplaceDescription(place_, next));
    existing_ = std::move(next);
  }
  QUARRY_RETURN_IF_ERROR(MakeFolder(step.step));
  const Location folder = At(format::StepFolder(step.step));
  if (folder.Stat().ok()) return AddFieldsToStep(step);
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  if (existing_->has_coarse_objects) (void)StageCoarse(step, *existing_, staged);
  QUARRY_RETURN_IF_ERROR(WriteManifest(staged, "step.json", text));
  QUARRY_RETURN_IF_ERROR(storage().RenameFolder(staged.path, folder.path));
  Status kept = KeepPublished(step.step, At("steps").path);
  Catalogue(step, text, true);
  if (kept.ok()) Gather(step, text);
  return kept;
}

namespace {

// As many of the newest small steps stay folders at least, since fields may follow; and as many go to a pack.
constexpr std::size_t kNewest = 256;
constexpr std::size_t kInPack = 256;

}  // namespace

/// The step is published: if packing fails, steps stay folders.
void DirectoryPublisher::Gather(const StepDescription& step, const std::string& text) {
  std::uint64_t bytes = text.size();
  for (const FieldStepDescription& field : step.fields) bytes += field.stored_bytes;
  if (!gathers_ || bytes >= PackOptions().smaller_than) return;
  try {
    gathered_.push_back(step.step);
    if (gathered_.size() < kNewest + kInPack) return;
    const Status packed = PackGathered();
    if (packed.ok()) return;
    gathers_ = false;
    warning_ = fmt::format(
        "small steps stay folders from now on, as they cannot be packed: {}; nothing is lost, run \"quarry "
        "pack "
        "{}\" later",
        packed.message(), dataset_.string());
  } catch (const std::bad_alloc&) {
    gathers_ = false;  // packing is worth no memory that is not there, and so is a warning
  }
}

Status DirectoryPublisher::PackGathered() {
  const auto oldest = gathered_.begin() + static_cast<std::ptrdiff_t>(kInPack);
  PackOptions options;
  options.only.emplace(gathered_.begin(), oldest);
  gathered_.erase(gathered_.begin(), oldest);
  QUARRY_RETURN_IF_ERROR(
      PackLocked(dataset_, &*existing_, options, [](std::uint64_t, std::uint64_t) {}).status());
  QUARRY_ASSIGN_OR_RETURN(const auto names, At("steps").ListNames());
  QUARRY_ASSIGN_OR_RETURN(packs_, PacksAmong(names));
  return Status::Ok();
}

/// The step is published: without its record, readers look at its step.json.
void DirectoryPublisher::Catalogue(const StepDescription& step, const std::string& text, bool is_new) {
  if (!catalogue_) return;
  try {
    const Status put = catalogue_->Put(format::RecordOf(step, text), is_new);
    (void)put;  // the next step, the next run or "quarry upgrade" adds what is missing
  } catch (const std::bad_alloc&) {
    catalogue_.reset();  // it may be half changed
  }
}

Status DirectoryPublisher::PublishNewDataset(const DatasetDescription& given, const StepDescription& step) {
  const Location staged = root();
  const auto sync = [&](const Location& folder) { return storage().SyncFolder(folder.path); };
  DatasetDescription dataset = given;
  dataset.has_coarse_objects = StageCoarse(step, dataset, StepStaging(step.step));
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  QUARRY_ASSIGN_OR_RETURN(const std::string description, ManifestText(dataset, "dataset.json"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(StepStaging(step.step), "step.json", text));
  CatalogueWriter catalogue({staged, place_.storage});
  QUARRY_RETURN_IF_ERROR(catalogue.Put(format::RecordOf(step, text), true));
  QUARRY_RETURN_IF_ERROR(sync(staged / "steps"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(staged, "dataset.json", description));
  QUARRY_RETURN_IF_ERROR(storage().RenameFolder(staged.path, place_.root.path));
  catalogue.MoveTo(place_.root);
  catalogue_ = std::move(catalogue);
  existing_ = dataset;
  Status kept = KeepPublished(step.step, dataset_.parent_path().string());
  if (kept.ok()) Gather(step, text);
  return kept;
}

Status DirectoryPublisher::AddFieldsToStep(const StepDescription& step) {
  const Location folder = At(format::StepFolder(step.step));
  QUARRY_ASSIGN_OR_RETURN(StepDescription whole, ReadStep(folder, *existing_));
  QUARRY_RETURN_IF_ERROR(AddFieldsTo(step, &whole));
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(whole, "step.json"));
  QUARRY_RETURN_IF_ERROR(catalogue_ ? catalogue_->Doubt(step.step)
                                    : CatalogueWriter(place_).Doubt(step.step));
  const Location staged = StepStaging(step.step);
  for (const FieldStepDescription& field : step.fields) {
    const std::string place = (folder / field.name).path;
    // A folder that step.json does not list is left over from an interrupted run.
    QUARRY_RETURN_IF_ERROR(RemoveTree(place));
    QUARRY_RETURN_IF_ERROR(storage().RenameFolder((staged / field.name).path, place));
  }
  QUARRY_RETURN_IF_ERROR(storage().SyncFolder(folder.path));
  // As is a temporary name of step.json.
  QUARRY_RETURN_IF_ERROR(storage().RemoveLeftovers(folder.path).status());
  QUARRY_RETURN_IF_ERROR(
      storage().Put((folder / "step.json").path, std::as_bytes(std::span(text)), PutCondition::Always()));
  Status kept = KeepPublished(step.step, folder.path);
  if (existing_->has_coarse_objects) (void)StageCoarse(whole, *existing_, folder);
  const Status removed = RemoveTree(staged.path);
  (void)removed;  // the next run removes what could not be removed now
  if (kept.ok()) Catalogue(whole, text, false);
  return kept;
}

void DirectoryPublisher::Abandon() {
  for (const std::uint64_t name : staged_masks_) masks_.erase(name);
  staged_masks_.clear();
  if (!lock_) return;  // removed before
  if (!existing_) {
    masks_.clear();
    const Status status = RemoveAllButOwner(DatasetStaging(dataset_));
    (void)status;  // as below
    std::move(*lock_).RemoveDirectory();
    lock_.reset();
  } else {
    const Status status = RemoveStaged(dataset_);
    (void)status;  // the next run removes what could not be removed now
  }
}

}  // namespace quarry::writer
