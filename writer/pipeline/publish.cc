#include "writer/pipeline/publish.h"

#include <algorithm>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/subfile_table.h"
#include "quarry/storage/location.h"
#include "writer/upkeep/dataset_files.h"
#include "writer/upkeep/pack.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

/// A new dataset grows beside its final name.
fs::path DatasetStaging(const fs::path& dataset) {
  return dataset.parent_path() / fmt::format(".{}.partial", dataset.filename().string());
}

ByteSpan AsBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Makes the rename durable by which a step has become visible.
/// @errors kUnknown: that has failed, and the rename cannot be undone
Status KeepPublished(std::uint64_t step, const fs::path& folder) {
  Status synced = SyncDirectory(folder);
  if (synced.ok()) return synced;
  return {StatusCode::kUnknown,
          fmt::format("step {} is published and visible, but may not survive a power cut: {}; check the file "
                      "system, and go on with the next step (quarry-write: --resume)",
                      step, synced.message())};
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
    return AlreadyExists("\"{}\" was created by another process just now", dataset.string());
  }
  QUARRY_RETURN_IF_ERROR(RemoveAllButOwner(staging));
  return lock;
}

/// Describes a mask from the subfiles in its folder, and checks its name.
Result<MaskDescription> DescribeMask(const fs::path& folder, std::uint64_t name,
                                     const DatasetDescription& dataset, std::size_t grid_number) {
  const GridDescription& described = dataset.grids[grid_number];
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  MaskDescription mask;
  mask.name = name;
  mask.grid = grid_number;
  std::vector<std::uint64_t> digests;
  std::error_code ignored;
  while (fs::exists(folder / format::SubfileName(mask.subfiles.size()), ignored)) {
    SubfileDescription subfile;
    subfile.name = format::SubfileName(mask.subfiles.size());
    QUARRY_ASSIGN_OR_RETURN(const auto file, Location(folder / subfile.name).Open());
    QUARRY_ASSIGN_OR_RETURN(format::SubfileTable table, format::ReadSubfileTable(*file));
    subfile.bytes = table.footer.file_size;
    subfile.patches = table.header.patch_count;
    subfile.table_checksum = table.footer.table_checksum;
    if (table.header.dims != described.dims || table.header.patch != described.patch)
      return DataLoss("\"{}\" is a mask of another grid", file->path());
    format::TableWalk walk(std::make_shared<const format::SubfileTable>(std::move(table)), file);
    for (std::uint64_t block = 0; block < walk.blocks(); ++block) {
      QUARRY_RETURN_IF_ERROR(walk.GoTo(block));
      for (const format::PatchEntry& row : walk.rows()) {
        const Box box = grid.PatchBox(static_cast<std::int64_t>(row.patch_index));
        subfile.bounds = BoundingBox(subfile.bounds, box);
        digests.push_back(format::MaskDigest(row));
      }
    }
    mask.subfiles.push_back(std::move(subfile));
  }
  if (digests.size() != static_cast<std::size_t>(grid.patch_count()) ||
      format::MaskName(digests, grid_number) != name) {
    return DataLoss("the mask \"{}\" is damaged; run \"quarry verify\", or remove it if no step needs it",
                    folder.string());
  }
  return mask;
}

}  // namespace

Result<Publisher> Publisher::Open(const fs::path& path, bool append, bool break_lock) {
  const LockOptions locking{.break_lock = break_lock};
  fs::path dataset = fs::absolute(path).lexically_normal();
  if (!dataset.has_filename()) dataset = dataset.parent_path();
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
    return Publisher(std::move(dataset), std::move(lock));
  }
  if (!fs::is_directory(dataset, ignored)) {
    return NotFound("there is no dataset \"{}\" to append to; create it (without --append)", path.string());
  }
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(dataset, locking));
  Publisher publisher(std::move(dataset), std::move(lock));
  QUARRY_ASSIGN_OR_RETURN(publisher.existing_, ReadDescription(publisher.dataset_));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(publisher.dataset_));
  QUARRY_ASSIGN_OR_RETURN(const auto names, Location(publisher.dataset_ / "steps").ListNames());
  QUARRY_ASSIGN_OR_RETURN(publisher.packs_, PacksAmong(names));
  publisher.catalogue_ = CatalogueWriter::Open(publisher.dataset_, *publisher.existing_);
  return publisher;
}

