#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "quarry/base/file.h"

namespace quarry {

/// Files that are open for reading, at most so many at a time: the one that was read least recently is closed
/// for the next, and opened again when it is read. A server with many slow reads needs no more descriptors
/// than it has. Thread-safe.
class FilePool : public std::enable_shared_from_this<FilePool> {
 public:
  using Open = std::function<Result<RandomAccessFile>()>;

  /// @param most  files; those that are being read at a moment may be more
  explicit FilePool(std::size_t most) : most_(most) {}

  /// A file of the pool. Thread-safe.
  class File {
   public:
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    const std::string& path() const { return path_; }
    std::uint64_t size() const { return size_; }

    /// The open file; it stays open as long as somebody has it.
    /// @errors those of `open`; kDataLoss: another file has taken its place
    Result<std::shared_ptr<const RandomAccessFile>> Get() const;

   private:
    friend class FilePool;
    File(std::shared_ptr<FilePool> pool, Open open, const std::shared_ptr<const RandomAccessFile>& file);

    const std::shared_ptr<FilePool> pool_;
    const Open open_;
    const std::string path_;
    const std::uint64_t size_;
    const FileIdentity identity_;
    /// Null: closed. Guarded by the pool's mutex, as its place in `open_files_`.
    mutable std::shared_ptr<const RandomAccessFile> file_;
    mutable std::list<const File*>::iterator place_;
  };

  /// @param open  called now, and again after the file was closed
  /// @errors those of `open`
  Result<std::shared_ptr<const File>> Add(Open open);

  /// Files that are open now.
  std::size_t size() const;

 private:
  std::shared_ptr<const RandomAccessFile> Keep(const File* file,
                                               std::shared_ptr<const RandomAccessFile> opened);

  const std::size_t most_;
  mutable std::mutex mutex_;           ///< never held over a call to the file system
  std::list<const File*> open_files_;  ///< the one read last in front
};

}  // namespace quarry
