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

Status WriteFile(const fs::path& path, ByteSpan bytes) {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
  QUARRY_RETURN_IF_ERROR(file.Append(bytes));
  return file.SyncAndClose();
}

Result<Bytes> ReadPart(const PackFile& pack, std::uint64_t step, const std::string& name) {
  QUARRY_ASSIGN_OR_RETURN(const auto part, pack.OpenPart(step, name, name));
  Bytes bytes(part->size());
  QUARRY_RETURN_IF_ERROR(part->ReadAt(0, bytes));
  return bytes;
}

/// Writes the folder of a packed step, under a name that no reader sees.
Status WriteFolder(const PackFile& pack, const format::PackTable::Step& step, const fs::path& folder) {
  QUARRY_RETURN_IF_ERROR(RemoveTree(folder));
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  std::set<fs::path> fields;
  for (const format::PackTable::File& file : step.files) {
    const std::string& name = pack.table().names[file.name];
    const fs::path path = folder / name;
    if (fields.insert(path.parent_path()).second)
      QUARRY_RETURN_IF_ERROR(CreateDirectories(path.parent_path()));
    QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadPart(pack, step.step, name));
    QUARRY_RETURN_IF_ERROR(WriteFile(path, bytes));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::string text, pack.Manifest(step));
  QUARRY_RETURN_IF_ERROR(WriteFile(folder / "step.json", std::as_bytes(std::span(text))));
  for (const fs::path& field : fields) QUARRY_RETURN_IF_ERROR(SyncDirectory(field));
  return SyncDirectory(folder);
}

Status UnpackOne(const fs::path& dataset, const PackRef& ref, const std::function<void()>& done) {
  const fs::path steps = dataset / "steps";
  QUARRY_ASSIGN_OR_RETURN(const auto pack, PackFile::Open(steps / ref.name, ref.runs));
  for (const format::PackTable::Step& step : pack->table().steps) {
    done();
    const fs::path folder = dataset / format::StepFolder(step.step);
    std::error_code ignored;
    if (fs::exists(folder, ignored)) continue;
    const fs::path staged = steps / fmt::format("{}unpacked-{}", kStagingPrefix, step.step);
    QUARRY_RETURN_IF_ERROR(WriteFolder(*pack, step, staged));
    QUARRY_RETURN_IF_ERROR(Rename(staged, folder));
  }
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
