#include "quarry/format/subfile_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/base/checked_math.h"

namespace quarry::format {
namespace {

/// [bytes] of a long table that are read at a time.
constexpr std::uint64_t kPieceBytes = 1 << 20;

constexpr std::uint64_t kBlockRows = std::uint64_t{1} << kBlockBits;

/// The last bytes of a file that were read, and the rest of it.
class BackOfFile {
 public:
  BackOfFile(const StoredObject& file, Bytes back) : file_(file), back_(std::move(back)) {}

  const StoredObject& file() const { return file_; }

  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
    const std::uint64_t begin = file_.size() - back_.size();
    const std::uint64_t end = offset + out.size();
    const std::uint64_t missing = offset < begin ? std::min(end, begin) - offset : 0;
    if (missing > 0) QUARRY_RETURN_IF_ERROR(file_.ReadAt(offset, out.first(missing)));
    if (missing == out.size()) return Status::Ok();
    const ByteSpan there = ByteSpan(back_).subspan(offset + missing - begin, out.size() - missing);
    std::copy(there.begin(), there.end(), out.begin() + static_cast<std::ptrdiff_t>(missing));
    return Status::Ok();
  }

 private:
  const StoredObject& file_;
  const Bytes back_;
};

/// A table without blocks, from the front, in pieces that have whole rows.
class PieceReader {
 public:
  PieceReader(const BackOfFile& file, const SubfileFooter& footer)
      : file_(file), next_(footer.table_offset), end_(footer.table_offset + footer.table_size) {}

  /// The bytes from here on: at least `least`, or all that are left.
  Result<ByteSpan> Ahead(std::size_t least) {
    if (ahead_.size() < least && next_ < end_) {
      Bytes piece(ahead_.begin(), ahead_.end());
      const std::size_t kept = piece.size();
      piece.resize(kept + std::min(end_ - next_, std::max<std::uint64_t>(kPieceBytes, least)));
      QUARRY_RETURN_IF_ERROR(file_.ReadAt(next_, std::span(piece).subspan(kept)));
      checksum_.Update(ByteSpan(piece).subspan(kept));
      next_ += piece.size() - kept;
      piece_ = std::move(piece);
      ahead_ = piece_;
    }
    return ahead_;
  }
  void Skip(std::size_t bytes) { ahead_ = ahead_.subspan(bytes); }

  /// After everything has been read.
  std::uint64_t checksum() const { return checksum_.Finish(); }

 private:
  const BackOfFile& file_;
  std::uint64_t next_;
  const std::uint64_t end_;
  StreamingChecksum checksum_;
  Bytes piece_;
  ByteSpan ahead_;
};

/// Takes all rows off the front. @errors those of the file; kDataLoss
Status ScanRows(const SubfileHeader& header, PieceReader* reader, TableScan* scan) {
  const std::size_t most = PatchEntry::EncodedSize(header.parts().count(), header.version);
  for (std::uint64_t row = 0; row < header.patch_count; ++row) {
    QUARRY_ASSIGN_OR_RETURN(ByteSpan bytes, reader->Ahead(most));
    const std::size_t before = bytes.size();
    QUARRY_RETURN_IF_ERROR(scan->Take(&bytes));
    reader->Skip(before - bytes.size());
  }
  QUARRY_ASSIGN_OR_RETURN(const ByteSpan left, reader->Ahead(1));
  if (!left.empty()) return DataLoss("patch table: {} bytes follow its last row", left.size());
  return scan->Finish();
}

/// Reads a table without blocks. Damage shows as a wrong checksum, whatever else it does to the rows.
Status ReadFlat(const BackOfFile& file, SubfileTable* table) {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(table->header.dims, table->header.patch));
  TableScan scan(table->header, table->footer, grid, table->header.patch_count <= kBlockRows);
  PieceReader reader(file, table->footer);
  Status scanned = ScanRows(table->header, &reader, &scan);
  for (bool more = true; more;) {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan bytes, reader.Ahead(1));
    more = !bytes.empty();
    reader.Skip(bytes.size());
  }
  const SubfileFooter& footer = table->footer;
  if (reader.checksum() != footer.table_checksum)
    return TableChecksumError(footer.table_offset, footer.table_offset + footer.table_size,
                              footer.table_checksum, reader.checksum());
  QUARRY_RETURN_IF_ERROR(scanned);
  table->root = scan.index();
  table->rows = std::move(scan.rows());
  return Status::Ok();
}

Status ReadRoot(const BackOfFile& file, SubfileTable* table) {
  const TableStages& stages = table->stages;
  Bytes bytes(stages.SizeOf(stages.root(), 0));
  QUARRY_RETURN_IF_ERROR(file.ReadAt(stages.OffsetOf(stages.root(), 0), bytes));
  QUARRY_ASSIGN_OR_RETURN(table->root, DecodeRoot(bytes, table->header, table->footer, stages));
  return Status::Ok();
}

