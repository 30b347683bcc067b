#pragma once

#include <memory>
#include <string>

#include "quarry/disk_cache/disk_cache.h"
#include "quarry/storage/storage.h"

namespace quarry::disk_cache {

/// A storage with a cache on disk in front of it. Only objects whose content a manifest or a version tells
/// (Refer, AllowCopies) are read from there; all else is asked for each time, so no answer is older than
/// without it. Their bytes are compared with the checksums of blocks here, and with those of the format by
/// readers, who say so if they are wrong (StoredObject::Distrust).
class CachedStorage final : public Storage {
 public:
  CachedStorage(std::shared_ptr<const Storage> inner, std::shared_ptr<DiskCache> cache);

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
  std::shared_ptr<const StoredObject> AllowCopies(std::shared_ptr<const StoredObject> object) const override;
  void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const override {
    inner_->AtOnce(calls, call);
  }
  bool has_folders() const override { return inner_->has_folders(); }
  bool folders_appear_whole() const override { return inner_->folders_appear_whole(); }
  /// Ranges come whole: pieces of them would share blocks. The storage behind cuts what it is asked for.
  ReadCosts costs() const override { return costs_; }
  std::chrono::milliseconds trust() const override { return inner_->trust(); }
  std::chrono::milliseconds stamp_tick() const override { return inner_->stamp_tick(); }
  std::string AbsolutePath(const std::string& path) const override { return inner_->AbsolutePath(path); }

 protected:
  /// Ranges that are there are reported before this returns.
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  const std::shared_ptr<const Storage> inner_;
  const std::shared_ptr<DiskCache> cache_;
  const ReadCosts costs_;
};

}  // namespace quarry::disk_cache