namespace {

/// @param folder  of the step
Result<PublishedStep> ReadPublished(const Location& folder, const DatasetDescription& description) {
  PublishedStep published;
  QUARRY_ASSIGN_OR_RETURN(const StepDescription read, ReadStep(folder, description));
  published.time = read.time;
  for (const FieldStepDescription& field : read.fields) published.sources[field.name] = field.source;
  return published;
}

}  // namespace

namespace {

/// The first of some steps that is as wanted; nothing if none is.
template <typename Steps, typename Wanted>
Result<std::optional<std::uint64_t>> FirstOf(const Dataset& dataset, const Steps& steps,
                                             const Wanted& wanted) {
  Catalogue::Hold hold;
  for (const std::uint64_t number : steps) {
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, dataset.Summary(number, &hold));
    if (wanted(step)) return std::optional(number);
  }
  return std::optional<std::uint64_t>();
}

}  // namespace

Result<bool> Publisher::HasTimes(const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  QUARRY_ASSIGN_OR_RETURN(const auto found, FirstOf(*dataset, dataset->steps(), [](const StepSummary& step) {
                            return step.time.has_value();
                          }));
  return found.has_value();
}

Result<PublishedStep> Publisher::Published(std::uint64_t step) const {
  if (!existing_) return PublishedStep();
  if (IsPacked(step)) return ReadPublished(WithPacks(dataset_) / format::StepFolder(step), *existing_);
  std::error_code ignored;
  const fs::path folder = dataset_ / format::StepFolder(step);
  return fs::exists(folder, ignored) ? ReadPublished(folder, *existing_) : PublishedStep();
}

bool Publisher::IsPacked(std::uint64_t step) const {
  return std::ranges::any_of(packs_, [&](const PackRef& pack) { return pack.Has(step); });
}

/// A packed step cannot change: all steps of its pack become folders. More of them will follow, so this run
/// makes no packs any more.
Status Publisher::MakeFolder(std::uint64_t step) {
  if (!IsPacked(step)) return Status::Ok();
  gathers_ = false;
  QUARRY_RETURN_IF_ERROR(UnpackSteps(dataset_, {step}));
  std::erase_if(packs_, [&](const PackRef& pack) { return pack.Has(step); });
  return Status::Ok();
}

Result<std::optional<std::uint64_t>> Publisher::LastStep(const fs::path& path, const std::string& field) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  if (!dataset->description().FindField(field)) return std::optional<std::uint64_t>();
  std::vector<std::uint64_t> newest_first(dataset->steps().rbegin(), dataset->steps().rend());
  return FirstOf(*dataset, newest_first,
                 [&](const StepSummary& step) { return step.FindField(field) != nullptr; });
}

Result<bool> Publisher::Holds(const fs::path& path, const std::string& field) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  if (!dataset->description().FindField(field)) return false;
  QUARRY_ASSIGN_OR_RETURN(const auto found, FirstOf(*dataset, dataset->steps(), [&](const StepSummary& step) {
                            return step.FindField(field) != nullptr;
                          }));
  return found.has_value();
}

Status CheckSameInput(const std::string& dataset, std::uint64_t step, const PublishedStep& published,
                      const std::string& field, const std::string& source, std::optional<double> time) {
  const std::string& before = published.sources.at(field);
  const bool times_known = published.time && time;
  if (times_known ? *published.time == *time : before == source) return Status::Ok();
  const auto describe = [](const std::string& from, std::optional<double> at) {
    return at ? fmt::format("\"{}\" at time {}", from, *at) : fmt::format("\"{}\"", from);
  };
  return AlreadyExists(
      "step {} of \"{}\" has the field \"{}\" of {} already, and {} is given for it, which a "
      "resumed run would skip; append to go on after the last step, or give the series from its "
      "beginning",
      step, dataset, field, describe(before, published.time), describe(source, time));
}

fs::path Publisher::Root() const { return existing_ ? dataset_ : DatasetStaging(dataset_); }

