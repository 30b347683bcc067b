#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "quarry/storage/file_pool.h"
#include "quarry/storage/opener.h"
#include "quarry/storage/storage.h"

namespace quarry {

/// Costs of reading on the file system of a path. A file server (NFS, Lustre and others) answers after a
/// while, and several questions at a time; a local disk costs nothing to speak of. A path that is not there
/// is local. One call, statfs, which may hang where the server has gone.
ReadCosts CostsOfFileSystem(const std::string& path);

/// The files of the operating system.
class PosixStorage final : public Storage {
 public:
  /// All of them, through all symbolic links, as those of a local disk: the only one of its kind in this
  /// process.
  static const std::shared_ptr<const Storage>& Instance();
  /// The same for reading a dataset where it is, see CostsOfFileSystem: that, or one for all file servers.
  static const std::shared_ptr<const Storage>& For(const std::string& path);

  /// @param costs  with calls side by side, ranges are read by several threads
  explicit PosixStorage(const ReadCosts& costs = {}) : costs_(costs) {}
  /// Files below a folder alone: no other path is opened. Links above the folder are followed. Stat follows
  /// all links: it shows no contents, and is called all the time.
  /// @param files  most that are open for reading at a time; more are closed and opened again
  PosixStorage(const std::string& root, FollowLinks links, std::size_t files = SIZE_MAX,
               const ReadCosts& costs = {})
      : opener_(std::in_place, root, links), files_(std::make_shared<FilePool>(files)), costs_(costs) {}

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<std::vector<FolderEntry>> ListNames(const std::string& folder) const override;
  ObjectKind KindBehindLink(const std::string& path) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  ReadCosts costs() const override { return costs_; }
  /// Clocks of file systems tick in milliseconds, some in seconds.
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::seconds(3); }
  std::string AbsolutePath(const std::string& path) const override;

 protected:
  /// Without calls side by side, the calling thread reads; otherwise others do.
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  /// @param action  for messages
  Result<FileDescriptor> OpenPath(const std::string& path, int flags, const char* action) const;
  Result<std::vector<FolderEntry>> ListFolder(const std::string& folder, bool follow_links) const;
  ObjectKind KindBehind(int folder, const std::string& name, const std::string& path) const;

  const std::optional<Opener> opener_;  ///< nothing: every path may be opened
  const std::shared_ptr<FilePool> files_ = std::make_shared<FilePool>(SIZE_MAX);
  const ReadCosts costs_;
};

}  // namespace quarry
