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
class CoarseSteps final : public Storage {
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

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override {
    return inner_->List(folder);
  }
  Result<std::vector<FolderEntry>> ListNames(const std::string& folder) const override {
    return inner_->ListNames(folder);
  }
  ObjectKind KindBehindLink(const std::string& path) const override { return inner_->KindBehindLink(path); }
  Result<ObjectInfo> Stat(const std::string& path) const override { return inner_->Stat(path); }
  Result<std::string> FolderIdentity(const std::string& path) const override {
    return inner_->FolderIdentity(path);
  }
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override {
    return inner_->Open(path);
  }
  Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                              Stamp* stamp) const override {
    return inner_->OpenWith(path, end, most, stamp);
  }
  Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const override {
    return inner_->ReadWhole(path, limit);
  }
  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;
  std::shared_ptr<const StoredObject> AllowCopies(std::shared_ptr<const StoredObject> object) const override {
    return inner_->AllowCopies(std::move(object));
  }
  void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const override {
    inner_->AtOnce(calls, call);
  }
  const Storage* around() const override { return inner_.get(); }
  bool has_folders() const override { return inner_->has_folders(); }
  bool folders_appear_whole() const override { return inner_->folders_appear_whole(); }
  ReadCosts costs() const override { return inner_->costs(); }
  std::chrono::milliseconds trust() const override { return inner_->trust(); }
  std::chrono::milliseconds stamp_tick() const override { return inner_->stamp_tick(); }
  std::string AbsolutePath(const std::string& path) const override { return inner_->AbsolutePath(path); }

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  class AtHand;

  std::shared_ptr<const CoarseCopy> CopyWith(std::string_view path) const;

  const std::shared_ptr<const Storage> inner_;
  const Location root_;       ///< in the storage behind
  const Location objects_;    ///< the same without packs: a packed step has no object
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable std::set<std::uint64_t> asked_;
  mutable std::map<std::string, std::weak_ptr<const CoarseCopy>, std::less<>>
      offered_;                       ///< by path of a file
  mutable std::size_t purge_at_ = 0;  ///< entries at which those of objects that have gone are removed
};

}  // namespace quarry
