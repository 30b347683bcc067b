#include "writer/publish.h"

#include "quarry/format/manifest.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

constexpr int kLockTimeoutSeconds = 20;
constexpr std::string_view kStagingPrefix = ".partial-";

/// A dataset that does not exist yet grows beside its final name.
fs::path DatasetStaging(const fs::path& dataset) {
  return dataset.parent_path() / fmt::format(".{}.partial", dataset.filename().string());
}

Result<std::string> ReadText(const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWholeFile(path, std::uint64_t{256} << 20));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

ByteSpan AsBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    return InternalError("cannot remove \"{}\": {}; remove it by hand", path.string(), error.message());
  return Status::Ok();
}

/// Removes the entries of a folder whose names begin so.
Status RemoveStartingWith(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) stale.push_back(it->path());
  }
  for (const fs::path& path : stale) QUARRY_RETURN_IF_ERROR(RemoveAll(path));
  return Status::Ok();
}

Status RemoveStagedSteps(const fs::path& dataset) {
  return RemoveStartingWith(dataset / "steps", kStagingPrefix);
}

}  // namespace

Result<Publisher> Publisher::Open(const fs::path& path, bool append) {
  fs::path dataset = fs::absolute(path).lexically_normal();
  if (!dataset.has_filename()) dataset = dataset.parent_path();
  std::error_code ignored;
  if (!append) {
    if (fs::exists(dataset, ignored)) {
      return Status(
          StatusCode::kAlreadyExists,
          fmt::format("\"{}\" exists already; give --append to add to it, or choose another --output",
                      path.string()));
    }
    if (!fs::is_directory(dataset.parent_path(), ignored)) {
      return NotFound("there is no directory \"{}\" for the dataset; create it first",
                      dataset.parent_path().string());
    }
    const fs::path staging = DatasetStaging(dataset);
    QUARRY_RETURN_IF_ERROR(CreateDirectories(staging));
    QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(staging, kLockTimeoutSeconds));
    // Whoever held the lock may just have published under the same name.
    if (fs::exists(dataset, ignored)) {
      return Status(StatusCode::kAlreadyExists,
                    fmt::format("\"{}\" was created by another process just now", path.string()));
    }
    QUARRY_RETURN_IF_ERROR(RemoveStartingWith(staging, ""));
    return Publisher(std::move(dataset), std::move(lock));
  }
  if (!fs::is_directory(dataset, ignored)) {
    return NotFound("there is no dataset \"{}\" to append to; leave out --append to create it",
                    path.string());
  }
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(dataset, kLockTimeoutSeconds));
  Publisher publisher(std::move(dataset), std::move(lock));
  QUARRY_ASSIGN_OR_RETURN(publisher.existing_, ReadDescription(publisher.dataset_));
  QUARRY_RETURN_IF_ERROR(RemoveStagedSteps(publisher.dataset_));
  return publisher;
}

Result<DatasetDescription> Publisher::ReadDescription(const fs::path& dataset) {
  const fs::path manifest = dataset / "dataset.json";
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadText(manifest));
  Result<DatasetDescription> description = format::DecodeDatasetManifest(text);
  if (!description.ok()) {
    return std::move(description).status().Annotate(fmt::format("\"{}\"", manifest.string()));
  }
  return description;
}

Result<std::set<std::string>> Publisher::PublishedFields(std::uint64_t step) const {
  std::set<std::string> fields;
  std::error_code ignored;
  if (!existing_ || !fs::exists(dataset_ / format::StepFolder(step), ignored)) return fields;
  const fs::path manifest = dataset_ / format::StepFolder(step) / "step.json";
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadText(manifest));
  Result<StepDescription> description = format::DecodeStepManifest(text);
  if (!description.ok())
    return std::move(description).status().Annotate(fmt::format("\"{}\"", manifest.string()));
  for (const FieldStepDescription& field : description->fields) fields.insert(field.name);
  return fields;
}

