#include "writer/upkeep/catalogue_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

using format::EncodedPage;
using format::PageRef;
using format::StepRecord;
using Records = std::vector<StepRecord>;

namespace {

// The head is written with each step, so it stays small: it has so many records at most.
constexpr std::uint64_t kHeadRecords = 256;
constexpr std::uint64_t kHeadRecordBytes = 32 << 10;
constexpr std::size_t kHeadRuns = 64;
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
bool AreSmall(const Location& root, const std::set<std::uint64_t>& steps) {
  constexpr std::uint64_t kMostBytes = 8 << 20;
  if (steps.empty()) return true;
  const auto one = (WithPacks(root) / format::StepFolder(*steps.rbegin()) / "step.json").Stat();
  return one.ok() && one->size <= kMostBytes / steps.size();
}

std::vector<format::StepRun> RunsOf(const std::set<std::uint64_t>& steps) {
  return format::RunsOf(std::vector<std::uint64_t>(steps.begin(), steps.end()));
}

/// Whether it is small enough for a record.
bool IsRecordable(const StepRecord& record) { return format::RecordEncoder().Add(record); }

}  // namespace

CatalogueWriter CatalogueWriter::Found(const WritableLocation& root) {
  CatalogueWriter writer(root);
  const Status read = writer.ReadFiles();
  (void)read;  // without a head there is no record
  return writer;
}

Result<CatalogueWriter> CatalogueWriter::Read(const WritableLocation& root) {
  CatalogueWriter writer(root);
  QUARRY_RETURN_IF_ERROR(writer.ReadFiles());
  return writer;
}

CatalogueWriter CatalogueWriter::Open(const WritableLocation& root, const DatasetDescription& dataset) {
  CatalogueWriter writer = Found(root);
  const auto steps = ListSteps(root.root);
  if (steps.ok()) writer.runs_ = RunsOf(*steps);
  if (steps.ok() && (writer.doubtful_ || writer.steps_ != steps->size()) && AreSmall(root.root, *steps)) {
    // A step that cannot be read has no record; files that cannot be written now are written with the next
    // step.
    const Status remade = RemakeCatalogue(
        &writer, root.root, dataset, [](std::uint64_t) {}, [](const Status&) {});
    (void)remade;
  }
  const Status removed = writer.RemoveUnnamed();
  (void)removed;  // a page that no head names is harmless
  return writer;
}

Status CatalogueWriter::ReadFiles() {
  settled_ = (root_ / "steps" / format::kCurrentFile).Stat().ok();
  const Status read = ReadHead();
  doubtful_ = !settled_ && !(pages_.empty() && newest_.empty());
  return read;
}

Status CatalogueWriter::ReadHead() {
  if (!storage_->renames_folders()) {
    // The tag of these bytes or of older ones: then the next head is not put.
    QUARRY_ASSIGN_OR_RETURN(tag_, storage_->TagOf((root_ / format::kHeadFile).path));
  }
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, (root_ / format::kHeadFile).ReadWhole(format::kHeadLimit));
  QUARRY_ASSIGN_OR_RETURN(format::CatalogueHead head, format::DecodeHead(bytes));
  publishes_ = !storage_->renames_folders() && head.publishes;
  steps_ = head.steps;
  runs_.reset();
  if (steps_ == 0 || !head.runs.empty()) runs_ = std::move(head.runs);
  pages_ = std::move(head.pages);
  newest_ = std::move(head.records);
  for (const StepRecord& record : newest_) encoder_.Add(record);
  return Status::Ok();
}

Result<Records> CatalogueWriter::ReadPage(const PageRef& ref) const {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes,
                          (root_ / format::PagePath(ref.name)).ReadWhole(format::kPageLimit));
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
  const bool recordable = IsRecordable(record);
  // The record from before its new fields is wrong then, and nothing takes its place.
  if (!recordable && !is_new) return Doubt(record.summary.step);
  if (is_new && runs_) format::AddStep(record.summary.step, &*runs_);
  if (!recordable) return WriteHead();
  if (is_new) {
    ++steps_;
  } else {
    QUARRY_ASSIGN_OR_RETURN(const bool has, HasRecord(record.summary.step));
    if (!has) ++steps_;
  }
  const std::uint64_t step = record.summary.step;
  QUARRY_RETURN_IF_ERROR(Add(std::move(record)));
  QUARRY_RETURN_IF_ERROR(WriteHead());
  in_doubt_.erase(step);
  return Settle();
}

Status CatalogueWriter::PutNew(Records records) {
  for (StepRecord& record : records) {
    if (runs_) format::AddStep(record.summary.step, &*runs_);
    if (!IsRecordable(record)) continue;
    ++steps_;
    QUARRY_RETURN_IF_ERROR(Add(std::move(record)));
  }
  QUARRY_RETURN_IF_ERROR(WriteHead());
  return Settle();
}

/// To the newest, which go to a page when they are many.
Status CatalogueWriter::Add(StepRecord record) {
  Take(std::move(record));
  const bool many = encoder_.records() >= kHeadRecords || encoder_.bytes().size() >= kHeadRecordBytes;
  return many ? Flush() : Status::Ok();
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
  QUARRY_RETURN_IF_ERROR(PutFile(format::PagePath(page.ref.name), page.bytes));
  return storage_->SyncFolder((root_ / format::kCatalogueFolder).path);
}

/// The name is not durable yet.
Status CatalogueWriter::PutFile(const std::string& place, ByteSpan bytes) const {
  return storage_->Put((root_ / place).path, bytes, PutCondition::Always());
}

