#include "quarry/pack/packed_steps.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <list>
#include <utility>

#include "quarry/format/manifest.h"

namespace quarry {
namespace {

constexpr std::string_view kManifest = "step.json";

/// Packs that were used last, with their tables, of all datasets of the process.
class PackCache {
 public:
  static PackCache& Instance() {
    static auto& instance = *new PackCache;
    return instance;
  }

  /// @errors those of PackFile::Open
  Result<std::shared_ptr<const PackFile>> Obtain(const Location& path, const PackRef& ref) {
    QUARRY_ASSIGN_OR_RETURN(const ObjectInfo info, path.Stat());
    Entry wanted{path, info.identity + info.stamp.text, nullptr};
    if (auto known = Find(wanted)) return known;
    QUARRY_ASSIGN_OR_RETURN(wanted.pack, PackFile::Open(path, ref.runs));
    const std::scoped_lock lock(mutex_);
    bytes_ += wanted.pack->memory();
    entries_.push_front(wanted);
    while (entries_.size() > kMostPacks || (bytes_ > kMostBytes && entries_.size() > 1)) {
      bytes_ -= entries_.back().pack->memory();
      entries_.pop_back();
    }
    return std::move(wanted.pack);
  }

 private:
  static constexpr std::size_t kMostPacks = 64;  // each has a file open
  static constexpr std::uint64_t kMostBytes = 16 << 20;

  struct Entry {
    Location path;
    std::string version;  ///< tells the file at this path from another one
    std::shared_ptr<const PackFile> pack;
  };

  std::shared_ptr<const PackFile> Find(const Entry& wanted) {
    const std::scoped_lock lock(mutex_);
    const auto same = [&](const Entry& entry) {
      return entry.path.storage == wanted.path.storage && entry.path.path == wanted.path.path &&
             entry.version == wanted.version;
    };
    const auto found = std::ranges::find_if(entries_, same);
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return found->pack;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the one used last in front
  std::uint64_t bytes_ = 0;
};

std::string FolderName(std::uint64_t step) {
  const std::string path = format::StepFolder(step);
  return path.substr(path.find('/') + 1);
}

void SortNames(std::vector<FolderEntry>* entries) {
  std::ranges::stable_sort(*entries, {}, &FolderEntry::name);
  const auto same = [](const FolderEntry& a, const FolderEntry& b) { return a.name == b.name; };
  entries->erase(std::unique(entries->begin(), entries->end(), same), entries->end());
}

}  // namespace

bool PackRef::Has(std::uint64_t step) const {
  if (step < runs.front().first || step > runs.back().last()) return false;
  const auto run = std::prev(std::ranges::upper_bound(runs, step, {}, &format::StepRun::first));
  return step <= run->last() && (step - run->first) % run->distance == 0;
}

std::uint64_t PackRef::steps() const {
  std::uint64_t steps = 0;
  for (const format::StepRun& run : runs) steps += run.steps;
  return steps;
}

Result<std::vector<PackRef>> PacksAmong(const std::vector<FolderEntry>& names) {
  std::vector<PackRef> packs;
  std::vector<std::uint64_t> all;
  for (const FolderEntry& entry : names) {
    if (!format::IsPackName(entry.name)) continue;
    QUARRY_ASSIGN_OR_RETURN(auto runs, format::StepsOfPack(entry.name));
    packs.push_back({entry.name, std::move(runs)});
    if (packs.back().steps() > format::kMaxPackedSteps - all.size())
      return DataLoss("the packs have more than {} steps; the dataset is damaged", format::kMaxPackedSteps);
    for (const format::StepRun& run : packs.back().runs) {
      for (std::uint64_t i = 0; i < run.steps; ++i) all.push_back(run.first + i * run.distance);
    }
  }
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  if (twice == all.end()) return packs;
  std::string both;
  for (const PackRef& pack : packs) {
    if (pack.Has(*twice)) both += fmt::format("{}\"{}\"", both.empty() ? "" : ", ", pack.name);
  }
  return DataLoss("step {} is in several packs: {}; remove all but one", *twice, both);
}

PackedSteps::PackedSteps(const Location& root, State state)
    : inner_(root.storage), root_(root.path), steps_((root / "steps").path), state_(state) {}

std::vector<PackRef> PackedSteps::packs() const {
  const std::scoped_lock lock(mutex_);
  return packs_;
}

void PackedSteps::Keep(std::vector<PackRef> packs) const {
  const std::scoped_lock lock(mutex_);
  packs_ = std::move(packs);
}

std::optional<PackRef> PackedSteps::PackOf(std::uint64_t step) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(packs_, [&](const PackRef& pack) { return pack.Has(step); });
  return found == packs_.end() ? std::nullopt : std::optional(*found);
}

void PackedSteps::Relist() const {
  const auto names = inner_->ListNames(steps_);
  if (!names.ok()) return;
  Result<std::vector<PackRef>> packs = PacksAmong(*names);
  if (packs.ok()) Keep(*std::move(packs));
}

std::optional<PackedSteps::Place> PackedSteps::PlaceOf(const std::string& path) const {
  std::string_view rest = path;
  if (!rest.starts_with(steps_) || rest.size() <= steps_.size() + 1 || rest[steps_.size()] != '/')
    return std::nullopt;
  rest.remove_prefix(steps_.size() + 1);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::optional<std::uint64_t> step = format::StepOfFolder(std::string(rest.substr(0, slash)));
  if (!step) return std::nullopt;
  return Place{*step, rest.substr(std::min(slash + 1, rest.size()))};
}

Result<std::shared_ptr<const PackFile>> PackedSteps::OpenPack(const PackRef& pack) const {
  return PackCache::Instance().Obtain(Location(inner_, steps_) / pack.name, pack);
}

/// Looks for a folder or file of a step outside of packs, then in its pack, and where that has gone once
/// more.
template <typename T, typename Outside, typename Inside>
Result<T> PackedSteps::Find(const std::string& path, const Outside& outside, const Inside& inside) const {
  Result<T> found = outside();
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
  const std::optional<Place> place = PlaceOf(path);
  if (!place) return found;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) Relist();
    const std::optional<PackRef> pack = PackOf(place->step);
    if (!pack) continue;
    Result<T> packed = inside(*pack, *place);
    if (packed.ok() || packed.status().code() != StatusCode::kNotFound) return packed;
  }
  return outside();
}

