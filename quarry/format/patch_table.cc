#include <algorithm>
#include <bit>
#include <limits>

#include "quarry/base/checked_math.h"
#include "quarry/base/checksum.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/format/subfile.h"
#include "quarry/geometry/morton.h"

/// The patch table: rows as they lie in a file, of version 4 with as few bytes as they need, before that all
/// of one size.
namespace quarry::format {
namespace {

// Bits of the first byte of a row.
constexpr unsigned kRowRefers = 1;  ///< PatchEntry::refers
constexpr unsigned kHasValid = 2;   ///< the number of valid samples follows; otherwise all are
constexpr unsigned kNoPayload = 4;  ///< every part has 0 bytes, no error, and coverage 1; none follows

// The first byte of a part holds the bytes of its RMSE and of its largest error, and whether the coverage
// follows.
constexpr unsigned kRmseBytes = 7;
constexpr unsigned kErrorShift = 3;
constexpr unsigned kErrorBytes = 15;
constexpr unsigned kHasCoverage = 128;

// The sign bit moves to the end, so that the zeros there are left out too.
std::uint64_t BitsOf(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t ErrorBits(double error) { return std::rotl(std::bit_cast<std::uint64_t>(error), 1); }
std::uint64_t ErrorBits(float error) {
  return std::uint64_t{std::rotl(std::bit_cast<std::uint32_t>(error), 1)} << 32;
}
double ErrorOf(std::uint64_t bits) { return std::bit_cast<double>(std::rotr(bits, 1)); }
float RmseOf(std::uint64_t bits) {
  return std::bit_cast<float>(std::rotr(static_cast<std::uint32_t>(bits >> 32), 1));
}

unsigned BytesOf(std::uint64_t bits) {
  return bits == 0 ? 0 : 8 - static_cast<unsigned>(std::countr_zero(bits)) / 8;
}

void PutByte(unsigned value, Bytes* out) { out->push_back(static_cast<std::byte>(value)); }

/// The highest bytes of `bits`, the highest first.
void PutBits(std::uint64_t bits, Bytes* out) {
  for (unsigned i = 0; i < BytesOf(bits); ++i)
    PutByte(static_cast<unsigned>(bits >> (56 - 8 * i)) & 255, out);
}

bool IsEmpty(const LevelEntry& level) {
  return level.size == 0 && ErrorBits(level.rmse) == 0 && ErrorBits(level.max_error) == 0 &&
         level.coverage == 1;
}

void PutPart(const LevelEntry& level, Bytes* out) {
  const std::uint64_t rmse = ErrorBits(level.rmse);
  const std::uint64_t error = ErrorBits(level.max_error);
  PutByte(BytesOf(rmse) | BytesOf(error) << kErrorShift | (level.coverage == 1 ? 0 : kHasCoverage), out);
  entropy::PutVarint(level.size, out);
  if (level.size > 0) PutLittleEndian(out, level.checksum);
  PutBits(rmse, out);
  PutBits(error, out);
  if (level.coverage != 1) PutLittleEndian(out, level.coverage);
}

/// @param step     from the code of the row before to that of this one, less 1
/// @param samples  of the patch
void PutRow(const PatchEntry& row, std::uint64_t step, std::uint64_t samples, Bytes* out) {
  const bool no_payload = std::all_of(row.levels.begin(), row.levels.end(), IsEmpty);
  entropy::PutVarint(step, out);
  PutByte(
      (row.refers ? kRowRefers : 0) | (row.valid == samples ? 0 : kHasValid) | (no_payload ? kNoPayload : 0),
      out);
  PutByte(BytesOf(BitsOf(row.min)) | BytesOf(BitsOf(row.max)) << 4, out);
  PutBits(BitsOf(row.min), out);
  PutBits(BitsOf(row.max), out);
  if (row.valid != samples) entropy::PutVarint(row.valid, out);
  if (no_payload) return;
  for (const LevelEntry& level : row.levels) PutPart(level, out);
}

/// Reads values from the front of a table. A missing or impossible value reads as 0, and is remembered.
class TableReader {
 public:
  explicit TableReader(ByteSpan bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }
  void Fail() { ok_ = false; }

  unsigned Byte() {
    const ByteSpan byte = Take(1);
    return byte.empty() ? 0 : std::to_integer<unsigned>(byte[0]);
  }

  std::uint64_t Varint(std::uint64_t most) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = Byte();
      const std::uint64_t part = (byte & 127) << shift;
      if (part >> shift != (byte & 127)) break;
      value |= part;
      if (byte < 128 && value <= most) return value;
    }
    ok_ = false;
    return 0;
  }

