#include "quarry/index/index_writer.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "quarry/base/checksum.h"
#include "quarry/base/directory_lock.h"
#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/lmdb.h"
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

 private:
  void Remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path path_;
};

struct Databases {
  MDB_dbi patches;
  MDB_dbi steps;
  MDB_dbi masks;
  MDB_dbi mask_subfiles;
};

Result<Databases> OpenDatabases(const lmdb::Transaction& transaction, bool create) {
  Databases databases{};
  QUARRY_ASSIGN_OR_RETURN(databases.patches, transaction.OpenDatabase(kPatches, create));
  QUARRY_ASSIGN_OR_RETURN(databases.steps, transaction.OpenDatabase(kSteps, create));
  QUARRY_ASSIGN_OR_RETURN(databases.masks, transaction.OpenDatabase(kMasks, create));
  QUARRY_ASSIGN_OR_RETURN(databases.mask_subfiles, transaction.OpenDatabase(kMaskSubfiles, create));
  return databases;
}

/// Step numbers in the index, with the checksums of the step.json files that they come from.
Result<std::map<std::uint64_t, std::uint64_t>> IndexedSteps(const lmdb::Transaction& transaction,
                                                            MDB_dbi steps) {
  std::map<std::uint64_t, std::uint64_t> indexed;
  QUARRY_ASSIGN_OR_RETURN(lmdb::Cursor cursor, lmdb::Cursor::Open(transaction, steps));
  QUARRY_ASSIGN_OR_RETURN(auto record, cursor.Seek(StepKey(0)));
  while (record) {
    if (record->key.size() != 8 || record->value.size() != 8)
      return DataLoss("a step record of the index has the wrong size");
    indexed[FirstOfKey(record->key)] = GetLittleEndian<std::uint64_t>(record->value.data());
    QUARRY_ASSIGN_OR_RETURN(record, cursor.Next());
  }
  return indexed;
}

/// Deletes every record whose key begins with `first`.
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

Status DeleteStep(lmdb::Transaction* transaction, const Databases& databases, std::uint64_t step) {
  return DeleteRecords(transaction, {databases.patches, databases.steps}, step);
}

class Updater {
 public:
  Updater(const Dataset& dataset, const std::function<void(std::uint64_t, std::uint64_t)>& progress)
      : dataset_(dataset), progress_(progress) {}

  Status Update(const lmdb::Environment& environment, IndexReport* report) {
    std::map<std::uint64_t, std::uint64_t> indexed;
    {
      QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(environment, false));
      QUARRY_ASSIGN_OR_RETURN(databases_, OpenDatabases(transaction, true));
      QUARRY_ASSIGN_OR_RETURN(indexed, IndexedSteps(transaction, databases_.steps));
      for (const auto& [step, checksum] : indexed) {
        if (std::binary_search(dataset_.steps().begin(), dataset_.steps().end(), step)) continue;
        QUARRY_RETURN_IF_ERROR(DeleteStep(&transaction, databases_, step));
        ++report->steps_removed;
      }
      QUARRY_RETURN_IF_ERROR(transaction.Commit());
    }
    for (std::size_t i = 0; i < dataset_.steps().size(); ++i) {
      const std::uint64_t step = dataset_.steps()[i];
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_.root(), step));
      const auto known = indexed.find(step);
      if (known == indexed.end() || known->second != checksum) {
        if (known != indexed.end()) ++report->steps_removed;
        QUARRY_RETURN_IF_ERROR(LoadStep(environment, step, checksum, report));
      }
      progress_(i + 1, dataset_.steps().size());
    }
    report->steps = dataset_.steps().size();
    return Status::Ok();
  }

 private:
  /// One transaction: a step is in the index as a whole or not at all.
  Status LoadStep(const lmdb::Environment& environment, std::uint64_t step, std::uint64_t checksum,
                  IndexReport* report) {
    QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(environment, false));
    QUARRY_RETURN_IF_ERROR(DeleteStep(&transaction, databases_, step));
    QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_.Step(step));
    for (const FieldStepDescription& field : description->fields) {
      const std::optional<std::size_t> number = dataset_.description().FindField(field.name);
      if (!number)
        return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, field.name);
      for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
        QUARRY_ASSIGN_OR_RETURN(const auto table, dataset_.tables().Table(step, *number, s));
        QUARRY_RETURN_IF_ERROR(LoadTable(&transaction, databases_.patches, s, *table,
                                         [&](std::uint64_t code) { return PatchKey(step, *number, code); }));
        report->patches_added += table->rows.size();
      }
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
    QUARRY_RETURN_IF_ERROR(
        DeleteRecords(transaction, {databases_.masks, databases_.mask_subfiles}, mask.name));
    for (std::size_t s = 0; s < mask.subfiles.size(); ++s) {
      QUARRY_ASSIGN_OR_RETURN(const auto table, dataset_.tables().MaskTable(mask, s));
      QUARRY_RETURN_IF_ERROR(LoadTable(transaction, databases_.masks, s, *table,
                                       [&](std::uint64_t code) { return MaskPatchKey(mask.name, code); }));
    }
    QUARRY_RETURN_IF_ERROR(transaction->Put(databases_.mask_subfiles, key, subfiles));
    ++report->masks_added;
    return Status::Ok();
  }

  /// @param key_of  key of a patch, by its Morton code
  static Status LoadTable(lmdb::Transaction* transaction, MDB_dbi database, std::size_t subfile,
                          const SubfileTable& table, const std::function<Bytes(std::uint64_t)>& key_of) {
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(table.header.dims, table.header.patch));
    for (const format::PatchEntry& row : table.rows) {
      const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
      QUARRY_RETURN_IF_ERROR(
          transaction->Put(database, key_of(code), PatchValue({static_cast<std::uint32_t>(subfile), row})));
    }
    return Status::Ok();
  }

  const Dataset& dataset_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  Databases databases_{};
};

