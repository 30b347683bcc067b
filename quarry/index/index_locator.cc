#include "quarry/index/index_locator.h"

#include <algorithm>

#include "quarry/format/description_rules.h"
#include "quarry/format/mask.h"
#include "quarry/geometry/morton.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "quarry/index/step_state.h"

namespace quarry::index {
namespace {

/// The value of a key. @errors kDataLoss: it is not there, or the piece is damaged
Result<ByteSpan> ValueOf(const Piece& piece, const StoredTree& tree, const Bytes& key) {
  QUARRY_ASSIGN_OR_RETURN(const std::optional<ByteSpan> value, FindValue(piece.pages, tree, key));
  if (!value) return DataLoss("a record is not there");
  return *value;
}

Status NoSuchStep(std::uint64_t step) { return DataLoss("step {} is not in the index", step); }

}  // namespace

Result<std::shared_ptr<const IndexLocator>> IndexLocator::Open(std::shared_ptr<const Dataset> dataset,
                                                               const Location& folder,
                                                               std::shared_ptr<PieceCopies> copies,
                                                               OnDamage on_damage) {
  QUARRY_ASSIGN_OR_RETURN(Seal seal, ReadSeal(folder));
  copies->KeepOnly(seal);
  return std::shared_ptr<const IndexLocator>(
      new IndexLocator(std::move(dataset), folder, std::move(seal), std::move(copies), std::move(on_damage)));
}

Result<std::shared_ptr<const IndexLocator>> IndexLocator::Open(std::shared_ptr<const Dataset> dataset,
                                                               const Location& folder,
                                                               const std::filesystem::path& scratch,
                                                               OnDamage on_damage) {
  return Open(std::move(dataset), folder, std::make_shared<PieceCopies>(scratch), std::move(on_damage));
}

IndexLocator::IndexLocator(std::shared_ptr<const Dataset> dataset, Location folder, Seal seal,
                           std::shared_ptr<PieceCopies> copies, OnDamage on_damage)
    : dataset_(std::move(dataset)),
      folder_(std::move(folder)),
      seal_(std::move(seal)),
      copies_(std::move(copies)),
      on_damage_(std::move(on_damage)),
      opened_(seal_.pieces.size()) {
  for (std::size_t p = 0; p < seal_.pieces.size(); ++p)
    for (const SealedRange& range : seal_.pieces[p].ranges) ranges_.emplace_back(range, p);
  std::ranges::sort(ranges_, {}, [](const auto& one) { return one.first.first; });
}

void IndexLocator::Tell(const Status& damage) const {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  if (on_damage_) on_damage_(damage);
}

void IndexLocator::Tell(const Status& damage, const std::string& what) const {
  Tell(Status(damage).Annotate(what).Annotate(
      fmt::format("the index \"{}\" is damaged; run quarry-index with --rebuild", folder_)));
}

std::optional<std::size_t> IndexLocator::PieceNumber(std::uint64_t step) const {
  const auto found =
      std::ranges::lower_bound(ranges_, step, {}, [](const auto& one) { return one.first.last; });
  if (found == ranges_.end() || step < found->first.first) return std::nullopt;
  return found->second;
}

/// A piece that the seal named, and names no more, is not damaged: the next opening knows the new ones.
const Piece* IndexLocator::OpenPiece(std::size_t number) const {
  {
    const std::lock_guard lock(mutex_);
    if (opened_[number].tried) return opened_[number].piece.get();
  }
  const auto piece = copies_->Obtain(folder_, seal_.pieces[number]);
  if (!piece.ok()) {
    const Result<Seal> now = ReadSeal(folder_);
    const bool is_sealed =
        now.ok() && std::ranges::find(now->pieces, seal_.pieces[number]) != now->pieces.end();
    if (is_sealed) Tell(piece.status());
  }
  const std::lock_guard lock(mutex_);
  if (!opened_[number].piece) opened_[number] = {true, piece.ok() ? *piece : nullptr};
  return opened_[number].piece.get();
}

/// A step that was published between two others after them is not in the piece.
bool IndexLocator::HasStep(const Piece& piece, std::uint64_t step, std::uint64_t checksum) const {
  const auto has = [&]() -> Result<bool> {
    QUARRY_ASSIGN_OR_RETURN(const auto value, FindValue(piece.pages, piece.steps, StepKey(step)));
    if (!value) return false;
    QUARRY_ASSIGN_OR_RETURN(const StepRecord record, StepRecord::Decode(*value));
    return record.checksum == checksum;
  };
  const Result<bool> found = has();
  if (!found.ok()) Tell(found.status(), fmt::format("step {}", step));
  return found.ok() && *found;
}

Result<const Piece*> IndexLocator::PieceOf(std::uint64_t step) const {
  const std::optional<std::size_t> number = PieceNumber(step);
  if (!number) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = current_.find(step); known != current_.end()) return known->second;
  }
  // Without the lock: an unreadable file does not delay questions about other steps.
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_->root(), step));
  const Piece* piece = OpenPiece(*number);
  if (piece != nullptr && !HasStep(*piece, step, checksum)) piece = nullptr;
  const std::lock_guard lock(mutex_);
  current_[step] = piece;
  return piece;
}

Result<bool> IndexLocator::IsCurrent(std::uint64_t step) const {
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  return piece != nullptr;
}

bool IndexLocator::HasMask(const Piece& piece, const MaskDescription& mask) const {
  const Result<bool> has =
      HasRecord(piece.pages, piece.mask_subfiles, MaskKey(mask.name), MaskSubfilesValue(mask));
  if (!has.ok()) Tell(has.status(), "mask " + format::MaskText(mask.name));
  return has.ok() && *has;
}

