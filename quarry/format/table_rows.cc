#include "quarry/format/table_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/format/byte_reader.h"
#include "quarry/geometry/morton.h"

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

LevelEntry TakePart(ByteReader* reader) {
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
void TakeRow(ByteReader* reader, std::int64_t samples, std::size_t parts, PatchEntry* row) {
  static const std::uint64_t kOfNothing = Checksum(ByteSpan());
  const unsigned bits = reader->Byte();
  if (bits > (kRowRefers | kHasValid | kNoPayload)) reader->Fail();
  row->refers = (bits & kRowRefers) != 0;
  const unsigned widths = reader->Byte();
  row->min = std::bit_cast<double>(reader->Bits(widths & 15, sizeof(double)));
  row->max = std::bit_cast<double>(reader->Bits(widths >> 4, sizeof(double)));
  const auto all = static_cast<std::uint64_t>(samples);
  row->valid = static_cast<std::uint32_t>((bits & kHasValid) != 0 ? reader->Varint(all) : all);
  row->levels.assign(parts, {});
  for (LevelEntry& level : row->levels) {
    if ((bits & kNoPayload) != 0) {
      level.checksum = kOfNothing;
    } else if (reader->ok()) {
      level = TakePart(reader);
    }
  }
}

bool IsPatch(const PatchGrid& grid, const Index3& position) {
  const Index3& patches = grid.patches();
  return position[0] < patches[0] && position[1] < patches[1] && position[2] < patches[2];
}

}  // namespace

void RowEncoder::Put(const PatchEntry& row, Bytes* out) {
  const auto index = static_cast<std::int64_t>(row.patch_index);
  const std::uint64_t code = grid_.PatchMorton(index);
  PutRow(row, code - next_code_, static_cast<std::uint64_t>(grid_.PatchBox(index).volume()), out);
  next_code_ = code + 1;
}

Status RowDecoder::Take(ByteSpan* bytes, PatchEntry* row) {
  QUARRY_RETURN_IF_ERROR(header_.version >= 4 ? TakeShort(bytes, row) : TakeEqual(bytes, row));
  ++number_;
  return Status::Ok();
}

Status RowDecoder::TakeEqual(ByteSpan* bytes, PatchEntry* row) {
  const int parts = header_.parts().count();
  const std::size_t row_size = PatchEntry::EncodedSize(parts, header_.version);
  if (bytes->size() < row_size) return DataLoss("patch table row {}: cut short", number_);
  *row = PatchEntry::DecodeFrom(bytes->first(row_size), parts, header_.version);
  *bytes = bytes->subspan(row_size);
  if (row->patch_index >= static_cast<std::uint64_t>(grid_.patch_count()))
    return DataLoss("patch table row {}: patch {} of {}", number_, row->patch_index, grid_.patch_count());
  const auto index = static_cast<std::int64_t>(row->patch_index);
  const std::uint64_t code = grid_.PatchMorton(index);
  if (code < next_code_)
    return DataLoss("patch table row {}: patch {} is out of Morton order", number_, row->patch_index);
  next_code_ = code + 1;
  if (header_.version == 1) row->valid = static_cast<std::uint32_t>(grid_.PatchBox(index).volume());
  return Status::Ok();
}

Status RowDecoder::TakeShort(ByteSpan* bytes, PatchEntry* row) {
  ByteReader reader(*bytes);
  const std::uint64_t code = next_code_ + reader.Varint(kEndOfCodes - 1 - next_code_);
  const Index3 position = MortonDecode(code);
  if (!IsPatch(grid_, position))
    return DataLoss("patch table row {}: patch at {} of {}", number_, ToString(position),
                    ToString(grid_.patches()));
  row->patch_index = static_cast<std::uint64_t>(grid_.PatchIndex(position));
  TakeRow(&reader, grid_.PatchBox(position).volume(), static_cast<std::size_t>(header_.parts().count()), row);
  if (!reader.ok()) return DataLoss("patch table row {}: malformed, or cut short", number_);
  *bytes = bytes->last(reader.left());
  next_code_ = code + 1;  // no grid has a patch with the last code
  return Status::Ok();
}

void PayloadPositions::Pass(PatchEntry* row) {
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    for (int part = runs_[run].first; part >= runs_[run].last; --part) {
      LevelEntry& level = row->levels[static_cast<std::size_t>(part)];
      if (places_) level.offset = next_[run];
      next_[run] += level.size;  // below 2^32 times the bytes of a table
    }
  }
}

Status CheckRows(const SubfileHeader& header, const SubfileFooter& footer, const PatchGrid& grid,
                 std::uint64_t first, const std::vector<PatchEntry>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t samples = grid.PatchBox(static_cast<std::int64_t>(rows[i].patch_index)).volume();
    Status status = CheckRow(rows[i], samples, {HeaderSize(header.version), footer.table_offset});
    if (!status.ok()) return std::move(status).Annotate(fmt::format("patch table row {}", first + i));
  }
  return Status::Ok();
}

std::size_t StoredRowSize(const PatchEntry& row) {
  Bytes bytes;
  PutRow(row, 0, row.valid, &bytes);
  return bytes.size();
}

}  // namespace quarry::format
