#include "quarry/dataset/metadata_cache.h"

#include <algorithm>
#include <atomic>

#include "quarry/base/units.h"
#include "quarry/format/attribute_rules.h"

namespace quarry {
namespace {

/// Overhead of the C library, and of the maps of the store, for each object.
constexpr std::uint64_t kObject = 256;

std::uint64_t NextNumber() {
  static std::atomic<std::uint64_t> opened = 0;
  return ++opened;
}

std::uint64_t MemoryOf(const std::vector<SubfileDescription>& subfiles) {
  std::uint64_t bytes = subfiles.capacity() * sizeof(SubfileDescription);
  for (const SubfileDescription& subfile : subfiles) bytes += subfile.name.capacity();
  return bytes;
}

std::uint64_t MemoryOf(const Attributes& attributes) {
  return attributes.capacity() * sizeof(Attribute) + 2 * SizeOf(attributes);
}

}  // namespace

std::uint64_t MemoryOf(const DatasetDescription& dataset) {
  std::uint64_t bytes = kObject + dataset.fields.capacity() * sizeof(FieldDescription);
  for (const FieldDescription& field : dataset.fields)
    bytes += field.name.capacity() + field.units.capacity() + field.rougher.capacity() * sizeof(double) +
             MemoryOf(field.attributes);
  for (const GridDescription& grid : dataset.grids) {
    bytes += sizeof(GridDescription);
    for (std::size_t a = 0; a < 3; ++a)
      bytes += grid.coordinates[a].capacity() * sizeof(double) + grid.axis_names[a].capacity() +
               grid.axis_units[a].capacity() + MemoryOf(grid.axis_attributes[a]);
  }
  bytes += dataset.time_unit.units.capacity() + dataset.time_unit.calendar.capacity() +
           dataset.time_name.capacity() + MemoryOf(dataset.time_attributes) + MemoryOf(dataset.attributes);
  return bytes;
}

/// [bytes] behind the record itself.
std::uint64_t MemoryBehind(const FieldRecord& field) {
  std::uint64_t bytes =
      field.name.capacity() + field.source.capacity() + field.levels.capacity() * sizeof(LevelRecord);
  for (const LayerRecord& layer : field.rougher)
    bytes += sizeof(LayerRecord) + layer.levels.capacity() * sizeof(LevelRecord);
  return bytes + field.references.capacity() * sizeof(std::uint64_t);
}

std::uint64_t MemoryOf(const StepDescription& step) { return MemoryOf(step.fields); }

std::uint64_t MemoryOf(const std::vector<FieldStepDescription>& fields) {
  std::uint64_t bytes = kObject + fields.capacity() * sizeof(FieldStepDescription);
  for (const FieldStepDescription& field : fields) {
    bytes += MemoryBehind(field) + MemoryOf(field.subfiles);
    if (field.mask) bytes += MemoryOf(field.mask->subfiles);
  }
  return bytes;
}

std::uint64_t MemoryOf(const StepSummary& step) {
  std::uint64_t bytes = kObject + step.fields.capacity() * sizeof(FieldSummary);
  for (const FieldSummary& field : step.fields) bytes += MemoryBehind(field);
  return bytes;
}

std::uint64_t MemoryOf(const std::vector<format::StepRecord>& page) {
  std::uint64_t bytes = kObject;
  for (const format::StepRecord& record : page) bytes += sizeof(record) + MemoryOf(record.summary);
  return bytes;
}

std::uint64_t MemoryOf(const format::SubfileTable& table) {
  return kObject + MemoryOf(table.rows) + MemoryOf(table.root);
}

std::uint64_t MemoryOf(const format::PatchRows& rows) {
  const auto parts = rows.empty() ? std::size_t{0} : rows.front().levels.size();
  return kObject + rows.capacity() * format::RowMemory(parts);
}

std::uint64_t MemoryOf(const format::TableIndex& entries) { return kObject + entries.memory(); }

std::uint64_t MemoryOf(const CoarseCopy& copy) { return kObject + copy.object.memory(); }

MetadataCache::MetadataCache(std::shared_ptr<PatchStore> store)
    : store_(std::move(store)), dataset_(NextNumber()) {}

PatchKey MetadataCache::KeyInStore(const Key& key) const {
  PatchKey in_store;
  in_store.dataset = dataset_;
  in_store.step = key.step;
  in_store.patch = key.subfile;
  in_store.content = key.block;
  in_store.field = static_cast<std::uint32_t>(key.field_number);
  constexpr std::int32_t kKinds = 7;
  in_store.level =
      -1 - static_cast<std::int32_t>(key.kind) - kKinds * (key.stage + 1);  // no patch has such a level
  return in_store;
}

bool MetadataCache::Has(const Key& key) const {
  const PatchKey in_store = KeyInStore(key);
  return store_->Has({&in_store, 1}).front();
}

Status MetadataCache::CheckFits(std::uint64_t bytes, const std::string& path) const {
  constexpr std::uint64_t kAlways = 4 << 20;  // where the budget is smaller than any block
  if (bytes <= std::max(store_->MostReserved(), kAlways)) return Status::Ok();
  return ResourceExhausted(
      "a part of the patch table of \"{}\" takes {} of memory, and {} can be had at most; allow more memory",
      path, FormatBytes(bytes), FormatBytes(store_->MostReserved()));
}

Result<PatchStore::Memory> MetadataCache::Reserve(std::uint64_t bytes) const {
  return store_->Reserve(std::min(bytes, store_->MostReserved()), [] { return false; });
}

}  // namespace quarry
