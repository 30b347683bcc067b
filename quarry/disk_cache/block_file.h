#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/file.h"

/// The files of the cache on disk. A file has blocks of one segment of one object: a front that says which, a
/// table with an entry for each block, and the blocks in their places, with holes where none was written.
///
/// Nothing is renamed into place, and no order of writes matters: a block counts only if its entry has the
/// checksum of these bytes, of this object and this place. So whatever a killed process, a full disk or two
/// writers at a time leave is a block that is not there.
namespace quarry::disk_cache {

/// [bytes] of a block. Requests are widened to blocks: by about as much as the headers of an answer have.
inline constexpr std::uint64_t kBlock = 1 << 10;
/// Blocks of a segment: what one file has at most, and what is evicted at a time.
inline constexpr std::uint64_t kSegmentBlocks = 8192;
inline constexpr std::uint64_t kSegment = kBlock * kSegmentBlocks;

/// An object whose bytes never change: another content has another key.
struct ObjectKey {
  std::string url;         ///< without a query, which may hold a secret
  std::string content;     ///< a checksum, or a version
  std::uint64_t size = 0;  ///< [bytes]

  std::string Text() const;
};

/// Blocks from `begin` to `end`.
struct BlockRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

/// One segment of an object in its file.
class BlockFile {
 public:
  BlockFile(const ObjectKey& key, std::uint64_t segment);

  /// The name of the file, from a hash of the key: two objects may have the same.
  const std::string& name() const { return name_; }

  /// Copies what a range of the object has in this segment.
  /// @param fd       open for reading
  /// @param offset   in the object; it lies in this segment
  /// @param out      within this segment
  /// @param missing  gets the blocks that are not there
  /// @returns blocks that were written once and are damaged now; they are missing
  std::uint64_t Read(int fd, std::uint64_t offset, std::span<std::byte> out,
                     std::vector<BlockRun>* missing) const;

  /// Writes whole blocks.
  /// @param first  number of the first in the object, in this segment
  /// @returns errno; 0: written, or the file is that of another object
  int Write(int fd, std::uint64_t first, ByteSpan bytes) const;

  /// The URL in the front of a file; empty: it has no undamaged front.
  static std::string UrlOf(int fd);

 private:
  std::uint64_t BlockBytes(std::uint64_t block) const;
  std::uint64_t IdOf(std::uint64_t block) const;
  Bytes Front() const;
  bool IsOurs(int fd) const;
  bool ReadBlocks(int fd, std::uint64_t offset, ByteSpan entries, std::span<std::byte> out) const;

  const ObjectKey& key_;
  const std::uint64_t segment_;
  std::string text_;
  std::uint64_t hash_;
  std::string name_;
};

}  // namespace quarry::disk_cache
