#pragma once

#include <memory>
#include <vector>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile.h"
#include "quarry/format/table_index.h"
#include "quarry/format/table_rows.h"

/// The patch table of a subfile, piece by piece: what has the size of a table is never in memory.
namespace quarry::format {

/// Rows of a table, of all of it or of one block.
using PatchRows = std::vector<PatchEntry>;

/// Makes the bytes between the payloads and the end of a subfile.
class TableEncoder {
 public:
  /// @param header  that of the file, with its number of patches and block_bits
  /// @param offset  of the table
  TableEncoder(const SubfileHeader& header, const PatchGrid& grid, std::uint64_t offset);

  /// Appends what is complete with this row.
  /// @param row  with its offsets; in Morton order
  void Put(const PatchEntry& row, Bytes* out);
  /// Appends the rest, after all rows, and the footer.
  SubfileFooter Finish(Bytes* out);

 private:
  void EndBlock(Bytes* out);
  void PutEntries(Bytes* out);

  const SubfileHeader header_;
  RowEncoder rows_;
  PayloadPositions positions_;
  SubfileFooter footer_;
  StreamingChecksum checksum_;  ///< checksum of a table without blocks
  std::uint64_t rows_put_ = 0;
  RowsBegin begin_;  ///< begin of the block
  Bytes block_;
  TableIndex entries_;
};

/// A table without blocks, row by row: makes the entries that its rows would have in blocks, so that later
/// readers need not go through all of them.
class TableScan {
 public:
  /// @param header, footer, grid  outlive the scan; the table can have as many rows, see CheckTableSize
  /// @param keep  the rows: blocks are then not read again, and get no checksums
  TableScan(const SubfileHeader& header, const SubfileFooter& footer, const PatchGrid& grid, bool keep);

  /// Takes the next row off the front. @errors kDataLoss
  Status Take(ByteSpan* bytes);
  /// After all rows: checks that payloads end where the table begins. @errors kDataLoss
  Status Finish();

  const TableIndex& index() const { return index_; }
  PatchRows& rows() { return kept_; }

 private:
  RowsBegin Here() const;
  void EndBlock();
  std::vector<std::uint64_t> RunBegins() const;

  const SubfileHeader& header_;
  const SubfileFooter& footer_;
  const PatchGrid& grid_;
  const bool keep_;
  RowDecoder decoder_;
  PayloadPositions positions_;  ///< from the begin of each run
  std::uint64_t offset_;        ///< offset of the next row
  std::unique_ptr<StreamingChecksum> block_;
  TableIndex index_;
  PatchEntry row_;
  PatchRows kept_;
};

/// The error for bytes of a table with another checksum than is stored.
Status TableChecksumError(std::uint64_t begin, std::uint64_t end, std::uint64_t stored,
                          std::uint64_t computed);

/// Decodes and checks a block of rows.
/// @param bytes  as many as its entry says
/// @param block  its number, that of the entry `entry` of `index`
/// @errors kDataLoss
Result<PatchRows> DecodeBlock(ByteSpan bytes, const SubfileHeader& header, const SubfileFooter& footer,
                              const TableStages& stages, const TableIndex& index, std::size_t entry,
                              std::uint64_t block);

/// Decodes and checks a block of entries.
/// @param offset    in the file, for messages
/// @param checksum  as stored in the stage above
/// @errors kDataLoss
Result<TableIndex> DecodeEntries(ByteSpan bytes, std::uint64_t offset, std::uint64_t checksum,
                                 const RowsBegin& begin, const RowsBegin& end);

/// The same of the root, by the footer.
Result<TableIndex> DecodeRoot(ByteSpan bytes, const SubfileHeader& header, const SubfileFooter& footer,
                              const TableStages& stages);

}  // namespace quarry::format
