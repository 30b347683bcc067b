#include "quarry/index/index_reader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/geometry/morton.h"
#include "quarry/index/lmdb.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"

namespace quarry::index {

namespace fs = std::filesystem;

struct IndexCatalog::Lmdb {
  lmdb::Environment environment;
  MDB_dbi patches;
  MDB_dbi subfiles;
  MDB_dbi steps;
};

namespace {

fs::path ScratchFile(const fs::path& scratch) {
  static std::atomic<std::uint64_t> counter = 0;
  return scratch / fmt::format("quarry-index-{}-{}.mdb", ::getpid(), counter++);
}

/// Morton codes of all patch positions in a box, ascending.
std::vector<std::uint64_t> MortonCodes(const Box& positions) {
  std::vector<std::uint64_t> codes;
  codes.reserve(static_cast<std::size_t>(positions.volume()));
  for (std::int64_t z = positions.begin[2]; z < positions.end[2]; ++z) {
    for (std::int64_t y = positions.begin[1]; y < positions.end[1]; ++y) {
      for (std::int64_t x = positions.begin[0]; x < positions.end[0]; ++x)
        codes.push_back(MortonEncode({x, y, z}));
    }
  }
  std::sort(codes.begin(), codes.end());
  return codes;
}

}  // namespace

Result<std::uint64_t> StepManifestChecksum(const fs::path& dataset, std::uint64_t step) {
  const fs::path path = dataset / format::StepFolder(step) / "step.json";
  Result<Bytes> bytes = ReadWholeFile(path, std::uint64_t{256} << 20);
  if (!bytes.ok() && bytes.status().code() == StatusCode::kNotFound)
    return DataLoss("\"{}\" is missing; the step is damaged", path.string());
  if (!bytes.ok()) return std::move(bytes).status();
  return Checksum(*bytes);
}

Result<std::shared_ptr<const IndexCatalog>> IndexCatalog::Open(std::shared_ptr<const Dataset> dataset,
                                                               const fs::path& folder,
                                                               const fs::path& scratch) {
  QUARRY_ASSIGN_OR_RETURN(const Seal seal, ReadSeal(folder));
  const fs::path copy = ScratchFile(scratch);
  const Status copied = CopySealedFile(folder, seal, copy);
  Result<lmdb::Environment> environment =
      copied.ok() ? lmdb::Environment::Open(copy, true) : Result<lmdb::Environment>(copied);
  std::error_code ignored;
  fs::remove(copy, ignored);  // the mapping keeps it alive, and nobody else can reach it
  if (!environment.ok()) return std::move(environment).status();

  auto lmdb = std::make_unique<Lmdb>(Lmdb{*std::move(environment), 0, 0, 0});
  {
    QUARRY_ASSIGN_OR_RETURN(lmdb::Transaction transaction, lmdb::Transaction::Begin(lmdb->environment, true));
    QUARRY_ASSIGN_OR_RETURN(lmdb->patches, transaction.OpenDatabase(kPatches, false));
    QUARRY_ASSIGN_OR_RETURN(lmdb->subfiles, transaction.OpenDatabase(kSubfiles, false));
    QUARRY_ASSIGN_OR_RETURN(lmdb->steps, transaction.OpenDatabase(kSteps, false));
    QUARRY_RETURN_IF_ERROR(transaction.Commit());  // keeps the database handles for later transactions
  }
  return std::shared_ptr<const IndexCatalog>(new IndexCatalog(std::move(dataset), std::move(lmdb), folder));
}

IndexCatalog::IndexCatalog(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Lmdb> lmdb,
                           fs::path folder)
    : dataset_(std::move(dataset)), lmdb_(std::move(lmdb)), folder_(std::move(folder)) {}

IndexCatalog::~IndexCatalog() = default;

Result<bool> IndexCatalog::IsCurrent(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  if (const auto known = current_.find(step); known != current_.end()) return known->second;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_->root(), step));
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  QUARRY_ASSIGN_OR_RETURN(const auto value, transaction.Get(lmdb_->steps, StepKey(step)));
  const bool current =
      value && value->size() == 8 && GetLittleEndian<std::uint64_t>(value->data()) == checksum;
  current_[step] = current;
  return current;
}

Result<std::vector<query::CatalogEntry>> IndexCatalog::Find(std::uint64_t step, std::size_t field_number,
                                                            const Box& positions) const {
  QUARRY_ASSIGN_OR_RETURN(const bool current, IsCurrent(step));
  if (!current) return dataset_->tables().Find(step, field_number, positions);
  return FindInIndex(step, field_number, positions);
}

Result<std::vector<query::CatalogEntry>> IndexCatalog::FindInIndex(std::uint64_t step,
                                                                   std::size_t field_number,
                                                                   const Box& positions) const {
  const DatasetDescription& dataset = dataset_->description();
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dataset.grid.dims, dataset.patch));
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  QUARRY_ASSIGN_OR_RETURN(lmdb::Cursor cursor, lmdb::Cursor::Open(transaction, lmdb_->patches));
  std::vector<query::CatalogEntry> found;
  std::optional<lmdb::Cursor::Record> record;
  for (const std::uint64_t code : MortonCodes(positions)) {
    const Bytes key = PatchKey(step, field_number, code);
    // Neighbours on the curve are neighbours in the index: one step forward usually finds the next.
    if (record) {
      QUARRY_ASSIGN_OR_RETURN(record, cursor.Next());
    }
    const auto is_wanted = [&] {
      return record && std::equal(record->key.begin(), record->key.end(), key.begin(), key.end());
    };
    if (!is_wanted()) {
      QUARRY_ASSIGN_OR_RETURN(record, cursor.Seek(key));
    }
    if (!is_wanted()) {
      return DataLoss(
          "the index \"{}\" lacks patch {} of field \"{}\", step {}; run quarry-index with --rebuild",
          folder_.string(), grid.PatchIndex(MortonDecode(code)), dataset.fields[field_number].name, step);
    }
    QUARRY_ASSIGN_OR_RETURN(query::CatalogEntry entry, DecodePatchValue(record->value, dataset.levels));
    if (entry.patch.patch_index != static_cast<std::uint64_t>(grid.PatchIndex(MortonDecode(code)))) {
      return DataLoss(
          "the index \"{}\" has patch {} under the key of another; run quarry-index with --rebuild",
          folder_.string(), entry.patch.patch_index);
    }
    found.push_back(std::move(entry));
  }
  return found;
}

Result<std::vector<SubfileDescription>> IndexCatalog::Subfiles(std::uint64_t step,
                                                               std::size_t field_number) const {
  QUARRY_ASSIGN_OR_RETURN(const lmdb::Transaction transaction,
                          lmdb::Transaction::Begin(lmdb_->environment, true));
  std::vector<SubfileDescription> subfiles;
  while (true) {
    QUARRY_ASSIGN_OR_RETURN(
        const auto value, transaction.Get(lmdb_->subfiles, SubfileKey(step, field_number, subfiles.size())));
    if (!value) return subfiles;
    QUARRY_ASSIGN_OR_RETURN(SubfileDescription subfile, DecodeSubfileValue(*value));
    subfile.name = format::SubfileName(subfiles.size());
    subfiles.push_back(std::move(subfile));
  }
}

}  // namespace quarry::index
