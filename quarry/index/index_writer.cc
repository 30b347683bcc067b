#include "quarry/index/index_writer.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "quarry/base/checksum.h"
#include "quarry/base/directory_lock.h"
#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/lmdb.h"
#include "quarry/index/lmdb_reader.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "quarry/storage/location.h"

namespace quarry::index {

namespace fs = std::filesystem;

namespace {

/// The working copy of the data file; removed unless it is published.
class WorkingFile {
 public:
  explicit WorkingFile(const fs::path& folder) : path_(folder / fmt::format("working-{}.mdb", ::getpid())) {
    Remove();
  }
  ~WorkingFile() { Remove(); }
  const fs::path& path() const { return path_; }
  void Remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

 private:
  const fs::path path_;
};

struct Databases {
  MDB_dbi patches;
  MDB_dbi steps;
  MDB_dbi masks;
  MDB_dbi mask_subfiles;
  MDB_dbi boxes;
  MDB_dbi mask_boxes;
};

Result<Databases> OpenDatabases(const lmdb::Transaction& transaction) {
  Databases databases{};
  QUARRY_ASSIGN_OR_RETURN(databases.patches, transaction.OpenDatabase(kPatches));
  QUARRY_ASSIGN_OR_RETURN(databases.steps, transaction.OpenDatabase(kSteps));
  QUARRY_ASSIGN_OR_RETURN(databases.masks, transaction.OpenDatabase(kMasks));
  QUARRY_ASSIGN_OR_RETURN(databases.mask_subfiles, transaction.OpenDatabase(kMaskSubfiles));
  QUARRY_ASSIGN_OR_RETURN(databases.boxes, transaction.OpenDatabase(kBoxes));
  QUARRY_ASSIGN_OR_RETURN(databases.mask_boxes, transaction.OpenDatabase(kMaskBoxes));
  return databases;
}

Result<std::size_t> NumberOf(const Dataset& dataset, std::uint64_t step, const FieldStepDescription& field) {
  const std::optional<std::size_t> number = dataset.description().FindField(field.name);
  if (number) return *number;
  return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, field.name);
}

/// Step numbers, with the checksums of the step.json files that they come from.
using IndexedSteps = std::map<std::uint64_t, std::uint64_t>;

/// The old index, whose valid records the new one takes over. LMDB never opens it: a hostile file in the
/// folder could end the process.
class OldIndex {
 public:
  /// @param path  of a copy, see PrivateCopy
  /// @errors those of ReadSeal and PrivateCopy::Make; kDataLoss: damaged
  static Result<OldIndex> Open(const Location& folder, const fs::path& path) {
    QUARRY_ASSIGN_OR_RETURN(const Seal seal, ReadSeal(folder));
    QUARRY_ASSIGN_OR_RETURN(PrivateCopy copy, PrivateCopy::Make(folder, seal, path));
    QUARRY_ASSIGN_OR_RETURN(const StoredPages pages, StoredPages::Open(copy.bytes()));
    OldIndex index(std::move(copy), pages);
    const auto add = [&](std::uint64_t step, const StoredCursor::Record& record) -> Status {
      if (record.value.size() != 8)
        return DataLoss("step {} has a record of {} bytes", step, record.value.size());
      index.steps_[step] = GetLittleEndian<std::uint64_t>(record.value.data());
      return Status::Ok();
    };
    QUARRY_RETURN_IF_ERROR(index.ForEach(kSteps, StepKey(0).size(), add));
    return index;
  }

  const IndexedSteps& steps() const { return steps_; }

  /// Visits all records of a database with the first parts of their keys. @errors those of `visit`; kDataLoss
  template <typename Visit>
  Status ForEach(const char* database, std::size_t key_bytes, const Visit& visit) const {
    QUARRY_ASSIGN_OR_RETURN(const StoredTree tree, pages_.FindTree(database));
    StoredCursor cursor(pages_, tree);
    QUARRY_ASSIGN_OR_RETURN(const StoredCursor::Record* record, cursor.Seek(StepKey(0)));
    while (record != nullptr) {
      if (record->key.size() != key_bytes)
        return DataLoss("a key of {} has {} bytes instead of {}", database, record->key.size(), key_bytes);
      QUARRY_RETURN_IF_ERROR(visit(FirstOfKey(record->key), *record));
      QUARRY_ASSIGN_OR_RETURN(record, cursor.Next());
    }
    return Status::Ok();
  }

