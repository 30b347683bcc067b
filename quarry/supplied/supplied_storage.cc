#include "quarry/supplied/supplied_storage.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "quarry/base/file.h"

namespace quarry::supplied {
namespace {

/// [bytes] that are kept although no question needs them: manifests and tables of the next question.
constexpr std::uint64_t kIdle = 16 << 20;
/// [bytes] of a whole file that come with the first request.
constexpr std::uint64_t kFront = 1 << 20;

/// The bytes of a held piece from an offset on.
ByteSpan PartOf(const Held& held, std::uint64_t offset, std::uint64_t size) {
  return ByteSpan(held.bytes).subspan(offset - held.offset, size);
}

bool Covers(const Held& held, std::uint64_t offset, std::uint64_t size) {
  return offset >= held.offset && offset - held.offset <= held.bytes.size() &&
         size <= held.bytes.size() - (offset - held.offset);
}

}  // namespace

// ---- Asker

std::vector<Wanted> Asker::wanted() const {
  std::vector<Wanted> sorted = wanted_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Wanted& a, const Wanted& b) { return a.awaited > b.awaited; });
  return sorted;
}

void Asker::Want(Wanted wanted) { wanted_.push_back(std::move(wanted)); }

void Asker::Await(std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < std::min(end, wanted_.size()); ++i) wanted_[i].awaited = true;
}

void Asker::Keep(std::shared_ptr<const Held> held) {
  const std::uint64_t bytes = held->bytes.size();
  if (kept_.insert(std::move(held)).second) held_bytes_ += bytes;
}

void Asker::Release() {
  kept_.clear();
  held_bytes_ = 0;
}

// ---- Objects

/// An object of the storage; its size is known.
class SuppliedObject final : public StoredObject {
 public:
  SuppliedObject(const SuppliedStorage& storage, std::string path, std::uint64_t size)
      : storage_(storage), path_(std::move(path)), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    const ReadRange range{this, offset, out};
    return storage_.ReadRanges(std::span(&range, 1), [] { return false; });
  }

 private:
  const SuppliedStorage& storage_;
  const std::string path_;
  const std::uint64_t size_;
};

/// Ranges of which some may be missing: these count as awaited once somebody waits.
class SuppliedReading final : public Reading {
 public:
  SuppliedReading(Asker* asker, std::size_t first, std::size_t end, Status failed)
      : asker_(asker), first_(first), end_(end), failed_(std::move(failed)) {}

  Status Wait(const std::function<bool()>&) override {
    if (first_ == end_) return failed_;
    asker_->Await(first_, end_);
    throw NotHere();
  }

 private:
  Asker* const asker_;
  const std::size_t first_;
  const std::size_t end_;
  const Status failed_;
};

// ---- What comes from outside

void SuppliedStorage::Supply(const Wanted& wanted, Supplied supplied, Asker* asker) {
  Known& known = objects_[wanted.path];
  if (Status learned = Learn(&known, wanted.path, supplied); !learned.ok()) {
    known.failure = std::move(learned);
    return;
  }
  if (wanted.kind == Wanted::Kind::kFacts) return;
  std::uint64_t offset = wanted.offset;
  if (wanted.kind != Wanted::Kind::kRange) {
    // Without its size, what came is taken for all of it: less was wanted otherwise.
    if (!known.size) known.size = supplied.bytes.size();
    offset = wanted.kind == Wanted::Kind::kFront ? 0 : *known.size - std::min(*known.size, wanted.size);
  }
  std::shared_ptr<const Held>& place = known.ranges[offset];
  if (!place || place->bytes.size() < supplied.bytes.size()) {
    place = std::make_shared<const Held>(Held{offset, std::move(supplied.bytes)});
    order_.emplace_back(wanted.path, offset);
  }
  asker->Keep(place);
}

