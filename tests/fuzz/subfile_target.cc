// Hostile headers, footers and patch tables of subfiles. Checksums would keep a fuzzer out: the first byte
// says which of them are made good, and whether sizes are too. Then come header, footer and table.

#include <algorithm>
#include <cstring>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile.h"
#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {
namespace {

using format::PatchEntry;
using format::SubfileFooter;
using format::SubfileHeader;

constexpr unsigned kRepairHeader = 1;
constexpr unsigned kRepairFooter = 2;
constexpr unsigned kRepairTable = 4;
constexpr unsigned kRepairSizes = 8;

template <typename T>
void Put(T value, std::size_t at, Bytes* bytes) {
  Bytes encoded;
  PutLittleEndian(&encoded, value);
  std::copy(encoded.begin(), encoded.end(), bytes->begin() + static_cast<std::ptrdiff_t>(at));
}

void RepairSizes(std::size_t table_size, Bytes* header, Bytes* footer) {
  const std::size_t levels = std::max<std::size_t>(1, std::to_integer<std::size_t>((*header)[47]));
  Put<std::uint64_t>(table_size / PatchEntry::EncodedSize(static_cast<int>(levels)), 56, header);
  const auto offset = GetLittleEndian<std::uint64_t>(footer->data());
  Put<std::uint64_t>(table_size, 8, footer);
  Put<std::uint64_t>(offset + table_size + SubfileFooter::kEncodedSize, 24, footer);
}

void CheckTable(ByteSpan table, const SubfileHeader& header, const SubfileFooter& footer) {
  const Result<std::vector<PatchEntry>> rows = format::DecodePatchTable(table, header, footer);
  if (!rows.ok()) return;
  Bytes again;
  for (const PatchEntry& row : *rows) {
    row.EncodeTo(&again);
    Require(row.levels.size() == static_cast<std::size_t>(header.levels), "a row has every level");
    for (const format::LevelEntry& level : row.levels) {
      Require(level.offset >= SubfileHeader::kEncodedSize && level.offset <= footer.table_offset &&
                  level.size <= footer.table_offset - level.offset,
              "payloads lie between header and table");
    }
  }
  Require(again.size() == table.size() && std::equal(again.begin(), again.end(), table.begin()),
          "a table encodes to what it was");
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
    if ((repairs & kRepairTable) != 0) Put(Checksum(table), 16, &footer_bytes);
    if ((repairs & kRepairFooter) != 0) Put(Checksum(ByteSpan(footer_bytes).first(32)), 32, &footer_bytes);
  }
  if (header_bytes.size() == SubfileHeader::kEncodedSize && (repairs & kRepairHeader) != 0)
    Put(Checksum(ByteSpan(header_bytes).first(128)), 128, &header_bytes);

  const Result<SubfileHeader> header = SubfileHeader::DecodeFrom(header_bytes);
  if (header.ok()) {
    Bytes again;
    header->EncodeTo(&again);
    const Result<SubfileHeader> decoded = SubfileHeader::DecodeFrom(again);
    Require(decoded.ok() && *decoded == *header, "a header comes back");
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
