#include "quarry/index/piece_writer.h"

#include <algorithm>
#include <functional>

#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/index/lmdb.h"
#include "quarry/index/records.h"

namespace quarry::index {

/// A database that is filled.
struct PieceWriter::Database {
  MDB_dbi handle = 0;
  Bytes last;  ///< the largest key
};

struct PieceWriter::File {
  explicit File(lmdb::Environment made) : environment(std::move(made)) {}

  const lmdb::Environment environment;
  std::optional<lmdb::Transaction> transaction;
  Database patches;
  Database steps;
  Database masks;
  Database mask_subfiles;
  Database boxes;
  Database mask_boxes;
};

namespace {

/// LMDB copies each page that a transaction changes: so many more bytes than the records of one.
constexpr std::uint64_t kPagesOverRecords = 16;

const FieldStepDescription* FieldWithMask(const StepDescription& step, std::uint64_t mask) {
  const auto found = std::ranges::find_if(
      step.fields, [&](const FieldStepDescription& field) { return field.mask && field.mask->name == mask; });
  return found == step.fields.end() ? nullptr : &*found;
}

}  // namespace

Result<std::size_t> NumberOfField(const Dataset& dataset, std::uint64_t step,
                                  const FieldStepDescription& field) {
  const std::optional<std::size_t> number = dataset.description().FindField(field.name);
  if (number) return *number;
  return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, field.name);
}

PieceWriter::PieceWriter(std::unique_ptr<File> file, const Dataset& dataset, const PieceWriterLimits& limits)
    : file_(std::move(file)), dataset_(dataset), limits_(limits) {}

PieceWriter::~PieceWriter() = default;

Result<std::unique_ptr<PieceWriter>> PieceWriter::Create(const std::filesystem::path& path,
                                                         const Dataset& dataset,
                                                         const PieceWriterLimits& limits) {
  QUARRY_ASSIGN_OR_RETURN(lmdb::Environment environment, lmdb::Environment::Create(path, limits.first_map));
  auto file = std::make_unique<File>(std::move(environment));
  QUARRY_ASSIGN_OR_RETURN(file->transaction, lmdb::Transaction::Begin(file->environment));
  const lmdb::Transaction& transaction = *file->transaction;
  QUARRY_ASSIGN_OR_RETURN(file->patches.handle, transaction.OpenDatabase(kPatches));
  QUARRY_ASSIGN_OR_RETURN(file->steps.handle, transaction.OpenDatabase(kSteps));
  QUARRY_ASSIGN_OR_RETURN(file->masks.handle, transaction.OpenDatabase(kMasks));
  QUARRY_ASSIGN_OR_RETURN(file->mask_subfiles.handle, transaction.OpenDatabase(kMaskSubfiles));
  QUARRY_ASSIGN_OR_RETURN(file->boxes.handle, transaction.OpenDatabase(kBoxes));
  QUARRY_ASSIGN_OR_RETURN(file->mask_boxes.handle, transaction.OpenDatabase(kMaskBoxes));
  return std::unique_ptr<PieceWriter>(new PieceWriter(std::move(file), dataset, limits));
}

/// Keys come in ascending order, but for tables whose subfiles do not follow one another along the curve.
Status PieceWriter::Put(Database* database, ByteSpan key, ByteSpan value) {
  const std::uint64_t size = key.size() + value.size();
  if (in_transaction_ + size > limits_.transaction_bytes) QUARRY_RETURN_IF_ERROR(Renew());
  const bool is_last = database->last.empty() || std::ranges::lexicographical_compare(database->last, key);
  QUARRY_RETURN_IF_ERROR(file_->transaction->Put(database->handle, key, value, is_last ? MDB_APPEND : 0));
  if (is_last) database->last.assign(key.begin(), key.end());
  in_transaction_ += size;
  bytes_ += size;
  return Status::Ok();
}

Status PieceWriter::Renew() {
  QUARRY_RETURN_IF_ERROR(file_->transaction->Commit());
  QUARRY_RETURN_IF_ERROR(file_->environment.MakeRoom(kPagesOverRecords * limits_.transaction_bytes));
  QUARRY_ASSIGN_OR_RETURN(file_->transaction, lmdb::Transaction::Begin(file_->environment));
  in_transaction_ = 0;
  return Status::Ok();
}