/// @errors kDataLoss: another version than before
Status SuppliedStorage::Learn(Known* known, const std::string& path, const Supplied& supplied) const {
  const bool other_tag = !known->tag.empty() && !supplied.tag.empty() && known->tag != supplied.tag;
  const bool other_size = known->size && supplied.size && *known->size != *supplied.size;
  if (other_tag) return DataLoss("\"{}\" was replaced while it was read; open the dataset again", path);
  if (other_size)
    return DataLoss("\"{}\" has {} bytes, but {} are expected; {}", path, *supplied.size, *known->size,
                    *supplied.size < *known->size ? "it is truncated" : "another file is in its place");
  if (known->tag.empty()) known->tag = supplied.tag;
  if (supplied.size) known->size = supplied.size;
  return Status::Ok();
}

void SuppliedStorage::Fail(const std::string& path, Status why) { objects_[path].failure = std::move(why); }

void SuppliedStorage::Forget() {
  for (auto& [path, known] : objects_) known.failure = Status::Ok();
  Trim();
  // Very many objects are forgotten: manifests tell their sizes again.
  constexpr std::size_t kMostObjects = 100'000;
  if (objects_.size() > kMostObjects)
    std::erase_if(objects_, [](const auto& object) { return object.second.ranges.empty(); });
}

void SuppliedStorage::Trim() {
  std::uint64_t idle = 0;
  for (auto it = order_.end(); it != order_.begin();) {
    --it;
    auto& ranges = objects_[it->first].ranges;
    const auto found = ranges.find(it->second);
    const bool gone = found == ranges.end();
    if (!gone && found->second.use_count() > 1) continue;  // a question keeps it
    if (!gone) idle += found->second->bytes.size();
    if (!gone && idle <= kIdle) continue;
    if (!gone) ranges.erase(found);
    it = order_.erase(it);
  }
}

// ---- Calls of the storage

SuppliedStorage::Known* SuppliedStorage::Find(const std::string& path) const {
  const auto found = objects_.find(path);
  return found == objects_.end() ? nullptr : &found->second;
}

std::shared_ptr<const Held> SuppliedStorage::FindRange(const std::string& path, std::uint64_t offset,
                                                       std::uint64_t size) const {
  const Known* const known = Find(path);
  if (known == nullptr) return nullptr;
  auto after = known->ranges.upper_bound(offset);
  while (after != known->ranges.begin()) {
    --after;
    if (Covers(*after->second, offset, size)) return after->second;
  }
  return nullptr;
}

/// @throws NotHere
Result<const SuppliedStorage::Known*> SuppliedStorage::FactsOf(const std::string& path) const {
  const Known* const known = Find(path);
  if (known != nullptr && !known->failure.ok()) return known->failure;
  if (known != nullptr && known->size) return known;
  asker_->Want({Wanted::Kind::kFacts, path, 0, 0, true});
  throw NotHere();
}

Result<std::vector<FolderEntry>> SuppliedStorage::List(const std::string& folder) const {
  return Unimplemented("\"{}\" cannot be listed: web servers have no lists of files", folder);
}

Result<ObjectInfo> SuppliedStorage::Stat(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(const Known* const known, FactsOf(path));
  ObjectInfo info;
  info.kind = ObjectKind::kFile;
  info.size = *known->size;
  info.stamp = {fmt::format("{} {}", known->tag, info.size)};
  info.identity = info.stamp.text;
  return info;
}

Result<std::shared_ptr<const StoredObject>> SuppliedStorage::Open(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(const Known* const known, FactsOf(path));
  return std::shared_ptr<const StoredObject>(
      std::make_shared<const SuppliedObject>(*this, path, *known->size));
}

