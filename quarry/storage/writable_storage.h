#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/storage/location.h"

namespace quarry {

/// When a file is put into its place.
struct PutCondition {
  enum class Kind : std::uint8_t {
    kAlways,
    kIfAbsent,  ///< nothing has the path
    kIfTag,     ///< the file there has this tag
  };
  Kind kind = Kind::kAlways;
  std::string tag;

  static PutCondition Always() { return {}; }
  static PutCondition IfAbsent() { return {Kind::kIfAbsent, {}}; }
  static PutCondition IfTag(std::string tag) { return {Kind::kIfTag, std::move(tag)}; }
};

/// A large file that comes in parts, and that nobody sees before it is complete. Destroying it leaves the
/// parts for RemoveLeftovers. PutPart is thread-safe.
class Upload {
 public:
  virtual ~Upload() = default;

  /// [bytes] of each part but the last.
  virtual std::uint64_t part_bytes() const = 0;
  /// Parts are numbered from 0 on and come in any order; a part that comes again replaces the earlier one.
  /// @errors kUnavailable, kPermissionDenied, kInternal
  virtual Status PutPart(std::uint64_t number, ByteSpan bytes) = 0;
  /// Puts the file into its place.
  /// @param size  [bytes] of all parts
  /// @errors those of WritableStorage::Put; kInternal: parts are missing
  virtual Status Complete(std::uint64_t size, const PutCondition& condition) = 0;
  /// Removes the parts.
  virtual Status Abort() = 0;
};

/// A new file that is written from its first byte to its last. It replaces nothing. Destroying it before
/// Finish gives it up. One caller at a time.
class NewFile {
 public:
  virtual ~NewFile() = default;

  /// @errors those of Upload::PutPart
  virtual Status Append(ByteSpan bytes) = 0;
  /// [bytes] that were appended.
  virtual std::uint64_t size() const = 0;
  /// Nothing that is appended later is durable without what was appended before.
  virtual Status Sync() = 0;
  /// The file is durable and has its name. @errors those of WritableStorage::Put, if absent
  virtual Status Finish() = 0;
};

/// A tree of files that datasets are written to. Each file appears at once, with all its bytes, and stays if
/// the process is killed. Folders are made with their files. Paths are those of the Storage that reads the
/// same files. Thread-safe.
class WritableStorage {
 public:
  virtual ~WritableStorage() = default;

  /// Writes a small file.
  /// @errors kAlreadyExists: the condition is "if absent", and something has the path; kFailedPrecondition:
  /// the file has another tag; kPermissionDenied, kUnavailable, kInternal
  virtual Status Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const = 0;

  /// Begins a file in parts.
  /// @param most  [bytes] that it may have at most; the size of its parts follows
  /// @errors those of Put
  virtual Result<std::unique_ptr<Upload>> BeginUpload(const std::string& path, std::uint64_t most) const = 0;
  /// [bytes] of the parts of a file that has so many at most.
  virtual std::uint64_t PartBytes(std::uint64_t most) const = 0;

  /// Begins a file that is written in its order. Where folders are renamed, it is a file of its name at once,
  /// so that its folder must be one that no reader sees; elsewhere, it is there when it is finished. Does not
  /// outlive the storage.
  /// @param most  see BeginUpload
  virtual Result<std::unique_ptr<NewFile>> Create(const std::string& path, std::uint64_t most) const;
  /// [bytes] of memory that such a file takes until it is finished.
  virtual std::uint64_t MemoryOfFile(std::uint64_t most) const;
  /// A folder of this machine for files without a name, with room for those of a folder.
  /// @errors kInternal: there is none
  virtual Result<std::filesystem::path> TemporaryFolder(const std::string& folder) const;

  /// The tag of a file, for a condition. @errors kNotFound
  virtual Result<std::string> TagOf(const std::string& path) const = 0;

  /// Removes a file; none there is no error.
  virtual Status Remove(const std::string& path) const = 0;

  /// Removes what killed processes have left of files below a folder: parts of uploads, temporary names.
  /// @returns how many
  virtual Result<std::uint64_t> RemoveLeftovers(const std::string& folder) const = 0;

  /// Whether a folder can be renamed, so that all its files appear at once.
  virtual bool renames_folders() const = 0;
  /// Makes a folder and those above it, where there are folders without files.
  virtual Status MakeFolder(const std::string& folder) const = 0;
  /// Renames a folder; that above the new name is there. Its names and those below were made durable before;
  /// the new name is not.
  /// @errors kAlreadyExists: something has the new path; kUnimplemented: folders cannot be renamed
  virtual Status RenameFolder(const std::string& from, const std::string& to) const = 0;

  /// Makes the names in a folder durable, where that is a call of its own.
  virtual Status SyncFolder(const std::string& folder) const = 0;

  /// Keeps other writers of a folder out until the result is destroyed; makes the folder if it is not there.
  /// Null: the storage has no locks, and conditions tell writers apart.
  /// @errors those of DirectoryLock::Acquire
  virtual Result<std::shared_ptr<void>> LockFolder(const std::string& folder,
                                                   const LockOptions& options) const = 0;

  /// Whether conditions are kept: some stores ignore them, and answer as if they held.
  /// @param folder  gets a small file for a moment
  virtual Result<bool> KeepsConditions(const std::string& folder) const = 0;
};

/// A place that datasets are written to, and read from by the same path.
struct WritableLocation {
  WritableLocation() = default;
  WritableLocation(Location at, std::shared_ptr<const WritableStorage> in)
      : root(std::move(at)), storage(std::move(in)) {}
  /// A file or folder of the operating system.
  WritableLocation(const std::filesystem::path& path);  // NOLINT: implicit, as for Location

  Location root;
  std::shared_ptr<const WritableStorage> storage;
};

}  // namespace quarry
