#include "quarry/format/table_index.h"

#include <algorithm>

#include "quarry/base/checked_math.h"
#include "quarry/format/table_rows.h"

namespace quarry::format {

RowsBegin TableIndex::Begin(std::size_t i) const {
  RowsBegin begin{code(i), offset(i), {}};
  for (std::size_t run = 0; run < runs_; ++run) begin.payload.push_back(payload(i, run));
  return begin;
}

std::size_t TableIndex::Find(std::uint64_t code) const {
  std::size_t first = 0;
  std::size_t end = size();
  while (end - first > 1) {
    const std::size_t middle = first + (end - first) / 2;
    (this->code(middle) <= code ? first : end) = middle;
  }
  return first;
}

void TableIndex::Add(const RowsBegin& begin, std::uint64_t checksum) {
  numbers_.insert(numbers_.end(), {begin.code, begin.offset, checksum});
  numbers_.insert(numbers_.end(), begin.payload.begin(), begin.payload.end());
}

void TableIndex::Close(const RowsBegin& end) {
  Add(end, 0);
  closed_ = true;
}

void TableIndex::AddToPayloads(std::span<const std::uint64_t> begins) {
  for (std::size_t i = 0; i < Places(); ++i) {
    for (std::size_t run = 0; run < runs_; ++run)
      numbers_[i * (kNumbers + runs_) + kNumbers + run] += begins[run];
  }
}

void TableIndex::EncodeTo(std::size_t begin, std::size_t end, Bytes* out) const {
  const std::size_t numbers = kNumbers + runs_;
  for (std::size_t n = begin * numbers; n < end * numbers; ++n) PutLittleEndian(out, numbers_[n]);
}

Result<TableIndex> TableIndex::DecodeFrom(ByteSpan bytes, const RowsBegin& begin, const RowsBegin& end) {
  TableIndex index(begin.payload.size());
  const std::size_t blocks = bytes.size() / EntrySize(index.runs_);
  index.Reserve(blocks);
  LittleEndianReader reader(bytes.data());
  for (std::size_t n = 0; n < blocks * (kNumbers + index.runs_); ++n)
    index.numbers_.push_back(reader.Get<std::uint64_t>());
  index.Close(end);
  QUARRY_RETURN_IF_ERROR(index.Check(begin));
  return index;
}

/// Afterwards all rows and payloads of a block lie within those of the index.
Status TableIndex::Check(const RowsBegin& begin) const {
  if (size() == 0 || Begin(0) != begin) return DataLoss("a block of entries does not begin where it should");
  for (std::size_t i = 0; i < size(); ++i) {
    bool ascend = code(i) < code(i + 1) && offset(i) < offset(i + 1);
    for (std::size_t run = 0; run < runs_; ++run) ascend = ascend && payload(i, run) <= payload(i + 1, run);
    if (!ascend) return DataLoss("entry {} of {} does not end behind its begin", i, size());
  }
  return Status::Ok();
}

namespace {

/// Blocks of each stage of a table in blocks.
std::vector<std::uint64_t> BlocksOf(const SubfileHeader& header) {
  const std::uint64_t most = std::uint64_t{1} << header.block_bits;
  std::vector<std::uint64_t> blocks = {CeilDivide(header.patch_count, most)};
  do blocks.push_back(CeilDivide(blocks.back(), most));
  while (blocks.back() > 1);
  return blocks;
}

std::size_t RunsOf(const SubfileHeader& header) { return PartRuns(header).size(); }

/// [bytes] of all entries of a table. The root is the only block of its stage, and has no entry.
std::uint64_t EntryBytes(const SubfileHeader& header) {
  if (header.block_bits == 0) return 0;
  const std::vector<std::uint64_t> blocks = BlocksOf(header);
  std::uint64_t entries = 0;
  for (std::size_t stage = 0; stage + 1 < blocks.size(); ++stage) entries += blocks[stage];
  return entries * TableIndex::EntrySize(RunsOf(header));
}

}  // namespace

Status CheckTableSize(const SubfileHeader& header, const SubfileFooter& footer) {
  constexpr auto kMostPatches = static_cast<std::uint64_t>(PatchGrid::kMaxPatchCount);
  const std::uint64_t most = PatchEntry::EncodedSize(header.parts().count(), header.version);
  const std::uint64_t least = header.version >= 4 ? kLeastRowBytes : most;
  std::uint64_t size = footer.table_size;
  bool possible = size / least >= header.patch_count;
  if (possible && header.block_bits > 0) {
    possible = header.patch_count >= 1 && header.patch_count <= kMostPatches && EntryBytes(header) <= size;
    if (possible) size -= EntryBytes(header);
  }
  if (possible && size / least >= header.patch_count && CeilDivide(size, most) <= header.patch_count)
    return Status::Ok();
  return DataLoss("patch table: {} bytes for {} patches of {} levels in {} layers", footer.table_size,
                  header.patch_count, header.levels, header.layers);
}

TableStages TableStages::OfFlat(const SubfileHeader& header, const SubfileFooter& footer) {
  TableStages stages;
  stages.bits = kBlockBits;
  stages.rows = header.patch_count;
  stages.runs = RunsOf(header);
  stages.blocks = {CeilDivide(stages.rows, std::uint64_t{1} << stages.bits), 1};
  stages.offsets = {footer.table_offset, footer.table_offset + footer.table_size};
  return stages;
}

Result<TableStages> TableStages::Of(const SubfileHeader& header, const SubfileFooter& footer) {
  QUARRY_RETURN_IF_ERROR(CheckTableSize(header, footer));
  if (header.block_bits == 0) return OfFlat(header, footer);
  TableStages stages;
  stages.bits = header.block_bits;
  stages.rows = header.patch_count;
  stages.runs = RunsOf(header);
  stages.blocks = BlocksOf(header);
  stages.offsets = {footer.table_offset, footer.table_offset + footer.table_size - EntryBytes(header)};
  for (std::size_t stage = 1; stage + 1 < stages.blocks.size(); ++stage)
    stages.offsets.push_back(stages.offsets.back() +
                             stages.blocks[stage - 1] * TableIndex::EntrySize(stages.runs));
  return stages;
}

std::uint64_t TableStages::RowsIn(std::uint64_t block) const {
  return std::min(rows - FirstRow(block), std::uint64_t{1} << bits);
}

std::uint64_t TableStages::EntriesIn(int stage, std::uint64_t block) const {
  const std::uint64_t below = blocks[static_cast<std::size_t>(stage) - 1];
  if (stage == root()) return below;
  return std::min(below - (block << bits), std::uint64_t{1} << bits);
}

std::uint64_t TableStages::OffsetOf(int stage, std::uint64_t block) const {
  return offsets[static_cast<std::size_t>(stage)] + (block << bits) * TableIndex::EntrySize(runs);
}

}  // namespace quarry::format
