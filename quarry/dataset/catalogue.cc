#include "quarry/dataset/catalogue.h"

#include <algorithm>
#include <span>

#include "quarry/base/file.h"
#include "quarry/dataset/step_manifests.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"

namespace quarry {

using format::PageRef;
using format::StepRecord;

namespace {

/// [bytes] to read and decode a page or a head. The smallest record of a field takes some ten bytes.
std::uint64_t DecodingMemory(std::uint64_t bytes) {
  constexpr std::uint64_t kTimesBytes = 48;
  return kTimesBytes * bytes;
}

const StepRecord* FindIn(const Catalogue::Page& records, std::uint64_t step) {
  const auto step_of = [](const StepRecord& record) { return record.summary.step; };
  const auto found = std::ranges::lower_bound(records, step, {}, step_of);
  return found != records.end() && found->summary.step == step ? &*found : nullptr;
}

MetadataCache::Key KeyOfPage(const PageRef& ref) {
  MetadataCache::Key key;
  key.kind = MetadataCache::Key::Kind::kPage;
  key.step = ref.name;
  return key;
}

}  // namespace

Catalogue::Catalogue(Location root, const DatasetDescription& dataset, bool is_current,
                     const MetadataCache* cache, std::optional<format::CatalogueHead> head)
    : root_(std::move(root)),
      dataset_(dataset),
      is_current_(is_current),
      cache_(cache),
      given_(std::move(head)) {}

const format::CatalogueHead& Catalogue::head() const {
  std::call_once(is_read_, [this] { ReadHead(); });
  return head_;
}

bool Catalogue::is_there() const {
  head();
  return is_there_;
}

void Catalogue::ReadHead() const {
  if (given_) return KeepHead(*std::exchange(given_, std::nullopt));
  const Location path = root_ / format::kHeadFile;
  constexpr std::uint64_t kFront = 256 << 10;  // all of most
  Result<OpenedFile> opened = path.OpenWith(FileEnd::kFront, kFront, nullptr);
  if (opened.status().code() == StatusCode::kNotFound) return;
  // A head has few records, and may name many pages.
  constexpr std::uint64_t kMostRecords = 2 << 20;
  const std::uint64_t size = opened.ok() ? std::min(opened->object->size(), format::kHeadLimit) : 0;
  const auto memory = cache_->Reserve(2 * size + DecodingMemory(std::min(size, kMostRecords)));
  if (!memory.ok()) return;
  const auto decode = [&]() -> Result<format::CatalogueHead> {
    QUARRY_RETURN_IF_ERROR(opened.status());
    QUARRY_RETURN_IF_ERROR(CheckFileSize(path.path, opened->object->size(), format::kHeadLimit));
    Bytes& bytes = opened->bytes;
    const std::size_t front = bytes.size();
    bytes.resize(size);
    if (front < size) QUARRY_RETURN_IF_ERROR(opened->object->ReadAt(front, std::span(bytes).subspan(front)));
    return format::DecodeHead(bytes);
  };
  Result<format::CatalogueHead> head = decode();
  if (MayPass(head.status())) {
    unanswered_ = true;
    return;
  }
  if (!head.ok()) {
    SetDamage(std::move(head).status().Annotate(fmt::format("\"{}\"", path)));
    return;
  }
  KeepHead(*std::move(head));
}

void Catalogue::KeepHead(format::CatalogueHead head) const {
  Keep(&head.records);
  head_ = std::move(head);
  is_there_ = true;
}

Status Catalogue::damage() const {
  const std::lock_guard lock(mutex_);
  return damage_;
}

void Catalogue::SetDamage(Status damage) const {
  const std::lock_guard lock(mutex_);
  if (damage_.ok()) damage_ = std::move(damage);
}

/// Records that contradict dataset.json are none.
void Catalogue::Keep(Page* records) const {
  std::erase_if(*records, [&](const StepRecord& record) {
    Status wrong = format::CheckStep(record.summary, dataset_);
    if (wrong.ok()) return false;
    SetDamage(std::move(wrong).Annotate("a record of the catalogue"));
    return true;
  });
}

Result<Catalogue::Page> Catalogue::ReadPage(const PageRef& ref) const {
  const Location path = root_ / format::PagePath(ref.name);
  const Result<Bytes> bytes = path.ReadWhole(format::kPageLimit);
  Result<Page> page = bytes.ok() ? format::DecodePage(*bytes, ref) : Result<Page>(bytes.status());
  if (page.ok()) {
    Keep(&*page);
    return page;
  }
  if (MayPass(page.status())) return page;
  SetDamage(Status(page.status()).Annotate(fmt::format("\"{}\"", path)));
  const std::lock_guard lock(mutex_);
  unreadable_.insert(ref.name);
  return page;
}

Result<std::shared_ptr<const Catalogue::Page>> Catalogue::ObtainPage(const PageRef& ref) const {
  return cache_->Obtain<Page>(
      KeyOfPage(ref), [&] { return DecodingMemory(ref.bytes); }, [&] { return ReadPage(ref); });
}

/// Loads a page and those behind it, for a caller who goes through all steps, where the storage answers calls
/// together.
void Catalogue::LoadTogether(std::size_t first) const {
  const auto most = static_cast<std::size_t>(root_.storage->costs().side_by_side);
  if (most < 2 || cache_->Has(KeyOfPage(head_.pages[first]))) return;
  const std::span pages = std::span(head_.pages).subspan(first);
  root_.storage->AtOnce(std::min(most, pages.size()), [&](std::size_t i) { (void)ObtainPage(pages[i]); });
}

/// @returns null: it cannot be read
std::shared_ptr<const Catalogue::Page> Catalogue::PageOf(std::size_t number, Hold* hold) const {
  if (hold->page && hold->number == number) return hold->page;
  const PageRef& ref = head_.pages[number];
  {
    const std::lock_guard lock(mutex_);
    if (unreadable_.contains(ref.name)) return nullptr;
  }
  if (hold->page && number == hold->number + 1) LoadTogether(number);
  auto page = ObtainPage(ref);
  if (!page.ok()) return nullptr;
  *hold = {number, *page};
  return *std::move(page);
}

const StepRecord* Catalogue::FindRecord(std::uint64_t step, Hold* hold) const {
  if (const StepRecord* newest = FindIn(head().records, step)) return newest;
  for (std::size_t number = head_.pages.size(); number-- > 0;) {
    const PageRef& ref = head_.pages[number];
    if (step < ref.first || step > ref.last) continue;
    const std::shared_ptr<const Page> page = PageOf(number, hold);
    if (!page) return nullptr;  // it may have a newer record than those before
    if (const StepRecord* found = FindIn(*page, step)) return found;
  }
  return nullptr;
}

std::optional<StepSummary> Catalogue::Find(std::uint64_t step, Hold* hold) const {
  const StepRecord* const record = FindRecord(step, hold);
  if (record == nullptr || (!is_current_ && !IsOfStep(*record))) return std::nullopt;
  return record->summary;
}

/// Compares a record with the end of step.json.
bool Catalogue::IsOfStep(const StepRecord& record) const {
  const Location path = StepManifest(root_, record.summary.step);
  const auto file = path.Open();
  if (!file.ok() || (*file)->size() != record.manifest_bytes) return false;
  std::string end(std::min(format::kChecksumTail, record.manifest_bytes), '\0');
  const Status read =
      (*file)->ReadAt(record.manifest_bytes - end.size(), std::as_writable_bytes(std::span(end)));
  return read.ok() && format::StoredChecksum(end) == record.summary.checksum;
}

}  // namespace quarry
