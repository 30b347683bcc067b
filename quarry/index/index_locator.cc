#include "quarry/index/index_locator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/geometry/morton.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"

namespace quarry::index {

namespace fs = std::filesystem;

struct IndexLocator::Stored {
  PrivateCopy copy;
  StoredPages pages;
  StoredTree patches;
  StoredTree steps;
  StoredTree masks;
  StoredTree mask_subfiles;
  StoredTree boxes;
  StoredTree mask_boxes;
};

namespace {

Status DamagedIndex(const Location& folder, Status damage) {
  return std::move(damage).Annotate(
      fmt::format("the index \"{}\" is damaged; run quarry-index with --rebuild", folder));
}

fs::path ScratchFile(const fs::path& scratch) {
  static std::atomic<std::uint64_t> counter = 0;
  return scratch / fmt::format("quarry-index-{}-{}.mdb", ::getpid(), counter++);
}

}  // namespace

Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step) {
  const Location path = dataset / format::StepFolder(step) / "step.json";
  const Result<std::shared_ptr<const StoredObject>> file = path.Open();
  if (!file.ok()) return StatusOfPart(file.status(), path, "; the step is damaged");
  StreamingChecksum checksum;  // not read whole: no budget counts it
  QUARRY_RETURN_IF_ERROR(ForEachChunk(**file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return Status::Ok();
  }));
  return checksum.Finish();
}

Result<std::shared_ptr<const IndexLocator>> IndexLocator::Open(std::shared_ptr<const Dataset> dataset,
                                                               const Location& folder,
                                                               const fs::path& scratch, OnDamage on_damage) {
  QUARRY_ASSIGN_OR_RETURN(const Seal seal, ReadSeal(folder));
  QUARRY_ASSIGN_OR_RETURN(PrivateCopy copy, PrivateCopy::Make(folder, seal, ScratchFile(scratch)));
  // Behind a right checksum lies what quarry-index has written, or what somebody else has.
  const auto open = [&]() -> Result<std::unique_ptr<Stored>> {
    QUARRY_ASSIGN_OR_RETURN(const StoredPages pages, StoredPages::Open(copy.bytes()));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree patches, pages.FindTree(kPatches));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree steps, pages.FindTree(kSteps));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree masks, pages.FindTree(kMasks));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree mask_subfiles, pages.FindTree(kMaskSubfiles));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree boxes, pages.FindTree(kBoxes));
    QUARRY_ASSIGN_OR_RETURN(const StoredTree mask_boxes, pages.FindTree(kMaskBoxes));
    return std::make_unique<Stored>(
        Stored{std::move(copy), pages, patches, steps, masks, mask_subfiles, boxes, mask_boxes});
  };
  Result<std::unique_ptr<Stored>> stored = open();
  if (!stored.ok()) return DamagedIndex(folder, stored.status());
  return std::shared_ptr<const IndexLocator>(
      new IndexLocator(std::move(dataset), *std::move(stored), folder, std::move(on_damage)));
}

IndexLocator::IndexLocator(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Stored> stored,
                           Location folder, OnDamage on_damage)
    : dataset_(std::move(dataset)),
      stored_(std::move(stored)),
      folder_(std::move(folder)),
      on_damage_(std::move(on_damage)) {}

IndexLocator::~IndexLocator() = default;

void IndexLocator::Tell(const Status& damage, const std::string& what) const {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  if (on_damage_) on_damage_(DamagedIndex(folder_, Status(damage).Annotate(what)));
}

bool IndexLocator::Has(const StoredTree& tree, const Bytes& key, const Bytes& value,
                       const std::string& what) const {
  const Result<bool> has = HasRecord(stored_->pages, tree, key, value);
  if (!has.ok()) Tell(has.status(), what);
  return has.ok() && *has;
}

Result<bool> IndexLocator::IsCurrent(std::uint64_t step) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = current_.find(step); known != current_.end()) return known->second;
  }
  // Without the lock: an unreadable file does not delay questions about other steps.
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t checksum, StepManifestChecksum(dataset_->root(), step));
  Bytes value;
  PutLittleEndian(&value, checksum);
  const bool current = Has(stored_->steps, StepKey(step), value, fmt::format("step {}", step));
  const std::lock_guard lock(mutex_);
  current_[step] = current;
  return current;
}

