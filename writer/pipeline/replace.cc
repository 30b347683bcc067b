#include "writer/pipeline/replace.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "quarry/format/catalogue.h"
#include "quarry/storage/directory_writer.h"
#include "quarry/storage/location.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

fs::path SiblingOf(const fs::path& dataset, std::string_view suffix) {
  return dataset.parent_path() / fmt::format(".{}.{}", dataset.filename().string(), suffix);
}

/// Only a dataset is removed, and only if everything in it belongs to it.
Status CheckIsDataset(const fs::path& dataset) {
  constexpr std::array<std::string_view, 7> kParts = {
      "dataset.json",           "steps", "masks", "index", format::kHeadFile, format::kCatalogueFolder,
      DirectoryLock::kOwnerFile};
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(dataset).List());
  bool described = false;
  for (const FolderEntry& entry : entries) {
    described = described || entry.name == kParts[0];
    if (std::find(kParts.begin(), kParts.end(), entry.name) != kParts.end()) continue;
    if (entry.name.starts_with(DirectoryWriter::kTemporary)) continue;  // left by a killed writer
    return FailedPrecondition(
        "\"{}\" is not replaced: it holds \"{}\", which does not belong to a dataset; move "
        "that elsewhere, or choose another path",
        dataset.string(), entry.name);
  }
  if (described) return Status::Ok();
  return FailedPrecondition(
      "\"{}\" is not replaced: it has no dataset.json, so it is not a dataset; choose another path",
      dataset.string());
}

/// Moves `staged` to `dataset`, and the old dataset to `staged` or `aside`.
/// @returns where the old one is
Result<fs::path> SwapFolders(const fs::path& staged, const fs::path& dataset, const fs::path& aside) {
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, dataset.c_str(), RENAME_EXCHANGE) == 0) return staged;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    return ErrnoStatus(errno, fmt::format("put \"{}\" in the place of", staged.string()), dataset.string());
  QUARRY_RETURN_IF_ERROR(RemoveTree(aside));
  QUARRY_RETURN_IF_ERROR(Rename(dataset, aside));
  const Status renamed = Rename(staged, dataset);
  if (renamed.ok()) return aside;
  QUARRY_RETURN_IF_ERROR(Rename(aside, dataset));
  return renamed;
}

}  // namespace

Result<Replacement> Replacement::Begin(const fs::path& path, const LockOptions& options) {
  if (path.string().find("://") != std::string::npos)
    return InvalidArgument(
        "\"{}\" is in a store, where no dataset is replaced; remove it with the tools of the store, or "
        "choose "
        "another name",
        path.string());
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Replacement(path, path, std::nullopt);
  std::error_code error;
  const fs::path dataset = fs::canonical(path, error);  // the target of a link is replaced
  if (error) return ErrnoStatus(error.value(), "find", path.string());
  if (!fs::is_directory(dataset, ignored)) {
    return FailedPrecondition(
        "\"{}\" is not replaced: it is not a folder, so it is not a dataset; choose another path",
        path.string());
  }
  QUARRY_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(dataset, options));
  QUARRY_RETURN_IF_ERROR(CheckIsDataset(dataset));
  fs::path staged = SiblingOf(dataset, "replacement");
  QUARRY_RETURN_IF_ERROR(RemoveTree(staged));
  return Replacement(dataset, std::move(staged), std::move(lock));
}

Replacement::Replacement(Replacement&& other) noexcept
    : dataset_(std::move(other.dataset_)),
      staged_(std::move(other.staged_)),
      lock_(std::exchange(other.lock_, std::nullopt)) {}

Status Replacement::Publish() {
  if (!lock_) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const fs::path old,
                          SwapFolders(staged_, dataset_, SiblingOf(dataset_, "replaced")));
  const DirectoryLock lock = *std::exchange(lock_, std::nullopt);
  QUARRY_RETURN_IF_ERROR(SyncDirectory(dataset_.parent_path()));
  return RemoveTree(old);
}

void Replacement::Abandon() {
  if (!lock_) return;
  (void)RemoveTree(staged_);
  lock_.reset();
}

}  // namespace quarry::writer
