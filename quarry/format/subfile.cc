#include "quarry/format/subfile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "quarry/base/checked_math.h"
#include "quarry/base/checksum.h"

namespace quarry::format {
namespace {

// A byte above 127 and both kinds of line end, as in PNG, reveal a transfer in text mode at once.
constexpr std::array<unsigned char, 8> kHeaderMagic = {0x89, 'Q', 'S', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::array<unsigned char, 8> kFooterMagic = {'Q', 'S', 'F', 'e', 'n', 'd', '\r', '\n'};

// The byte of the payload order also has the size of the table's blocks: programs from before blocks refuse
// the order.
constexpr int kBlockShift = 3;
constexpr int kOrderMask = (1 << kBlockShift) - 1;

void PutMagic(const std::array<unsigned char, 8>& magic, Bytes* out) {
  for (const unsigned char c : magic) out->push_back(static_cast<std::byte>(c));
}

void PadWithZeros(std::size_t size, Bytes* out) { out->insert(out->end(), size - out->size(), std::byte{0}); }

}  // namespace

void SubfileHeader::SetOrder(PayloadOrder payload_order) {
  order = payload_order;
  coarse_level = order == PayloadOrder::kCoarse ? FirstCoarseLevel(dims, patch, levels) : 0;
}

void SubfileHeader::EncodeTo(Bytes* out) const {
  const std::size_t begin = out->size();
  PutMagic(kHeaderMagic, out);
  PutLittleEndian(out, kMajorVersion);
  PutLittleEndian(out, kMinorVersion);
  PutLittleEndian(out, static_cast<std::uint32_t>(kEncodedSize));
  PutLittleEndian(out, step);
  PutLittleEndian(out, field_number);
  PutLittleEndian(out, subfile_number);
  for (const std::int64_t n : dims) PutLittleEndian(out, static_cast<std::uint32_t>(n));
  for (const std::int64_t n : patch) {
    PutLittleEndian(out, static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(n))));
  }
  PutLittleEndian(out, static_cast<std::uint8_t>(levels));
  PutLittleEndian(out, static_cast<std::uint8_t>(type));
  PutLittleEndian(out, static_cast<std::uint8_t>(coder));
  PutLittleEndian(out, static_cast<std::uint8_t>(static_cast<int>(order) | block_bits << kBlockShift));
  PutLittleEndian(out, static_cast<std::uint8_t>(layers - 1));
  PutLittleEndian(out, static_cast<std::uint8_t>(coarse_level));
  PadWithZeros(begin + 56, out);
  PutLittleEndian(out, patch_count);
  for (const char c : field_name) out->push_back(static_cast<std::byte>(c));
  PadWithZeros(begin + 128, out);
  PutLittleEndian(out, mask);
  PutLittleEndian(out, Checksum(ByteSpan(*out).subspan(begin)));
}

