// NumPy's .npz: arrays in a zip archive, stored or deflated, each a variable.
// Source: PKWARE, APPNOTE.TXT, .ZIP File Format Specification 6.3

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "quarry/base/file.h"
#include "quarry/input/dense.h"
#include "quarry/input/npy.h"

namespace quarry::input::internal {
namespace {

/// A file in the archive.
struct Entry {
  std::string name;
  bool deflated = false;
  bool readable = true;  ///< stored or deflated, and not encrypted
  std::uint32_t checksum = 0;
  std::uint64_t packed = 0;  ///< bytes in the archive
  std::uint64_t size = 0;    ///< bytes of the file
  std::uint64_t offset = 0;  ///< offset of its header
};

class Archive {
 public:
  explicit Archive(const RandomAccessFile& file) : file_(file) {}

  Result<std::vector<Entry>> List() const {
    QUARRY_ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
    constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
    if (directory.offset > file_.size() || directory.bytes > file_.size() - directory.offset ||
        directory.bytes > kMost)
      return Damaged("its directory of {} bytes at byte {} is not there", directory.bytes, directory.offset);
    Bytes bytes(static_cast<std::size_t>(directory.bytes));
    if (!bytes.empty()) QUARRY_RETURN_IF_ERROR(file_.ReadAt(directory.offset, bytes));
    std::vector<Entry> entries;
    for (std::size_t at = 0; at < bytes.size();) {
      QUARRY_ASSIGN_OR_RETURN(Entry entry, ReadEntry(std::span(bytes).subspan(at), &at));
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  /// Where the bytes of a file begin.
  Result<std::uint64_t> BeginOf(const Entry& entry) const {
    Bytes header(30);
    if (entry.offset > file_.size() || file_.size() - entry.offset < header.size())
      return Damaged("the header of {} at byte {} is not there", entry.name, entry.offset);
    QUARRY_RETURN_IF_ERROR(file_.ReadAt(entry.offset, header));
    if (GetLittleEndian<std::uint32_t>(header.data()) != 0x04034b50)
      return Damaged("there is no header of {} at byte {}", entry.name, entry.offset);
    const std::uint64_t begin = entry.offset + header.size() +
                                GetLittleEndian<std::uint16_t>(header.data() + 26) +
                                GetLittleEndian<std::uint16_t>(header.data() + 28);
    if (begin > file_.size() || entry.packed > file_.size() - begin)
      return Damaged("{} has {} bytes from byte {} on, more than the file", entry.name, entry.packed, begin);
    return begin;
  }

 private:
  struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  template <typename... Args>
  Status Damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return DataLoss("\"{}\" is not a complete .npz file: {}; fetch it again", file_.path(),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  /// The record at the end of an archive, behind which only a comment follows.
  Result<Directory> FindDirectory() const {
    constexpr std::size_t kRecord = 22;
    const std::uint64_t begin = file_.size() - std::min<std::uint64_t>(file_.size(), kRecord + 0xffff);
    Bytes tail(static_cast<std::size_t>(file_.size() - begin));
    if (!tail.empty()) QUARRY_RETURN_IF_ERROR(file_.ReadAt(begin, tail));
    for (std::size_t left = kRecord; left <= tail.size(); ++left) {
      const std::byte* record = tail.data() + tail.size() - left;
      if (GetLittleEndian<std::uint32_t>(record) != 0x06054b50) continue;
      const Directory directory = {GetLittleEndian<std::uint32_t>(record + 16),
                                   GetLittleEndian<std::uint32_t>(record + 12)};
      const std::uint64_t at = file_.size() - left;
      return directory.offset == UINT32_MAX || directory.bytes == UINT32_MAX ? FindLargeDirectory(at)
                                                                             : Result<Directory>(directory);
    }
    return Damaged("it has no directory at its end");
  }

  /// The same in an archive of more than 4 GiB: 20 bytes before the record lies the place of a larger one.
  Result<Directory> FindLargeDirectory(std::uint64_t record) const {
    Bytes locator(20);
    Bytes large(56);
    if (record < locator.size()) return Damaged("it has no directory of 64 bits");
    QUARRY_RETURN_IF_ERROR(file_.ReadAt(record - locator.size(), locator));
    const auto at = GetLittleEndian<std::uint64_t>(locator.data() + 8);
    if (GetLittleEndian<std::uint32_t>(locator.data()) != 0x07064b50 || at > file_.size() ||
        file_.size() - at < large.size())
      return Damaged("it has no directory of 64 bits");
    QUARRY_RETURN_IF_ERROR(file_.ReadAt(at, large));
    if (GetLittleEndian<std::uint32_t>(large.data()) != 0x06064b50)
      return Damaged("it has no directory of 64 bits at byte {}", at);
    return Directory{GetLittleEndian<std::uint64_t>(large.data() + 48),
                     GetLittleEndian<std::uint64_t>(large.data() + 40)};
  }

  Result<Entry> ReadEntry(std::span<const std::byte> bytes, std::size_t* at) const {
    constexpr std::size_t kHeader = 46;
    if (bytes.size() < kHeader || GetLittleEndian<std::uint32_t>(bytes.data()) != 0x02014b50)
      return Damaged("byte {} of its directory is not an entry", *at);
    Entry entry;
    const auto flags = GetLittleEndian<std::uint16_t>(bytes.data() + 8);
    const auto method = GetLittleEndian<std::uint16_t>(bytes.data() + 10);
    entry.deflated = method == 8;
    entry.readable = (method == 0 || method == 8) && (flags & 1) == 0;
    entry.checksum = GetLittleEndian<std::uint32_t>(bytes.data() + 16);
    entry.packed = GetLittleEndian<std::uint32_t>(bytes.data() + 20);
    entry.size = GetLittleEndian<std::uint32_t>(bytes.data() + 24);
    entry.offset = GetLittleEndian<std::uint32_t>(bytes.data() + 42);
    const std::size_t name = GetLittleEndian<std::uint16_t>(bytes.data() + 28);
    const std::size_t extra = GetLittleEndian<std::uint16_t>(bytes.data() + 30);
    const std::size_t comment = GetLittleEndian<std::uint16_t>(bytes.data() + 32);
    if (bytes.size() - kHeader < name + extra + comment)
      return Damaged("byte {} of its directory is not an entry", *at);
    entry.name.assign(reinterpret_cast<const char*>(bytes.data()) + kHeader, name);
    TakeLargeNumbers(bytes.subspan(kHeader + name, extra), &entry);
    *at += kHeader + name + extra + comment;
    return entry;
  }

  /// Numbers that do not fit into 32 bits follow in a field of their own, in this order.
  static void TakeLargeNumbers(std::span<const std::byte> extra, Entry* entry) {
    while (extra.size() >= 4) {
      const auto kind = GetLittleEndian<std::uint16_t>(extra.data());
      const std::size_t size =
          std::min<std::size_t>(GetLittleEndian<std::uint16_t>(extra.data() + 2), extra.size() - 4);
      std::span<const std::byte> field = extra.subspan(4, size);
      extra = extra.subspan(4 + size);
      if (kind != 1) continue;
      for (std::uint64_t* number : {&entry->size, &entry->packed, &entry->offset}) {
        if (*number != UINT32_MAX || field.size() < 8) continue;
        *number = GetLittleEndian<std::uint64_t>(field.data());
        field = field.subspan(8);
      }
    }
  }

  const RandomAccessFile& file_;
};

/// A deflated file. Bytes come from front to back: what lies before the last ones that were read is unpacked
/// anew.
class InflatedBytes final : public SampleBytes {
 public:
  InflatedBytes(std::shared_ptr<const RandomAccessFile> file, Entry entry, std::uint64_t begin,
                std::uint64_t header)
      : file_(std::move(file)), entry_(std::move(entry)), begin_(begin), header_(header) {}
  ~InflatedBytes() override { End(); }
  InflatedBytes(const InflatedBytes&) = delete;
  InflatedBytes& operator=(const InflatedBytes&) = delete;

  Status ReadAt(std::uint64_t position, std::span<std::byte> out) const override {
    const std::uint64_t wanted = header_ + position;
    if (!running_ || wanted < produced_) QUARRY_RETURN_IF_ERROR(Restart());
    Bytes skipped(
        static_cast<std::size_t>(std::min<std::uint64_t>(wanted - produced_, std::uint64_t{1} << 18)));
    while (produced_ < wanted) {
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(skipped.size(), wanted - produced_));
      QUARRY_RETURN_IF_ERROR(Produce(std::span(skipped).first(bytes)));
    }
    return Produce(out);
  }

 private:
  Status Restart() const {
    End();
    stream_ = {};
    // A stream without zlib's own header.
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK)
      return InternalError("no memory to unpack {}", entry_.name);
    running_ = true;
    consumed_ = 0;
    produced_ = 0;
    checksum_ = crc32(0, nullptr, 0);
    return Status::Ok();
  }

  void End() const {
    if (running_) inflateEnd(&stream_);
    running_ = false;
  }

  Status Produce(std::span<std::byte> out) const {
    for (std::size_t done = 0; done < out.size();) {
      if (stream_.avail_in == 0) QUARRY_RETURN_IF_ERROR(Feed());
      constexpr std::size_t kMost = std::size_t{1} << 30;
      const std::size_t room = std::min(out.size() - done, kMost);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int error = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = room - stream_.avail_out;
      checksum_ =
          crc32(checksum_, reinterpret_cast<const Bytef*>(out.data() + done), static_cast<uInt>(made));
      done += made;
      produced_ += made;
      const bool more_input = error == Z_BUF_ERROR && stream_.avail_in == 0 && consumed_ < entry_.packed;
      if (error != Z_OK && error != Z_STREAM_END && !more_input)
        return Damaged(fmt::format("zlib says {}", error));
      if (error == Z_STREAM_END && done < out.size()) return Damaged("it ends early");
    }
    if (produced_ == entry_.size && checksum_ != entry_.checksum) return Damaged("its checksum is wrong");
    return Status::Ok();
  }

  Status Feed() const {
    input_.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(entry_.packed - consumed_, std::uint64_t{1} << 18)));
    if (input_.empty()) return Damaged("it ends early");
    QUARRY_RETURN_IF_ERROR(file_->ReadAt(begin_ + consumed_, input_));
    consumed_ += input_.size();
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(input_.size());
    return Status::Ok();
  }

