#include "writer/upkeep/catalogue_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

namespace fs = std::filesystem;

using format::EncodedPage;
using format::PageRef;
using format::StepRecord;
using Records = std::vector<StepRecord>;

namespace {

// The head is written with each step, so it stays small: it has so many records at most.
constexpr std::uint64_t kHeadRecords = 256;
constexpr std::uint64_t kHeadRecordBytes = 32 << 10;
// A page is full with so many, or with fewer that are larger. It is written a few times until then.
constexpr std::uint64_t kPageRecords = 1024;
constexpr std::uint64_t kPageBytes = 128 << 10;
constexpr std::uint64_t kFewRecords = 16;

bool IsFull(const PageRef& page) {
  return page.records >= kPageRecords || (page.bytes >= kPageBytes && page.records >= kFewRecords);
}

/// Both, ascending by step; of two records of a step the newer.
Records Merged(Records older, const Records& newer) {
  std::map<std::uint64_t, StepRecord> all;
  for (StepRecord& record : older) all.insert_or_assign(record.summary.step, std::move(record));
  for (const StepRecord& record : newer) all.insert_or_assign(record.summary.step, record);
  Records merged;
  for (auto& [step, record] : all) merged.push_back(std::move(record));
  return merged;
}

/// Whether all step.json of a dataset are read in about a second.
bool AreSmall(const fs::path& root, const std::set<std::uint64_t>& steps) {
  constexpr std::uint64_t kMostBytes = 8 << 20;
  if (steps.empty()) return true;
  const auto one = (WithPacks(root) / format::StepFolder(*steps.rbegin()) / "step.json").Stat();
  return one.ok() && one->size <= kMostBytes / steps.size();
}

/// Whether it is small enough for a record.
bool IsRecordable(const StepRecord& record) { return format::RecordEncoder().Add(record); }

Status WriteNew(const fs::path& path, ByteSpan bytes) {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
  QUARRY_RETURN_IF_ERROR(file.Append(bytes));
  return file.SyncAndClose();
}

/// Writes a file under a temporary name first, and puts it into its place. The rename is not durable.
Status Place(const fs::path& temporary, ByteSpan bytes, const fs::path& path) {
  std::error_code ignored;
  fs::remove(temporary, ignored);
  Status status = WriteNew(temporary, bytes);
  if (status.ok()) status = Rename(temporary, path);
  if (!status.ok()) fs::remove(temporary, ignored);
  return status;
}

}  // namespace

CatalogueWriter CatalogueWriter::Found(const fs::path& root) {
  CatalogueWriter writer(root);
  std::error_code ignored;
  writer.settled_ = fs::exists(root / "steps" / format::kCurrentFile, ignored);
  const Status read = writer.ReadHead();
  (void)read;  // without a head there is no record
  writer.doubtful_ = !writer.settled_ && !(writer.pages_.empty() && writer.newest_.empty());
  return writer;
}

CatalogueWriter CatalogueWriter::Open(const fs::path& root, const DatasetDescription& dataset) {
  CatalogueWriter writer = Found(root);
  const auto steps = ListSteps(root);
  if (steps.ok() && (writer.doubtful_ || writer.steps_ != steps->size()) && AreSmall(root, *steps)) {
    // A step that cannot be read has no record; files that cannot be written now are written with the next
    // step.
    const Status remade = RemakeCatalogue(
        &writer, root, dataset, [](std::uint64_t) {}, [](const Status&) {});
    (void)remade;
  }
  const Status removed = writer.RemoveUnnamed();
  (void)removed;  // a page that no head names is harmless
  return writer;
}

Status CatalogueWriter::ReadHead() {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes,
                          Location(root_ / format::kHeadFile).ReadWhole(format::kHeadLimit));
  QUARRY_ASSIGN_OR_RETURN(format::CatalogueHead head, format::DecodeHead(bytes));
  steps_ = head.steps;
  pages_ = std::move(head.pages);
  newest_ = std::move(head.records);
  for (const StepRecord& record : newest_) encoder_.Add(record);
  return Status::Ok();
}

Result<Records> CatalogueWriter::ReadPage(const PageRef& ref) const {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes,
                          Location(root_ / format::PagePath(ref.name)).ReadWhole(format::kPageLimit));
  return format::DecodePage(bytes, ref);
}