/// The records whose keys begin with `first`.
Status PieceWriter::CopyRecords(const Piece& from, const StoredTree& tree, std::uint64_t first,
                                std::size_t key_bytes, Database* to) {
  StoredCursor cursor(from.pages, tree);
  QUARRY_ASSIGN_OR_RETURN(const StoredCursor::Record* record, cursor.Seek(StepKey(first)));
  while (record != nullptr) {
    if (record->key.size() != key_bytes)
      return DataLoss("a key has {} bytes instead of {}", record->key.size(), key_bytes);
    if (FirstOfKey(record->key) != first) break;
    QUARRY_RETURN_IF_ERROR(Put(to, record->key, record->value));
    QUARRY_ASSIGN_OR_RETURN(record, cursor.Next());
  }
  return Status::Ok();
}

Status PieceWriter::CopyStep(const std::shared_ptr<const Piece>& from, const MarkedStep& step) {
  damaged_ = from.get();
  const Bytes key = StepKey(step.step);
  QUARRY_ASSIGN_OR_RETURN(const auto value, FindValue(from->pages, from->steps, key));
  if (!value) return DataLoss("step {} is missing", step.step);
  QUARRY_ASSIGN_OR_RETURN(StepRecord record, StepRecord::Decode(*value));
  QUARRY_RETURN_IF_ERROR(
      CopyRecords(*from, from->patches, step.step, PatchKey(0, 0, 0).size(), &file_->patches));
  QUARRY_RETURN_IF_ERROR(
      CopyRecords(*from, from->boxes, step.step, BoxKey(0, 0, 0, 0).size(), &file_->boxes));
  for (const std::uint64_t mask : record.masks) masks_.try_emplace(mask, MaskSource{from, 0});
  record.mark = step.mark;
  QUARRY_RETURN_IF_ERROR(Put(&file_->steps, key, record.Encode()));
  ++steps_;
  damaged_ = nullptr;
  return Status::Ok();
}

Status PieceWriter::LoadStep(const MarkedStep& step) {
  const std::uint64_t before = bytes_;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_.root(), step.step));
  QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_.Step(step.step));
  std::map<std::uint32_t, std::pair<std::size_t, const FieldStepDescription*>> in_keys;
  StepRecord record{checksum, step.mark, {}};
  for (const FieldStepDescription& field : description->fields) {
    QUARRY_ASSIGN_OR_RETURN(const std::size_t number, NumberOfField(dataset_, step.step, field));
    in_keys[dataset_.description().NumberOf(number)] = {number, &field};
    if (!field.mask) continue;
    record.masks.push_back(field.mask->name);
    QUARRY_RETURN_IF_ERROR(AddMask(*field.mask, step.step));
  }
  for (const auto& [_, field] : in_keys)
    QUARRY_RETURN_IF_ERROR(LoadField(step.step, field.first, *field.second));
  std::ranges::sort(record.masks);
  record.masks.erase(std::unique(record.masks.begin(), record.masks.end()), record.masks.end());
  QUARRY_RETURN_IF_ERROR(Put(&file_->steps, StepKey(step.step), record.Encode()));
  ++steps_;
  ++loaded_.steps;
  loaded_.bytes += bytes_ - before;
  return Status::Ok();
}

Status PieceWriter::LoadField(std::uint64_t step, std::size_t number, const FieldStepDescription& field) {
  const std::uint32_t in_keys = dataset_.description().NumberOf(number);
  for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
    QUARRY_ASSIGN_OR_RETURN(TableWalk table, dataset_.tables().Walk(step, number, s));
    QUARRY_RETURN_IF_ERROR(LoadTable(&file_->patches, s, &table,
                                     [&](std::uint64_t code) { return PatchKey(step, in_keys, code); }));
    loaded_.patches += table.table().header.patch_count;
  }
  for (const BoxNode& node : MakeBoxTree(BoxesOf(field.subfiles)))
    QUARRY_RETURN_IF_ERROR(Put(&file_->boxes, BoxKey(step, in_keys, node.level, node.number), node.value));
  ++loaded_.fields;
  return Status::Ok();
}

