#include "quarry/pack/packed_steps.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/pack_cache.h"

namespace quarry {
namespace {

constexpr std::string_view kManifest = "step.json";

std::string FolderName(std::uint64_t step) {
  const std::string path = format::StepFolder(step);
  return path.substr(path.find('/') + 1);
}

std::vector<std::uint64_t> StepsOf(const std::vector<PackRef>& packs) {
  std::vector<std::uint64_t> steps;
  for (const PackRef& pack : packs) {
    for (const format::StepRun& run : pack.runs) {
      for (std::uint64_t i = 0; i < run.steps; ++i) steps.push_back(run.first + i * run.distance);
    }
  }
  return steps;
}

/// The packed steps that have a folder too, ascending.
std::vector<std::uint64_t> FoldersOfPacked(const std::vector<PackRef>& packs,
                                           const std::vector<FolderEntry>& names) {
  std::vector<std::uint64_t> packed = StepsOf(packs);
  std::vector<std::uint64_t> folders;
  if (packed.empty()) return folders;
  std::ranges::sort(packed);
  for (const FolderEntry& entry : names) {
    const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name);
    if (step && std::ranges::binary_search(packed, *step)) folders.push_back(*step);
  }
  std::ranges::sort(folders);
  return folders;
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
    const std::vector<std::uint64_t> steps = StepsOf({packs.back()});
    all.insert(all.end(), steps.begin(), steps.end());
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
    : StorageAround(root.storage), root_(root.path), steps_((root / "steps").path), state_(state) {}

std::vector<PackRef> PackedSteps::packs() const {
  const std::scoped_lock lock(mutex_);
  return packs_;
}

void PackedSteps::Keep(std::vector<PackRef> packs, std::vector<std::uint64_t> folders) const {
  const std::scoped_lock lock(mutex_);
  packs_ = std::move(packs);
  folders_ = std::move(folders);
}

std::optional<PackRef> PackedSteps::PackOf(std::uint64_t step) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(packs_, [&](const PackRef& pack) { return pack.Has(step); });
  return found == packs_.end() ? std::nullopt : std::optional(*found);
}

/// The pack of a step that had no folder when the steps were listed.
std::optional<PackRef> PackedSteps::OnlyPackOf(std::uint64_t step) const {
  {
    const std::scoped_lock lock(mutex_);
    if (std::ranges::binary_search(folders_, step)) return {};
  }
  return PackOf(step);
}

void PackedSteps::Relist() const {
  const auto names = inner()->ListNames(steps_);
  if (!names.ok()) return;
  Result<std::vector<PackRef>> packs = PacksAmong(*names);
  if (!packs.ok()) return;
  std::vector<std::uint64_t> folders = FoldersOfPacked(*packs, *names);
  Keep(*std::move(packs), std::move(folders));
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

Result<std::shared_ptr<const PackFile>> PackedSteps::OpenPack(const PackRef& pack, Stamp* stamp) const {
  return ObtainPack(Location(inner(), steps_) / pack.name, pack, stamp);
}

/// Looks for a folder or file of a step in its pack, if it had no folder when the steps were listed; then
/// outside of packs, then in its pack, and where that has gone once more.
template <typename T, typename Outside, typename Inside>
Result<T> PackedSteps::Find(const std::string& path, const Outside& outside, const Inside& inside) const {
  const std::optional<Place> place = PlaceOf(path);
  if (!place) return outside();
  if (const std::optional<PackRef> only = OnlyPackOf(place->step)) {
    Result<T> packed = inside(*only, *place);
    if (packed.ok() || packed.status().code() != StatusCode::kNotFound) return packed;
  }
  Result<T> found = outside();
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
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
/// change is older than the listing is long. A storage whose stamps are not asked again at once cannot tell;
/// it lists in the order of names, packs behind folders, so that a folder that it misses was in a pack
/// before.
Result<std::vector<FolderEntry>> PackedSteps::ListSteps() const {
  using Clock = std::chrono::steady_clock;
  constexpr auto kShort = std::chrono::seconds(30);  // half of the least age of an old stamp
  const Location steps(inner(), steps_);
  const bool may_tell = inner()->trust() == std::chrono::milliseconds(0);
  const auto stamp = [&] { return may_tell ? StampOf(steps) : Stamp{}; };
  const Clock::time_point begun = Clock::now();
  const Stamp before = state_ == State::kRests ? Stamp{} : stamp();
  QUARRY_ASSIGN_OR_RETURN(std::vector<FolderEntry> entries, steps.List());
  const Stamp after = stamp();
  const bool rests = state_ == State::kRests && after.old && Clock::now() - begun < kShort;
  std::vector<FolderEntry> earlier;
  if (may_tell && !rests && after != before) {
    earlier = std::move(entries);
    QUARRY_ASSIGN_OR_RETURN(entries, steps.List());
  }
  QUARRY_ASSIGN_OR_RETURN(std::vector<PackRef> packs, PacksAmong(entries));
  QUARRY_ASSIGN_OR_RETURN(std::vector<PackRef> all, PacksAmong(earlier));
  all.insert(all.end(), packs.begin(), packs.end());
  entries.insert(entries.end(), earlier.begin(), earlier.end());
  std::vector<std::uint64_t> folders = FoldersOfPacked(packs, entries);
  for (const std::uint64_t step : StepsOf(all))
    entries.push_back({FolderName(step), ObjectKind::kFolder, false});
  SortNames(&entries);
  Keep(std::move(packs), std::move(folders));
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
      folder, [&] { return inner()->List(folder); },
      [&](const PackRef& pack, const Place& place) { return ListPacked(pack, place); });
}

Result<std::vector<FolderEntry>> PackedSteps::ListNames(const std::string& folder) const {
  if (folder == steps_ || PlaceOf(folder)) return List(folder);
  return inner()->ListNames(folder);
}

/// The stamp is that of the pack: another one at its path has other files.
Result<ObjectInfo> PackedSteps::StatPacked(const PackRef& pack, const Place& place) const {
  QUARRY_ASSIGN_OR_RETURN(ObjectInfo info, (Location(inner(), steps_) / pack.name).Stat());
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
      path, [&] { return inner()->Stat(path); },
      [&](const PackRef& pack, const Place& place) { return StatPacked(pack, place); });
}

Result<std::shared_ptr<const StoredObject>> PackedSteps::Open(const std::string& path) const {
  using Object = std::shared_ptr<const StoredObject>;
  return Find<Object>(
      path, [&] { return inner()->Open(path); },
      [&](const PackRef& pack, const Place& place) -> Result<Object> {
        QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack));
        return file->OpenPart(place.step, place.file, path);
      });
}

