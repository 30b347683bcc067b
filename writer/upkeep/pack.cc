#include "writer/upkeep/pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/format/text_difference.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

using format::PackTable;

// A pack is unpacked as a whole, and its table is read at once.
constexpr std::uint64_t kPackSteps = 1024;
constexpr std::uint64_t kPackBytes = 64 << 20;
constexpr std::uint64_t kPackFiles = 16 << 10;

/// The name of the folder of a packed step has this behind kStagingPrefix and before its number.
constexpr std::string_view kPacked = "packed-";

/// [bytes] of the disk that a file or folder takes; 0 where nothing is.
std::uint64_t DiskBytes(const fs::path& path) {
  constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks on every file system
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? kBlock * static_cast<std::uint64_t>(info.st_blocks) : 0;
}

/// A step with everything that belongs to it.
struct SmallStep {
  std::uint64_t step = 0;
  std::string manifest;
  struct File {
    std::string name;  ///< "pressure/0000.qsf"
    std::uint64_t size = 0;
  };
  std::vector<File> files;  ///< ascending
  std::uint64_t bytes = 0;  ///< size of all of them
};

/// A pack in the making, and its file.
class PackWriter {
 public:
  static Result<PackWriter> Create(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
    QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
    PackWriter writer(std::move(file));
    QUARRY_RETURN_IF_ERROR(writer.file_.Append(format::EncodePackBegin()));
    return writer;
  }

  /// Whether there is room for another step.
  bool Takes(const SmallStep& step) const {
    format::PackName name = name_;
    return table_.steps.size() < kPackSteps && bytes_ + step.bytes <= kPackBytes &&
           files_ + step.files.size() <= kPackFiles && name.Add(step.step);
  }

  /// @param folder  of the step
  Status Add(const SmallStep& step, const fs::path& folder) {
    PackTable::Step row;
    row.step = step.step;
    row.size = step.manifest.size();
    const ByteSpan manifest = std::as_bytes(std::span(step.manifest));
    Bytes difference;
    if (!table_.steps.empty()) difference = format::EncodeDifference(step.manifest, first_);
    const bool shorter = !table_.steps.empty() && difference.size() < manifest.size();
    QUARRY_RETURN_IF_ERROR(file_.Append(shorter ? ByteSpan(difference) : manifest));
    row.stored = shorter ? difference.size() : manifest.size();
    if (table_.steps.empty()) first_ = step.manifest;
    for (const SmallStep::File& file : step.files) {
      QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWholeFile(folder / file.name, file.size));
      if (bytes.size() != file.size)
        return DataLoss("\"{}\" has {} bytes instead of {}", (folder / file.name).string(), bytes.size(),
                        file.size);
      QUARRY_RETURN_IF_ERROR(file_.Append(bytes));
      row.files.push_back({NumberOf(file.name), 0, file.size});
    }
    files_ += row.files.size();
    bytes_ += step.bytes;
    table_.steps.push_back(std::move(row));
    name_.Add(step.step);
    return Status::Ok();
  }

  /// @returns the name of the pack
  Result<std::string> Finish() {
    SortNames();
    QUARRY_RETURN_IF_ERROR(file_.Append(format::EncodePackEnd(table_, file_.size())));
    QUARRY_RETURN_IF_ERROR(file_.SyncAndClose());
    return name_.text();
  }

 private:
  explicit PackWriter(WritableFile file) : file_(std::move(file)) {}

  std::uint32_t NumberOf(const std::string& name) {
    const auto [known, added] = numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size()));
    return known->second;
  }

  /// Numbers were given in the order of appearance; those of a table are in the order of the names.
  void SortNames() {
    std::vector<std::uint32_t> sorted(numbers_.size());
    for (const auto& [name, number] : numbers_) {
      sorted[number] = static_cast<std::uint32_t>(table_.names.size());
      table_.names.push_back(name);
    }
    for (PackTable::Step& step : table_.steps) {
      for (PackTable::File& file : step.files) file.name = sorted[file.name];
    }
  }

  WritableFile file_;
  format::PackName name_;
  PackTable table_;
  std::map<std::string, std::uint32_t> numbers_;
  std::string first_;
  std::uint64_t bytes_ = 0;
  std::uint64_t files_ = 0;
};

class Packing {
 public:
  using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

  Packing(const fs::path& dataset, DatasetDescription* description, const PackOptions& options,
          const Progress& progress)
      : dataset_(dataset),
        steps_(dataset / "steps"),
        description_(description),
        options_(options),
        progress_(progress) {}

