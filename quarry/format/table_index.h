#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/format/subfile.h"

/// Patch tables in blocks of rows, each with a checksum. Entries say where the rows of a block begin; these
/// too are in blocks, with entries in the next stage, up to one block, the root. docs/format.md, "Tables in
/// blocks".
namespace quarry::format {

/// Where rows of a table begin.
struct RowsBegin {
  std::uint64_t code = 0;              ///< smallest that the first row can have
  std::uint64_t offset = 0;            ///< offset of its bytes in the file
  std::vector<std::uint64_t> payload;  ///< offsets of its payloads in each run of the file, see PartRuns

  friend bool operator==(const RowsBegin&, const RowsBegin&) = default;
};

/// Entries of consecutive blocks, and where the last of these ends.
class TableIndex {
 public:
  /// @param runs  of the file, see PartRuns
  explicit TableIndex(std::size_t runs = 0) : runs_(runs) {}

  /// [bytes] of an entry in a file.
  static std::uint64_t EntrySize(std::size_t runs) { return (kNumbers + runs) * sizeof(std::uint64_t); }

  std::size_t runs() const { return runs_; }
  std::size_t size() const { return Places() - (closed_ ? 1 : 0); }

  /// Where block `i` begins; `size()`: where the last one ends.
  std::uint64_t code(std::size_t i) const { return At(i, 0); }
  std::uint64_t offset(std::size_t i) const { return At(i, 1); }
  std::uint64_t checksum(std::size_t i) const { return At(i, 2); }
  std::uint64_t payload(std::size_t i, std::size_t run) const { return At(i, kNumbers + run); }
  void SetChecksum(std::size_t i, std::uint64_t checksum) { numbers_[i * (kNumbers + runs_) + 2] = checksum; }
  RowsBegin Begin(std::size_t i) const;

  /// The last block that begins at this code or before, thus the only one that can have it.
  std::size_t Find(std::uint64_t code) const;

  void Reserve(std::size_t blocks) { numbers_.reserve((blocks + 1) * (kNumbers + runs_)); }
  void Add(const RowsBegin& begin, std::uint64_t checksum);
  void Close(const RowsBegin& end);
  /// Positions that were relative to the begin of their run.
  void AddToPayloads(std::span<const std::uint64_t> begins);

  /// Some entries as they lie in a file.
  void EncodeTo(std::size_t begin, std::size_t end, Bytes* out) const;
  /// Decodes and checks a block of entries.
  /// @param begin  of its rows, as the stage above has it
  /// @param end    of its rows
  /// @errors kDataLoss
  static Result<TableIndex> DecodeFrom(ByteSpan bytes, const RowsBegin& begin, const RowsBegin& end);

  std::uint64_t memory() const { return numbers_.capacity() * sizeof(std::uint64_t); }

  friend bool operator==(const TableIndex&, const TableIndex&) = default;

 private:
  static constexpr std::size_t kNumbers = 3;  ///< code, offset, checksum

  std::size_t Places() const { return numbers_.size() / (kNumbers + runs_); }
  std::uint64_t At(std::size_t i, std::size_t number) const {
    return numbers_[i * (kNumbers + runs_) + number];
  }
  Status Check(const RowsBegin& begin) const;

  std::size_t runs_;
  bool closed_ = false;
  std::vector<std::uint64_t> numbers_;
};

/// The blocks of a table. They follow from its numbers of rows and bytes.
struct TableStages {
  /// @errors kDataLoss: a table of this size cannot have so many rows
  static Result<TableStages> Of(const SubfileHeader& header, const SubfileFooter& footer);

  /// The same for a table without blocks: as if it had the usual ones, and all of their entries in the root.
  static TableStages OfFlat(const SubfileHeader& header, const SubfileFooter& footer);

  int bits = 0;            ///< base-2 logarithm of the rows of a block, and of the entries of a further one
  std::uint64_t rows = 0;  ///< rows of the table
  std::size_t runs = 0;    ///< runs of the file, see PartRuns
  /// Blocks of each stage: of rows, of their entries, of the entries of these, and so on up to the root.
  std::vector<std::uint64_t> blocks;
  /// Where the entries of each stage begin; of stage 0, the rows.
  std::vector<std::uint64_t> offsets;

  int root() const { return static_cast<int>(blocks.size()) - 1; }
  std::uint64_t FirstRow(std::uint64_t block) const { return block << bits; }
  std::uint64_t RowsIn(std::uint64_t block) const;
  /// @param stage  above the rows
  std::uint64_t EntriesIn(int stage, std::uint64_t block) const;
  /// Where a block of entries begins.
  std::uint64_t OffsetOf(int stage, std::uint64_t block) const;
  /// The number of the block of a stage that has the entry of a block of the stage below.
  std::uint64_t Above(int stage, std::uint64_t below) const { return stage == root() ? 0 : below >> bits; }
  /// [bytes] of a block of entries.
  std::uint64_t SizeOf(int stage, std::uint64_t block) const {
    return EntriesIn(stage, block) * TableIndex::EntrySize(runs);
  }
};

}  // namespace quarry::format