Result<bool> CatalogueWriter::HasRecord(std::uint64_t step) const {
  const auto has = [&](const Records& records) {
    const auto step_of = [](const StepRecord& record) { return record.summary.step; };
    return std::ranges::binary_search(records, step, {}, step_of);
  };
  if (has(newest_)) return true;
  for (auto page = pages_.rbegin(); page != pages_.rend(); ++page) {
    if (step < page->first || step > page->last) continue;
    if (page == pages_.rbegin() && open_) {
      if (has(*open_)) return true;
      continue;
    }
    QUARRY_ASSIGN_OR_RETURN(const Records records, ReadPage(*page));
    if (has(records)) return true;
  }
  return false;
}

void CatalogueWriter::Take(StepRecord record) {
  const bool behind = newest_.empty() || newest_.back().summary.step < record.summary.step;
  if (behind) {
    encoder_.Add(record);
    newest_.push_back(std::move(record));
    return;
  }
  newest_ = Merged(std::move(newest_), {std::move(record)});
  encoder_ = {};
  for (const StepRecord& one : newest_) encoder_.Add(one);
}

Status CatalogueWriter::Put(StepRecord record, bool is_new) {
  if (!IsRecordable(record)) {
    if (is_new) return Status::Ok();
    // The record from before its new fields is wrong now, and nothing takes its place.
    return Doubt(record.summary.step);
  }
  if (is_new) {
    ++steps_;
  } else {
    QUARRY_ASSIGN_OR_RETURN(const bool has, HasRecord(record.summary.step));
    if (!has) ++steps_;
  }
  const std::uint64_t step = record.summary.step;
  Take(std::move(record));
  if (encoder_.records() >= kHeadRecords || encoder_.bytes().size() >= kHeadRecordBytes)
    QUARRY_RETURN_IF_ERROR(Flush());
  QUARRY_RETURN_IF_ERROR(WriteHead());
  in_doubt_.erase(step);
  return Settle();
}

/// The newest records go to the last page, or to a new one if that is full.
Status CatalogueWriter::Flush() {
  if (!open_) {
    QUARRY_RETURN_IF_ERROR(WriteLastPage());
    if (!pages_.empty() && !IsFull(pages_.back())) {
      Result<Records> last = ReadPage(pages_.back());
      if (last.ok()) open_ = *std::move(last);
    }
  }
  const bool replaces = open_.has_value();
  Records records = replaces ? Merged(*std::move(open_), newest_) : std::move(newest_);
  newest_.clear();
  encoder_ = {};
  EncodedPage page = format::EncodePage(records);
  if (replaces) {
    if (!unwritten_) replaced_.push_back(pages_.back().name);
    pages_.back() = page.ref;
  } else {
    pages_.push_back(page.ref);
  }
  const bool full = IsFull(page.ref);
  unwritten_ = std::move(page);
  open_.reset();
  if (full) return WriteLastPage();
  open_ = std::move(records);
  return Status::Ok();
}

/// The last page waits until the head names it, or another one follows.
Status CatalogueWriter::WriteLastPage() {
  if (!unwritten_) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(WritePage(*unwritten_));
  unwritten_.reset();
  return Status::Ok();
}

Status CatalogueWriter::WritePage(const EncodedPage& page) {
  const fs::path folder = root_ / format::kCatalogueFolder;
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  QUARRY_RETURN_IF_ERROR(Place(folder / fmt::format(".{}.partial", ChecksumText(page.ref.name)), page.bytes,
                               root_ / format::PagePath(page.ref.name)));
  return SyncDirectory(folder);
}

Status CatalogueWriter::WriteHead() {
  std::uint64_t records = 0;
  for (const PageRef& page : pages_) records += page.records;
  // Records that others stand for must not outgrow these.
  if (records > 2 * steps_ + kPageRecords) QUARRY_RETURN_IF_ERROR(MergePages());
  QUARRY_RETURN_IF_ERROR(WriteLastPage());
  const fs::path folder = root_ / format::kCatalogueFolder;
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  QUARRY_RETURN_IF_ERROR(Place(folder / ".head.partial", format::EncodeHead(steps_, pages_, encoder_),
                               root_ / format::kHeadFile));
  std::error_code ignored;
  for (const std::uint64_t name : std::exchange(replaced_, {}))
    fs::remove(root_ / format::PagePath(name), ignored);
  return Status::Ok();
}