  /// Reads the output of PutBits, in at most so many bytes.
  std::uint64_t Bits(unsigned size, unsigned most) {
    ok_ = ok_ && size <= most;
    std::uint64_t bits = 0;
    const ByteSpan bytes = Take(ok_ ? size : 0);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bits |= std::to_integer<std::uint64_t>(bytes[i]) << (56 - 8 * i);
    return bits;
  }

  template <typename T>
  T Number() {
    const ByteSpan bytes = Take(sizeof(T));
    return bytes.empty() ? T{} : GetLittleEndian<T>(bytes.data());
  }

 private:
  ByteSpan Take(std::size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const ByteSpan taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

  ByteSpan bytes_;
  bool ok_ = true;
};

LevelEntry TakePart(TableReader* reader) {
  static const std::uint64_t kOfNothing = Checksum(ByteSpan());
  LevelEntry level;
  const unsigned widths = reader->Byte();
  level.size = static_cast<std::uint32_t>(reader->Varint(std::numeric_limits<std::uint32_t>::max()));
  level.checksum = level.size > 0 ? reader->Number<std::uint64_t>() : kOfNothing;
  level.rmse = RmseOf(reader->Bits(widths & kRmseBytes, sizeof(float)));
  level.max_error = ErrorOf(reader->Bits(widths >> kErrorShift & kErrorBytes, sizeof(double)));
  if ((widths & kHasCoverage) != 0) level.coverage = reader->Number<float>();
  return level;
}

/// A row of a known patch, after its step.
/// @param parts  of a patch
void TakeRow(TableReader* reader, std::int64_t samples, std::size_t parts, PatchEntry* row) {
  static const std::uint64_t kOfNothing = Checksum(ByteSpan());
  const unsigned bits = reader->Byte();
  if (bits > (kRowRefers | kHasValid | kNoPayload)) reader->Fail();
  row->refers = (bits & kRowRefers) != 0;
  const unsigned widths = reader->Byte();
  row->min = std::bit_cast<double>(reader->Bits(widths & 15, sizeof(double)));
  row->max = std::bit_cast<double>(reader->Bits(widths >> 4, sizeof(double)));
  const auto all = static_cast<std::uint64_t>(samples);
  row->valid = static_cast<std::uint32_t>((bits & kHasValid) != 0 ? reader->Varint(all) : all);
  row->levels.resize(parts);
  for (LevelEntry& level : row->levels) {
    if ((bits & kNoPayload) != 0) {
      level.checksum = kOfNothing;
    } else if (reader->ok()) {
      level = TakePart(reader);
    }
  }
}

/// Rows of one size, as versions before 4 have them.
Status DecodeEqualRows(ByteSpan table, const SubfileHeader& header, const PatchGrid& grid,
                       std::vector<PatchEntry>* rows) {
  const int parts = header.parts().count();
  const std::size_t row_size = PatchEntry::EncodedSize(parts, header.version);
  std::uint64_t previous_code = 0;
  for (std::uint64_t i = 0; i < header.patch_count; ++i) {
    rows->push_back(PatchEntry::DecodeFrom(table.subspan(i * row_size, row_size), parts, header.version));
    PatchEntry& row = rows->back();
    if (row.patch_index >= static_cast<std::uint64_t>(grid.patch_count()))
      return DataLoss("patch table row {}: patch {} of {}", i, row.patch_index, grid.patch_count());
    const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
    if (i > 0 && code <= previous_code)
      return DataLoss("patch table row {}: patch {} is out of Morton order", i, row.patch_index);
    previous_code = code;
    if (header.version == 1) {
      const std::int64_t samples = grid.PatchBox(static_cast<std::int64_t>(row.patch_index)).volume();
      row.valid = static_cast<std::uint32_t>(samples);
    }
  }
  return Status::Ok();
}

/// Payloads lie one after the other from the header to the table.
Status SetOffsets(const SubfileHeader& header, const SubfileFooter& footer, std::vector<PatchEntry>* rows) {
  std::uint64_t offset = HeaderSize(header.version);
  ForEachPayload(header.order, rows->size(), header.parts(), [&](std::size_t row, int part) {
    LevelEntry& level = (*rows)[row].levels[static_cast<std::size_t>(part)];
    level.offset = offset;
    offset += level.size;  // below 2^32 times the bytes of a table
  });
  if (offset == footer.table_offset) return Status::Ok();
  return DataLoss("patch table: payloads end at byte {}, the table begins at {}", offset,
                  footer.table_offset);
}

bool IsPatch(const PatchGrid& grid, const Index3& position) {
  const Index3& patches = grid.patches();
  return position[0] < patches[0] && position[1] < patches[1] && position[2] < patches[2];
}

/// Rows of as many bytes as they need, since version 4.
Status DecodeShortRows(ByteSpan table, const SubfileHeader& header, const SubfileFooter& footer,
                       const PatchGrid& grid, std::vector<PatchEntry>* rows) {
  constexpr std::uint64_t kLastCode = (std::uint64_t{1} << 63) - 1;
  TableReader reader(table);
  std::uint64_t code = 0;
  for (std::uint64_t i = 0; i < header.patch_count; ++i) {
    if (i > 0) ++code;
    code += reader.Varint(kLastCode - code);
    const Index3 position = MortonDecode(code);
    if (!IsPatch(grid, position))
      return DataLoss("patch table row {}: patch at {} of {}", i, ToString(position),
                      ToString(grid.patches()));
    PatchEntry& row = rows->emplace_back();
    row.patch_index = static_cast<std::uint64_t>(grid.PatchIndex(position));
    TakeRow(&reader, grid.PatchBox(position).volume(), static_cast<std::size_t>(header.parts().count()),
            &row);
    if (!reader.ok()) return DataLoss("patch table row {}: malformed, or cut short", i);
  }
  if (!reader.at_end()) return DataLoss("patch table: {} bytes follow its last row", reader.left());
  return SetOffsets(header, footer, rows);
}

}  // namespace

Bytes EncodePatchTable(const std::vector<PatchEntry>& rows, const PatchGrid& grid) {
  Bytes table;
  std::uint64_t next = 0;
  for (const PatchEntry& row : rows) {
    const auto index = static_cast<std::int64_t>(row.patch_index);
    const std::uint64_t code = grid.PatchMorton(index);
    PutRow(row, code - next, static_cast<std::uint64_t>(grid.PatchBox(index).volume()), &table);
    next = code + 1;
  }
  return table;
}

std::size_t StoredRowSize(const PatchEntry& row) {
  Bytes bytes;
  PutRow(row, 0, row.valid, &bytes);
  return bytes.size();
}

Status CheckTableSize(const SubfileHeader& header, const SubfileFooter& footer) {
  constexpr std::uint64_t kLeast = 3;  // step, bits and widths
  const std::uint64_t most = PatchEntry::EncodedSize(header.parts().count(), header.version);
  const std::uint64_t least = header.version >= 4 ? kLeast : most;
  const std::uint64_t size = footer.table_size;
  if (size / least >= header.patch_count && CeilDivide(size, most) <= header.patch_count) return Status::Ok();
  return DataLoss("patch table: {} bytes for {} patches of {} levels in {} layers", size, header.patch_count,
                  header.levels, header.layers);
}

Result<std::vector<PatchEntry>> DecodePatchTable(ByteSpan table, const SubfileHeader& header,
                                                 const SubfileFooter& footer) {
  QUARRY_RETURN_IF_ERROR(CheckTableSize(header, footer));
  if (table.size() != footer.table_size)
    return DataLoss("patch table: {} bytes instead of {}", table.size(), footer.table_size);
  const std::uint64_t computed = Checksum(table);
  if (computed != footer.table_checksum) {
    return DataLoss("patch table (bytes {}..{}): checksum {} stored, {} computed", footer.table_offset,
                    footer.table_offset + footer.table_size, ChecksumText(footer.table_checksum),
                    ChecksumText(computed));
  }
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(header.dims, header.patch));
  std::vector<PatchEntry> rows;
  rows.reserve(header.patch_count);
  QUARRY_RETURN_IF_ERROR(header.version >= 4 ? DecodeShortRows(table, header, footer, grid, &rows)
                                             : DecodeEqualRows(table, header, grid, &rows));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t samples = grid.PatchBox(static_cast<std::int64_t>(rows[i].patch_index)).volume();
    Status status = CheckRow(rows[i], samples, {HeaderSize(header.version), footer.table_offset});
    if (!status.ok()) return std::move(status).Annotate(fmt::format("patch table row {}", i));
  }
  return rows;
}

}  // namespace quarry::format