fs::path Publisher::StepStaging(std::uint64_t step) const {
  if (!existing_) return Root() / format::StepFolder(step);
  return dataset_ / "steps" / fmt::format("{}{}", kStagingPrefix, step);
}

Result<fs::path> Publisher::StageField(std::uint64_t step, const std::string& field) {
  if (!lock_) {
    QUARRY_ASSIGN_OR_RETURN(lock_, LockNewDataset(dataset_));
  }
  const fs::path folder = StepStaging(step) / field;
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  return folder;
}

fs::path Publisher::MaskStaging(std::uint64_t name) const {
  return Root() / "masks" / fmt::format(".{}.partial", format::MaskText(name));
}

Result<std::optional<MaskDescription>> Publisher::FindMask(std::uint64_t name,
                                                           const DatasetDescription& dataset,
                                                           std::size_t grid) {
  if (const auto known = masks_.find(name); known != masks_.end()) return std::optional(known->second);
  std::error_code ignored;
  const fs::path folder = Root() / format::MaskFolder(name);
  if (!existing_ || !fs::exists(folder, ignored)) return std::optional<MaskDescription>();
  QUARRY_ASSIGN_OR_RETURN(MaskDescription mask, DescribeMask(folder, name, dataset, grid));
  return std::optional(masks_.emplace(name, std::move(mask)).first->second);
}

Result<fs::path> Publisher::StageMask(std::uint64_t name) {
  const fs::path folder = MaskStaging(name);
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  staged_masks_.insert(name);
  return folder;
}

/// Before the step that names them: a mask that no step names is harmless, a step without its mask is not.
Status Publisher::PublishMasks() {
  if (staged_masks_.empty()) return Status::Ok();
  for (const std::uint64_t name : staged_masks_) {
    QUARRY_RETURN_IF_ERROR(SyncDirectory(MaskStaging(name)));
    QUARRY_RETURN_IF_ERROR(Rename(MaskStaging(name), Root() / format::MaskFolder(name)));
  }
  staged_masks_.clear();
  QUARRY_RETURN_IF_ERROR(SyncDirectory(Root() / "masks"));
  return SyncDirectory(Root());
}

Status Publisher::WriteManifest(const fs::path& directory, const std::string& name,
                                const std::string& text) const {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(directory / name));
  QUARRY_RETURN_IF_ERROR(file.Append(AsBytes(text)));
  QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
  return SyncDirectory(directory);
}

namespace {

/// Whether a dataset says more than dataset.json, which only grows.
bool Declares(const DatasetDescription& dataset, const DatasetDescription& existing) {
  return dataset.fields.size() != existing.fields.size() || dataset.grids.size() != existing.grids.size() ||
         dataset.time_unit != existing.time_unit || dataset.texts != existing.texts ||
         !std::ranges::equal(dataset.fields, existing.fields, {}, &FieldDescription::still,
                             &FieldDescription::still);
}

}  // namespace

Status Publisher::PublishStep(const DatasetDescription& dataset, const StepDescription& step) {
  const fs::path staged = StepStaging(step.step);
  for (const FieldStepDescription& field : step.fields)
    QUARRY_RETURN_IF_ERROR(SyncDirectory(staged / field.name));
  QUARRY_RETURN_IF_ERROR(PublishMasks());
  if (!existing_) return PublishNewDataset(dataset, step);

  // New fields are declared before the step that has them: a declared field without data is harmless, data of
  // an unknown field is not. So is a unit without times.
  if (Declares(dataset, *existing_)) {
    DatasetDescription next = dataset;
    next.has_packs = existing_->has_packs;
    QUARRY_RETURN_IF_ERROR(ReplaceDescription(dataset_, next));
    existing_ = std::move(next);
  }
  QUARRY_RETURN_IF_ERROR(MakeFolder(step.step));
  std::error_code ignored;
  if (fs::exists(dataset_ / format::StepFolder(step.step), ignored)) return AddFieldsToStep(step);
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(staged, "step.json", text));
  QUARRY_RETURN_IF_ERROR(Rename(staged, dataset_ / format::StepFolder(step.step)));
  Status kept = KeepPublished(step.step, dataset_ / "steps");
  Catalogue(step, text, true);
  if (kept.ok()) Gather(step, text);
  return kept;
}