Result<SubfileHeader> SubfileHeader::DecodeFrom(ByteSpan bytes) {
  if (bytes.size() < kEncodedSize)
    return DataLoss("a subfile header has {} bytes, this one {}", kEncodedSize, bytes.size());
  if (std::memcmp(bytes.data(), kHeaderMagic.data(), kHeaderMagic.size()) != 0)
    return DataLoss("this is not a Quarry subfile (magic at byte 0)");
  const std::uint16_t major = GetLittleEndian<std::uint16_t>(bytes.data() + 8);
  const bool known = major >= 1 && major <= kMajorVersion;
  // An unknown version states the size of its own header. If that is too large to check, the version itself
  // may be damaged.
  const std::size_t size = known ? HeaderSize(major) : GetLittleEndian<std::uint32_t>(bytes.data() + 12);
  const Status not_known = DataLoss(
      "subfile format version {} is not known, this program reads up to {}; use a newer Quarry, unless the "
      "file is damaged",
      major, kMajorVersion);
  if (size < HeaderSize(1) || size > bytes.size()) return not_known;
  bytes = bytes.first(size);
  const std::uint64_t stored = GetLittleEndian<std::uint64_t>(bytes.data() + size - 8);
  const std::uint64_t computed = Checksum(bytes.first(size - 8));
  if (stored != computed) {
    return DataLoss("header (bytes 0..{}): checksum {} stored, {} computed", size, ChecksumText(stored),
                    ChecksumText(computed));
  }
  if (!known) return not_known;
  LittleEndianReader reader(bytes.data() + 16);
  SubfileHeader header;
  header.version = major;
  header.step = reader.Get<std::uint64_t>();
  header.field_number = reader.Get<std::uint32_t>();
  header.subfile_number = reader.Get<std::uint32_t>();
  for (std::int64_t& n : header.dims) n = reader.Get<std::uint32_t>();
  for (std::int64_t& n : header.patch) {
    const auto shift = reader.Get<std::uint8_t>();
    if (shift > 31) return DataLoss("header: patch extent 2^{}", shift);
    n = std::int64_t{1} << shift;
  }
  header.levels = reader.Get<std::uint8_t>();
  header.type = static_cast<DataType>(reader.Get<std::uint8_t>());
  header.coder = static_cast<CoderId>(reader.Get<std::uint8_t>());
  const auto order = reader.Get<std::uint8_t>();
  header.order = static_cast<PayloadOrder>(major >= 4 ? order & kOrderMask : order);
  if (major >= 4) header.block_bits = order >> kBlockShift;
  if (major >= 3) header.layers = 1 + reader.Get<std::uint8_t>();
  if (header.order == PayloadOrder::kCoarse) header.coarse_level = reader.Get<std::uint8_t>();
  reader = LittleEndianReader(bytes.data() + 56);
  header.patch_count = reader.Get<std::uint64_t>();
  const auto* name = reinterpret_cast<const char*>(bytes.data() + 64);
  header.field_name.assign(name, ::strnlen(name, kMaxFieldName));
  if (major >= 2) header.mask = GetLittleEndian<std::uint64_t>(bytes.data() + 128);
  if (header.levels < 1 || header.levels > kMaxLevels || header.layers > kMaxLayers ||
      SizeOf(header.type) == 0 || header.block_bits > kBlockBits || NameOf(header.order) == nullptr ||
      (header.order == PayloadOrder::kCoarse && major < 4)) {
    return DataLoss("header: {} levels, {} layers, type {}, payload order {}", header.levels, header.layers,
                    static_cast<int>(header.type), order);
  }
  if (header.order == PayloadOrder::kCoarse &&
      (header.coarse_level < 1 || header.coarse_level > header.levels))
    return DataLoss("header: coarse level {} of {} levels", header.coarse_level, header.levels);
  return header;
}

namespace {

/// Flag in the count of valid samples: no patch has so many.
constexpr std::uint32_t kRefers = std::uint32_t{1} << 31;
static_assert(PatchGrid::kMaxPatchVolume < kRefers);

}  // namespace

void PatchEntry::EncodeTo(Bytes* out) const {
  PutLittleEndian(out, patch_index);
  PutLittleEndian(out, min);
  PutLittleEndian(out, max);
  PutLittleEndian(out, valid | (refers ? kRefers : 0u));
  for (const LevelEntry& level : levels) {
    PutLittleEndian(out, level.offset);
    PutLittleEndian(out, level.size);
    PutLittleEndian(out, level.rmse);
    PutLittleEndian(out, level.checksum);
    PutLittleEndian(out, level.max_error);
    PutLittleEndian(out, level.coverage);
  }
}

PatchEntry PatchEntry::DecodeFrom(ByteSpan bytes, int parts, std::uint16_t major_version) {
  LittleEndianReader reader(bytes.data());
  PatchEntry entry;
  entry.patch_index = reader.Get<std::uint64_t>();
  entry.min = reader.Get<double>();
  entry.max = reader.Get<double>();
  if (major_version >= 2) entry.valid = reader.Get<std::uint32_t>();
  if (major_version >= 3) {
    entry.refers = (entry.valid & kRefers) != 0;
    entry.valid &= ~kRefers;
  }
  entry.levels.resize(static_cast<std::size_t>(parts));
  for (LevelEntry& level : entry.levels) {
    level.offset = reader.Get<std::uint64_t>();
    level.size = reader.Get<std::uint32_t>();
    level.rmse = reader.Get<float>();
    level.checksum = reader.Get<std::uint64_t>();
    level.max_error = reader.Get<double>();
    if (major_version >= 2) level.coverage = reader.Get<float>();
  }
  return entry;
}