constexpr std::uint64_t kSmallest = SubfileHeader::kEncodedSize + SubfileFooter::kEncodedSize;

Status CheckSmallest(const StoredObject& file) {
  if (file.size() >= kSmallest) return Status::Ok();
  return DataLoss("\"{}\" has {} bytes, too few for a subfile; it is truncated", file.path(), file.size());
}

/// @param footer  the last bytes of the file
Result<SubfileTable> DecodeTable(ByteSpan header, ByteSpan footer, const BackOfFile& back,
                                 std::optional<std::uint64_t> patches) {
  const std::string where = fmt::format("\"{}\"", back.file().path());
  SubfileTable table;
  QUARRY_ASSIGN_OR_RETURN(table.header, SubfileHeader::DecodeFrom(header).Annotate(where));
  QUARRY_ASSIGN_OR_RETURN(table.footer, SubfileFooter::DecodeFrom(footer).Annotate(where));
  if (table.footer.file_size != back.file().size()) {
    return DataLoss("{} has {} bytes, its footer says {}", where, back.file().size(), table.footer.file_size);
  }
  if (patches && table.header.patch_count != *patches)
    return DataLoss("{} has {} patches, {} are expected", where, table.header.patch_count, *patches);
  QUARRY_ASSIGN_OR_RETURN(table.stages, TableStages::Of(table.header, table.footer).Annotate(where));
  Status read = table.header.block_bits > 0 ? ReadRoot(back, &table) : ReadFlat(back, &table);
  if (!read.ok()) return std::move(read).Annotate(where);
  return table;
}

}  // namespace

Result<SubfileTable> ReadSubfileTable(const StoredObject& file, std::optional<std::uint64_t> patches) {
  QUARRY_RETURN_IF_ERROR(CheckSmallest(file));
  Bytes header(SubfileHeader::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, header));
  Bytes footer(SubfileFooter::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(file.size() - footer.size(), footer));
  return DecodeTable(header, footer, BackOfFile(file, {}), patches);
}

Result<SubfileTable> ReadSubfileTable(const Storage& storage, const StoredObject& file, std::uint64_t patches,
                                      std::uint64_t back) {
  QUARRY_RETURN_IF_ERROR(CheckSmallest(file));
  const auto never = [] { return false; };
  Bytes header(SubfileHeader::kEncodedSize);
  const std::uint64_t at_hand = file.back_at_hand();
  const std::uint64_t likely = at_hand == 0 ? back : std::min(back, at_hand);
  Bytes last(std::clamp<std::uint64_t>(likely, SubfileFooter::kEncodedSize, file.size()));
  const std::uint64_t begin = file.size() - last.size();
  if (begin <= header.size() + (at_hand == 0 ? storage.costs().gap() : 0)) {
    last.resize(file.size());
    QUARRY_RETURN_IF_ERROR(file.ReadAt(0, last));
    std::copy_n(last.begin(), header.size(), header.begin());
  } else {
    const std::array<ReadRange, 2> both = {ReadRange{&file, 0, header}, ReadRange{&file, begin, last}};
    QUARRY_RETURN_IF_ERROR(storage.ReadRanges(both, never));
  }
  const Bytes footer(last.end() - SubfileFooter::kEncodedSize, last.end());
  return DecodeTable(header, footer, BackOfFile(file, std::move(last)), patches);
}

std::uint64_t TableBack(std::uint64_t patches, std::uint64_t row_bytes, const SubfileHeader& header) {
  if (patches <= kBlockRows) return patches * row_bytes + SubfileFooter::kEncodedSize;
  std::uint64_t entries = patches;  // in the root
  while (entries > kBlockRows) entries = CeilDivide(entries, kBlockRows);
  return entries * TableIndex::EntrySize(PartRuns(header).size()) + SubfileFooter::kEncodedSize;
}

std::uint64_t RowMemory(std::size_t parts) {
  constexpr std::uint64_t kAllocation = 16;
  return sizeof(PatchEntry) + kAllocation + parts * sizeof(LevelEntry);
}

std::uint64_t TableMemory(std::uint64_t patches, const PatchParts& parts) {
  const auto runs = static_cast<std::size_t>(parts.count());
  if (patches <= kBlockRows) return patches * (PatchEntry::EncodedSize(parts.count()) + RowMemory(runs));
  // A root has at most as many entries as the largest block; that of a long table without blocks one for each
  // block that it might have.
  const std::uint64_t entries = kBlockRows + patches / kBlockRows;
  return kPieceBytes + 2 * entries * TableIndex::EntrySize(runs);
}

std::uint64_t BlockMemory(const SubfileTable& table, const BlockPlace& place) {
  if (place.stage > 0) return 3 * table.stages.SizeOf(place.stage, place.number);
  const std::uint64_t bytes = place.above->offset(place.entry + 1) - place.above->offset(place.entry);
  return bytes + table.stages.RowsIn(place.number) *
                     RowMemory(static_cast<std::size_t>(table.header.parts().count()));
}

