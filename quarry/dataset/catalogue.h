#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "quarry/dataset/metadata_cache.h"
#include "quarry/format/catalogue.h"
#include "quarry/storage/location.h"

namespace quarry {

/// The records of steps in the catalogue of a dataset, as of the moment when its head was read: at the first
/// question, since most readers want a single step. A record that is missing or damaged, or that may be old,
/// is not found: step.json has all that it says. Thread-safe.
class Catalogue {
 public:
  /// @param dataset    to which the steps belong; outlives this
  /// @param is_current  format::kCurrentFile is there
  /// @param cache      keeps pages as far as there is room; outlives this
  /// @param head       if it was read already
  Catalogue(Location root, const DatasetDescription& dataset, bool is_current, const MetadataCache* cache,
            std::optional<format::CatalogueHead> head = {});

  using Page = std::vector<format::StepRecord>;  ///< ascending by step

  /// The page that was used last: steps that follow each other are in one.
  struct Hold {
    std::size_t number = 0;
    std::shared_ptr<const Page> page;
  };

  /// @param hold  of one caller at a time
  std::optional<StepSummary> Find(std::uint64_t step, Hold* hold) const;
  /// The same without a comparison of what may be old.
  const format::StepRecord* FindRecord(std::uint64_t step, Hold* hold) const;

  /// Empty where there is none.
  const format::CatalogueHead& head() const;
  bool is_there() const;
  bool is_current() const { return is_current_; }
  /// The first damage that was met; Ok if there was none.
  Status damage() const;
  /// True when the head could not be asked for, which may be different for a dataset that is opened anew.
  bool unanswered() const { return unanswered_; }

 private:
  void ReadHead() const;
  void KeepHead(format::CatalogueHead head) const;
  std::shared_ptr<const Page> PageOf(std::size_t number, Hold* hold) const;
  Result<Page> ReadPage(const format::PageRef& ref) const;
  Result<std::shared_ptr<const Page>> ObtainPage(const format::PageRef& ref) const;
  void LoadTogether(std::size_t first) const;
  void Keep(Page* records) const;
  bool IsOfStep(const format::StepRecord& record) const;
  void SetDamage(Status damage) const;

  const Location root_;
  const DatasetDescription& dataset_;
  const bool is_current_;
  const MetadataCache* const cache_;
  mutable std::optional<format::CatalogueHead> given_;
  mutable std::once_flag is_read_;
  mutable bool is_there_ = false;
  mutable std::atomic<bool> unanswered_ = false;
  mutable format::CatalogueHead head_;
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable Status damage_;
  mutable std::set<std::uint64_t> unreadable_;  ///< pages by name
};

}  // namespace quarry