/// Makes the working file the index: named by its checksum, made durable, then named by the seal.
Status PublishIndex(const fs::path& folder, const fs::path& working) {
  QUARRY_ASSIGN_OR_RETURN(Seal seal, SealFile(working));
  seal.data_file = fmt::format("patches-{}.mdb", ChecksumText(seal.checksum));
  QUARRY_RETURN_IF_ERROR(Rename(working, folder / seal.data_file));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  QUARRY_RETURN_IF_ERROR(WriteSeal(folder, seal));
  return Status::Ok();
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

Result<IndexReport> UpdateIndex(const Dataset& dataset, const fs::path& folder, bool rebuild,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const LockOptions& locking) {
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  QUARRY_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Acquire(folder, locking));
  const WorkingFile working(folder);
  IndexReport report;
  if (rebuild) {
    report.rebuilt_because = "asked for";
  } else {
    const Result<Seal> seal = ReadSeal(folder);
    const Status usable = seal.ok() ? CopySealedFile(folder, *seal, working.path()) : seal.status();
    if (!usable.ok()) {
      if (usable.code() != StatusCode::kNotFound) report.rebuilt_because = usable.message();
      std::error_code ignored;
      fs::remove(working.path(), ignored);
    }
  }
  {
    QUARRY_ASSIGN_OR_RETURN(const lmdb::Environment environment,
                            lmdb::Environment::Open(working.path(), false));
    QUARRY_RETURN_IF_ERROR(Updater(dataset, progress).Update(environment, &report));
    QUARRY_RETURN_IF_ERROR(lmdb::Check(mdb_env_sync(environment.get(), 1), "sync the index", working.path()));
  }
  const Result<Seal> current = ReadSeal(folder);
  const bool unchanged =
      current.ok() && report.rebuilt_because.empty() && report.steps_added + report.steps_removed == 0;
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

}  // namespace

Status VerifyIndex(const Dataset& dataset, const Location& folder) {
  QUARRY_ASSIGN_OR_RETURN(const auto locator,
                          IndexLocator::Open(dataset.shared_from_this(), folder, fs::temp_directory_path()));
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid,
                          PatchGrid::Create(dataset.description().grid.dims, dataset.description().patch));
  const Box everywhere{{0, 0, 0}, grid.patches()};
  std::set<std::uint64_t> masks;
  for (const std::uint64_t step : dataset.steps()) {
    QUARRY_ASSIGN_OR_RETURN(const bool current, locator->IsCurrent(step));
    if (!current)
      return {
          StatusCode::kFailedPrecondition,
          fmt::format("the index \"{}\" does not have step {} as it is now; run quarry-index", folder, step)};
    QUARRY_ASSIGN_OR_RETURN(const auto description, dataset.Step(step));
    for (const FieldStepDescription& field : description->fields) {
      const std::optional<std::size_t> number = dataset.description().FindField(field.name);
      if (!number)
        return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, field.name);
      QUARRY_ASSIGN_OR_RETURN(const auto indexed, locator->Find(step, *number, everywhere));
      QUARRY_ASSIGN_OR_RETURN(const auto expected, dataset.tables().Find(step, *number, everywhere));
      const std::string what = fmt::format("field \"{}\", step {},", field.name, step);
      QUARRY_RETURN_IF_ERROR(CompareEntries(indexed, expected, folder, what));
      if (!field.mask || !masks.insert(field.mask->name).second) continue;
      QUARRY_ASSIGN_OR_RETURN(const bool has_mask, locator->HasMask(*field.mask));
      if (!has_mask) {
        return DataLoss(
            "the index \"{}\" lacks the mask of {} or has another; run quarry-index with --rebuild", folder,
            what);
      }
      QUARRY_ASSIGN_OR_RETURN(const auto indexed_mask, locator->FindMask(step, *number, everywhere));
      QUARRY_ASSIGN_OR_RETURN(const auto expected_mask, dataset.tables().FindMask(step, *number, everywhere));
      QUARRY_RETURN_IF_ERROR(CompareEntries(indexed_mask, expected_mask, folder, "the mask of " + what));
    }
  }
  return Status::Ok();
}

}  // namespace quarry::index
