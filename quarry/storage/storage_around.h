#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quarry/storage/storage.h"

namespace quarry {

/// A storage that passes all calls on to another one: the base of those that show it in another way, which
/// override the calls that differ.
class StorageAround : public Storage {
 public:
  explicit StorageAround(std::shared_ptr<const Storage> inner) : inner_(std::move(inner)) {}

  /// The storage that gets the calls.
  const std::shared_ptr<const Storage>& inner() const { return inner_; }
  const Storage* around() const final { return inner_.get(); }

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
                                            std::uint64_t content) const override {
    return inner_->Refer(path, size, content);
  }
  std::shared_ptr<const StoredObject> AllowCopies(std::shared_ptr<const StoredObject> object) const override {
    return inner_->AllowCopies(std::move(object));
  }
  void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const override {
    inner_->AtOnce(calls, call);
  }
  bool has_folders() const override { return inner_->has_folders(); }
  bool folders_appear_whole() const override { return inner_->folders_appear_whole(); }
  bool ends_in_time() const override { return inner_->ends_in_time(); }
  ReadCosts costs() const override { return inner_->costs(); }
  std::chrono::milliseconds trust() const override { return inner_->trust(); }
  std::chrono::milliseconds stamp_tick() const override { return inner_->stamp_tick(); }
  std::string AbsolutePath(const std::string& path) const override { return inner_->AbsolutePath(path); }

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override {
    return inner_->BeginRead(std::move(ranges), std::move(done), cancelled);
  }

 private:
  const std::shared_ptr<const Storage> inner_;
};

}  // namespace quarry
