#include "quarry/format/patch_table.h"

#include <algorithm>
#include <numeric>

#include "quarry/base/checked_math.h"

namespace quarry::format {
Status TableChecksumError(std::uint64_t begin, std::uint64_t end, std::uint64_t stored,
                          std::uint64_t computed) {
  return DataLoss("patch table (bytes {}..{}): checksum {} stored, {} computed", begin, end,
                  ChecksumText(stored), ChecksumText(computed));
}

// ---- Writing

TableEncoder::TableEncoder(const SubfileHeader& header, const PatchGrid& grid, std::uint64_t offset)
    : header_(header), rows_(grid), positions_(header), entries_(positions_.runs()) {
  footer_.table_offset = offset;
}

void TableEncoder::Put(const PatchEntry& row, Bytes* out) {
  if (header_.block_bits == 0) {
    const std::size_t begin = out->size();
    rows_.Put(row, out);
    checksum_.Update(ByteSpan(*out).subspan(begin));
    footer_.table_size += out->size() - begin;
    return;
  }
  if (block_.empty()) {
    begin_ = {rows_.next_code(), footer_.table_offset + footer_.table_size, {}};
    for (const PartRun& run : PartRuns(header_))
      begin_.payload.push_back(row.levels[static_cast<std::size_t>(run.first)].offset);
  }
  rows_.Put(row, &block_);
  const std::uint64_t most = std::uint64_t{1} << header_.block_bits;
  if (++rows_put_ % most == 0 || rows_put_ == header_.patch_count) EndBlock(out);
}

void TableEncoder::EndBlock(Bytes* out) {
  entries_.Add(begin_, Checksum(block_));
  out->insert(out->end(), block_.begin(), block_.end());
  footer_.table_size += block_.size();
  block_.clear();
}

/// Stage by stage, up to the root.
void TableEncoder::PutEntries(Bytes* out) {
  const std::size_t most = std::size_t{1} << header_.block_bits;
  while (true) {
    TableIndex above(entries_.runs());
    std::uint64_t checksum = 0;
    for (std::size_t first = 0; first < entries_.size(); first += most) {
      const std::size_t begin = out->size();
      entries_.EncodeTo(first, std::min(first + most, entries_.size()), out);
      checksum = Checksum(ByteSpan(*out).subspan(begin));
      above.Add(entries_.Begin(first), checksum);
    }
    footer_.table_size += entries_.size() * TableIndex::EntrySize(entries_.runs());
    footer_.table_checksum = checksum;
    if (above.size() <= 1) return;
    entries_ = std::move(above);
  }
}

SubfileFooter TableEncoder::Finish(Bytes* out) {
  if (header_.block_bits == 0) {
    footer_.table_checksum = checksum_.Finish();
  } else {
    PutEntries(out);
  }
  footer_.file_size = footer_.table_offset + footer_.table_size + SubfileFooter::kEncodedSize;
  footer_.EncodeTo(out);
  return footer_;
}

Bytes EncodePatchTable(const PatchRows& rows, const PatchGrid& grid) {
  Bytes table;
  RowEncoder encoder(grid);
  for (const PatchEntry& row : rows) encoder.Put(row, &table);
  return table;
}

// ---- Tables without blocks

TableScan::TableScan(const SubfileHeader& header, const SubfileFooter& footer, const PatchGrid& grid,
                     bool keep)
    : header_(header),
      footer_(footer),
      grid_(grid),
      keep_(keep),
      decoder_(header, grid),
      positions_(header),
      offset_(footer.table_offset),
      index_(positions_.runs()) {
  if (keep_) kept_.reserve(header.patch_count);
}

RowsBegin TableScan::Here() const {
  RowsBegin here{decoder_.next_code(), offset_, {}};
  for (std::size_t run = 0; run < positions_.runs(); ++run) here.payload.push_back(positions_.next(run));
  return here;
}

Status TableScan::Take(ByteSpan* bytes) {
  if (decoder_.number() % (std::uint64_t{1} << kBlockBits) == 0) {
    EndBlock();
    index_.Add(Here(), 0);
    if (!keep_) block_ = std::make_unique<StreamingChecksum>();
  }
  const ByteSpan before = *bytes;
  QUARRY_RETURN_IF_ERROR(decoder_.Take(bytes, &row_));
  const std::size_t taken = before.size() - bytes->size();
  if (block_) block_->Update(before.first(taken));
  offset_ += taken;
  positions_.Pass(&row_);
  if (keep_) kept_.push_back(std::move(row_));
  return Status::Ok();
}

void TableScan::EndBlock() {
  if (block_) index_.SetChecksum(index_.size() - 1, block_->Finish());
}

/// Where the payloads of each run begin: runs follow each other.
std::vector<std::uint64_t> TableScan::RunBegins() const {
  std::vector<std::uint64_t> begins;
  std::uint64_t begin = HeaderSize(header_.version);
  for (std::size_t run = 0; run < positions_.runs(); ++run) {
    begins.push_back(begin);
    begin += positions_.next(run);
  }
  return begins;
}

Status TableScan::Finish() {
  EndBlock();
  index_.Close(Here());
  const std::vector<std::uint64_t> begins = RunBegins();
  index_.AddToPayloads(begins);
  const std::uint64_t end = begins.back() + positions_.next(positions_.runs() - 1);
  if (header_.version >= 4 && end != footer_.table_offset) {
    return DataLoss("patch table: payloads end at byte {}, the table begins at {}", end,
                    footer_.table_offset);
  }
  PayloadPositions absolute(header_);
  for (std::size_t run = 0; run < begins.size(); ++run) absolute.Set(run, begins[run]);
  for (PatchEntry& row : kept_) absolute.Pass(&row);
  return CheckRows(header_, footer_, grid_, 0, kept_);
}

Result<PatchRows> DecodePatchTable(ByteSpan table, const SubfileHeader& header, const SubfileFooter& footer) {
  QUARRY_RETURN_IF_ERROR(CheckTableSize(header, footer));
  if (table.size() != footer.table_size)
    return DataLoss("patch table: {} bytes instead of {}", table.size(), footer.table_size);
  const std::uint64_t computed = Checksum(table);
  if (computed != footer.table_checksum)
    return TableChecksumError(footer.table_offset, footer.table_offset + footer.table_size,
                              footer.table_checksum, computed);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(header.dims, header.patch));
  TableScan scan(header, footer, grid, true);
  for (std::uint64_t i = 0; i < header.patch_count; ++i) QUARRY_RETURN_IF_ERROR(scan.Take(&table));
  if (!table.empty()) return DataLoss("patch table: {} bytes follow its last row", table.size());
  QUARRY_RETURN_IF_ERROR(scan.Finish());
  return std::move(scan.rows());
}