bool IndexLocator::HasMask(const MaskDescription& mask) const {
  return Has(stored_->mask_subfiles, MaskKey(mask.name), MaskSubfilesValue(mask),
             "mask " + format::MaskText(mask.name));
}

Result<std::shared_ptr<const FieldStepDescription>> IndexLocator::FieldOf(std::uint64_t step,
                                                                          std::size_t field_number) const {
  const std::string& name = dataset_->description().fields[field_number].name;
  QUARRY_ASSIGN_OR_RETURN(const auto description, dataset_->Step(step));
  const FieldStepDescription* field = description->FindField(name);
  if (field == nullptr) return NotFound("field \"{}\" is not in step {}", name, step);
  return std::shared_ptr<const FieldStepDescription>(description, field);
}

Result<std::vector<query::LocatedPatch>> IndexLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const bool current, IsCurrent(step));
  if (!current) return dataset_->tables().Find(step, field_number, range);
  const DatasetDescription& dataset = dataset_->description();
  const FieldDescription& field = dataset.fields[field_number];
  QUARRY_ASSIGN_OR_RETURN(const auto of_step, FieldOf(step, field_number));
  auto found = FindRecords(stored_->patches, PatchKey(step, dataset.NumberOf(field_number), 0), field,
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
  if (!HasMask(*field->mask)) return dataset_->tables().FindMask(step, field_number, range);
  auto found = FindRecords(stored_->masks, MaskPatchKey(field->mask->name, 0), declared, 1, range,
                           field->mask->subfiles);
  if (found.ok()) return found;
  Tell(found.status(), "mask " + format::MaskText(field->mask->name));
  return dataset_->tables().FindMask(step, field_number, range);
}

Result<ByteSpan> IndexLocator::ValueOf(const StoredTree& tree, const Bytes& key) const {
  StoredCursor cursor(stored_->pages, tree);
  QUARRY_ASSIGN_OR_RETURN(const auto* const record, cursor.Seek(key));
  if (record == nullptr || !SameBytes(record->key, key)) return DataLoss("a record of boxes is not there");
  return record->value;
}

Result<std::vector<std::uint32_t>> IndexLocator::SubfilesMeeting(std::uint64_t step, std::size_t field_number,
                                                                 const Box& box) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  QUARRY_ASSIGN_OR_RETURN(const bool current, IsCurrent(step));
  if (current) {
    const std::uint32_t in_keys = dataset_->description().NumberOf(field_number);
    const auto has_patches = [](const SubfileDescription& subfile) { return subfile.patches > 0; };
    const auto count = static_cast<std::uint64_t>(std::ranges::count_if(field->subfiles, has_patches));
    auto found = FindBoxes(count, static_cast<std::uint32_t>(field->subfiles.size()), box,
                           [&](std::uint8_t level, std::uint32_t node) {
                             return ValueOf(stored_->boxes, BoxKey(step, in_keys, level, node));
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
  const std::uint32_t in_keys = dataset_->description().NumberOf(field_number);
  return CheckBoxTree(BoxesOf(field->subfiles), [&](std::uint8_t level, std::uint32_t node) {
    return ValueOf(stored_->boxes, BoxKey(step, in_keys, level, node));
  });
}

Status IndexLocator::CheckMaskBoxes(const MaskDescription& mask) const {
  return CheckBoxTree(BoxesOf(mask.subfiles), [&](std::uint8_t level, std::uint32_t node) {
    return ValueOf(stored_->mask_boxes, MaskBoxKey(mask.name, level, node));
  });
}

Result<std::vector<query::LocatedPatch>> IndexLocator::FindRecords(
    const StoredTree& tree, Bytes key, const FieldDescription& field, int layers,
    const query::PatchRange& range, const std::vector<SubfileDescription>& subfiles) const {
  const GridDescription& described = dataset_->description().GridOf(field);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  const PatchParts parts{described.levels, layers};
  StoredCursor cursor(stored_->pages, tree);
  std::vector<query::LocatedPatch> found;
  found.reserve(range.count());
  // Every position of the grid has a record: codes that follow one another are records that do.
  MortonRuns runs(range.positions, range.codes);
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