fs::path Publisher::StepStaging(std::uint64_t step) const {
  if (!existing_) return DatasetStaging(dataset_) / format::StepFolder(step);
  return dataset_ / "steps" / fmt::format("{}{}", kStagingPrefix, step);
}

Result<fs::path> Publisher::StageField(std::uint64_t step, const std::string& field) {
  const fs::path folder = StepStaging(step) / field;
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  return folder;
}

Status Publisher::WriteManifest(const fs::path& directory, const std::string& name,
                                const std::string& text) const {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(directory / name));
  QUARRY_RETURN_IF_ERROR(file.Append(AsBytes(text)));
  QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
  return SyncDirectory(directory);
}

Status Publisher::PublishStep(const DatasetDescription& dataset, const StepDescription& step) {
  const fs::path staged = StepStaging(step.step);
  for (const FieldStepDescription& field : step.fields)
    QUARRY_RETURN_IF_ERROR(SyncDirectory(staged / field.name));
  if (!existing_) return PublishNewDataset(dataset, step);

  // New fields are declared before the step that has them: a declared field without data is harmless, data of
  // an unknown field is not.
  if (dataset.fields.size() != existing_->fields.size()) {
    const fs::path temporary = dataset_ / "steps" / fmt::format("{}dataset.json", kStagingPrefix);
    QUARRY_RETURN_IF_ERROR(
        ReplaceFile(dataset_ / "dataset.json", AsBytes(format::EncodeManifest(dataset)), temporary));
    existing_ = dataset;
  }
  std::error_code ignored;
  if (fs::exists(dataset_ / format::StepFolder(step.step), ignored)) return AddFieldsToStep(step);
  QUARRY_RETURN_IF_ERROR(WriteManifest(staged, "step.json", format::EncodeManifest(step)));
  QUARRY_RETURN_IF_ERROR(Rename(staged, dataset_ / format::StepFolder(step.step)));
  return SyncDirectory(dataset_ / "steps");
}

Status Publisher::PublishNewDataset(const DatasetDescription& dataset, const StepDescription& step) {
  const fs::path root = DatasetStaging(dataset_);
  QUARRY_RETURN_IF_ERROR(WriteManifest(StepStaging(step.step), "step.json", format::EncodeManifest(step)));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(root / "steps"));
  QUARRY_RETURN_IF_ERROR(WriteManifest(root, "dataset.json", format::EncodeManifest(dataset)));
  QUARRY_RETURN_IF_ERROR(Rename(root, dataset_));
  existing_ = dataset;
  return SyncDirectory(dataset_.parent_path());
}

Status Publisher::AddFieldsToStep(const StepDescription& step) {
  const fs::path folder = dataset_ / format::StepFolder(step.step);
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadText(folder / "step.json"));
  QUARRY_ASSIGN_OR_RETURN(StepDescription whole, format::DecodeStepManifest(text));
  for (const FieldStepDescription& field : step.fields) {
    // A folder that step.json does not list is what an interrupted run has left.
    QUARRY_RETURN_IF_ERROR(RemoveAll(folder / field.name));
    QUARRY_RETURN_IF_ERROR(Rename(StepStaging(step.step) / field.name, folder / field.name));
    whole.fields.push_back(field);
  }
  if (step.time) whole.time = step.time;
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  QUARRY_RETURN_IF_ERROR(ReplaceFile(folder / "step.json", AsBytes(format::EncodeManifest(whole)),
                                     StepStaging(step.step) / "step.json"));
  return RemoveAll(StepStaging(step.step));
}

void Publisher::Abandon() {
  std::error_code ignored;
  if (!existing_) {
    fs::remove_all(DatasetStaging(dataset_), ignored);
  } else {
    const Status status = RemoveStagedSteps(dataset_);
    (void)status;  // the next run removes what could not be removed now
  }
}

}  // namespace quarry::writer