 private:
  OldIndex(PrivateCopy copy, const StoredPages& pages) : copy_(std::move(copy)), pages_(pages) {}

  PrivateCopy copy_;
  StoredPages pages_;
  IndexedSteps steps_;
};

/// Deletes every record whose key begins with `first`, of an index that this process has filled.
Status DeleteRecords(lmdb::Transaction* transaction, std::initializer_list<MDB_dbi> databases,
                     std::uint64_t first) {
  for (const MDB_dbi database : databases) {
    QUARRY_ASSIGN_OR_RETURN(lmdb::Cursor cursor, lmdb::Cursor::Open(*transaction, database));
    QUARRY_ASSIGN_OR_RETURN(auto record, cursor.Seek(StepKey(first)));
    while (record && FirstOfKey(record->key) == first) {
      QUARRY_RETURN_IF_ERROR(cursor.Delete());
      QUARRY_ASSIGN_OR_RETURN(record, cursor.Seek(StepKey(first)));
    }
  }
  return Status::Ok();
}

class Updater {
 public:
  Updater(const Dataset& dataset, const std::function<void(std::uint64_t, std::uint64_t)>& progress)
      : dataset_(dataset), progress_(progress) {}

  /// Finds out which steps an index already has. Reads every step.json.
  /// @param indexed  steps of the index as it is
  Status Compare(const IndexedSteps& indexed, IndexReport* report) {
    report->steps = dataset_.steps().size();
    report->steps_removed = indexed.size();
    for (const std::uint64_t step : dataset_.steps()) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_.root(), step));
      const auto known = indexed.find(step);
      const bool kept = known != indexed.end() && known->second == checksum;
      if (kept) kept_.insert(step);
      if (kept) --report->steps_removed;
      checksums_.emplace_back(step, checksum);
    }
    return Status::Ok();
  }

  bool HasAll() const { return kept_.size() == checksums_.size(); }

  /// Fills a new index.
  /// @param old  where there is one; @errors kDataLoss, with `old_is_damaged`: it is damaged
  Status Fill(const lmdb::Environment& environment, const OldIndex* old, bool* old_is_damaged,
              IndexReport* report) {
    {
      QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(environment));
      QUARRY_ASSIGN_OR_RETURN(databases_, OpenDatabases(transaction));
      QUARRY_RETURN_IF_ERROR(transaction.Commit());
    }
    if (old != nullptr) {
      const Status taken = TakeOver(environment, *old);
      *old_is_damaged = taken.code() == StatusCode::kDataLoss;
      QUARRY_RETURN_IF_ERROR(taken);
    }
    std::uint64_t done = 0;
    for (const auto& [step, checksum] : checksums_) {
      if (!kept_.contains(step)) QUARRY_RETURN_IF_ERROR(LoadStep(environment, step, checksum, report));
      progress_(++done, checksums_.size());
    }
    return Status::Ok();
  }

 private:
  /// Copies the records of steps that are as they were, and of all masks.
  Status TakeOver(const lmdb::Environment& environment, const OldIndex& old) {
    const auto of_kept = [this](std::uint64_t step) { return kept_.contains(step); };
    const auto of_any = [](std::uint64_t) { return true; };
    QUARRY_RETURN_IF_ERROR(
        Copy(environment, old, kPatches, PatchKey(0, 0, 0).size(), databases_.patches, of_kept));
    QUARRY_RETURN_IF_ERROR(Copy(environment, old, kSteps, StepKey(0).size(), databases_.steps, of_kept));
    QUARRY_RETURN_IF_ERROR(
        Copy(environment, old, kMasks, MaskPatchKey(0, 0).size(), databases_.masks, of_any));
    QUARRY_RETURN_IF_ERROR(
        Copy(environment, old, kMaskSubfiles, MaskKey(0).size(), databases_.mask_subfiles, of_any));
    QUARRY_RETURN_IF_ERROR(
        Copy(environment, old, kBoxes, BoxKey(0, 0, 0, 0).size(), databases_.boxes, of_kept));
    return Copy(environment, old, kMaskBoxes, MaskBoxKey(0, 0, 0).size(), databases_.mask_boxes, of_any);
  }

  template <typename Keep>
  static Status Copy(const lmdb::Environment& environment, const OldIndex& old, const char* name,
                     std::size_t key_bytes, MDB_dbi database, const Keep& keep) {
    constexpr std::uint64_t kRecordsAtATime = 1 << 16;  // LMDB holds the pages of a transaction in memory
    QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(environment));
    std::uint64_t records = 0;
    QUARRY_RETURN_IF_ERROR(
        old.ForEach(name, key_bytes, [&](std::uint64_t first, const StoredCursor::Record& record) -> Status {
          if (!keep(first)) return Status::Ok();
          if (++records % kRecordsAtATime == 0) QUARRY_RETURN_IF_ERROR(transaction.Renew(environment));
          return transaction.Put(database, record.key, record.value, MDB_APPEND);
        }));
    return transaction.Commit();
  }

  /// One transaction: a step is in the index as a whole or not at all.
  Status LoadStep(const lmdb::Environment& environment, std::uint64_t step, std::uint64_t checksum,
                  IndexReport* report) {
    QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(environment));
    QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_.Step(step));
    for (const FieldStepDescription& field : description->fields) {
      QUARRY_ASSIGN_OR_RETURN(const std::size_t number, NumberOf(dataset_, step, field));
      for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
        QUARRY_ASSIGN_OR_RETURN(TableWalk table, dataset_.tables().Walk(step, number, s));
        const std::uint32_t in_keys = dataset_.description().NumberOf(number);
        QUARRY_RETURN_IF_ERROR(LoadTable(&transaction, databases_.patches, s, &table,
                                         [&](std::uint64_t code) { return PatchKey(step, in_keys, code); }));
        report->patches_added += table.table().header.patch_count;
      }
      for (const BoxNode& node : MakeBoxTree(BoxesOf(field.subfiles)))
        QUARRY_RETURN_IF_ERROR(transaction.Put(
            databases_.boxes, BoxKey(step, dataset_.description().NumberOf(number), node.level, node.number),
            node.value));
      if (field.mask) QUARRY_RETURN_IF_ERROR(LoadMask(&transaction, *field.mask, report));
      ++report->fields_added;
    }
    Bytes value;
    PutLittleEndian(&value, checksum);
    QUARRY_RETURN_IF_ERROR(transaction.Put(databases_.steps, StepKey(step), value));
    ++report->steps_added;
    return transaction.Commit();
  }

  /// Loads a mask once, with the first step that names it.
  Status LoadMask(lmdb::Transaction* transaction, const MaskDescription& mask, IndexReport* report) {
    const Bytes key = MaskKey(mask.name);
    const Bytes subfiles = MaskSubfilesValue(mask);
    QUARRY_ASSIGN_OR_RETURN(const bool known,
                            lmdb::HasRecord(*transaction, databases_.mask_subfiles, key, subfiles));
    if (known) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(DeleteRecords(
        transaction, {databases_.masks, databases_.mask_subfiles, databases_.mask_boxes}, mask.name));
    for (std::size_t s = 0; s < mask.subfiles.size(); ++s) {
      QUARRY_ASSIGN_OR_RETURN(TableWalk table, dataset_.tables().WalkMask(mask, s));
      QUARRY_RETURN_IF_ERROR(LoadTable(transaction, databases_.masks, s, &table,
                                       [&](std::uint64_t code) { return MaskPatchKey(mask.name, code); }));
    }
    for (const BoxNode& node : MakeBoxTree(BoxesOf(mask.subfiles)))
      QUARRY_RETURN_IF_ERROR(transaction->Put(databases_.mask_boxes,
                                              MaskBoxKey(mask.name, node.level, node.number), node.value));
    QUARRY_RETURN_IF_ERROR(transaction->Put(databases_.mask_subfiles, key, subfiles));
    ++report->masks_added;
    return Status::Ok();
  }

  /// @param key_of  key of a patch, by its Morton code
  static Status LoadTable(lmdb::Transaction* transaction, MDB_dbi database, std::size_t subfile,
                          TableWalk* table, const std::function<Bytes(std::uint64_t)>& key_of) {
    const format::SubfileHeader& header = table->table().header;
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(header.dims, header.patch));
    for (std::uint64_t block = 0; block < table->blocks(); ++block) {
      QUARRY_RETURN_IF_ERROR(table->GoTo(block));
      for (const format::PatchEntry& row : table->rows()) {
        const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
        QUARRY_RETURN_IF_ERROR(
            transaction->Put(database, key_of(code), PatchValue({static_cast<std::uint32_t>(subfile), row})));
      }
    }
    return Status::Ok();
  }

  const Dataset& dataset_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  Databases databases_{};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> checksums_;  ///< step.json of each step
  std::set<std::uint64_t> kept_;                                    ///< steps that the old index has
};