/// The step is published: without its record, readers look at its step.json.
void Publisher::Catalogue(const StepDescription& step, const std::string& text, bool is_new) {
  if (!catalogue_) return;
  try {
    const Status put = catalogue_->Put(format::RecordOf(step, text), is_new);
    (void)put;  // the next step, the next run or "quarry upgrade" adds what is missing
  } catch (const std::bad_alloc&) {
    catalogue_.reset();  // it may be half changed
  }
}

namespace {

// As many of the newest small steps stay folders at least, since fields may follow; and as many go to a pack.
constexpr std::size_t kNewest = 256;
constexpr std::size_t kInPack = 256;

}  // namespace

/// The step is published: if packing fails, steps stay folders.
void Publisher::Gather(const StepDescription& step, const std::string& text) {
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

Status Publisher::PackGathered() {
  const auto oldest = gathered_.begin() + static_cast<std::ptrdiff_t>(kInPack);
  PackOptions options;
  options.only.emplace(gathered_.begin(), oldest);
  gathered_.erase(gathered_.begin(), oldest);
  QUARRY_RETURN_IF_ERROR(
      PackLocked(dataset_, &*existing_, options, [](std::uint64_t, std::uint64_t) {}).status());
  QUARRY_ASSIGN_OR_RETURN(const auto names, Location(dataset_ / "steps").ListNames());
  QUARRY_ASSIGN_OR_RETURN(packs_, PacksAmong(names));
  return Status::Ok();
}

Status Publisher::PublishNewDataset(const DatasetDescription& dataset, const StepDescription& step) {
  const fs::path root = DatasetStaging(dataset_);
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  QUARRY_ASSIGN_OR_RETURN(const std::string description, ManifestText(dataset, "dataset.json"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(StepStaging(step.step), "step.json", text));
  CatalogueWriter catalogue(root);
  QUARRY_RETURN_IF_ERROR(catalogue.Put(format::RecordOf(step, text), true));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(root / "steps"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(root, "dataset.json", description));
  QUARRY_RETURN_IF_ERROR(Rename(root, dataset_));
  catalogue.MoveTo(dataset_);
  catalogue_ = std::move(catalogue);
  existing_ = dataset;
  Status kept = KeepPublished(step.step, dataset_.parent_path());
  if (kept.ok()) Gather(step, text);
  return kept;
}

Status Publisher::AddFieldsToStep(const StepDescription& step) {
  const fs::path folder = dataset_ / format::StepFolder(step.step);
  QUARRY_ASSIGN_OR_RETURN(StepDescription whole, ReadStep(folder, *existing_));
  if (step.time && whole.time && *step.time != *whole.time) {
    return InvalidArgument(
        "step {} of \"{}\" has the time {}, but the new fields {}; choose another step, or leave their time "
        "out",
        step.step, dataset_.string(), *whole.time, *step.time);
  }
  whole.fields.insert(whole.fields.end(), step.fields.begin(), step.fields.end());
  if (step.time) whole.time = step.time;
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(whole, "step.json"));
  QUARRY_RETURN_IF_ERROR(catalogue_ ? catalogue_->Doubt(step.step)
                                    : CatalogueWriter(dataset_).Doubt(step.step));
  for (const FieldStepDescription& field : step.fields) {
    // A folder that step.json does not list is left over from an interrupted run.
    QUARRY_RETURN_IF_ERROR(RemoveTree(folder / field.name));
    QUARRY_RETURN_IF_ERROR(Rename(StepStaging(step.step) / field.name, folder / field.name));
  }
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  const fs::path staged = StepStaging(step.step);
  QUARRY_RETURN_IF_ERROR(WriteManifest(staged, "step.json", text));
  QUARRY_RETURN_IF_ERROR(Rename(staged / "step.json", folder / "step.json"));
  Status kept = KeepPublished(step.step, folder);
  const Status removed = RemoveTree(staged);
  (void)removed;  // the next run removes what could not be removed now
  if (kept.ok()) Catalogue(whole, text, false);
  return kept;
}

void Publisher::Abandon() {
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
