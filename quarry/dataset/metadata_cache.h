#pragma once

#include <functional>
#include <memory>

#include "quarry/dataset/coarse_steps.h"
#include "quarry/description.h"
#include "quarry/format/step_records.h"
#include "quarry/format/subfile_table.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// [bytes] of memory.
std::uint64_t MemoryOf(const DatasetDescription& dataset);
std::uint64_t MemoryOf(const StepDescription& step);
std::uint64_t MemoryOf(const std::vector<FieldStepDescription>& fields);
std::uint64_t MemoryOf(const StepSummary& step);
std::uint64_t MemoryOf(const std::vector<format::StepRecord>& page);
std::uint64_t MemoryOf(const format::SubfileTable& table);
std::uint64_t MemoryOf(const format::PatchRows& rows);
std::uint64_t MemoryOf(const format::TableIndex& entries);
std::uint64_t MemoryOf(const CoarseCopy& copy);

/// The manifests of steps, pages of the catalogue and patch tables of one open dataset, the latter in blocks,
/// in the store that it shares with others: the ones used last stay, as far as requests leave room.
/// Thread-safe.
class MetadataCache {
 public:
  /// @param store  not null
  explicit MetadataCache(std::shared_ptr<PatchStore> store);

  /// Which object: the front of a step.json, a section of it, or all of one in sections; of a subfile of a
  /// field and step, or of a mask, the table, or a block of it; a page of the catalogue; a coarse object.
  struct Key {
    enum class Kind { kStep, kTable, kMaskTable, kPage, kStepSection, kWholeStep, kCoarse };
    Kind kind = Kind::kStep;
    std::uint64_t step = 0;  ///< or the name of the mask or page
    std::size_t field_number = 0;
    std::size_t subfile = 0;  ///< for a step, how often it was replaced
    int stage = -1;           ///< stage of the block, see format::TableStages; -1: header, footer and root
    std::uint64_t block = 0;  ///< its number in the stage; checksum of a section
  };

  /// @param bytes  returns what loading takes at most
  /// @param load   returns a Result<T>; may not use the cache
  /// @errors those of `load`
  template <typename T, typename Load>
  Result<std::shared_ptr<const T>> Obtain(const Key& key, const std::function<std::uint64_t()>& bytes,
                                          const Load& load) const {
    const auto load_one = [&]() -> Result<PatchStore::Loaded> {
      Result<T> loaded = load();
      if (!loaded.ok()) return std::move(loaded).status();
      const std::uint64_t kept = MemoryOf(*loaded);
      return PatchStore::Loaded{std::make_shared<const T>(*std::move(loaded)), kept};
    };
    QUARRY_ASSIGN_OR_RETURN(const auto object, store_->Obtain(KeyInStore(key), bytes, load_one));
    return std::static_pointer_cast<const T>(object);
  }

  /// Whether it is there now.
  bool Has(const Key& key) const;

  /// Whether something of this size may be loaded: no question takes more than is left to it.
  /// @param path  of its file
  /// @errors kResourceExhausted
  Status CheckFits(std::uint64_t bytes, const std::string& path) const;

  /// Memory for something that is loaded and not kept.
  Result<PatchStore::Memory> Reserve(std::uint64_t bytes) const;

 private:
  PatchKey KeyInStore(const Key& key) const;

  const std::shared_ptr<PatchStore> store_;
  const std::uint64_t
      dataset_;  ///< another one each time that a dataset is opened: it may have been replaced
};

}  // namespace quarry