Result<OpenedFile> PackedSteps::OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                         Stamp* stamp) const {
  return Find<OpenedFile>(
      path, [&] { return inner()->OpenWith(path, end, most, stamp); },
      [&](const PackRef& pack, const Place& place) -> Result<OpenedFile> {
        QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack, stamp));
        OpenedFile opened;
        QUARRY_ASSIGN_OR_RETURN(opened.object, file->OpenPart(place.step, place.file, path));
        const std::uint64_t size = opened.object->size();
        opened.bytes.resize(std::min(size, most));
        const std::uint64_t offset = end == FileEnd::kFront ? 0 : size - opened.bytes.size();
        QUARRY_RETURN_IF_ERROR(opened.object->ReadAt(offset, opened.bytes));
        return opened;
      });
}

Result<Bytes> PackedSteps::ReadWhole(const std::string& path, std::uint64_t limit) const {
  return Find<Bytes>(
      path, [&] { return inner()->ReadWhole(path, limit); },
      [&](const PackRef& pack, const Place& place) -> Result<Bytes> {
        QUARRY_ASSIGN_OR_RETURN(const auto file, OpenPack(pack));
        QUARRY_ASSIGN_OR_RETURN(const auto part, file->OpenPart(place.step, place.file, path));
        QUARRY_RETURN_IF_ERROR(CheckFileSize(path, part->size(), limit));
        Bytes bytes(part->size());
        QUARRY_RETURN_IF_ERROR(part->ReadAt(0, bytes));
        return bytes;
      });
}

/// A file of a step of which a manifest tells the size: in the folder of the step, or in the pack that the
/// step had instead; where it is missing there, wherever it has gone.
class PackedSteps::Referred final : public StoredObject {
 public:
  /// @param outside  null: the step has no folder
  Referred(const PackedSteps& steps, std::shared_ptr<const StoredObject> outside, std::string path,
           std::uint64_t size)
      : steps_(steps), path_(std::move(path)), size_(size), object_(std::move(outside)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto object, Object());
    Status status = object->ReadAt(offset, out);
    return status.code() == StatusCode::kNotFound ? ReadElsewhere(offset, out) : status;
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    if (const auto object = Object(); object.ok()) (*object)->ExpectRead(offset, size);
  }
  bool Distrust(std::uint64_t offset, std::uint64_t size) const override {
    const auto object = Object();
    return object.ok() && (*object)->Distrust(offset, size);
  }

  /// The object that is read.
  Result<std::shared_ptr<const StoredObject>> Object() const {
    {
      const std::lock_guard lock(mutex_);
      if (object_) return object_;
    }
    QUARRY_ASSIGN_OR_RETURN(auto opened, steps_.Open(path_));
    const std::lock_guard lock(mutex_);
    object_ = std::move(opened);
    return object_;
  }
  /// The object was missing: the next read looks for it.
  void Forget() const {
    const std::lock_guard lock(mutex_);
    object_ = nullptr;
  }
  Status ReadElsewhere(std::uint64_t offset, std::span<std::byte> out) const {
    Forget();
    QUARRY_ASSIGN_OR_RETURN(const auto object, Object());
    return object->ReadAt(offset, out);
  }

 private:
  const PackedSteps& steps_;
  const std::string path_;
  const std::uint64_t size_;
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable std::shared_ptr<const StoredObject> object_;
};

