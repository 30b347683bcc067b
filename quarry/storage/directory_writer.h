#pragma once

#include "quarry/storage/writable_storage.h"

namespace quarry {

/// The files of the operating system, for writing: a temporary name in the same folder, fsync, and a rename;
/// a link where nothing may have the path. A file gets a tag from its identity: the comparison and the
/// rename are two calls, so writers that replace files hold the lock of the folder.
class DirectoryWriter final : public WritableStorage {
 public:
  /// Prefix of temporary names: a writer of datasets removes them too.
  static constexpr std::string_view kTemporary = ".partial-copy-";

  /// @param part_bytes  [bytes] of the parts of uploads
  explicit DirectoryWriter(std::uint64_t part_bytes = 8 << 20) : part_bytes_(part_bytes) {}

  Status Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const override;
  Result<std::unique_ptr<Upload>> BeginUpload(const std::string& path, std::uint64_t most) const override;
  std::uint64_t PartBytes(std::uint64_t) const override { return part_bytes_; }
  Result<std::unique_ptr<NewFile>> Create(const std::string& path, std::uint64_t most) const override;
  std::uint64_t MemoryOfFile(std::uint64_t) const override { return 0; }
  Result<std::filesystem::path> TemporaryFolder(const std::string& folder) const override {
    return std::filesystem::path(folder);
  }
  Result<std::string> TagOf(const std::string& path) const override;
  Status Remove(const std::string& path) const override;
  Result<std::uint64_t> RemoveLeftovers(const std::string& folder) const override;
  bool renames_folders() const override { return true; }
  Status MakeFolder(const std::string& folder) const override;
  Status RenameFolder(const std::string& from, const std::string& to) const override;
  Status SyncFolder(const std::string& folder) const override;
  Result<std::shared_ptr<void>> LockFolder(const std::string& folder,
                                           const LockOptions& options) const override;
  Result<bool> KeepsConditions(const std::string&) const override { return true; }

 private:
  const std::uint64_t part_bytes_;
};

}  // namespace quarry