/// Makes the working file the index: named by its checksum, made durable, then named by the seal.
Status PublishIndex(const fs::path& folder, const fs::path& working) {
  QUARRY_ASSIGN_OR_RETURN(Seal seal, SealFile(working));
  seal.data_file = fmt::format("patches-{}.mdb", ChecksumText(seal.checksum));
  QUARRY_RETURN_IF_ERROR(Rename(working, folder / seal.data_file));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  return WriteSeal(folder, seal);
}

/// Removes older indices, and leftovers of a killed run. Called under the folder's lock.
void RemoveLeftovers(const fs::path& folder, const std::string& data_file) {
  const Result<std::vector<FolderEntry>> entries = Location(folder).List();
  if (!entries.ok()) return;
  for (const FolderEntry& entry : *entries) {
    // The whole name must be one of ours: the user chooses the folder, and it may hold other files.
    static const std::regex ours(R"(patches-[0-9a-f]{16}\.mdb|working-\d+\.mdb|seal\.json\.partial-\d+)");
    std::error_code ignored;
    if (std::regex_match(entry.name, ours) && entry.name != data_file)
      fs::remove(folder / entry.name, ignored);
  }
}

}  // namespace

Location DefaultIndexFolder(const Location& dataset) { return dataset / "index"; }

namespace {

/// Makes the working file the index of the dataset.
/// @param old  valid records to take over; nothing: there are none, or they are not trusted
/// @returns true if the old index is already that, and there is no working file
Result<bool> FillAnew(const Dataset& dataset,
                      const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                      const WorkingFile& working, std::optional<OldIndex>* old, IndexReport* report) {
  while (true) {
    Updater updater(dataset, progress);
    QUARRY_RETURN_IF_ERROR(updater.Compare(*old ? (*old)->steps() : IndexedSteps{}, report));
    if (*old && updater.HasAll() && report->steps_removed == 0) return true;
    bool old_is_damaged = false;
    Status filled;
    {
      QUARRY_ASSIGN_OR_RETURN(const lmdb::Environment environment, lmdb::Environment::Create(working.path()));
      filled = updater.Fill(environment, *old ? &**old : nullptr, &old_is_damaged, report);
      if (filled.ok())
        filled = lmdb::Check(mdb_env_sync(environment.get(), 1), "sync the index", working.path());
    }
    if (!old_is_damaged) {
      QUARRY_RETURN_IF_ERROR(filled);
      return false;
    }
    old->reset();
    *report = {};
    report->rebuilt_because = filled.message();
    working.Remove();
  }
}

}  // namespace

