#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

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

/// A file open for reading at any offset. Thread-safe: reads do not share a position.
class RandomAccessFile {
 public:
  static Result<RandomAccessFile> Open(const std::filesystem::path& path);

  /// Fills `out` from `offset`. @errors kDataLoss when the file ends before: the caller knows where data
  /// should be.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;

  /// Says what will be read soon, so that the system fetches it meanwhile, together with other such places.
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const;

  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  RandomAccessFile(FileDescriptor fd, std::uint64_t size, std::string path)
      : fd_(std::move(fd)), size_(size), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::uint64_t size_;
  std::string path_;
};

/// A new file, written front to back. Nothing is durable before Sync() returned success, nor visible as
/// complete before whoever owns the protocol (see docs/format.md, publishing) has renamed it. One caller at a
/// time.
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

/// A file without a name: it is gone when it is closed or the process ends, however that ends. One caller at a
/// time.
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

/// The whole file, refused above `limit` bytes so that a damaged size cannot exhaust memory.
Result<Bytes> ReadWholeFile(const std::filesystem::path& path, std::uint64_t limit);

/// The same as text.
Result<std::string> ReadTextFile(const std::filesystem::path& path, std::uint64_t limit);

/// Writes `bytes` to `temporary`, syncs, renames over `path`, syncs the directory: readers see the old file
/// or the new one.
/// @param temporary  on the same file system; whoever may be killed chooses a place that the next run cleans
Status ReplaceFile(const std::filesystem::path& path, ByteSpan bytes, const std::filesystem::path& temporary);

/// The same with a temporary file beside `path`.
Status ReplaceFile(const std::filesystem::path& path, ByteSpan bytes);

/// fsync of a directory, which makes renames and new names in it durable.
Status SyncDirectory(const std::filesystem::path& path);

/// rename(2), with the message that users need.
Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);

/// mkdir -p. @errors kInternal with the path, when it cannot be made or is a file
Status CreateDirectories(const std::filesystem::path& path);

/// An exclusive lock on a directory, held until destruction or the end of the process, however it ends.
class DirectoryLock {
 public:
  /// Waits up to `timeout_seconds` for another holder. @errors kUnavailable when it is still held
  static Result<DirectoryLock> Acquire(const std::filesystem::path& path, int timeout_seconds);

 private:
  explicit DirectoryLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace quarry