// ---- Blocks

Result<PatchRows> DecodeBlock(ByteSpan bytes, const SubfileHeader& header, const SubfileFooter& footer,
                              const TableStages& stages, const TableIndex& index, std::size_t entry,
                              std::uint64_t block) {
  const std::uint64_t computed = Checksum(bytes);
  const std::uint64_t offset = index.offset(entry);
  if (computed != index.checksum(entry))
    return TableChecksumError(offset, offset + bytes.size(), index.checksum(entry), computed);
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(header.dims, header.patch));
  PatchRows rows(stages.RowsIn(block));
  const std::uint64_t first = stages.FirstRow(block);
  RowDecoder decoder(header, grid, first, index.code(entry));
  PayloadPositions positions(header);
  for (std::size_t run = 0; run < positions.runs(); ++run) positions.Set(run, index.payload(entry, run));
  for (PatchEntry& row : rows) {
    QUARRY_RETURN_IF_ERROR(decoder.Take(&bytes, &row));
    positions.Pass(&row);
  }
  if (!bytes.empty()) return DataLoss("patch table: {} bytes follow the last row of a block", bytes.size());
  const std::uint64_t end = index.code(entry + 1);
  bool ends = decoder.next_code() == end || (end == kEndOfCodes && decoder.next_code() < end);
  for (std::size_t run = 0; run < positions.runs(); ++run)
    ends = ends && positions.next(run) == index.payload(entry + 1, run);
  if (!ends)
    return DataLoss("patch table: the block of row {} does not end where the next one begins", first);
  QUARRY_RETURN_IF_ERROR(CheckRows(header, footer, grid, first, rows));
  return rows;
}

Result<TableIndex> DecodeEntries(ByteSpan bytes, std::uint64_t offset, std::uint64_t checksum,
                                 const RowsBegin& begin, const RowsBegin& end) {
  const std::uint64_t computed = Checksum(bytes);
  if (computed != checksum) return TableChecksumError(offset, offset + bytes.size(), checksum, computed);
  return TableIndex::DecodeFrom(bytes, begin, end).Annotate("patch table");
}

Result<TableIndex> DecodeRoot(ByteSpan bytes, const SubfileHeader& header, const SubfileFooter& footer,
                              const TableStages& stages) {
  RowsBegin begin{0, footer.table_offset, {HeaderSize(header.version)}};
  RowsBegin end{kEndOfCodes, stages.offsets[1], {}};
  // Runs follow each other: what begins the next one ends a run.
  LittleEndianReader reader(bytes.data() + TableIndex::EntrySize(1));
  for (std::size_t run = 1; run < stages.runs; ++run) {
    begin.payload.push_back(reader.Get<std::uint64_t>());
    end.payload.push_back(begin.payload.back());
  }
  end.payload.push_back(footer.table_offset);
  return DecodeEntries(bytes, stages.OffsetOf(stages.root(), 0), footer.table_checksum, begin, end);
}

}  // namespace quarry::format