Result<IndexReport> UpdateIndex(const Dataset& dataset, const fs::path& folder, bool rebuild,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const LockOptions& locking) {
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  QUARRY_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Acquire(folder, locking));
  const WorkingFile working(folder);
  IndexReport report;
  std::optional<OldIndex> old;
  if (rebuild) {
    report.rebuilt_because = "asked for";
  } else {
    Result<OldIndex> opened = OldIndex::Open(folder, working.path());
    if (opened.ok()) {
      old.emplace(*std::move(opened));
    } else if (opened.status().code() != StatusCode::kNotFound) {
      report.rebuilt_because = opened.status().message();
    }
  }
  QUARRY_ASSIGN_OR_RETURN(const bool unchanged, FillAnew(dataset, progress, working, &old, &report));
  if (!unchanged) QUARRY_RETURN_IF_ERROR(PublishIndex(folder, working.path()));
  QUARRY_ASSIGN_OR_RETURN(const Seal seal, ReadSeal(folder));
  RemoveLeftovers(folder, seal.data_file);
  return report;
}

namespace {

/// Compares records of the index with those of the tables, patch by patch.
/// @param what  the owner of the patches, for the message
Status CompareEntries(const std::vector<query::LocatedPatch>& indexed,
                      const std::vector<query::LocatedPatch>& expected, const Location& folder,
                      const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (indexed[i].subfile == expected[i].subfile && indexed[i].patch == expected[i].patch) continue;
    return DataLoss(
        "the index \"{}\" has another record of patch {} of {} than its subfile; run quarry-index with "
        "--rebuild",
        folder, expected[i].patch.patch_index, what);
  }
  return Status::Ok();
}