Result<bool> IndexLocator::HasMask(std::uint64_t step, const MaskDescription& mask) const {
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  return piece != nullptr && HasMask(*piece, mask);
}

Result<std::shared_ptr<const FieldStepDescription>> IndexLocator::FieldOf(std::uint64_t step,
                                                                          std::size_t field_number) const {
  const std::string& name = dataset_->description().fields[field_number].name;
  QUARRY_ASSIGN_OR_RETURN(auto field, dataset_->FieldOf(step, name));
  if (!field) return NotFound("field \"{}\" is not in step {}", name, step);
  return field;
}

Result<std::vector<query::LocatedPatch>> IndexLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  if (piece == nullptr) return dataset_->tables().Find(step, field_number, range);
  const DatasetDescription& dataset = dataset_->description();
  const FieldDescription& field = dataset.fields[field_number];
  QUARRY_ASSIGN_OR_RETURN(const auto of_step, FieldOf(step, field_number));
  auto found = FindRecords(*piece, piece->patches, PatchKey(step, dataset.NumberOf(field_number), 0), field,
                           field.layers(), range, of_step->subfiles);
  if (found.ok()) return found;
  Tell(found.status(), fmt::format("field \"{}\", step {}", field.name, step));
  return dataset_->tables().Find(step, field_number, range);
}

Result<std::vector<query::LocatedPatch>> IndexLocator::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const query::PatchRange& range) const {
  const FieldDescription& declared = dataset_->description().fields[field_number];
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  if (!field->mask) return std::vector<query::LocatedPatch>();
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  if (piece == nullptr || !HasMask(*piece, *field->mask))
    return dataset_->tables().FindMask(step, field_number, range);
  auto found = FindRecords(*piece, piece->masks, MaskPatchKey(field->mask->name, 0), declared, 1, range,
                           field->mask->subfiles);
  if (found.ok()) return found;
  Tell(found.status(), "mask " + format::MaskText(field->mask->name));
  return dataset_->tables().FindMask(step, field_number, range);
}

Result<std::vector<std::uint32_t>> IndexLocator::SubfilesMeeting(std::uint64_t step, std::size_t field_number,
                                                                 const Box& box) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  if (piece != nullptr) {
    const std::uint32_t in_keys = dataset_->description().NumberOf(field_number);
    const auto has_patches = [](const SubfileDescription& subfile) { return subfile.patches > 0; };
    const auto count = static_cast<std::uint64_t>(std::ranges::count_if(field->subfiles, has_patches));
    auto found = FindBoxes(count, static_cast<std::uint32_t>(field->subfiles.size()), box,
                           [&](std::uint8_t level, std::uint32_t node) {
                             return ValueOf(*piece, piece->boxes, BoxKey(step, in_keys, level, node));
                           });
    if (found.ok()) return found;
    Tell(found.status(), fmt::format("boxes of field \"{}\", step {}", field->name, step));
  }
  std::vector<std::uint32_t> meeting;
  for (const NumberedBox& one : BoxesOf(field->subfiles))
    if (!Intersect(one.box, box).empty()) meeting.push_back(one.number);
  return meeting;
}

Status IndexLocator::CheckBoxes(std::uint64_t step, std::size_t field_number) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  if (piece == nullptr) return NoSuchStep(step);
  const std::uint32_t in_keys = dataset_->description().NumberOf(field_number);
  return CheckBoxTree(BoxesOf(field->subfiles), [&](std::uint8_t level, std::uint32_t node) {
    return ValueOf(*piece, piece->boxes, BoxKey(step, in_keys, level, node));
  });
}

Status IndexLocator::CheckMaskBoxes(std::uint64_t step, const MaskDescription& mask) const {
  QUARRY_ASSIGN_OR_RETURN(const Piece* const piece, PieceOf(step));
  if (piece == nullptr) return NoSuchStep(step);
  return CheckBoxTree(BoxesOf(mask.subfiles), [&](std::uint8_t level, std::uint32_t node) {
    return ValueOf(*piece, piece->mask_boxes, MaskBoxKey(mask.name, level, node));
  });
}

Result<std::vector<query::LocatedPatch>> IndexLocator::FindRecords(
    const Piece& piece, const StoredTree& tree, Bytes key, const FieldDescription& field, int layers,
    const query::PatchRange& range, const std::vector<SubfileDescription>& subfiles) const {
  const GridDescription& described = dataset_->description().GridOf(field);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  const PatchParts parts{described.levels, layers};
  StoredCursor cursor(piece.pages, tree);
  std::vector<query::LocatedPatch> found;
  found.reserve(range.count());
  // Every position of the grid has a record: codes that follow one another are records that do.
  query::RangeRuns runs(range);
  for (std::optional<MortonRun> run = runs.Next(); run; run = runs.Next()) {
    for (std::uint64_t code = run->begin; code < run->end; ++code) {
      SetMortonCode(code, &key);
      const Index3 position = MortonDecode(code);
      QUARRY_ASSIGN_OR_RETURN(const auto* const record,
                              code == run->begin ? cursor.Seek(key) : cursor.Next());
      if (record == nullptr || !SameBytes(record->key, key))
        return DataLoss("patch {} is missing", grid.PatchIndex(position));
      query::LocatedPatch& entry = found.emplace_back();
      QUARRY_RETURN_IF_ERROR(DecodePatchValue(record->value, parts.count(), &entry));
      QUARRY_RETURN_IF_ERROR(CheckRecord(entry, position, grid, subfiles));
    }
  }
  return found;
}

}  // namespace quarry::index
