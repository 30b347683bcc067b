#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry {

/// A file descriptor that closes itself.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  int Release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

/// Identity of a file, independent of its path; a new file may only get that of a deleted one.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t changed = 0;  ///< [ns] since 1970, last change of its contents

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// A file open for reading at any offset. Thread-safe: reads do not share a position.
class RandomAccessFile {
 public:
  /// Never waits for a writer of a FIFO, or for a device. @errors kNotFound; those of NotAFile; kInternal
  static Result<RandomAccessFile> Open(const std::filesystem::path& path);
  /// The same for a descriptor that is open for reading. @param path  for messages
  static Result<RandomAccessFile> Adopt(FileDescriptor fd, std::string path);

  /// Fills `out` from `offset`. @errors kDataLoss when the file ends early: the caller knows where data
  /// should be.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;

  /// Announces a read, so that the system can fetch it ahead of time, together with others.
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const;

  std::uint64_t size() const { return size_; }
  const FileIdentity& identity() const { return identity_; }
  const std::string& path() const { return path_; }

 private:
  RandomAccessFile(FileDescriptor fd, std::uint64_t size, const FileIdentity& identity, std::string path)
      : fd_(std::move(fd)), size_(size), identity_(identity), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::uint64_t size_;
  FileIdentity identity_;
  std::string path_;
};

/// A new file, written front to back. Nothing is durable before Sync() succeeds, nor complete before the
/// publishing protocol (docs/format.md, publishing) renames it. One caller at a time.
class WritableFile {
 public:
  /// @errors an existing file is an error: published data is never written over
  static Result<WritableFile> Create(const std::filesystem::path& path);

  Status Append(ByteSpan bytes);
  /// fsync. After a failure the file must be written anew: its cached pages are in an unknown state.
  Status Sync();
  /// Sync and close, with both results checked.
  Status SyncAndClose();

  std::uint64_t size() const { return size_; }

 private:
  WritableFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::string path_;
  std::uint64_t size_ = 0;
};

/// A new file of a known size, filled through memory: samples are decoded into it. Without Publish it
/// disappears, and where the system can make files without a name, even if the process is killed. One caller
/// at a time; any threads write to the memory.
class MappedFile {
 public:
  /// Allocates all disk space at once: touching mapped memory without disk space would kill the process.
  /// @errors kInternal: the disk is full, or nothing can be created there; kUnimplemented: this file system
  /// gives no such memory
  static Result<MappedFile> Create(const std::filesystem::path& path, std::uint64_t size);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

  /// Syncs, and renames over `path`: a power cut leaves the old file or the new one. The directory is not
  /// synced, which would take longer than a small file. The memory is then gone.
  Status Publish();

 private:
  MappedFile(FileDescriptor fd, bool named, std::filesystem::path path, std::filesystem::path temporary)
      : fd_(std::move(fd)), named_(named), path_(std::move(path)), temporary_(std::move(temporary)) {}
  Status Fill(std::uint64_t size);
  void Unmap();

  FileDescriptor fd_;
  bool named_;  ///< as temporary_
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::span<std::byte> bytes_;
};

/// A file without a name: it disappears when it is closed or the process ends, however that ends. One caller
/// at a time.
class TemporaryFile {
 public:
  /// @param folder  on the file system whose space it takes
  static Result<TemporaryFile> Create(const std::filesystem::path& folder);

  Status WriteAt(std::uint64_t offset, ByteSpan bytes);
  /// @errors kDataLoss: beyond what was written
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  TemporaryFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::string path_;
};

/// Flags for opening files for reading: a FIFO must not block the caller.
extern const int kReadFlags;

/// Name of a type of file, like "folder" or "FIFO". @param mode  of stat
std::string_view NameOfType(unsigned mode);
/// The error for a path that is not a regular file: kInvalidArgument. @param what  it is instead
Status NotAFile(std::string_view path, std::string_view what);
/// The error for a file that ends at byte `end`, `missing` bytes early.
Status EndsEarly(std::string_view path, std::uint64_t end, std::uint64_t missing);
/// @errors kDataLoss: the file has more than `limit` bytes
Status CheckFileSize(std::string_view path, std::uint64_t size, std::uint64_t limit);

/// The whole file, refused above `limit` bytes so that a damaged size cannot exhaust memory.
Result<Bytes> ReadWholeFile(const std::filesystem::path& path, std::uint64_t limit);

/// The same as text.
Result<std::string> ReadTextFile(const std::filesystem::path& path, std::uint64_t limit);

/// Writes `bytes` to `temporary`, syncs, renames over `path`, syncs the directory: readers see the old file
/// or the new one.
/// @param temporary  on the same file system; a process that may be killed chooses a place that the next run
/// cleans
Status ReplaceFile(const std::filesystem::path& path, ByteSpan bytes, const std::filesystem::path& temporary);

/// The same with a temporary file beside `path`.
Status ReplaceFile(const std::filesystem::path& path, ByteSpan bytes);

/// fsync of a directory, which makes renames and new names in it durable.
Status SyncDirectory(const std::filesystem::path& path);

/// rename(2), with the message that users need.
Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);

/// rm -r; nothing there is as well. Of links only the links. No memory is an error as others are: what
/// std::filesystem offers ends the process then.
/// @errors kInternal: something is left
Status RemoveTree(const std::filesystem::path& path);

/// mkdir -p. @errors kInternal with the path, when it cannot be made or is a file
Status CreateDirectories(const std::filesystem::path& path);

}  // namespace quarry
