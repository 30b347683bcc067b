#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "quarry/storage/writable_storage.h"
#include "tests/testing/memory_storage.h"

namespace quarry::testing {

/// Writes to a storage in memory as to an object store: files appear at once, no folder is renamed, and there
/// are no locks.
class MemoryWriter final : public WritableStorage {
 public:
  /// @param keeps_conditions  false: it ignores them
  explicit MemoryWriter(std::shared_ptr<MemoryStorage> storage, std::uint64_t part_bytes = 1 << 20,
                        bool keeps_conditions = true)
      : storage_(std::move(storage)), part_bytes_(part_bytes), keeps_conditions_(keeps_conditions) {}

  Status Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const override {
    const std::lock_guard lock(mutex_);
    if (keeps_conditions_ && condition.kind == PutCondition::Kind::kIfAbsent && storage_->Stat(path).ok())
      return AlreadyExists("\"{}\" is there already", path);
    if (keeps_conditions_ && condition.kind == PutCondition::Kind::kIfTag) {
      const Result<std::string> tag = TagOf(path);
      if (!tag.ok() || *tag != condition.tag) return FailedPrecondition("\"{}\" was replaced", path);
    }
    return storage_->Put(path, Bytes(bytes.begin(), bytes.end()));
  }
  Result<std::unique_ptr<Upload>> BeginUpload(const std::string& path, std::uint64_t) const override {
    return std::unique_ptr<Upload>(std::make_unique<Parts>(*this, path));
  }
  std::uint64_t PartBytes(std::uint64_t) const override { return part_bytes_; }
  Result<std::string> TagOf(const std::string& path) const override {
    QUARRY_ASSIGN_OR_RETURN(const ObjectInfo info, storage_->Stat(path));
    return info.identity;
  }
  Status Remove(const std::string& path) const override {
    const std::lock_guard lock(mutex_);
    const Status removed = storage_->Remove(path);
    if (!removed.ok()) return removed.code() == StatusCode::kNotFound ? Status::Ok() : removed;
    // A store has no folders without files.
    for (std::string folder = path; folder.find('/') != std::string::npos;) {
      folder.resize(folder.rfind('/'));
      const auto entries = storage_->List(folder);
      const bool is_bucket = folder.find('/') == std::string::npos;
      if (is_bucket || !entries.ok() || !entries->empty()) break;
      QUARRY_RETURN_IF_ERROR(storage_->Remove(folder));
    }
    return Status::Ok();
  }
  Result<std::uint64_t> RemoveLeftovers(const std::string&) const override { return std::uint64_t{0}; }
  bool renames_folders() const override { return false; }
  Status MakeFolder(const std::string&) const override { return Status::Ok(); }
  Status RenameFolder(const std::string& from, const std::string&) const override {
    return Unimplemented("\"{}\"", from);
  }
  Status SyncFolder(const std::string&) const override { return Status::Ok(); }
  Result<std::shared_ptr<void>> LockFolder(const std::string&, const LockOptions&) const override {
    return std::shared_ptr<void>();
  }
  Result<bool> KeepsConditions(const std::string&) const override { return keeps_conditions_; }

 private:
  class Parts final : public Upload {
   public:
    Parts(const MemoryWriter& writer, std::string path) : writer_(writer), path_(std::move(path)) {}

    std::uint64_t part_bytes() const override { return writer_.part_bytes_; }
    Status PutPart(std::uint64_t number, ByteSpan bytes) override {
      const std::uint64_t begin = number * writer_.part_bytes_;
      bytes_.resize(std::max<std::uint64_t>(bytes_.size(), begin + bytes.size()));
      std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin));
      return Status::Ok();
    }
    Status Complete(std::uint64_t size, const PutCondition& condition) override {
      if (bytes_.size() != size)
        return InternalError("\"{}\" has {} of {} bytes", path_, bytes_.size(), size);
      return writer_.Put(path_, bytes_, condition);
    }
    Status Abort() override { return Status::Ok(); }

   private:
    const MemoryWriter& writer_;
    const std::string path_;
    Bytes bytes_;
  };

  const std::shared_ptr<MemoryStorage> storage_;
  const std::uint64_t part_bytes_;
  const bool keeps_conditions_;
  mutable std::mutex mutex_;
};

}  // namespace quarry::testing