/// @param checked  of the boxes of the owner's subfiles
Status CompareBoxes(const Status& checked, const Location& folder, const std::string& what) {
  if (checked.ok()) return checked;
  return DataLoss(
      "the index \"{}\" has other boxes of the subfiles of {} than step.json ({}); run quarry-index "
      "with --rebuild",
      folder, what, checked.message());
}

}  // namespace

Status VerifyIndex(const Dataset& dataset, const Location& folder) {
  Status damage;  // where it is damaged, the locator falls back to the tables
  QUARRY_ASSIGN_OR_RETURN(const auto locator,
                          IndexLocator::Open(dataset.shared_from_this(), folder, fs::temp_directory_path(),
                                             [&](const Status& told) { damage = told; }));
  std::set<std::uint64_t> masks;
  for (const std::uint64_t step : dataset.steps()) {
    QUARRY_ASSIGN_OR_RETURN(const bool current, locator->IsCurrent(step));
    QUARRY_RETURN_IF_ERROR(damage);
    if (!current)
      return FailedPrecondition("the index \"{}\" does not have step {} as it is now; run quarry-index",
                                folder, step);
    QUARRY_ASSIGN_OR_RETURN(const auto description, dataset.Step(step));
    for (const FieldStepDescription& field : description->fields) {
      QUARRY_ASSIGN_OR_RETURN(const std::size_t number, NumberOf(dataset, step, field));
      QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset.description().GridOf(number)));
      const Box everywhere{{0, 0, 0}, grid.patches()};
      QUARRY_ASSIGN_OR_RETURN(const auto indexed, locator->Find(step, number, everywhere));
      QUARRY_RETURN_IF_ERROR(damage);
      QUARRY_ASSIGN_OR_RETURN(const auto expected, dataset.tables().Find(step, number, everywhere));
      const std::string what = fmt::format("field \"{}\", step {},", field.name, step);
      QUARRY_RETURN_IF_ERROR(CompareEntries(indexed, expected, folder, what));
      QUARRY_RETURN_IF_ERROR(CompareBoxes(locator->CheckBoxes(step, number), folder, what));
      if (!field.mask || !masks.insert(field.mask->name).second) continue;
      const bool has_mask = locator->HasMask(*field.mask);
      QUARRY_RETURN_IF_ERROR(damage);
      if (!has_mask) {
        return DataLoss(
            "the index \"{}\" lacks the mask of {} or has another; run quarry-index with --rebuild", folder,
            what);
      }
      QUARRY_ASSIGN_OR_RETURN(const auto indexed_mask, locator->FindMask(step, number, everywhere));
      QUARRY_RETURN_IF_ERROR(damage);
      QUARRY_ASSIGN_OR_RETURN(const auto expected_mask, dataset.tables().FindMask(step, number, everywhere));
      QUARRY_RETURN_IF_ERROR(CompareEntries(indexed_mask, expected_mask, folder, "the mask of " + what));
      QUARRY_RETURN_IF_ERROR(
          CompareBoxes(locator->CheckMaskBoxes(*field.mask), folder, "the mask of " + what));
    }
  }
  return Status::Ok();
}

}  // namespace quarry::index