Status CatalogueWriter::WriteHead() {
  std::uint64_t records = 0;
  for (const PageRef& page : pages_) records += page.records;
  // Records that others stand for must not outgrow these.
  if (records > 2 * steps_ + kPageRecords) QUARRY_RETURN_IF_ERROR(MergePages());
  QUARRY_RETURN_IF_ERROR(WriteLastPage());
  QUARRY_RETURN_IF_ERROR(PutHead(format::EncodeHead(Head(), encoder_)));
  for (const std::uint64_t name : std::exchange(replaced_, {})) {
    const Status removed = storage_->Remove((root_ / format::PagePath(name)).path);
    (void)removed;  // a page that no head names is harmless
  }
  return Status::Ok();
}

/// In a store, the head must be the one that we know: another process may have put one. It may also be ours,
/// by a request whose answer was lost.
Status CatalogueWriter::PutHead(Bytes bytes) {
  if (storage_->renames_folders()) return PutFile(std::string(format::kHeadFile), bytes);
  if (publishes_ && !Head().publishes)
    return ResourceExhausted(
        "the steps of \"{}\" are in more than {} runs of equal distance, which a head in a store cannot "
        "list; "
        "write to a directory",
        root_, format::kMaxHeadRuns);
  QUARRY_RETURN_IF_ERROR(LearnTag());
  const Status put = storage_->Put((root_ / format::kHeadFile).path, bytes,
                                   tag_.empty() ? PutCondition::IfAbsent() : PutCondition::IfTag(tag_));
  const bool may_be_ours =
      put.code() == StatusCode::kAlreadyExists || put.code() == StatusCode::kFailedPrecondition;
  if (!put.ok() && !may_be_ours) return put;
  put_ = std::move(bytes);
  return put.ok() ? put : LearnTag();
}

/// The tag of the head that was put last. It is asked for first: that of a head which another process puts
/// meanwhile would belong to other bytes.
Status CatalogueWriter::LearnTag() {
  if (!put_) return Status::Ok();
  const Location head = root_ / format::kHeadFile;
  QUARRY_ASSIGN_OR_RETURN(std::string tag, storage_->TagOf(head.path));
  QUARRY_ASSIGN_OR_RETURN(const Bytes there, head.ReadWhole(format::kHeadLimit));
  if (there != *put_) return FailedPrecondition("another process has added steps to \"{}\" meanwhile", root_);
  tag_ = std::move(tag);
  put_.reset();
  return Status::Ok();
}

/// Without its records.
format::CatalogueHead CatalogueWriter::Head() const {
  format::CatalogueHead head;
  head.steps = steps_;
  head.pages = pages_;
  if (!runs_ || format::CountSteps(*runs_) > format::kMaxListedSteps) return head;
  head.publishes = publishes_ && runs_->size() <= format::kMaxHeadRuns;
  if (head.publishes || runs_->size() <= kHeadRuns) head.runs = *runs_;
  return head;
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

Status CatalogueWriter::Remake(std::vector<format::StepRun> steps, const NextRecord& next) {
  runs_ = std::move(steps);
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
    QUARRY_RETURN_IF_ERROR(Add(*std::move(record)));
  }
  // A page may have the contents of one from before.
  for (const PageRef& page : pages_) std::erase(replaced_, page.name);
  return Status::Ok();
}

Status CatalogueWriter::Doubt(std::uint64_t step) {
  in_doubt_.insert(step);
  settled_ = false;
  return DoubtAll({root_, storage_});
}

Status CatalogueWriter::DoubtAll(const WritableLocation& root) {
  const Location steps = root.root / "steps";
  QUARRY_RETURN_IF_ERROR(root.storage->Remove((steps / format::kCurrentFile).path));
  return root.storage->SyncFolder(steps.path);
}

/// The head is durable before the file that says that it can be trusted.
Status CatalogueWriter::Settle() {
  if (settled_ || doubtful_ || !in_doubt_.empty()) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(storage_->SyncFolder(root_.path));
  const Location steps = root_ / "steps";
  const Status put = storage_->Put((steps / format::kCurrentFile).path, {}, PutCondition::IfAbsent());
  if (put.code() != StatusCode::kAlreadyExists) QUARRY_RETURN_IF_ERROR(put);
  QUARRY_RETURN_IF_ERROR(storage_->SyncFolder(steps.path));
  settled_ = true;
  return Status::Ok();
}

Status CatalogueWriter::RemoveUnnamed() const {
  std::set<std::string> named;
  for (const PageRef& page : pages_) named.insert(ChecksumText(page.name));
  const Location folder = root_ / format::kCatalogueFolder;
  const Result<std::vector<FolderEntry>> entries = folder.ListNames();
  if (entries.status().code() == StatusCode::kNotFound) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(entries.status());
  for (const FolderEntry& entry : *entries) {
    if (!named.contains(entry.name)) QUARRY_RETURN_IF_ERROR(storage_->Remove((folder / entry.name).path));
  }
  return Status::Ok();
}

Status RemakeCatalogue(CatalogueWriter* catalogue, const Location& dataset,
                       const DatasetDescription& description,
                       const std::function<void(std::uint64_t)>& progress,
                       const std::function<void(Status)>& damaged) {
  QUARRY_ASSIGN_OR_RETURN(const std::set<std::uint64_t> steps, ListSteps(dataset));
  const Location root = WithPacks(dataset);
  std::uint64_t done = 0;
  auto next = steps.begin();
  return catalogue->Remake(RunsOf(steps), [&]() -> Result<std::optional<StepRecord>> {
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
