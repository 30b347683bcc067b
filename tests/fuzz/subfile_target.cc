// Hostile headers, footers and patch tables of subfiles. Checksums would keep a fuzzer out, so the first byte
// selects which of them are corrected, and whether sizes are too. Header, footer and table follow.

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile_table.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/repair.h"

namespace quarry::fuzz {
namespace {

using format::PatchEntry;
using format::SubfileFooter;
using format::SubfileHeader;

constexpr unsigned kRepairHeader = 1;
constexpr unsigned kRepairFooter = 2;
constexpr unsigned kRepairTable = 4;
constexpr unsigned kRepairSizes = 8;

void RepairSizes(std::size_t table_size, Bytes* header, Bytes* footer) {
  const int levels = std::max(1, std::to_integer<int>((*header)[47]));
  // Rows of version 4 have no size of their own.
  if (VersionOf(*header) < 4)
    PutAt<std::uint64_t>(table_size / PatchEntry::EncodedSize(levels, VersionOf(*header)), 56, header);
  const auto offset = GetLittleEndian<std::uint64_t>(footer->data());
  PutAt<std::uint64_t>(table_size, 8, footer);
  PutAt<std::uint64_t>(offset + table_size + SubfileFooter::kEncodedSize, 24, footer);
}

/// A subfile without its payload: nobody reads that here.
class FileWithoutPayload final : public StoredObject {
 public:
  FileWithoutPayload(ByteSpan header, ByteSpan table, ByteSpan footer, const SubfileFooter& places)
      : header_(header), table_(table), footer_(footer), places_(places) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return places_.file_size; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::uint64_t footer = places_.file_size - SubfileFooter::kEncodedSize;
    if (offset == 0) return Copy(header_, 0, out);
    if (offset >= footer) return Copy(footer_, offset - footer, out);
    Require(offset >= places_.table_offset, "only header, table and footer are read");
    return Copy(table_, offset - places_.table_offset, out);
  }

 private:
  static Status Copy(ByteSpan from, std::uint64_t offset, std::span<std::byte> out) {
    if (offset > from.size() || out.size() > from.size() - offset) return DataLoss("the end of the file");
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return Status::Ok();
  }

  const std::string path_ = "a.qsf";
  const ByteSpan header_;
  const ByteSpan table_;
  const ByteSpan footer_;
  const SubfileFooter places_;
};

void CheckRow(const PatchEntry& row, const SubfileHeader& header, const SubfileFooter& footer) {
  Require(row.levels.size() == static_cast<std::size_t>(header.parts().count()), "a row has every level");
  for (const format::LevelEntry& level : row.levels) {
    Require(level.offset >= format::HeaderSize(header.version) && level.offset <= footer.table_offset &&
                level.size <= footer.table_offset - level.offset,
            "payloads lie between header and table");
  }
}

/// Rows of blocks are as safe as those of a whole table, even if the blocks lie.
void WalkTable(const std::shared_ptr<const FileWithoutPayload>& file, const SubfileHeader& header,
               const SubfileFooter& footer) {
  Result<format::SubfileTable> table = format::ReadSubfileTable(*file);
  if (!table.ok()) return;
  const PatchGrid grid = *PatchGrid::Create(header.dims, header.patch);
  format::TableWalk walk(std::make_shared<const format::SubfileTable>(*std::move(table)), file);
  std::uint64_t rows = 0;
  std::uint64_t next = 0;
  for (std::uint64_t block = 0; block < walk.blocks(); ++block) {
    if (!walk.GoTo(block).ok()) continue;
    for (const PatchEntry& row : walk.rows()) {
      CheckRow(row, header, footer);
      const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
      Require(code >= next && code < walk.end_code(), "codes ascend");
      next = code + 1;
      ++rows;
    }
    Require(walk.Seek(next - 1).ok() && walk.block() == block, "a code is found where its row is");
  }
  Require(rows <= header.patch_count, "no more rows than the header says");
}

void CheckTable(ByteSpan table, const SubfileHeader& header, const SubfileFooter& footer) {
  if (header.block_bits > 0) return;
  const Result<std::vector<PatchEntry>> rows = format::DecodePatchTable(table, header, footer);
  if (!rows.ok()) return;
  Bytes again;
  for (const PatchEntry& row : *rows) {
    row.EncodeTo(&again);  // bytes of equal rows
    CheckRow(row, header, footer);
  }
  // Older versions are no longer written.
  if (header.version != format::kMajorVersion) return;
  const PatchGrid grid = *PatchGrid::Create(header.dims, header.patch);
  const Bytes shortest = format::EncodePatchTable(*rows, grid);
  Require(shortest.size() <= table.size(), "no table is shorter than what the encoder makes of it");
  SubfileFooter found = footer;
  found.table_size = shortest.size();
  found.table_checksum = Checksum(shortest);
  const Result<std::vector<PatchEntry>> same = format::DecodePatchTable(shortest, header, found);
  Require(same.ok(), "what the encoder makes is a table");
  Bytes encoded;
  for (const PatchEntry& row : *same) row.EncodeTo(&encoded);
  Require(encoded == again, "rows come back");
}

void TestSubfile(ByteSpan bytes) {
  if (bytes.empty()) return;
  const auto repairs = std::to_integer<unsigned>(bytes[0]);
  bytes = bytes.subspan(1);
  const auto take = [&](std::size_t size) {
    const ByteSpan part = bytes.first(std::min(size, bytes.size()));
    bytes = bytes.subspan(part.size());
    return Bytes(part.begin(), part.end());
  };
  Bytes header_bytes = take(SubfileHeader::kEncodedSize);
  Bytes footer_bytes = take(SubfileFooter::kEncodedSize);
  Bytes table(bytes.begin(), bytes.end());
  const bool whole_header = header_bytes.size() == SubfileHeader::kEncodedSize;
  if (whole_header && footer_bytes.size() == SubfileFooter::kEncodedSize) {
    if ((repairs & kRepairSizes) != 0) RepairSizes(table.size(), &header_bytes, &footer_bytes);
    if ((repairs & kRepairHeader) != 0) RepairHeader(&header_bytes);
    const Result<SubfileHeader> blocks = SubfileHeader::DecodeFrom(header_bytes);
    if ((repairs & kRepairTable) != 0)
      PutAt(blocks.ok() ? RepairTable(*blocks, GetLittleEndian<std::uint64_t>(footer_bytes.data()), table)
                        : Checksum(table),
            16, &footer_bytes);
    if ((repairs & kRepairFooter) != 0) PutAt(Checksum(ByteSpan(footer_bytes).first(32)), 32, &footer_bytes);
  }
  const Result<SubfileHeader> header = SubfileHeader::DecodeFrom(header_bytes);
  if (header.ok()) {
    Bytes again;
    header->EncodeTo(&again);
    const Result<SubfileHeader> decoded = SubfileHeader::DecodeFrom(again);
    SubfileHeader expected = *header;
    expected.version = format::kMajorVersion;
    Require(decoded.ok() && *decoded == expected, "a header comes back");
  }
  const Result<SubfileFooter> footer = SubfileFooter::DecodeFrom(footer_bytes);
  if (!header.ok() || !footer.ok()) return;
  CheckTable(table, *header, *footer);
  WalkTable(std::make_shared<const FileWithoutPayload>(header_bytes, table, footer_bytes, *footer), *header,
            *footer);
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quarry::fuzz::TestSubfile(std::as_bytes(std::span(data, size)));
  return 0;
}
