// Whole hostile datasets: manifests, subfiles and masks behind right checksums, opened and asked everything.
// See dataset_input.h.

#include <map>

#include "quarry/dataset/verify.h"
#include "quarry/format/pack.h"
#include "tests/fuzz/ask_everything.h"
#include "tests/fuzz/dataset_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/repair.h"
#include "tests/testing/memory_storage.h"

namespace quarry::fuzz {
namespace {

using format::SubfileFooter;
using format::SubfileHeader;

/// New checksums of tables by the old ones, as they stand in manifests.
using TableChecksums = std::map<std::string, std::string>;

/// Checksums of payloads, in rows of one size.
void RepairEqualRows(const SubfileHeader& header, std::size_t begin, std::size_t footer, Bytes* bytes) {
  const int parts = header.parts().count();
  const std::size_t row_size = format::PatchEntry::EncodedSize(parts, header.version);
  const std::size_t level_size = format::LevelEntry::EncodedSize(header.version);
  for (std::size_t row = begin; row + row_size <= footer; row += row_size) {
    for (int part = 0; part < parts; ++part) {
      const std::size_t at = row + format::PatchEntry::EncodedSize(part, header.version);
      const auto offset = GetLittleEndian<std::uint64_t>(bytes->data() + at);
      const auto length = GetLittleEndian<std::uint32_t>(bytes->data() + at + 8);
      if (at + level_size > footer || offset > begin || length > begin - offset) continue;
      PutAt(Checksum(ByteSpan(*bytes).subspan(offset, length)), at + 16, bytes);
    }
  }
}

/// The same of a table that can be read. Its bytes stay as many, unless it has more than it needs.
void RepairShortRows(SubfileHeader header, std::size_t begin, std::size_t footer, Bytes* bytes) {
  SubfileFooter whole;
  whole.table_offset = begin;
  whole.table_size = footer - begin;
  const auto stages = format::TableStages::Of(header, whole);
  if (!stages.ok()) return;
  // The rows of blocks are those of a table without.
  const ByteSpan table = ByteSpan(*bytes).subspan(begin, stages->offsets[1] - begin);
  header.block_bits = 0;
  SubfileFooter found;
  found.table_offset = begin;
  found.table_size = table.size();
  found.table_checksum = Checksum(table);
  Result<std::vector<format::PatchEntry>> rows = format::DecodePatchTable(table, header, found);
  if (!rows.ok()) return;
  for (format::PatchEntry& row : *rows) {
    for (format::LevelEntry& level : row.levels)
      level.checksum = Checksum(ByteSpan(*bytes).subspan(level.offset, level.size));
  }
  const Bytes repaired = format::EncodePatchTable(*rows, *PatchGrid::Create(header.dims, header.patch));
  if (repaired.size() != table.size()) return;
  std::copy(repaired.begin(), repaired.end(), bytes->begin() + static_cast<std::ptrdiff_t>(begin));
}

/// Repairs the checksums of payloads, the table, header and footer, from the inside out; and the size of the
/// file.
void RepairSubfile(Bytes* bytes, TableChecksums* tables) {
  const std::size_t size = bytes->size();
  if (size < SubfileHeader::kEncodedSize + SubfileFooter::kEncodedSize) return;
  RepairHeader(bytes);
  const std::size_t footer = size - SubfileFooter::kEncodedSize;
  const auto begin = GetLittleEndian<std::uint64_t>(bytes->data() + footer);
  PutAt<std::uint64_t>(size, footer + 24, bytes);
  if (begin > footer) return;
  PutAt<std::uint64_t>(footer - begin, footer + 8, bytes);
  const Result<SubfileHeader> header = SubfileHeader::DecodeFrom(*bytes);
  if (header.ok() && header->version < 4) RepairEqualRows(*header, begin, footer, bytes);
  if (header.ok() && header->version == 4) RepairShortRows(*header, begin, footer, bytes);
  const auto stored = GetLittleEndian<std::uint64_t>(bytes->data() + footer + 16);
  const std::span<std::byte> table = std::span(*bytes).subspan(begin, footer - begin);
  const std::uint64_t computed = header.ok() ? RepairTable(*header, begin, table) : Checksum(table);
  (*tables)[ChecksumText(stored)] = ChecksumText(computed);
  PutAt(computed, footer + 16, bytes);
  PutAt(Checksum(ByteSpan(*bytes).subspan(footer, 32)), footer + 32, bytes);
}

/// Repairs the checksums of table and footer of a pack, and the sizes in the footer.
void RepairPack(Bytes* bytes) {
  const std::size_t size = bytes->size();
  if (size < format::kPackBegin + format::kPackFooter) return;
  const std::size_t footer = size - format::kPackFooter;
  const auto begin = GetLittleEndian<std::uint64_t>(bytes->data() + footer);
  if (begin > footer) return;
  PutAt<std::uint64_t>(footer - begin, footer + 8, bytes);
  PutAt(Checksum(ByteSpan(*bytes).subspan(begin, footer - begin)), footer + 16, bytes);
  PutAt<std::uint64_t>(size, footer + 24, bytes);
  PutAt(Checksum(ByteSpan(*bytes).subspan(footer, 32)), footer + 32, bytes);
}

void RepairText(const TableChecksums& tables, Bytes* bytes) {
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  for (const auto& [stored, computed] : tables) {
    for (std::size_t at = text.find(stored); at != std::string::npos; at = text.find(stored, at + 16))
      text.replace(at, 16, computed);
  }
  RepairManifest(&text);
  const ByteSpan repaired = std::as_bytes(std::span(text));
  bytes->assign(repaired.begin(), repaired.end());
}

void Repair(std::vector<InputFile>* files) {
  TableChecksums tables;
  for (InputFile& file : *files)
    if (file.path.ends_with(".qsf")) RepairSubfile(&file.bytes, &tables);
  for (InputFile& file : *files)
    if (file.path.ends_with(".qsp")) RepairPack(&file.bytes);
  for (InputFile& file : *files)
    if (file.path.ends_with(".json")) RepairText(tables, &file.bytes);
}

void TestDataset(ByteSpan input) {
  if (input.empty()) return;
  std::vector<InputFile> files = ReadInputFiles(input.subspan(1));
  if ((std::to_integer<unsigned>(input[0]) & kRepairFiles) != 0) Repair(&files);
  const auto memory = std::make_shared<testing::MemoryStorage>();
  for (InputFile& file : files) (void)memory->Put("a.quarry/" + file.path, std::move(file.bytes));
  const auto store = std::make_shared<PatchStore>(kAskMemory);
  const auto dataset = Dataset::Open(Location(memory, "a.quarry"), store);
  if (!dataset.ok()) {
    const StatusCode code = dataset.status().code();
    Require(code == StatusCode::kDataLoss || code == StatusCode::kNotFound ||
                code == StatusCode::kResourceExhausted,
            "a dataset that cannot be opened is damaged or none");
    return;
  }
  auto opened = std::make_shared<OpenedDataset>();
  opened->name = "a";
  opened->dataset = *dataset;
  AskEverything(opened, store);
  const auto report = VerifyDataset(**dataset, [](std::uint64_t, std::uint64_t) {});
  Require(report.ok() || !report.status().message().empty(), "an error says what is wrong");
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quarry::fuzz::TestDataset(std::as_bytes(std::span(data, size)));
  return 0;
}
