#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/storage/writable_storage.h"

namespace quarry::testing {

/// A storage for writing that a test watches: each call is reported before it is made, and may fail instead.
/// A process that is killed makes no call any more.
class FaultyWriter final : public WritableStorage {
 public:
  /// @param before  given the call as "put PATH", and returns how it fails
  FaultyWriter(std::shared_ptr<const WritableStorage> behind,
               std::function<Status(const std::string& call)> before)
      : behind_(std::move(behind)), before_(std::move(before)) {}

  Status Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const override {
    QUARRY_RETURN_IF_ERROR(before_("put " + path));
    return behind_->Put(path, bytes, condition);
  }
  Result<std::unique_ptr<Upload>> BeginUpload(const std::string& path, std::uint64_t most) const override {
    QUARRY_RETURN_IF_ERROR(before_("begin " + path));
    QUARRY_ASSIGN_OR_RETURN(auto upload, behind_->BeginUpload(path, most));
    return std::unique_ptr<Upload>(std::make_unique<Parts>(*this, path, std::move(upload)));
  }
  std::uint64_t PartBytes(std::uint64_t most) const override { return behind_->PartBytes(most); }
  Result<std::unique_ptr<NewFile>> Create(const std::string& path, std::uint64_t most) const override {
    if (!renames_folders()) return WritableStorage::Create(path, most);
    QUARRY_RETURN_IF_ERROR(before_("create " + path));
    QUARRY_ASSIGN_OR_RETURN(auto file, behind_->Create(path, most));
    return std::unique_ptr<NewFile>(std::make_unique<File>(*this, path, std::move(file)));
  }
  std::uint64_t MemoryOfFile(std::uint64_t most) const override { return behind_->MemoryOfFile(most); }
  Result<std::filesystem::path> TemporaryFolder(const std::string& folder) const override {
    return behind_->TemporaryFolder(folder);
  }
  Result<std::string> TagOf(const std::string& path) const override { return behind_->TagOf(path); }
  Status Remove(const std::string& path) const override {
    QUARRY_RETURN_IF_ERROR(before_("remove " + path));
    return behind_->Remove(path);
  }
  Result<std::uint64_t> RemoveLeftovers(const std::string& folder) const override {
    return behind_->RemoveLeftovers(folder);
  }
  bool renames_folders() const override { return behind_->renames_folders(); }
  Status MakeFolder(const std::string& folder) const override {
    QUARRY_RETURN_IF_ERROR(before_("folder " + folder));
    return behind_->MakeFolder(folder);
  }
  Status RenameFolder(const std::string& from, const std::string& to) const override {
    QUARRY_RETURN_IF_ERROR(before_("rename " + to));
    return behind_->RenameFolder(from, to);
  }
  Status SyncFolder(const std::string& folder) const override {
    QUARRY_RETURN_IF_ERROR(before_("sync " + folder));
    return behind_->SyncFolder(folder);
  }
  Result<std::shared_ptr<void>> LockFolder(const std::string& folder,
                                           const LockOptions& options) const override {
    return behind_->LockFolder(folder, options);
  }
  Result<bool> KeepsConditions(const std::string& folder) const override {
    return behind_->KeepsConditions(folder);
  }

 private:
  class Parts final : public Upload {
   public:
    Parts(const FaultyWriter& writer, std::string path, std::unique_ptr<Upload> behind)
        : writer_(writer), path_(std::move(path)), behind_(std::move(behind)) {}

    std::uint64_t part_bytes() const override { return behind_->part_bytes(); }
    Status PutPart(std::uint64_t number, ByteSpan bytes) override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("part " + path_));
      return behind_->PutPart(number, bytes);
    }
    Status Complete(std::uint64_t size, const PutCondition& condition) override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("complete " + path_));
      return behind_->Complete(size, condition);
    }
    Status Abort() override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("abort " + path_));
      return behind_->Abort();
    }

   private:
    const FaultyWriter& writer_;
    const std::string path_;
    const std::unique_ptr<Upload> behind_;
  };

  class File final : public NewFile {
   public:
    File(const FaultyWriter& writer, std::string path, std::unique_ptr<NewFile> behind)
        : writer_(writer), path_(std::move(path)), behind_(std::move(behind)) {}

    Status Append(ByteSpan bytes) override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("append " + path_));
      return behind_->Append(bytes);
    }
    std::uint64_t size() const override { return behind_->size(); }
    Status Sync() override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("sync " + path_));
      return behind_->Sync();
    }
    Status Finish() override {
      QUARRY_RETURN_IF_ERROR(writer_.before_("finish " + path_));
      return behind_->Finish();
    }

   private:
    const FaultyWriter& writer_;
    const std::string path_;
    const std::unique_ptr<NewFile> behind_;
  };

  const std::shared_ptr<const WritableStorage> behind_;
  const std::function<Status(const std::string& call)> before_;
};

}  // namespace quarry::testing