std::shared_ptr<const StoredObject> PackedSteps::Refer(const std::string& path, std::uint64_t size,
                                                       std::uint64_t content) const {
  const std::optional<Place> place = PlaceOf(path);
  if (!place) return inner()->Refer(path, size, content);
  auto outside = OnlyPackOf(place->step) ? nullptr : inner()->Refer(path, size, content);
  return std::make_shared<const Referred>(*this, std::move(outside), path, size);
}

/// The ranges of a reading as ranges of the objects of the storage behind.
class PackedSteps::Translation {
 public:
  explicit Translation(std::vector<ReadRange> ranges) : ranges_(std::move(ranges)) {}

  /// @param failed  gets the ranges that cannot be read
  std::vector<ReadRange> Translate(const RangeDone& failed) {
    std::vector<ReadRange> inner;
    inner.reserve(ranges_.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      ReadRange range = ranges_[i];
      const Status status = Translate(&range);
      if (status.ok()) {
        inner.push_back(range);
        numbers_.push_back(i);
      } else {
        failed(i, status);
      }
    }
    return inner;
  }

  std::size_t NumberOf(std::size_t inner) const { return numbers_[inner]; }

  /// A file that has gone into a pack since the steps were listed.
  /// @param may_wait  the thread that begins the reading; others leave it to the next one
  Status Missing(std::size_t number, const Status& status, bool may_wait) const {
    const ReadRange& range = ranges_[number];
    const auto* const referred = dynamic_cast<const Referred*>(range.object);
    if (referred == nullptr) return status;
    if (may_wait) return referred->ReadElsewhere(range.offset, range.out);
    referred->Forget();
    return status;
  }

 private:
  Status Translate(ReadRange* range) {
    if (const auto* const referred = dynamic_cast<const Referred*>(range->object)) {
      if (referred != last_) {
        QUARRY_ASSIGN_OR_RETURN(held_.emplace_back(), referred->Object());
        last_ = referred;
      }
      range->object = held_.back().get();
    }
    const std::optional<PackRange> packed = RangeInPack(*range->object);
    if (!packed) return Status::Ok();
    // Beyond the end of a file lies another one.
    if (range->offset > packed->size || range->out.size() > packed->size - range->offset)
      return range->object->ReadAt(range->offset, range->out);
    range->object = packed->pack;
    range->offset += packed->offset;
    return Status::Ok();
  }

  const std::vector<ReadRange> ranges_;
  std::vector<std::size_t> numbers_;  ///< numbers of the ranges that are read
  const Referred* last_ = nullptr;
  std::vector<std::shared_ptr<const StoredObject>> held_;  ///< while they are read
};

std::unique_ptr<Reading> PackedSteps::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                            const std::function<bool()>& cancelled) const {
  const auto translation = std::make_shared<Translation>(std::move(ranges));
  std::vector<ReadRange> wanted = translation->Translate(done);
  const auto report = [translation, done = std::move(done), begins = std::this_thread::get_id()](
                          std::size_t range, const Status& status) {
    const std::size_t number = translation->NumberOf(range);
    const bool here = std::this_thread::get_id() == begins;
    done(number,
         status.code() == StatusCode::kNotFound ? translation->Missing(number, status, here) : status);
  };
  return inner()->BeginRead(std::move(wanted), report, cancelled);
}

const PackedSteps* PackedStepsOf(const Location& root) {
  for (const Storage* storage = root.storage.get(); storage != nullptr; storage = storage->around()) {
    if (const auto* const packed = dynamic_cast<const PackedSteps*>(storage)) return packed;
  }
  return nullptr;
}

Location WithPacks(const Location& root, PackedSteps::State state) {
  const PackedSteps* const packed = PackedStepsOf(root);
  if (packed != nullptr && packed->root() == root.path) return root;
  return {std::make_shared<PackedSteps>(root, state), root.path};
}

std::vector<PackRef> PacksOf(const Location& root) {
  const PackedSteps* const packed = PackedStepsOf(root);
  return packed == nullptr ? std::vector<PackRef>() : packed->packs();
}

std::string NameOfPack(const Location& root, std::uint64_t step) {
  const std::vector<PackRef> packs = PacksOf(root);
  const auto found = std::ranges::find_if(packs, [&](const PackRef& pack) { return pack.Has(step); });
  return found == packs.end() ? std::string() : found->name;
}

}  // namespace quarry