Status CatalogueWriter::MergePages() {
  std::map<std::uint64_t, StepRecord> all;
  const auto add = [&](Records records) {
    for (StepRecord& record : records) all.insert_or_assign(record.summary.step, std::move(record));
  };
  for (const PageRef& page : pages_) {
    const bool is_open = open_ && &page == &pages_.back();
    Result<Records> records = is_open ? *open_ : ReadPage(page);
    if (records.ok()) add(*std::move(records));  // the steps of a damaged page have no record any more
  }
  add(newest_);
  auto next = all.begin();
  return Gather([&]() -> Result<std::optional<StepRecord>> {
    if (next == all.end()) return std::optional<StepRecord>();
    return std::optional(std::move((next++)->second));
  });
}

Status CatalogueWriter::Remake(const NextRecord& next) {
  QUARRY_RETURN_IF_ERROR(Gather(next));
  QUARRY_RETURN_IF_ERROR(WriteHead());
  doubtful_ = false;
  in_doubt_.clear();
  return Settle();
}

/// All records anew, but the head is not written yet.
Status CatalogueWriter::Gather(const NextRecord& next) {
  for (const PageRef& page : pages_) replaced_.push_back(page.name);
  pages_.clear();
  newest_.clear();
  encoder_ = {};
  open_.reset();
  unwritten_.reset();
  steps_ = 0;
  while (true) {
    QUARRY_ASSIGN_OR_RETURN(std::optional<StepRecord> record, next());
    if (!record) break;
    if (!IsRecordable(*record)) continue;
    ++steps_;
    Take(*std::move(record));
    if (encoder_.records() >= kHeadRecords || encoder_.bytes().size() >= kHeadRecordBytes)
      QUARRY_RETURN_IF_ERROR(Flush());
  }
  // A page may have the contents of one from before.
  for (const PageRef& page : pages_) std::erase(replaced_, page.name);
  return Status::Ok();
}

Status CatalogueWriter::Doubt(std::uint64_t step) {
  in_doubt_.insert(step);
  settled_ = false;
  return DoubtAll(root_);
}

Status CatalogueWriter::DoubtAll(const fs::path& root) {
  const fs::path file = root / "steps" / format::kCurrentFile;
  std::error_code error;
  if (!fs::remove(file, error) && error)
    return InternalError("cannot remove \"{}\": {}", file.string(), error.message());
  return SyncDirectory(root / "steps");
}

/// The head is durable before the file that says that it can be trusted.
Status CatalogueWriter::Settle() {
  if (settled_ || doubtful_ || !in_doubt_.empty()) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(SyncDirectory(root_));
  const fs::path file = root_ / "steps" / format::kCurrentFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) QUARRY_RETURN_IF_ERROR(WriteNew(file, {}));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(root_ / "steps"));
  settled_ = true;
  return Status::Ok();
}

Status CatalogueWriter::RemoveUnnamed() const {
  std::set<std::string> named;
  for (const PageRef& page : pages_) named.insert(ChecksumText(page.name));
  return RemoveEntries(root_ / format::kCatalogueFolder,
                       [&](const std::string& name) { return !named.contains(name); });
}

Status RemakeCatalogue(CatalogueWriter* catalogue, const fs::path& dataset,
                       const DatasetDescription& description,
                       const std::function<void(std::uint64_t)>& progress,
                       const std::function<void(Status)>& damaged) {
  QUARRY_ASSIGN_OR_RETURN(const std::set<std::uint64_t> steps, ListSteps(dataset));
  const Location root = WithPacks(dataset);
  std::uint64_t done = 0;
  auto next = steps.begin();
  return catalogue->Remake([&]() -> Result<std::optional<StepRecord>> {
    while (next != steps.end()) {
      Result<StepRecord> record = ReadRecord(root / format::StepFolder(*next), description);
      const bool moved = record.ok() && record->summary.step != *next;
      ++next;
      progress(++done);
      if (record.ok() && !moved) return std::optional(*std::move(record));
      damaged(moved ? DataLoss("step {} lies where step {} belongs", record->summary.step, *std::prev(next))
                    : std::move(record).status());
    }
    return std::optional<StepRecord>();
  });
}

}  // namespace quarry::writer