/// A listing that overlaps with a change may have neither a folder that has gone into a pack nor the pack. It
/// is made again where the stamp before it is not that after it. That before it is not needed where the last
/// change is older than the listing is long.
Result<std::vector<FolderEntry>> PackedSteps::ListSteps() const {
  using Clock = std::chrono::steady_clock;
  constexpr auto kShort = std::chrono::seconds(30);  // half of the least age of an old stamp
  const Location steps(inner_, steps_);
  const Clock::time_point begun = Clock::now();
  const Stamp before = state_ == State::kRests ? Stamp{} : StampOf(steps);
  QUARRY_ASSIGN_OR_RETURN(std::vector<FolderEntry> entries, steps.List());
  const Stamp after = StampOf(steps);
  const bool rests = state_ == State::kRests && after.old && Clock::now() - begun < kShort;
  std::vector<FolderEntry> earlier;
  if (!rests && after != before) {
    earlier = std::move(entries);
    QUARRY_ASSIGN_OR_RETURN(entries, steps.List());
  }
  QUARRY_ASSIGN_OR_RETURN(std::vector<PackRef> packs, PacksAmong(entries));
  QUARRY_ASSIGN_OR_RETURN(std::vector<PackRef> all, PacksAmong(earlier));
  all.insert(all.end(), packs.begin(), packs.end());
  entries.insert(entries.end(), earlier.begin(), earlier.end());
  for (const PackRef& pack : all) {
    for (const format::StepRun& run : pack.runs) {
      for (std::uint64_t i = 0; i < run.steps; ++i)
        entries.push_back({FolderName(run.first + i * run.distance), ObjectKind::kFolder, false});
    }
  }
  SortNames(&entries);
  Keep(std::move(packs));
  return entries;
}

Result<std::vector<FolderEntry>> PackedSteps::ListPacked(const PackRef& pack, const Place& place) const {
  QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack));
  const format::PackTable::Step* const step = file->table().FindStep(place.step);
  if (step == nullptr) return NotFound("\"{}\" does not have step {}", pack.name, place.step);
  std::vector<FolderEntry> entries;
  if (place.file.empty()) entries.push_back({std::string(kManifest), ObjectKind::kFile, false});
  for (const format::PackTable::File& one : step->files) {
    const std::string& name = file->table().names[one.name];
    const std::size_t slash = name.find('/');
    if (place.file.empty()) {
      entries.push_back({name.substr(0, slash), ObjectKind::kFolder, false});
    } else if (std::string_view(name).substr(0, slash) == place.file) {
      entries.push_back({name.substr(slash + 1), ObjectKind::kFile, false});
    }
  }
  if (entries.empty())
    return NotFound("\"{}\" does not have \"{}\" of step {}", pack.name, place.file, place.step);
  SortNames(&entries);
  return entries;
}