std::uint64_t PatchEntry::payload_bytes() const {
  std::uint64_t bytes = 0;
  for (const LevelEntry& level : levels) bytes += level.size;
  return bytes;
}

void SubfileFooter::EncodeTo(Bytes* out) const {
  const std::size_t begin = out->size();
  PutLittleEndian(out, table_offset);
  PutLittleEndian(out, table_size);
  PutLittleEndian(out, table_checksum);
  PutLittleEndian(out, file_size);
  PutLittleEndian(out, Checksum(ByteSpan(*out).subspan(begin)));
  PutMagic(kFooterMagic, out);
}

Result<SubfileFooter> SubfileFooter::DecodeFrom(ByteSpan bytes) {
  if (bytes.size() != kEncodedSize)
    return DataLoss("a subfile footer has {} bytes, this one {}", kEncodedSize, bytes.size());
  if (std::memcmp(bytes.data() + 40, kFooterMagic.data(), kFooterMagic.size()) != 0) {
    return DataLoss("the footer's magic is missing: the file is truncated or not a Quarry subfile");
  }
  LittleEndianReader reader(bytes.data());
  SubfileFooter footer;
  footer.table_offset = reader.Get<std::uint64_t>();
  footer.table_size = reader.Get<std::uint64_t>();
  footer.table_checksum = reader.Get<std::uint64_t>();
  footer.file_size = reader.Get<std::uint64_t>();
  const auto stored = reader.Get<std::uint64_t>();
  const std::uint64_t computed = Checksum(bytes.first(32));
  if (stored != computed)
    return DataLoss("footer: checksum {} stored, {} computed", ChecksumText(stored), ChecksumText(computed));
  std::uint64_t end = 0;
  if (!CheckedAdd(footer.table_offset, footer.table_size, &end) ||
      !CheckedAdd(end, std::uint64_t{kEncodedSize}, &end) || end != footer.file_size ||
      footer.table_offset < HeaderSize(1)) {
    return DataLoss("footer: table of {} bytes at {} in a file of {} bytes", footer.table_size,
                    footer.table_offset, footer.file_size);
  }
  return footer;
}

Status CheckRow(const PatchEntry& row, std::int64_t samples,
                const std::pair<std::uint64_t, std::uint64_t>& payload) {
  if (row.valid > samples) return DataLoss("{} valid samples in a patch of {}", row.valid, samples);
  for (const LevelEntry& level : row.levels) {
    if (!(level.coverage >= 0 && level.coverage <= 1)) return DataLoss("coverage {}", level.coverage);
    std::uint64_t end = 0;
    if (level.offset < payload.first || !CheckedAdd(level.offset, std::uint64_t{level.size}, &end) ||
        end > payload.second)
      return DataLoss("payload of {} bytes at {}, outside {}..{}", level.size, level.offset, payload.first,
                      payload.second);
  }
  return Status::Ok();
}

int FirstCoarseLevel(const Index3& dims, const Index3& patch, int levels) {
  const Index3 shape = LargestPatchShape(dims, patch);
  int level = 1;
  while (level < levels && Volume(LevelShape(shape, level)) > Volume(shape) / kCoarseShare) ++level;
  return level;
}

std::vector<PartRun> PartRuns(const SubfileHeader& header) {
  const PatchParts parts = header.parts();
  // So many of the finest levels lie patch by patch.
  int fine = 0;
  if (header.order == PayloadOrder::kPatch) fine = parts.levels;
  if (header.order == PayloadOrder::kCoarse) fine = header.coarse_level;
  std::vector<PartRun> runs;
  for (int part = parts.count() - 1; part >= 0; part = runs.back().last - 1)
    runs.push_back({part, parts.LevelOf(part) < fine ? part - parts.LevelOf(part) : part});
  return runs;
}

}  // namespace quarry::format