  Status Damaged(const std::string& why) const {
    End();
    return DataLoss("\"{}\": {} cannot be unpacked behind byte {}: {}; fetch the file again", file_->path(),
                    entry_.name, produced_, why);
  }

  std::shared_ptr<const RandomAccessFile> file_;
  Entry entry_;
  std::uint64_t begin_;
  std::uint64_t header_;
  mutable z_stream stream_{};
  mutable bool running_ = false;
  mutable Bytes input_;
  mutable std::uint64_t consumed_ = 0;  ///< packed bytes that were handed to zlib
  mutable std::uint64_t produced_ = 0;
  mutable uLong checksum_ = 0;
};

Result<Bytes> ReadStart(const std::shared_ptr<const RandomAccessFile>& file, const Entry& entry,
                        std::uint64_t begin) {
  Bytes start;
  // Most headers have 128 bytes; the first ones say how many there are.
  for (const std::size_t most : {std::size_t{4096}, kMostNpyHeader}) {
    start.resize(static_cast<std::size_t>(std::min<std::uint64_t>(entry.size, most)));
    if (start.empty()) return start;
    if (entry.deflated) {
      QUARRY_RETURN_IF_ERROR(InflatedBytes(file, entry, begin, 0).ReadAt(0, start));
    } else {
      QUARRY_RETURN_IF_ERROR(file->ReadAt(begin, start));
    }
    if (NpyHeaderBytes(start) <= start.size()) break;
  }
  return start;
}

/// @returns nothing for a file of the archive that is not an array
Result<std::optional<NpyArray>> ReadArray(const std::shared_ptr<const RandomAccessFile>& file,
                                          const Archive& archive, const Entry& entry) {
  const std::string& path = file->path();
  if (!entry.name.ends_with(".npy") || !entry.readable) return std::optional<NpyArray>();
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t begin, archive.BeginOf(entry));
  if (!entry.deflated && entry.packed != entry.size)
    return DataLoss("\"{}\": {} has {} bytes and {}; fetch the file again", path, entry.name, entry.packed,
                    entry.size);
  // Memory is taken for samples that can be there: two bits become at most 258 bytes.
  if (entry.deflated && entry.size / 1032 > entry.packed)
    return DataLoss("\"{}\": {} cannot have {} bytes packed into {}; fetch the file again", path, entry.name,
                    entry.size, entry.packed);
  QUARRY_ASSIGN_OR_RETURN(const Bytes start, ReadStart(file, entry, begin));
  const std::optional<NpyHeader> header = ParseNpy(start);
  if (!header) return std::optional<NpyArray>();
  const std::string name = entry.name.substr(0, entry.name.size() - 4);
  NpyArray array = {name, name, *header, entry.size, nullptr};
  if (entry.deflated) {
    array.samples = std::make_shared<InflatedBytes>(file, entry, begin, header->bytes);
  } else {
    array.samples = std::make_shared<FileBytes>(file, std::vector<Segment>{{0, begin + header->bytes}});
  }
  return std::optional(std::move(array));
}

