#pragma once

#include <cstdint>
#include <vector>

#include "quarry/format/subfile.h"

/// The rows of a patch table as they lie in a file, one after the other: of version 4 with as few bytes as
/// they need, before that all of one size.
namespace quarry::format {

/// Every code of a patch is below.
inline constexpr std::uint64_t kEndOfCodes = std::uint64_t{1} << 63;

/// Fewest bytes of a row of this version: step, bits and widths.
inline constexpr std::uint64_t kLeastRowBytes = 3;

/// Appends rows in the version that is written.
class RowEncoder {
 public:
  explicit RowEncoder(const PatchGrid& grid) : grid_(grid) {}

  /// @param row  of a code that is at least next_code()
  void Put(const PatchEntry& row, Bytes* out);

  /// The smallest code that the next row can have.
  std::uint64_t next_code() const { return next_code_; }

 private:
  const PatchGrid grid_;
  std::uint64_t next_code_ = 0;
};

/// Takes rows from the front of a table, or of a block of it, and checks which patches they are.
class RowDecoder {
 public:
  /// @param first      number of the first row in the table
  /// @param next_code  the smallest code that it can have
  RowDecoder(const SubfileHeader& header, const PatchGrid& grid, std::uint64_t first = 0,
             std::uint64_t next_code = 0)
      : header_(header), grid_(grid), number_(first), next_code_(next_code) {}

  /// A row of version 4 has offsets of zero.
  /// @errors kDataLoss
  Status Take(ByteSpan* bytes, PatchEntry* row);

  /// Number of the next row.
  std::uint64_t number() const { return number_; }
  std::uint64_t next_code() const { return next_code_; }

 private:
  Status TakeEqual(ByteSpan* bytes, PatchEntry* row);
  Status TakeShort(ByteSpan* bytes, PatchEntry* row);

  const SubfileHeader& header_;
  const PatchGrid& grid_;
  std::uint64_t number_;
  std::uint64_t next_code_;
};

/// The place of the next payload in each run of a file, see PartRuns.
class PayloadPositions {
 public:
  explicit PayloadPositions(const SubfileHeader& header)
      : runs_(PartRuns(header)), places_(header.version >= 4), next_(runs_.size(), 0) {}

  /// Goes on behind the payloads of a row. Those of version 4 have no other offsets than these.
  void Pass(PatchEntry* row);

  std::size_t runs() const { return next_.size(); }
  std::uint64_t next(std::size_t run) const { return next_[run]; }
  void Set(std::size_t run, std::uint64_t position) { next_[run] = position; }

 private:
  std::vector<PartRun> runs_;
  bool places_;  ///< rows have no offsets of their own
  std::vector<std::uint64_t> next_;
};

/// Checks rows whose offsets are known.
/// @param first  number of the first one in the table
/// @errors kDataLoss
Status CheckRows(const SubfileHeader& header, const SubfileFooter& footer, const PatchGrid& grid,
                 std::uint64_t first, const std::vector<PatchEntry>& rows);

}  // namespace quarry::format
