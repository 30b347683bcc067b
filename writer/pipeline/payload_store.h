#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/file.h"
#include "quarry/base/status.h"

namespace quarry::writer {

/// Bytes that a rank keeps between encoding and writing: in memory up to a limit, the rest in an unnamed
/// file, which disappears with the process however it ends. One caller at a time.
class PayloadStore {
 public:
  /// @param folder  where the file goes, if one is needed: a file system with room for the encoded field
  PayloadStore(std::filesystem::path folder, std::uint64_t memory_limit)
      : folder_(std::move(folder)), memory_limit_(memory_limit) {}

  /// Keeps parts, one after the other, as one range.
  /// @returns the position for Read
  Result<std::uint64_t> Append(std::span<const ByteSpan> parts);
  /// Fills `out` with the bytes from `position` on; a range that was appended as one, or a part of it.
  Status Read(std::uint64_t position, std::span<std::byte> out) const;

  /// The same bytes where they are, or in `buffer` if they come from the file.
  Result<ByteSpan> View(std::uint64_t position, std::size_t size, Bytes* buffer) const;

  std::uint64_t spilled() const { return spilled_; }

 private:
  /// Where a position in memory lies.
  const std::byte* InMemory(std::uint64_t position) const;
  /// Memory for `size` bytes at the end of a segment.
  std::byte* Extend(std::size_t size);

  std::filesystem::path folder_;
  std::uint64_t memory_limit_;
  /// Segments, so that growing copies nothing; a range that was appended as one lies in one of them.
  std::vector<Bytes> segments_;
  std::vector<std::uint64_t> segment_begin_;
  std::uint64_t in_memory_ = 0;
  std::optional<TemporaryFile> file_;
  std::uint64_t spilled_ = 0;
};

}  // namespace quarry::writer
