#include "quarry/disk_cache/block_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "quarry/base/checksum.h"

namespace quarry::disk_cache {
namespace {

/// The front: signature u64, length of the text u32, zeros u32, the text, XXH3 of all of these.
constexpr std::uint64_t kFront = 4096;
constexpr std::uint64_t kSignature = 0x0031'4b43'4c42'5251;  // "QRBLCK1"
/// An entry of the table: what tells the block from all others, and XXH3 of its bytes.
constexpr std::uint64_t kEntry = 16;
constexpr std::uint64_t kData = kFront + kEntry * kSegmentBlocks;

/// [bytes] that were there.
std::uint64_t ReadSome(int fd, std::uint64_t offset, std::span<std::byte> out) {
  std::uint64_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return done;
}

/// @returns errno
int WriteAll(int fd, std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

void Miss(std::uint64_t block, std::vector<BlockRun>* missing) {
  if (!missing->empty() && missing->back().end == block) {
    ++missing->back().end;
  } else {
    missing->push_back({block, block + 1});
  }
}

}  // namespace

std::string ObjectKey::Text() const { return fmt::format("{}\n{}\n{}", url, size, content); }

BlockFile::BlockFile(const ObjectKey& key, std::uint64_t segment)
    : key_(key), segment_(segment), text_(fmt::format("{}\n{}", key.Text(), segment)) {
  hash_ = Checksum(std::as_bytes(std::span(text_)));
  name_ = ChecksumText(hash_);
}

/// The last block of an object may be shorter.
std::uint64_t BlockFile::BlockBytes(std::uint64_t block) const {
  return std::min(kBlock, key_.size - block * kBlock);
}

/// Never 0, which is what a hole has.
std::uint64_t BlockFile::IdOf(std::uint64_t block) const {
  std::byte bytes[16];
  StoreLittleEndian(hash_, bytes);
  StoreLittleEndian(block, bytes + 8);
  return Checksum(bytes) | 1;
}

Bytes BlockFile::Front() const {
  Bytes front;
  PutLittleEndian(&front, kSignature);
  PutLittleEndian(&front, static_cast<std::uint32_t>(text_.size()));
  PutLittleEndian(&front, std::uint32_t{0});
  const auto text = std::as_bytes(std::span(text_));
  front.insert(front.end(), text.begin(), text.end());
  PutLittleEndian(&front, Checksum(front));
  return front;
}

/// Whether the front is that of this object and segment, and not of another one with the same hash.
bool BlockFile::IsOurs(int fd) const {
  const Bytes wanted = Front();
  Bytes found(wanted.size());
  return ReadSome(fd, 0, found) == found.size() && found == wanted;
}

std::string BlockFile::UrlOf(int fd) {
  Bytes front(kFront);
  front.resize(ReadSome(fd, 0, front));
  constexpr std::size_t kText = 16, kSum = 8;
  if (front.size() < kText + kSum || GetLittleEndian<std::uint64_t>(front.data()) != kSignature) return {};
  const auto length = GetLittleEndian<std::uint32_t>(front.data() + 8);
  if (length > front.size() - kText - kSum) return {};
  const ByteSpan checked = ByteSpan(front).first(kText + length);
  if (Checksum(checked) != GetLittleEndian<std::uint64_t>(front.data() + checked.size())) return {};
  const std::string text(reinterpret_cast<const char*>(front.data()) + kText, length);
  return text.substr(0, text.find('\n'));
}

/// Reads blocks that lie one after the other, and compares each with its entry.
/// @param entries  of these blocks
/// @param out      whole blocks
/// @returns false: not all of them are right
bool BlockFile::ReadBlocks(int fd, std::uint64_t offset, ByteSpan entries, std::span<std::byte> out) const {
  if (ReadSome(fd, kData + offset - segment_ * kSegment, out) != out.size()) return false;
  for (std::size_t at = 0, e = 0; at < out.size(); at += kBlock, e += kEntry) {
    const auto block = ByteSpan(out).subspan(at, std::min<std::uint64_t>(kBlock, out.size() - at));
    if (GetLittleEndian<std::uint64_t>(entries.data() + e + 8) != Checksum(block)) return false;
  }
  return true;
}

std::uint64_t BlockFile::Read(int fd, std::uint64_t offset, std::span<std::byte> out,
                              std::vector<BlockRun>* missing) const {
  const std::uint64_t first = offset / kBlock, end = (offset + out.size() - 1) / kBlock + 1;
  Bytes entries((end - first) * kEntry);
  const bool ours = IsOurs(fd);
  if (ours) ReadSome(fd, kFront + kEntry * (first - segment_ * kSegmentBlocks), entries);
  const auto written = [&](std::uint64_t block) {
    return ours && GetLittleEndian<std::uint64_t>(entries.data() + (block - first) * kEntry) == IdOf(block);
  };
  const auto whole = [&](std::uint64_t block) {
    return block * kBlock >= offset && block * kBlock + BlockBytes(block) <= offset + out.size();
  };
  std::uint64_t damaged = 0;
  Bytes edge;
  for (std::uint64_t block = first; block < end;) {
    if (!written(block)) {
      Miss(block++, missing);
      continue;
    }
    // Whole blocks are read to where they are wanted, as many as possible with one call.
    std::uint64_t next = block + 1;
    if (whole(block)) {
      while (next < end && whole(next) && written(next)) ++next;
    }
    const auto entry = [&](std::uint64_t b) { return ByteSpan(entries).subspan((b - first) * kEntry); };
    if (whole(block)) {
      const std::uint64_t bytes = (next - 1 - block) * kBlock + BlockBytes(next - 1);
      const auto to = out.subspan(block * kBlock - offset, bytes);
      if (!ReadBlocks(fd, block * kBlock, entry(block), to)) {
        for (std::uint64_t b = block; b < next; ++b) {
          if (ReadBlocks(fd, b * kBlock, entry(b), to.subspan((b - block) * kBlock, BlockBytes(b)))) continue;
          Miss(b, missing);
          ++damaged;
        }
      }
    } else {
      edge.resize(BlockBytes(block));
      if (ReadBlocks(fd, block * kBlock, entry(block), edge)) {
        const std::uint64_t from = std::max(offset, block * kBlock);
        const std::uint64_t to = std::min<std::uint64_t>(offset + out.size(), block * kBlock + edge.size());
        std::memcpy(out.data() + (from - offset), edge.data() + (from - block * kBlock), to - from);
      } else {
        Miss(block, missing);
        ++damaged;
      }
    }
    block = next;
  }
  return damaged;
}

int BlockFile::Write(int fd, std::uint64_t first, ByteSpan bytes) const {
  const Bytes front = Front();
  if (front.size() > kFront) return 0;
  if (!IsOurs(fd)) {
    if (!UrlOf(fd).empty()) return 0;
    if (const int error = WriteAll(fd, 0, front); error != 0) return error;
  }
  const std::uint64_t in_segment = first - segment_ * kSegmentBlocks;
  Bytes entries;
  for (std::uint64_t at = 0, block = first; at < bytes.size(); at += kBlock, ++block) {
    PutLittleEndian(&entries, IdOf(block));
    PutLittleEndian(&entries,
                    Checksum(bytes.subspan(at, std::min<std::uint64_t>(kBlock, bytes.size() - at))));
  }
  if (const int error = WriteAll(fd, kData + in_segment * kBlock, bytes); error != 0) return error;
  return WriteAll(fd, kFront + in_segment * kEntry, entries);
}

}  // namespace quarry::disk_cache
