#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "quarry/format/coarse_object.h"
#include "quarry/storage/location.h"
#include "quarry/storage/storage_around.h"

/// The one place that knows that bytes of subfiles may come from a coarse object. docs/format.md, "Coarse
/// objects".
namespace quarry {

/// A coarse object in memory.
struct CoarseCopy {
  explicit CoarseCopy(format::CoarseObject read) : object(std::move(read)) {}
  CoarseCopy(CoarseCopy&& other) noexcept : object(std::move(other.object)) {}

  format::CoarseObject object;
  /// Bytes of it were not those that a manifest promises: all of them come from the files.
  mutable std::atomic<bool> is_wrong = false;
};

/// A dataset in which ranges of subfiles come from the coarse objects that were read, as long as somebody
/// keeps these. They stand for a file of the same path, size and table checksum alone. Thread-safe.
class CoarseSteps final : public StorageAround {
 public:
  /// @param root  a dataset
  explicit CoarseSteps(const Location& root);

  /// Whether the object of a step was asked for, and that has ended.
  bool was_asked_for(std::uint64_t step) const;
  void SetAskedFor(std::uint64_t step) const;
  /// Reads the object of a step. @errors kNotFound, kDataLoss; those of OpenWith
  Result<CoarseCopy> Read(std::uint64_t step) const;
  /// Ranges come from this object while it is there.
  void Offer(const std::shared_ptr<const CoarseCopy>& copy) const;

  /// A path from the dataset on; empty: it is not below.
  std::string_view Below(std::string_view path) const;

  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  class AtHand;

  std::shared_ptr<const CoarseCopy> CopyWith(std::string_view path) const;

  const Location root_;       ///< in the storage behind
  const Location objects_;    ///< the same without packs: a packed step has no object
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable std::set<std::uint64_t> asked_;
  mutable std::map<std::string, std::weak_ptr<const CoarseCopy>, std::less<>>
      offered_;                       ///< by path of a file
  mutable std::size_t purge_at_ = 0;  ///< entries at which those of objects that have gone are removed
};

}  // namespace quarry
