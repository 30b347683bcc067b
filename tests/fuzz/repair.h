#pragma once

#include <cstring>
#include <span>
#include <string>

#include "quarry/base/checksum.h"
#include "quarry/base/numbers.h"
#include "quarry/format/step_sections.h"
#include "quarry/format/table_index.h"

/// Corrects checksums, which would keep a fuzzer out, as docs/format.md and docs/protocol.md say how they are
/// computed.
namespace quarry::fuzz {

template <typename T>
void PutAt(T value, std::size_t at, Bytes* bytes) {
  Bytes encoded;
  PutLittleEndian(&encoded, value);
  std::copy(encoded.begin(), encoded.end(), bytes->begin() + static_cast<std::ptrdiff_t>(at));
}

/// Repairs the checksum of a manifest: the last one in the text, computed with zeros in its place.
inline void RepairManifest(std::string* text) {
  const std::string key = "\"checksum\": \"";
  const std::size_t at = text->rfind(key);
  if (at == std::string::npos || at + key.size() + 16 > text->size()) return;
  text->replace(at + key.size(), 16, 16, '0');
  text->replace(at + key.size(), 16, ChecksumText(Checksum(std::as_bytes(std::span(*text)))));
}

/// Repairs the checksums in a step.json in sections: of these, then of the root. Text that is none stays as
/// it is.
inline void RepairSections(std::string* text) {
  const auto root_bytes = format::IsInSections(*text) ? format::RootBytes(*text) : Result<std::uint64_t>(0);
  if (!root_bytes.ok() || *root_bytes == 0 || *root_bytes > text->size()) return;
  const auto put = [&](std::size_t at, ByteSpan bytes) {
    text->replace(at, 16, ChecksumText(Checksum(bytes)));
  };
  const auto bytes_of = [&](std::size_t begin, std::size_t size) {
    return std::as_bytes(std::span(*text)).subspan(begin, size);
  };
  const std::string size_key = "{\"bytes\":\"";
  const std::string checksum_key = "\",\"checksum\":\"";
  std::size_t begin = *root_bytes;
  for (std::size_t at = text->find(size_key); at < *root_bytes; at = text->find(size_key, at + 1)) {
    const std::size_t digits = at + size_key.size();
    const std::size_t end = text->find(checksum_key, digits);
    std::uint64_t size = 0;
    if (end >= *root_bytes || !ReadNumber(std::string_view(*text).substr(digits, end - digits), &size)) break;
    if (end + checksum_key.size() + 16 > *root_bytes || begin > text->size() || size > text->size() - begin)
      break;
    put(end + checksum_key.size(), bytes_of(begin, size));
    begin += size + 2;
  }
  const std::size_t own = text->find("\"root_checksum\":\"");
  if (own == std::string::npos || own + 34 > *root_bytes) return;
  text->replace(own + 17, 16, 16, '0');
  put(own + 17, bytes_of(0, *root_bytes));
}

/// Version in a header: those newer than the known ones state the header's size themselves.
inline std::uint16_t VersionOf(const Bytes& header) {
  return GetLittleEndian<std::uint16_t>(header.data() + 8);
}

/// @param bytes  the header is their beginning, and has at least its usual size
inline void RepairHeader(Bytes* bytes) {
  const std::uint16_t version = VersionOf(*bytes);
  const bool known = version >= 1 && version <= format::kMajorVersion;
  const std::size_t size =
      known ? format::HeaderSize(version) : GetLittleEndian<std::uint32_t>(bytes->data() + 12);
  if (size < sizeof(std::uint64_t) || size > bytes->size()) return;
  PutAt(Checksum(ByteSpan(*bytes).first(size - 8)), size - 8, bytes);
}

/// Repairs the checksums in a table in blocks, from the rows to the root. Blocks that do not lie in the table
/// stay as they are.
/// @param offset  of the table in its file
/// @returns what the footer must have: the checksum of the root, or of a table without blocks
inline std::uint64_t RepairTable(const format::SubfileHeader& header, std::uint64_t offset,
                                 std::span<std::byte> table) {
  format::SubfileFooter footer;
  footer.table_offset = offset;
  footer.table_size = table.size();
  const auto stages = format::TableStages::Of(header, footer);
  if (header.block_bits == 0 || !stages.ok()) return Checksum(table);
  const std::uint64_t entry_size = format::TableIndex::EntrySize(stages->runs);
  const auto checksum = [&](std::uint64_t begin, std::uint64_t end) {
    const bool inside = begin >= offset && begin <= end && end - offset <= table.size();
    return inside ? Checksum(table.subspan(begin - offset, end - begin)) : 0;
  };
  for (int stage = 0; stage < stages->root(); ++stage) {
    const std::uint64_t blocks = stages->blocks[static_cast<std::size_t>(stage)];
    std::byte* entry = table.data() + (stages->OffsetOf(stage + 1, 0) - offset);
    for (std::uint64_t block = 0; block < blocks; ++block, entry += entry_size) {
      const auto begin_of = [&](const std::byte* at) { return GetLittleEndian<std::uint64_t>(at + 8); };
      const bool last = block + 1 == blocks;
      const std::uint64_t begin = stage == 0 ? begin_of(entry) : stages->OffsetOf(stage, block);
      const std::uint64_t end = stage > 0 ? begin + stages->SizeOf(stage, block)
                                : last    ? stages->offsets[1]
                                          : begin_of(entry + entry_size);
      StoreLittleEndian(checksum(begin, end), entry + 16);
    }
  }
  const std::uint64_t root = stages->OffsetOf(stages->root(), 0);
  return checksum(root, root + stages->SizeOf(stages->root(), 0));
}

/// Repairs the checksum of a tile of a coded answer.
/// @param coded  the tile
inline void RepairTile(DataType type, const Index3& shape, std::span<char> coded) {
  if (coded.size() < sizeof(std::uint64_t)) return;
  const std::span<char> content = coded.first(coded.size() - sizeof(std::uint64_t));
  Bytes all;
  PutLittleEndian(&all, static_cast<std::uint8_t>(type));
  for (const std::int64_t side : shape) PutLittleEndian(&all, side);
  const ByteSpan bytes = std::as_bytes(content);
  all.insert(all.end(), bytes.begin(), bytes.end());
  Bytes checksum;
  PutLittleEndian(&checksum, Checksum(all));
  std::memcpy(content.data() + content.size(), checksum.data(), checksum.size());
}

}  // namespace quarry::fuzz