/// Metadata that an export has left in the archive.
Result<std::optional<Exported>> ReadExported(const std::shared_ptr<const RandomAccessFile>& file,
                                             const Archive& archive, const std::vector<Entry>& entries) {
  const auto entry = std::ranges::find(entries, "quarry.json", &Entry::name);
  if (entry == entries.end() || entry->deflated) return std::optional<Exported>();
  QUARRY_RETURN_IF_ERROR(CheckExportedSize(entry->size, entry->name));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t begin, archive.BeginOf(*entry));
  std::string text(static_cast<std::size_t>(std::min(entry->size, entry->packed)), '\0');
  QUARRY_RETURN_IF_ERROR(file->ReadAt(begin, std::as_writable_bytes(std::span(text))));
  return ParseExported(text);
}

}  // namespace

Result<Inputs> OpenNpz(const InputName& name, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const RandomAccessFile> file, OpenShared(name.file));
  const Archive archive(*file);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Entry> entries, archive.List());
  std::vector<NpyArray> arrays;
  for (const Entry& entry : entries) {
    QUARRY_ASSIGN_OR_RETURN(std::optional<NpyArray> array, ReadArray(file, archive, entry));
    if (array) arrays.push_back(*std::move(array));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::optional<Exported> exported, ReadExported(file, archive, entries));
  return OpenNpyArrays(name, options, std::move(arrays), file->size(), exported);
}

}  // namespace quarry::input::internal