  Result<PackReport> Run() {
    QUARRY_RETURN_IF_ERROR(RemovePackedFolders());
    QUARRY_RETURN_IF_ERROR(List());
    std::vector<std::uint64_t> candidates(folders_.begin(), folders_.end());
    candidates.resize(candidates.size() - std::min<std::uint64_t>(options_.keep, candidates.size()));
    std::uint64_t done = 0;
    for (const std::uint64_t step : candidates) {
      if (!options_.only || options_.only->contains(step)) QUARRY_RETURN_IF_ERROR(Look(step));
      progress_(++done, candidates.size());
    }
    QUARRY_RETURN_IF_ERROR(FinishPack());
    if (report_.packs > 0) {
      QUARRY_RETURN_IF_ERROR(SyncDirectory(steps_));
      QUARRY_RETURN_IF_ERROR(RemovePackedFolders());
    }
    QUARRY_RETURN_IF_ERROR(List());
    report_.steps = folders_.size();
    for (const PackRef& pack : packs_) report_.in_packs += pack.steps();
    report_.steps += report_.in_packs;
    return std::move(report_);
  }

 private:
  Status List() {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(steps_).List());
    QUARRY_ASSIGN_OR_RETURN(packs_, PacksAmong(entries));
    folders_.clear();
    for (const FolderEntry& entry : entries) {
      const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name);
      // A link leads to a folder that may belong to others.
      if (step && entry.kind == ObjectKind::kFolder && !entry.is_link) folders_.insert(*step);
    }
    return Status::Ok();
  }

  fs::path FolderOf(std::uint64_t step) const { return dataset_ / format::StepFolder(step); }

  void AddDamage(Status damage) {
    if (report_.damage.size() < PackReport::kMaxDamage) report_.damage.push_back(std::move(damage));
  }

  Status Look(std::uint64_t step) {
    Result<SmallStep> read = Read(step);
    if (!read.ok()) {
      AddDamage(std::move(read).status());
      return Status::Ok();
    }
    if (read->bytes >= options_.smaller_than) {
      ++report_.left;
      return Status::Ok();
    }
    if (writer_ && !writer_->Takes(*read)) QUARRY_RETURN_IF_ERROR(FinishPack());
    if (!writer_) {
      QUARRY_ASSIGN_OR_RETURN(writer_, PackWriter::Create(steps_ / fmt::format("{}pack", kStagingPrefix)));
    }
    return writer_->Add(*read, FolderOf(step));
  }

  /// @errors kDataLoss: something of the step is damaged
  Result<SmallStep> Read(std::uint64_t number) const {
    const fs::path folder = FolderOf(number);
    SmallStep small;
    small.step = number;
    QUARRY_ASSIGN_OR_RETURN(const StepDescription step, ReadStep(folder, *description_, &small.manifest));
    if (step.step != number) return DataLoss("step {} lies where step {} belongs", step.step, number);
    small.bytes = small.manifest.size();
    for (const FieldStepDescription& field : step.fields) {
      for (const SubfileDescription& subfile : field.subfiles) {
        small.files.push_back({fmt::format("{}/{}", field.name, subfile.name), subfile.bytes});
        small.bytes += std::min(subfile.bytes, PackOptions::kMostSmallerThan);
        const Location path(folder / small.files.back().name);
        const Result<ObjectInfo> info = path.Stat();
        if (!info.ok()) return StatusOfPart(info.status(), path, "; the step is damaged");
        if (info->size != subfile.bytes)
          return DataLoss("\"{}\" has {} bytes instead of {}", path, info->size, subfile.bytes);
      }
    }
    std::ranges::sort(small.files, {}, &SmallStep::File::name);
    return small;
  }

  Status FinishPack() {
    if (!writer_) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(AnnouncePacks());
    const fs::path staged = steps_ / fmt::format("{}pack", kStagingPrefix);
    QUARRY_ASSIGN_OR_RETURN(const std::string name, writer_->Finish());
    writer_.reset();
    QUARRY_RETURN_IF_ERROR(Rename(staged, steps_ / name));
    ++report_.packs;
    report_.disk_after += DiskBytes(steps_ / name);
    return Status::Ok();
  }

  /// Before the first pack: programs that do not know packs refuse the dataset from now on.
  Status AnnouncePacks() {
    if (description_->has_packs) return Status::Ok();
    DatasetDescription announced = *description_;
    announced.has_packs = true;
    QUARRY_RETURN_IF_ERROR(ReplaceDescription(dataset_, announced));
    description_->has_packs = true;
    return Status::Ok();
  }

  /// Steps that are in a pack need no folder: packs of this call, and of one that was interrupted.
  Status RemovePackedFolders() {
    QUARRY_RETURN_IF_ERROR(List());
    std::set<std::uint64_t> changed;
    bool waited = false;
    bool hidden = false;
    for (const PackRef& ref : packs_) {
      const auto has_folder = [&](std::uint64_t step) { return ref.Has(step); };
      if (std::ranges::none_of(folders_, has_folder)) continue;
      if (!std::exchange(waited, true)) QUARRY_RETURN_IF_ERROR(AwaitTick(steps_));
      QUARRY_ASSIGN_OR_RETURN(const auto pack, PackFile::Open(steps_ / ref.name, ref.runs));
      for (const PackTable::Step& step : pack->table().steps) {
        if (!folders_.contains(step.step)) continue;
        QUARRY_ASSIGN_OR_RETURN(const bool same, IsSame(*pack, step));
        if (same) {
          QUARRY_RETURN_IF_ERROR(HideFolder(step));
          hidden = true;
        } else {
          changed.insert(step.step);
        }
      }
    }
    // First for readers, then from the disk: a crash shows no folder that has lost some of its files.
    if (hidden) {
      QUARRY_RETURN_IF_ERROR(SyncDirectory(steps_));
      const std::string prefix = fmt::format("{}{}", kStagingPrefix, kPacked);
      QUARRY_RETURN_IF_ERROR(
          RemoveEntries(steps_, [&](const std::string& name) { return name.starts_with(prefix); }));
    }
    // A program that does not know packs has changed the folder, which stands for the step.
    return UnpackSteps(dataset_, changed);
  }

  /// step.json has the checksums of the tables of all subfiles, which have those of all payloads.
  Result<bool> IsSame(const PackFile& pack, const PackTable::Step& step) const {
    QUARRY_ASSIGN_OR_RETURN(const std::string packed, pack.Manifest(step));
    const Result<std::string> text =
        Location(FolderOf(step.step) / "step.json").ReadText(format::kManifestLimit);
    return text.ok() && *text == packed;
  }

  /// By a name that no reader looks at, and that the next writer removes.
  Status HideFolder(const PackTable::Step& step) {
    const fs::path folder = FolderOf(step.step);
    ++report_.packed;
    report_.disk_before += DiskBytes(folder) + DiskBytes(folder / "step.json");
    QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(folder).List());
    for (const FolderEntry& entry : entries) {
      if (entry.kind != ObjectKind::kFolder) continue;
      report_.disk_before += DiskBytes(folder / entry.name);
      QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> files, Location(folder / entry.name).List());
      for (const FolderEntry& file : files) report_.disk_before += DiskBytes(folder / entry.name / file.name);
    }
    return Rename(folder, steps_ / fmt::format("{}{}{}", kStagingPrefix, kPacked, step.step));
  }

  const fs::path dataset_;
  const fs::path steps_;
  DatasetDescription* const description_;
  const PackOptions& options_;
  const Progress& progress_;
  std::vector<PackRef> packs_;
  std::set<std::uint64_t> folders_;
  std::optional<PackWriter> writer_;
  PackReport report_;
};

}  // namespace

Result<PackReport> PackLocked(const fs::path& dataset, DatasetDescription* description,
                              const PackOptions& options,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  if (options.smaller_than < 1 || options.smaller_than > PackOptions::kMostSmallerThan)
    return InvalidArgument("steps smaller than {} bytes cannot be packed; choose a size up to {}",
                           options.smaller_than, PackOptions::kMostSmallerThan);
  Result<PackReport> report = Packing(dataset, description, options, progress).Run();
  if (!report.ok()) (void)RemoveTree(dataset / "steps" / fmt::format("{}pack", kStagingPrefix));
  return report;
}

Result<PackReport> Pack(const fs::path& dataset, const PackOptions& options,
                        const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                        const LockOptions& locking) {
  QUARRY_ASSIGN_OR_RETURN(HeldDataset held, HoldDataset(dataset, locking));
  QUARRY_RETURN_IF_ERROR(RemoveStaged(dataset));
  return PackLocked(dataset, &held.description, options, progress);
}

}  // namespace quarry::writer
