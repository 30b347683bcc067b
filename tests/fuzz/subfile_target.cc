// Hostile headers, footers and patch tables of subfiles. Checksums would keep a fuzzer out, so the first byte
// selects which of them are corrected, and whether sizes are too. Header, footer and table follow.

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile.h"
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

void CheckTable(ByteSpan table, const SubfileHeader& header, const SubfileFooter& footer) {
  const Result<std::vector<PatchEntry>> rows = format::DecodePatchTable(table, header, footer);
  if (!rows.ok()) return;
  Bytes again;
  for (const PatchEntry& row : *rows) {
    row.EncodeTo(&again);  // bytes of equal rows
    Require(row.levels.size() == static_cast<std::size_t>(header.levels), "a row has every level");
    for (const format::LevelEntry& level : row.levels) {
      Require(level.offset >= format::HeaderSize(header.version) && level.offset <= footer.table_offset &&
                  level.size <= footer.table_offset - level.offset,
              "payloads lie between header and table");
    }
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
  const Bytes table(bytes.begin(), bytes.end());
  if (footer_bytes.size() == SubfileFooter::kEncodedSize) {
    if ((repairs & kRepairSizes) != 0) RepairSizes(table.size(), &header_bytes, &footer_bytes);
    if ((repairs & kRepairTable) != 0) PutAt(Checksum(table), 16, &footer_bytes);
    if ((repairs & kRepairFooter) != 0) PutAt(Checksum(ByteSpan(footer_bytes).first(32)), 32, &footer_bytes);
  }
  if (header_bytes.size() == SubfileHeader::kEncodedSize && (repairs & kRepairHeader) != 0)
    RepairHeader(&header_bytes);

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
  if (header.ok() && footer.ok()) CheckTable(table, *header, *footer);
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quarry::fuzz::TestSubfile(std::as_bytes(std::span(data, size)));
  return 0;
}
