#pragma once

#include <map>
#include <optional>
#include <shared_mutex>

#include "quarry/storage/location.h"

namespace quarry::testing {

/// Files in memory. Paths begin at the root of the storage, with or without "/".
class MemoryStorage final : public Storage {
 public:
  /// @param read_gap  [bytes] see ReadCosts; skipping costs nothing in memory
  /// @param whole     see folders_appear_whole
  explicit MemoryStorage(std::uint64_t read_gap = 0, bool whole = true)
      : read_gap_(read_gap), whole_(whole) {}

  /// Makes or replaces a file, with the folders above it. Readers that have it open keep the old bytes.
  /// @errors kInvalidArgument: a folder has this path, or a file the path of a folder above it
  Status Put(const std::string& path, Bytes bytes);
  /// With the folders above it. @errors as Put
  Status MakeFolder(const std::string& path);
  /// Copies a folder with everything in it. @errors those of the source storage; as Put
  Status CopyFolder(const Location& from, const std::string& to);
  /// Moves a file or folder atomically. @errors kNotFound; kInvalidArgument: the new path is taken
  Status Rename(const std::string& from, const std::string& to);
  /// With everything in it. @errors kNotFound
  Status Remove(const std::string& path);

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  bool folders_appear_whole() const override { return whole_; }
  ReadCosts costs() const override {
    ReadCosts costs;
    costs.least_gap = read_gap_;
    return costs;
  }
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::milliseconds(0); }
  std::string AbsolutePath(const std::string& path) const override;

 private:
  struct Node {
    std::shared_ptr<const Bytes> bytes;  ///< null: a folder
    std::uint64_t identity = 0;          ///< unique among all objects ever made
    std::uint64_t changes = 0;           ///< changes of a folder: names added, replaced and removed
  };

  Status PutNode(const std::string& path, std::shared_ptr<const Bytes> bytes);
  Status MakeFoldersAbove(const std::string& path);
  void Touch(const std::string& parent);
  Result<Node> Find(const std::string& path, const char* action) const;

  const std::uint64_t read_gap_;
  const bool whole_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Node> nodes_{{"", Node{}}};  ///< by absolute path; the root is ""
  std::uint64_t made_ = 0;
};

}  // namespace quarry::testing
