#include "quarry/index/records.h"

namespace quarry::index {
namespace {

template <typename T>
void PutBigEndian(Bytes* out, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) out->push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

Bytes StepKey(std::uint64_t step) {
  Bytes key;
  PutBigEndian(&key, step);
  return key;
}

Bytes PatchKey(std::uint64_t step, std::size_t field_number, std::uint64_t morton_code) {
  Bytes key = StepKey(step);
  PutBigEndian(&key, static_cast<std::uint32_t>(field_number));
  PutBigEndian(&key, morton_code);
  return key;
}

Bytes SubfileKey(std::uint64_t step, std::size_t field_number, std::size_t subfile) {
  Bytes key = StepKey(step);
  PutBigEndian(&key, static_cast<std::uint32_t>(field_number));
  PutBigEndian(&key, static_cast<std::uint32_t>(subfile));
  return key;
}

Bytes MaskPatchKey(std::uint64_t mask, std::uint64_t morton_code) {
  Bytes key;
  PutBigEndian(&key, mask);
  PutBigEndian(&key, morton_code);
  return key;
}

Bytes MaskSubfileKey(std::uint64_t mask, std::size_t subfile) {
  Bytes key;
  PutBigEndian(&key, mask);
  PutBigEndian(&key, static_cast<std::uint32_t>(subfile));
  return key;
}

Bytes PatchValue(const query::LocatedPatch& entry) {
  Bytes value;
  PutLittleEndian(&value, entry.subfile);
  entry.patch.EncodeTo(&value);
  return value;
}

Result<query::LocatedPatch> DecodePatchValue(ByteSpan value, int levels) {
  constexpr std::size_t kPrefix = sizeof(std::uint32_t);
  if (value.size() != kPrefix + format::PatchEntry::EncodedSize(levels)) {
    return DataLoss("an index record has {} bytes instead of {}", value.size(),
                    kPrefix + format::PatchEntry::EncodedSize(levels));
  }
  query::LocatedPatch entry{GetLittleEndian<std::uint32_t>(value.data()),
                            format::PatchEntry::DecodeFrom(value.subspan(kPrefix), levels)};
  for (const format::LevelEntry& level : entry.patch.levels) {
    constexpr std::uint64_t kLargestOffset = std::uint64_t{1} << 62;
    if (level.offset > kLargestOffset) return DataLoss("an index record points at byte {}", level.offset);
  }
  return entry;
}

Bytes SubfileValue(const SubfileDescription& subfile) {
  Bytes value;
  PutLittleEndian(&value, subfile.bytes);
  PutLittleEndian(&value, subfile.patches);
  PutLittleEndian(&value, subfile.table_checksum);
  for (const Index3& corner : {subfile.bounds.begin, subfile.bounds.end}) {
    for (const std::int64_t v : corner) PutLittleEndian(&value, v);
  }
  return value;
}

Result<SubfileDescription> DecodeSubfileValue(ByteSpan value) {
  constexpr std::size_t kSize = 9 * sizeof(std::uint64_t);
  if (value.size() != kSize)
    return DataLoss("a subfile record of the index has {} bytes instead of {}", value.size(), kSize);
  LittleEndianReader reader(value.data());
  SubfileDescription subfile;
  subfile.bytes = reader.Get<std::uint64_t>();
  subfile.patches = reader.Get<std::uint64_t>();
  subfile.table_checksum = reader.Get<std::uint64_t>();
  for (Index3* corner : {&subfile.bounds.begin, &subfile.bounds.end}) {
    for (std::int64_t& v : *corner) v = reader.Get<std::int64_t>();
  }
  return subfile;
}

std::uint64_t FirstOfKey(ByteSpan key) {
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < 8; ++i) first = first << 8 | std::to_integer<std::uint64_t>(key[i]);
  return first;
}

}  // namespace quarry::index