Result<OpenedFile> SuppliedStorage::OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                             Stamp* stamp) const {
  const Known* const known = Find(path);
  if (known != nullptr && !known->failure.ok()) return known->failure;
  if (known != nullptr && known->size) {
    const std::uint64_t size = std::min(most, *known->size);
    const std::uint64_t offset = end == FileEnd::kFront ? 0 : *known->size - size;
    const std::shared_ptr<const Held> held = size > 0 ? FindRange(path, offset, size) : nullptr;
    if (held || size == 0) {
      if (stamp != nullptr) *stamp = {fmt::format("{} {}", known->tag, *known->size)};
      OpenedFile opened{std::make_shared<const SuppliedObject>(*this, path, *known->size), {}};
      if (held) {
        asker_->Keep(held);
        const ByteSpan part = PartOf(*held, offset, size);
        opened.bytes.assign(part.begin(), part.end());
      }
      return opened;
    }
  }
  const auto kind = end == FileEnd::kFront ? Wanted::Kind::kFront : Wanted::Kind::kBack;
  asker_->Want({kind, path, 0, std::max<std::uint64_t>(1, most), true});
  throw NotHere();
}

/// Most are small, and come with one request.
Result<Bytes> SuppliedStorage::ReadWhole(const std::string& path, std::uint64_t limit) const {
  QUARRY_ASSIGN_OR_RETURN(OpenedFile file, OpenWith(path, FileEnd::kFront, std::min(limit, kFront), nullptr));
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path, file.object->size(), limit));
  const std::size_t front = file.bytes.size();
  file.bytes.resize(file.object->size());
  if (front < file.bytes.size())
    QUARRY_RETURN_IF_ERROR(file.object->ReadAt(front, std::span(file.bytes).subspan(front)));
  return std::move(file.bytes);
}

std::shared_ptr<const StoredObject> SuppliedStorage::Refer(const std::string& path, std::uint64_t size,
                                                           std::uint64_t) const {
  return std::make_shared<const SuppliedObject>(*this, path, size);
}

/// Fills a range, if its bytes are here.
Result<bool> SuppliedStorage::Take(const ReadRange& range) const {
  const std::string& path = range.object->path();
  Known* const known = &objects_[path];
  if (!known->failure.ok()) return known->failure;
  if (!known->size) known->size = range.object->size();  // which a manifest tells; answers must have it
  if (range.out.empty()) return true;
  const std::shared_ptr<const Held> held = FindRange(path, range.offset, range.out.size());
  if (!held) return false;
  asker_->Keep(held);
  std::ranges::copy(PartOf(*held, range.offset, range.out.size()), range.out.begin());
  return true;
}

/// Ranges that are not here are reported as cancelled: the question ends, and all of it is asked again.
std::unique_ptr<Reading> SuppliedStorage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                                const std::function<bool()>&) const {
  const std::size_t first = asker_->wanted_.size();
  Status failed;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ReadRange& range = ranges[i];
    const Result<bool> taken = Take(range);
    if (taken.ok() && !*taken)
      asker_->Want({Wanted::Kind::kRange, range.object->path(), range.offset, range.out.size(), false});
    const Status status =
        taken.ok() && !*taken ? Status(StatusCode::kCancelled, "not here yet") : taken.status();
    if (failed.ok() && !taken.ok()) failed = status;
    done(i, status);
  }
  return std::make_unique<SuppliedReading>(asker_, first, asker_->wanted_.size(), std::move(failed));
}

/// All are made before the question ends, so that what they want comes together.
void SuppliedStorage::AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const {
  bool all_here = true;
  for (std::size_t i = 0; i < calls; ++i) {
    try {
      call(i);
    } catch (const NotHere&) {
      all_here = false;
    }
  }
  if (!all_here) throw NotHere();
}

/// As assumed of a path to a store that was not used yet. A longer range is cut: several connections begin
/// faster than one.
ReadCosts SuppliedStorage::costs() const {
  ReadCosts costs;
  costs.latency = 0.02;
  costs.bandwidth = 125e6;
  costs.side_by_side = 24;
  costs.most_bytes = 1 << 20;
  return costs;
}

std::string SuppliedStorage::AbsolutePath(const std::string& path) const {
  std::string plain = path;
  while (plain.ends_with('/')) plain.pop_back();
  return plain;
}

}  // namespace quarry::supplied
