#include "quarry/dataset/metadata_cache.h"

#include <algorithm>
#include <atomic>

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

std::uint64_t MemoryOf(const StepDescription& step) {
  std::uint64_t bytes = kObject + step.fields.capacity() * sizeof(FieldStepDescription);
  for (const FieldStepDescription& field : step.fields) {
    bytes += field.name.capacity() + field.source.capacity() + field.levels.capacity() * sizeof(LevelRecord);
    for (const LayerRecord& layer : field.rougher)
      bytes += sizeof(LayerRecord) + layer.levels.capacity() * sizeof(LevelRecord);
    bytes += MemoryOf(field.subfiles);
    if (field.mask) bytes += MemoryOf(field.mask->subfiles);
  }
  return bytes;
}

std::uint64_t MemoryOf(const format::SubfileTable& table) {
  constexpr std::uint64_t kAllocation = 16;
  const auto parts = static_cast<std::uint64_t>(table.header.parts().count());
  const std::uint64_t row = sizeof(format::PatchEntry) + kAllocation + parts * sizeof(format::LevelEntry);
  return kObject + table.rows.capacity() * row;
}

MetadataCache::MetadataCache(std::shared_ptr<PatchStore> store)
    : store_(std::move(store)), dataset_(NextNumber()) {}

PatchKey MetadataCache::KeyInStore(const Key& key) const {
  PatchKey in_store;
  in_store.dataset = dataset_;
  in_store.step = key.step;
  in_store.patch = key.subfile;
  in_store.content = 0;
  in_store.field = static_cast<std::uint32_t>(key.field_number);
  in_store.level = -1 - static_cast<std::int32_t>(key.kind);  // no patch has such a level
  return in_store;
}

Result<PatchStore::Memory> MetadataCache::Reserve(std::uint64_t bytes) const {
  return store_->Reserve(std::min(bytes, store_->MostReserved()), [] { return false; });
}

}  // namespace quarry