Result<PatchRows> ReadBlock(const StoredObject& file, const SubfileTable& table, const BlockPlace& place) {
  const std::string where = fmt::format("\"{}\"", file.path());
  const std::uint64_t offset = place.above->offset(place.entry);
  const std::uint64_t size = place.above->offset(place.entry + 1) - offset;
  const std::uint64_t rows = table.stages.RowsIn(place.number);
  const std::uint64_t most = PatchEntry::EncodedSize(table.header.parts().count(), table.header.version);
  if (CeilDivide(size, most) > rows || size / kLeastRowBytes < rows)
    return DataLoss("{}: patch table: a block of {} rows with {} bytes", where, rows, size);
  return ReadPastWrongCopies(file, offset, size, [&]() -> Result<PatchRows> {
    Bytes bytes(size);
    QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
    return DecodeBlock(bytes, table.header, table.footer, table.stages, *place.above, place.entry,
                       place.number)
        .Annotate(where);
  });
}

Result<TableIndex> ReadEntries(const StoredObject& file, const SubfileTable& table, const BlockPlace& place) {
  const std::uint64_t offset = table.stages.OffsetOf(place.stage, place.number);
  const std::uint64_t size = table.stages.SizeOf(place.stage, place.number);
  return ReadPastWrongCopies(file, offset, size, [&]() -> Result<TableIndex> {
    Bytes bytes(size);
    QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
    return DecodeEntries(bytes, offset, place.above->checksum(place.entry), place.above->Begin(place.entry),
                         place.above->Begin(place.entry + 1))
        .Annotate(fmt::format("\"{}\"", file.path()));
  });
}

namespace {

class BlocksOfFile final : public BlockSource {
 public:
  BlocksOfFile(const SubfileTable& table, std::shared_ptr<const StoredObject> file)
      : table_(table), file_(std::move(file)) {}

  Result<std::shared_ptr<const PatchRows>> Rows(const BlockPlace& place) override {
    QUARRY_ASSIGN_OR_RETURN(PatchRows rows, ReadBlock(*file_, table_, place));
    return std::make_shared<const PatchRows>(std::move(rows));
  }
  Result<std::shared_ptr<const TableIndex>> Entries(const BlockPlace& place) override {
    QUARRY_ASSIGN_OR_RETURN(TableIndex entries, ReadEntries(*file_, table_, place));
    return std::make_shared<const TableIndex>(std::move(entries));
  }

 private:
  const SubfileTable& table_;
  const std::shared_ptr<const StoredObject> file_;
};

}  // namespace

TableWalk::TableWalk(std::shared_ptr<const SubfileTable> table, std::unique_ptr<BlockSource> source)
    : table_(std::move(table)),
      source_(std::move(source)),
      path_(static_cast<std::size_t>(table_->stages.root())) {}

TableWalk::TableWalk(std::shared_ptr<const SubfileTable> table, std::shared_ptr<const StoredObject> file)
    : TableWalk(table, std::make_unique<BlocksOfFile>(*table, std::move(file))) {}

/// The block of entries on the way that has the entry of a block of this stage.
const TableIndex& TableWalk::Above(int stage) const {
  return stage + 1 == table_->stages.root() ? table_->root
                                            : *path_[static_cast<std::size_t>(stage) + 1].index;
}

/// @param choose  (stage, the block of entries above it, the number of its first entry's block) -> entry
template <typename Choose>
Status TableWalk::Descend(const Choose& choose) {
  const TableStages& stages = table_->stages;
  std::uint64_t number = 0;
  for (int stage = stages.root() - 1; stage >= 0; --stage) {
    const TableIndex& above = Above(stage);
    const std::uint64_t first = number << stages.bits;
    const std::size_t entry = choose(stage, above, first);
    number = first + entry;
    const BlockPlace place{stage, number, &above, entry};
    if (stage > 0) {
      Visited& visited = path_[static_cast<std::size_t>(stage)];
      if (visited.index && visited.number == number) continue;
      rows_.reset();
      QUARRY_ASSIGN_OR_RETURN(visited.index, source_->Entries(place));
      visited.number = number;
    } else if (!rows_ || block_ != number) {
      rows_.reset();
      if (table_->rows.empty()) {
        QUARRY_ASSIGN_OR_RETURN(rows_, source_->Rows(place));
      } else {
        rows_ = {table_, &table_->rows};
      }
      block_ = number;
      entry_ = entry;
    }
  }
  return Status::Ok();
}

Status TableWalk::Seek(std::uint64_t code) {
  return Descend([&](int, const TableIndex& above, std::uint64_t) { return above.Find(code); });
}

Status TableWalk::GoTo(std::uint64_t block) {
  return Descend([&](int stage, const TableIndex&, std::uint64_t first) {
    return static_cast<std::size_t>((block >> (table_->stages.bits * stage)) - first);
  });
}

}  // namespace quarry::format