Result<std::vector<FolderEntry>> PackedSteps::List(const std::string& folder) const {
  if (folder == steps_) return ListSteps();
  using Entries = std::vector<FolderEntry>;
  return Find<Entries>(
      folder, [&] { return inner_->List(folder); },
      [&](const PackRef& pack, const Place& place) { return ListPacked(pack, place); });
}

Result<std::vector<FolderEntry>> PackedSteps::ListNames(const std::string& folder) const {
  if (folder == steps_ || PlaceOf(folder)) return List(folder);
  return inner_->ListNames(folder);
}

ObjectKind PackedSteps::KindBehindLink(const std::string& path) const { return inner_->KindBehindLink(path); }

/// The stamp is that of the pack: another one at its path has other files.
Result<ObjectInfo> PackedSteps::StatPacked(const PackRef& pack, const Place& place) const {
  QUARRY_ASSIGN_OR_RETURN(ObjectInfo info, (Location(inner_, steps_) / pack.name).Stat());
  info.kind = ObjectKind::kFolder;
  info.size = 0;
  info.identity += fmt::format("/{}/{}", place.step, place.file);
  if (place.file.empty()) return info;
  QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack));
  const format::PackTable::Step* const step = file->table().FindStep(place.step);
  if (step == nullptr) return NotFound("\"{}\" does not have step {}", pack.name, place.step);
  if (place.file == kManifest) {
    info.kind = ObjectKind::kFile;
    info.size = step->size;
  } else if (const format::PackTable::File* const part = file->table().FindFile(*step, place.file)) {
    info.kind = ObjectKind::kFile;
    info.size = part->size;
  } else {
    QUARRY_RETURN_IF_ERROR(ListPacked(pack, place).status());
  }
  return info;
}

Result<ObjectInfo> PackedSteps::Stat(const std::string& path) const {
  return Find<ObjectInfo>(
      path, [&] { return inner_->Stat(path); },
      [&](const PackRef& pack, const Place& place) { return StatPacked(pack, place); });
}

Result<std::shared_ptr<const StoredObject>> PackedSteps::Open(const std::string& path) const {
  using Object = std::shared_ptr<const StoredObject>;
  return Find<Object>(
      path, [&] { return inner_->Open(path); },
      [&](const PackRef& pack, const Place& place) -> Result<Object> {
        QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack));
        return file->OpenPart(place.step, place.file, path);
      });
}

Status PackedSteps::ReadRanges(std::span<const ReadRange> ranges,
                               const std::function<bool()>& cancelled) const {
  std::vector<ReadRange> inner(ranges.begin(), ranges.end());
  for (ReadRange& range : inner) {
    const std::optional<PackRange> packed = RangeInPack(*range.object);
    if (!packed) continue;
    // Beyond the end of a file lies another one.
    if (range.offset > packed->size || range.out.size() > packed->size - range.offset)
      return range.object->ReadAt(range.offset, range.out);
    range.object = packed->pack;
    range.offset += packed->offset;
  }
  return inner_->ReadRanges(inner, cancelled);
}

Location WithPacks(const Location& root, PackedSteps::State state) {
  const auto* const packed = dynamic_cast<const PackedSteps*>(root.storage.get());
  if (packed != nullptr && packed->root() == root.path) return root;
  return {std::make_shared<PackedSteps>(root, state), root.path};
}

std::vector<PackRef> PacksOf(const Location& root) {
  const auto* const packed = dynamic_cast<const PackedSteps*>(root.storage.get());
  return packed == nullptr ? std::vector<PackRef>() : packed->packs();
}

std::string NameOfPack(const Location& root, std::uint64_t step) {
  const std::vector<PackRef> packs = PacksOf(root);
  const auto found = std::ranges::find_if(packs, [&](const PackRef& pack) { return pack.Has(step); });
  return found == packs.end() ? std::string() : found->name;
}

}  // namespace quarry
