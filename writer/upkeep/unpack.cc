#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/dataset_files.h"
#include "writer/upkeep/pack.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

/// Asks the system to bring a file to the disk, and does not wait.
void StartWriting(const fs::path& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0) (void)::sync_file_range(fd.get(), 0, 0, SYNC_FILE_RANGE_WRITE);  // syncing decides
}

/// Files and folders that are synced later, together: the first sync then brings most of the others to the
/// disk as well. Each of them is synced before any of them counts.
class Unsynced {
 public:
  /// Writes a file, which the system begins to bring to the disk.
  Status Write(const fs::path& path, ByteSpan bytes) {
    if (files_.size() == kMostOpen) QUARRY_RETURN_IF_ERROR(SyncFiles());
    QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
    QUARRY_RETURN_IF_ERROR(file.Append(bytes));
    StartWriting(path);
    files_.push_back(std::move(file));
    return Status::Ok();
  }
  void AddFolder(fs::path folder) { folders_.push_back(std::move(folder)); }

  Status Sync() {
    QUARRY_RETURN_IF_ERROR(SyncFiles());
    for (const fs::path& folder : folders_) QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
    folders_.clear();
    return Status::Ok();
  }

 private:
  static constexpr std::size_t kMostOpen = 256;

  Status SyncFiles() {
    for (WritableFile& file : files_) QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
    files_.clear();
    return Status::Ok();
  }

  std::vector<WritableFile> files_;
  std::vector<fs::path> folders_;
};

Result<Bytes> ReadPart(const PackFile& pack, std::uint64_t step, const std::string& name) {
  QUARRY_ASSIGN_OR_RETURN(const auto part, pack.OpenPart(step, name, name));
  Bytes bytes(part->size());
  QUARRY_RETURN_IF_ERROR(part->ReadAt(0, bytes));
  return bytes;
}

/// Writes the folder of a packed step, under a name that no reader sees.
Status WriteFolder(const PackFile& pack, const format::PackTable::Step& step, const fs::path& folder,
                   Unsynced* unsynced) {
  QUARRY_RETURN_IF_ERROR(RemoveTree(folder));
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  std::set<fs::path> fields;
  for (const format::PackTable::File& file : step.files) {
    const std::string& name = pack.table().names[file.name];
    const fs::path path = folder / name;
    if (fields.insert(path.parent_path()).second)
      QUARRY_RETURN_IF_ERROR(CreateDirectories(path.parent_path()));
    QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadPart(pack, step.step, name));
    QUARRY_RETURN_IF_ERROR(unsynced->Write(path, bytes));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::string text, pack.Manifest(step));
  QUARRY_RETURN_IF_ERROR(unsynced->Write(folder / "step.json", std::as_bytes(std::span(text))));
  for (const fs::path& field : fields) unsynced->AddFolder(field);
  unsynced->AddFolder(folder);
  return Status::Ok();
}

Status UnpackOne(const fs::path& dataset, const PackRef& ref, const std::function<void()>& done) {
  const fs::path steps = dataset / "steps";
  QUARRY_ASSIGN_OR_RETURN(const auto pack, PackFile::Open(steps / ref.name, ref.runs));
  Unsynced unsynced;
  std::vector<std::pair<fs::path, fs::path>> staged;
  for (const format::PackTable::Step& step : pack->table().steps) {
    done();
    const fs::path folder = dataset / format::StepFolder(step.step);
    std::error_code ignored;
    if (fs::exists(folder, ignored)) continue;
    staged.emplace_back(steps / fmt::format("{}unpacked-{}", kStagingPrefix, step.step), folder);
    QUARRY_RETURN_IF_ERROR(WriteFolder(*pack, step, staged.back().first, &unsynced));
  }
  QUARRY_RETURN_IF_ERROR(unsynced.Sync());
  for (const auto& [from, to] : staged) QUARRY_RETURN_IF_ERROR(Rename(from, to));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(steps));
  QUARRY_RETURN_IF_ERROR(AwaitTick(steps));
  QUARRY_RETURN_IF_ERROR(RemoveTree(steps / ref.name));
  return SyncDirectory(steps);
}

Result<std::vector<PackRef>> ListPacks(const fs::path& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(dataset / "steps").List());
  return PacksAmong(entries);
}

}  // namespace

Status AwaitTick(const fs::path& folder) {
  // File systems tick in milliseconds, some in seconds. One that gives no times is not waited for.
  constexpr auto kLongest = std::chrono::seconds(5);
  const fs::path file = folder / fmt::format("{}tick", kStagingPrefix);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  const std::string before = StampOf(folder).text;
  while (std::chrono::steady_clock::now() < end) {
    QUARRY_ASSIGN_OR_RETURN(const WritableFile made, WritableFile::Create(file));
    QUARRY_RETURN_IF_ERROR(RemoveTree(file));
    if (StampOf(folder).text != before) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Status::Ok();
}

Status UnpackSteps(const fs::path& dataset, const std::set<std::uint64_t>& steps) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<PackRef> packs, ListPacks(dataset));
  for (const PackRef& pack : packs) {
    const bool has_one = std::ranges::any_of(steps, [&](std::uint64_t step) { return pack.Has(step); });
    if (has_one) QUARRY_RETURN_IF_ERROR(UnpackOne(dataset, pack, [] {}));
  }
  return Status::Ok();
}

Result<std::uint64_t> Unpack(const fs::path& dataset,
                             const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                             const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(const HeldDataset held, HoldDataset(dataset, locking));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<PackRef> packs, ListPacks(dataset));
  std::uint64_t all = 0;
  for (const PackRef& pack : packs) all += pack.steps();
  std::uint64_t done = 0;
  for (const PackRef& pack : packs)
    QUARRY_RETURN_IF_ERROR(UnpackOne(dataset, pack, [&] { progress(++done, all); }));
  return all;
}

}  // namespace quarry::writer