/// A mask that a copied step has in the same subfiles is taken from its piece.
Status PieceWriter::AddMask(const MaskDescription& mask, std::uint64_t step) {
  const auto [known, added] = masks_.try_emplace(mask.name, MaskSource{nullptr, step});
  if (added || !known->second.piece) return Status::Ok();
  const Piece& piece = *known->second.piece;
  const Result<bool> same =
      HasRecord(piece.pages, piece.mask_subfiles, MaskKey(mask.name), MaskSubfilesValue(mask));
  if (!same.ok()) damaged_ = &piece;
  QUARRY_RETURN_IF_ERROR(same.status());
  if (!*same) known->second = {nullptr, step};
  return Status::Ok();
}

/// @param key_of  key of a patch, by its Morton code
Status PieceWriter::LoadTable(Database* database, std::size_t subfile, TableWalk* table,
                              const std::function<Bytes(std::uint64_t)>& key_of) {
  const format::SubfileHeader& header = table->table().header;
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(header.dims, header.patch));
  for (std::uint64_t block = 0; block < table->blocks(); ++block) {
    QUARRY_RETURN_IF_ERROR(table->GoTo(block));
    for (const format::PatchEntry& row : table->rows()) {
      const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
      QUARRY_RETURN_IF_ERROR(
          Put(database, key_of(code), PatchValue({static_cast<std::uint32_t>(subfile), row})));
    }
  }
  return Status::Ok();
}

Status PieceWriter::CopyMask(const Piece& from, std::uint64_t mask) {
  damaged_ = &from;
  const Bytes key = MaskKey(mask);
  QUARRY_ASSIGN_OR_RETURN(const auto subfiles, FindValue(from.pages, from.mask_subfiles, key));
  if (!subfiles) return DataLoss("mask {} is missing", format::MaskText(mask));
  QUARRY_RETURN_IF_ERROR(Put(&file_->mask_subfiles, key, *subfiles));
  QUARRY_RETURN_IF_ERROR(CopyRecords(from, from.masks, mask, MaskPatchKey(0, 0).size(), &file_->masks));
  QUARRY_RETURN_IF_ERROR(
      CopyRecords(from, from.mask_boxes, mask, MaskBoxKey(0, 0, 0).size(), &file_->mask_boxes));
  damaged_ = nullptr;
  return Status::Ok();
}

Status PieceWriter::LoadMask(std::uint64_t step, std::uint64_t name) {
  QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_.Step(step));
  const FieldStepDescription* const field = FieldWithMask(*description, name);
  if (field == nullptr) return DataLoss("step {} has lost its mask meanwhile", step);
  const MaskDescription& mask = *field->mask;
  for (std::size_t s = 0; s < mask.subfiles.size(); ++s) {
    QUARRY_ASSIGN_OR_RETURN(TableWalk table, dataset_.tables().WalkMask(mask, s));
    QUARRY_RETURN_IF_ERROR(
        LoadTable(&file_->masks, s, &table, [&](std::uint64_t code) { return MaskPatchKey(name, code); }));
  }
  for (const BoxNode& node : MakeBoxTree(BoxesOf(mask.subfiles)))
    QUARRY_RETURN_IF_ERROR(Put(&file_->mask_boxes, MaskBoxKey(name, node.level, node.number), node.value));
  QUARRY_RETURN_IF_ERROR(Put(&file_->mask_subfiles, MaskKey(name), MaskSubfilesValue(mask)));
  ++loaded_.masks;
  return Status::Ok();
}

Status PieceWriter::Finish() {
  for (const auto& [mask, source] : masks_)
    QUARRY_RETURN_IF_ERROR(source.piece ? CopyMask(*source.piece, mask) : LoadMask(source.step, mask));
  QUARRY_RETURN_IF_ERROR(file_->transaction->Commit());
  return file_->environment.Sync();
}

}  // namespace quarry::index
