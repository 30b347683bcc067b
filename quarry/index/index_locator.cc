#include "quarry/index/index_locator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "quarry/base/checksum.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/geometry/morton.h"
#include "quarry/index/lmdb.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"

namespace quarry::index {

namespace fs = std::filesystem;

struct IndexLocator::Lmdb {
  lmdb::Environment environment;
  MDB_dbi patches;
  MDB_dbi steps;
  MDB_dbi masks;
  MDB_dbi mask_subfiles;
};

namespace {

fs::path ScratchFile(const fs::path& scratch) {
  static std::atomic<std::uint64_t> counter = 0;
  return scratch / fmt::format("quarry-index-{}-{}.mdb", ::getpid(), counter++);
}

}  // namespace

Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step) {
  const Location path = dataset / format::StepFolder(step) / "step.json";
  const Result<std::shared_ptr<const StoredObject>> file = path.Open();
  if (!file.ok() && file.status().code() == StatusCode::kNotFound)
    return DataLoss("\"{}\" is missing; the step is damaged", path);
  if (!file.ok()) return StatusOfPart(file.status());
  StreamingChecksum checksum;  // not read whole: no budget counts it
  QUARRY_RETURN_IF_ERROR(ForEachChunk(**file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return Status::Ok();
  }));
  return checksum.Finish();
}

Result<std::shared_ptr<const IndexLocator>> IndexLocator::Open(std::shared_ptr<const Dataset> dataset,
                                                               const Location& folder,
                                                               const fs::path& scratch) {
  QUARRY_ASSIGN_OR_RETURN(const Seal seal, ReadSeal(folder));
  const fs::path copy = ScratchFile(scratch);
  const Status copied = CopySealedFile(folder, seal, copy);
  Result<lmdb::Environment> environment =
      copied.ok() ? lmdb::Environment::Open(copy, true) : Result<lmdb::Environment>(copied);
  std::error_code ignored;
  fs::remove(copy, ignored);  // the mapping keeps it alive, and nothing else can reach it
  if (!environment.ok()) return std::move(environment).status();

  auto lmdb = std::make_unique<Lmdb>(Lmdb{*std::move(environment), 0, 0, 0, 0});
  {
    QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(lmdb->environment, true));
    QUARRY_ASSIGN_OR_RETURN(lmdb->patches, transaction.OpenDatabase(kPatches, false));
    QUARRY_ASSIGN_OR_RETURN(lmdb->steps, transaction.OpenDatabase(kSteps, false));
    QUARRY_ASSIGN_OR_RETURN(lmdb->masks, transaction.OpenDatabase(kMasks, false));
    QUARRY_ASSIGN_OR_RETURN(lmdb->mask_subfiles, transaction.OpenDatabase(kMaskSubfiles, false));
    QUARRY_RETURN_IF_ERROR(transaction.Commit());  // keeps the database handles for later transactions
  }
  return std::shared_ptr<const IndexLocator>(new IndexLocator(std::move(dataset), std::move(lmdb), folder));
}

IndexLocator::IndexLocator(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Lmdb> lmdb,
                           Location folder)
    : dataset_(std::move(dataset)), lmdb_(std::move(lmdb)), folder_(std::move(folder)) {}

IndexLocator::~IndexLocator() = default;

Result<bool> IndexLocator::IsCurrent(std::uint64_t step) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = current_.find(step); known != current_.end()) return known->second;
  }
  // Without the lock: a file that cannot be read holds up nobody who asks for another step.
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_->root(), step));
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  QUARRY_ASSIGN_OR_RETURN(const auto value, transaction.Get(lmdb_->steps, StepKey(step)));
  const bool current =
      value && value->size() == 8 && GetLittleEndian<std::uint64_t>(value->data()) == checksum;
  const std::lock_guard lock(mutex_);
  current_[step] = current;
  return current;
}

Result<std::vector<query::LocatedPatch>> IndexLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const Box& positions) const {
  QUARRY_ASSIGN_OR_RETURN(const bool current, IsCurrent(step));
  if (!current) return dataset_->tables().Find(step, field_number, positions);
  const DatasetDescription& dataset = dataset_->description();
  const FieldDescription& field = dataset.fields[field_number];
  return FindInIndex(lmdb_->patches, PatchKey(step, field_number, 0), {dataset.levels, field.layers()},
                     positions, fmt::format("field \"{}\", step {}", field.name, step));
}

Result<std::vector<query::LocatedPatch>> IndexLocator::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const Box& positions) const {
  const std::string& name = dataset_->description().fields[field_number].name;
  QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_->Step(step));
  const FieldStepDescription* field = description->FindField(name);
  if (field == nullptr) return NotFound("field \"{}\" is not in step {}", name, step);
  if (!field->mask) return std::vector<query::LocatedPatch>();
  QUARRY_ASSIGN_OR_RETURN(const bool indexed, HasMask(*field->mask));
  if (!indexed) return dataset_->tables().FindMask(step, field_number, positions);
  return FindInIndex(lmdb_->masks, MaskPatchKey(field->mask->name, 0), {dataset_->description().levels, 1},
                     positions, "mask " + format::MaskText(field->mask->name));
}

Result<bool> IndexLocator::HasMask(const MaskDescription& mask) const {
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  return lmdb::HasRecord(transaction, lmdb_->mask_subfiles, MaskKey(mask.name), MaskSubfilesValue(mask));
}

Result<std::vector<query::LocatedPatch>> IndexLocator::FindInIndex(unsigned database, Bytes key,
                                                                   const PatchParts& parts,
                                                                   const Box& positions,
                                                                   const std::string& what) const {
  const DatasetDescription& dataset = dataset_->description();
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dataset.grid.dims, dataset.patch));
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  QUARRY_ASSIGN_OR_RETURN(lmdb::Cursor cursor, lmdb::Cursor::Open(transaction, database));
  std::vector<query::LocatedPatch> found;
  found.reserve(static_cast<std::size_t>(positions.volume()));
  // Every position of the grid has a record: codes that follow one another are records that do.
  MortonRuns runs(positions);
  for (std::optional<MortonRun> run = runs.Next(); run; run = runs.Next()) {
    for (std::uint64_t code = run->begin; code < run->end; ++code) {
      SetMortonCode(code, &key);
      QUARRY_ASSIGN_OR_RETURN(const auto record, code == run->begin ? cursor.Seek(key) : cursor.Next());
      if (!record || !std::equal(record->key.begin(), record->key.end(), key.begin(), key.end())) {
        return DataLoss("the index \"{}\" lacks patch {} of {}; run quarry-index with --rebuild", folder_,
                        grid.PatchIndex(MortonDecode(code)), what);
      }
      QUARRY_ASSIGN_OR_RETURN(query::LocatedPatch entry, DecodePatchValue(record->value, parts.count()));
      if (entry.patch.patch_index != static_cast<std::uint64_t>(grid.PatchIndex(MortonDecode(code)))) {
        return DataLoss(
            "the index \"{}\" has patch {} under the key of another; run quarry-index with --rebuild",
            folder_, entry.patch.patch_index);
      }
      found.push_back(std::move(entry));
    }
  }
  return found;
}

}  // namespace quarry::index
