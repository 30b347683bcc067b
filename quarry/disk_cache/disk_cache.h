#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/disk_cache/block_file.h"

namespace quarry::disk_cache {

/// Which cache a caller wants.
struct Choice {
  std::optional<std::string> folder;  ///< none: that of the variable QUARRY_CACHE; empty: no cache
  std::uint64_t most_bytes = 0;       ///< 0: QUARRY_CACHE_SIZE, else 10 GiB
};

/// The bytes that all caches of this process have saved.
struct Usage {
  std::uint64_t from_cache = 0;  ///< [bytes] that reads got from the disk
  std::uint64_t fetched = 0;     ///< [bytes] that were asked for in their place
  std::uint64_t damaged = 0;     ///< blocks that were on the disk and not what they were

  std::uint64_t bytes() const { return from_cache + fetched; }
};
Usage UsageOfProcess();

/// Contents of a folder.
struct Contents {
  struct Object {
    std::string url;
    std::uint64_t bytes = 0;  ///< that it takes of the disk
  };
  std::uint64_t bytes = 0;  ///< that all files take of the disk
  std::uint64_t files = 0;
  std::vector<Object> objects;  ///< by URL
};

/// Copies of remote objects in a folder, shared by processes. It never makes a read fail, nor one wait for
/// another process: what cannot be read is missing, and what cannot be written is not kept. Thread-safe.
class DiskCache {
 public:
  /// The cache of this process for a folder, which is made if need be. A folder that cannot be used is
  /// reported to standard error, once, and gives none; so does a choice of none.
  /// @errors kInvalidArgument: a size that is none
  static Result<std::shared_ptr<DiskCache>> Open(const Choice& choice);

  /// The folder of a choice; empty: none.
  static std::string FolderOf(const Choice& choice);
  /// @errors kInvalidArgument
  static Result<std::uint64_t> MostBytesOf(const Choice& choice);
  /// The size that an option gives; 0 if it is empty. @errors kInvalidArgument: no size, or 0
  static Result<std::uint64_t> ParseSize(const std::string& text);

  /// @param folder  made, for the user alone; one that belongs to somebody else, or that others can write, is
  /// refused: whoever writes there decides what we read
  /// @errors kFailedPrecondition, kInternal
  static Result<std::shared_ptr<DiskCache>> At(const std::string& folder, std::uint64_t most_bytes);

  /// Copies what is there of a range, which lies in the object.
  /// @returns the blocks that are missing, in ascending order
  std::vector<BlockRun> Read(const ObjectKey& key, std::uint64_t offset, std::span<std::byte> out);

  /// Keeps whole blocks, from `first` on, unless there is no room, or another process makes some just now.
  void Write(const ObjectKey& key, std::uint64_t first, ByteSpan bytes);

  /// Removes the segments that a range of an object meets.
  void Drop(const ObjectKey& key, std::uint64_t offset, std::uint64_t size);

  /// Removes what was not used for longest until at most so many bytes of the disk are left.
  /// @errors kUnavailable: another process does that just now; kInternal
  Status Trim(std::uint64_t most_bytes);

  Result<Contents> List() const;

  const std::string& folder() const { return folder_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct Kept;

  DiskCache(std::string folder, std::uint64_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  std::string PathOf(const BlockFile& file) const;
  std::vector<Kept> Files() const;
  bool MakeRoom(std::uint64_t bytes);
  void WriteSegment(const BlockFile& file, std::uint64_t first, ByteSpan bytes);
  void StopWriting(int error);

  const std::string folder_;
  const std::uint64_t most_bytes_;
  std::atomic<bool> writes_ = true;
  std::mutex mutex_;        ///< guards the following
  std::uint64_t room_ = 0;  ///< [bytes] that may be written before the folder is looked at again
};

}  // namespace quarry::disk_cache
