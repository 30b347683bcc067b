#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "quarry/format/patch_table.h"
#include "quarry/storage/storage.h"

namespace quarry::format {

/// Header, footer and root of the patch table of one subfile, all checked.
struct SubfileTable {
  SubfileHeader header;
  SubfileFooter footer;
  TableStages stages;
  TableIndex root;  ///< a table without blocks has one too, made while its rows were read
  PatchRows rows;   ///< rows of a table without blocks, if they are no more than those of a block
};

/// Reads and checks the tables of an open subfile. A long table without blocks is read in pieces, and its
/// rows are not kept.
/// @param patches  as many the file must have, if that is known: no memory is taken for more
/// @errors kDataLoss, naming the file
Result<SubfileTable> ReadSubfileTable(const StoredObject& file, std::optional<std::uint64_t> patches = {});

/// The same in one reading, of the header and of the last bytes together.
/// @param storage  of the file
/// @param back     [bytes] from the end that probably have the table; more is read if they do not
Result<SubfileTable> ReadSubfileTable(const Storage& storage, const StoredObject& file, std::uint64_t patches,
                                      std::uint64_t back);

/// [bytes] from the end of a subfile that have its footer and its table, or the root of one in blocks.
/// @param row_bytes  of a row at most, or as many as are expected
/// @param header     what is known of the file's own
std::uint64_t TableBack(std::uint64_t patches, std::uint64_t row_bytes, const SubfileHeader& header);

/// [bytes] of a decoded row.
std::uint64_t RowMemory(std::size_t parts);

/// [bytes] that ReadSubfileTable takes at most.
std::uint64_t TableMemory(std::uint64_t patches, const PatchParts& parts);

/// A block of a table: its stage, its number there, and its entry in the stage above.
struct BlockPlace {
  int stage = 0;
  std::uint64_t number = 0;
  const TableIndex* above = nullptr;
  std::size_t entry = 0;
};

/// [bytes] to read and decode a block.
std::uint64_t BlockMemory(const SubfileTable& table, const BlockPlace& place);
/// A block of rows. @errors kDataLoss, naming the file
Result<PatchRows> ReadBlock(const StoredObject& file, const SubfileTable& table, const BlockPlace& place);
/// A block of entries. @errors the same
Result<TableIndex> ReadEntries(const StoredObject& file, const SubfileTable& table, const BlockPlace& place);

/// The blocks of one table: from its file, or from where they are kept. Thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// @errors those of ReadBlock and ReadEntries
  virtual Result<std::shared_ptr<const PatchRows>> Rows(const BlockPlace& place) = 0;
  virtual Result<std::shared_ptr<const TableIndex>> Entries(const BlockPlace& place) = 0;
  /// Whether a block is kept now, so that nothing has to be read.
  virtual bool Has(const BlockPlace&) const { return false; }
};

/// The rows of a table block by block: the one place that knows how blocks are found.
class TableWalk {
 public:
  TableWalk(std::shared_ptr<const SubfileTable> table, std::unique_ptr<BlockSource> source);
  /// From the file, keeping nothing.
  TableWalk(std::shared_ptr<const SubfileTable> table, std::shared_ptr<const StoredObject> file);

  const SubfileTable& table() const { return *table_; }
  std::uint64_t blocks() const { return table_->stages.blocks[0]; }

  /// Goes to the only block that can have this code. @errors those of the source
  Status Seek(std::uint64_t code);
  /// Goes to a block by its number. @errors those of the source
  Status GoTo(std::uint64_t block);

  /// The block: its number, its rows, the codes below which they are, and where their payloads lie in each
  /// run of the file.
  std::uint64_t block() const { return block_; }
  /// Where a block of rows is that the root has the entry of. @param entry  of the root
  BlockPlace PlaceBelowRoot(std::size_t entry) const { return {0, entry, &table_->root, entry}; }
  BlockSource& source() { return *source_; }
  const PatchRows& rows() const { return *rows_; }
  std::uint64_t end_code() const { return Above(0).code(entry_ + 1); }
  std::uint64_t payload_begin(std::size_t run) const { return Above(0).payload(entry_, run); }
  std::uint64_t payload_end(std::size_t run) const { return Above(0).payload(entry_ + 1, run); }

 private:
  const TableIndex& Above(int stage) const;
  template <typename Choose>
  Status Descend(const Choose& choose);

  std::shared_ptr<const SubfileTable> table_;
  std::unique_ptr<BlockSource> source_;
  /// A block of entries on the way from the root, by stage from 1 on; the root is not among them.
  struct Visited {
    std::uint64_t number = 0;
    std::shared_ptr<const TableIndex> index;
  };
  std::vector<Visited> path_;
  std::shared_ptr<const PatchRows> rows_;
  std::uint64_t block_ = 0;
  std::size_t entry_ = 0;
};

}  // namespace quarry::format
