#include "quarry/index/records.h"

#include "quarry/base/checksum.h"

namespace quarry::index {
namespace {

template <typename T>
void PutBigEndian(Bytes* out, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) out->push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// The numbers, each in as many bytes as its type has.
template <typename... Numbers>
Bytes KeyOf(Numbers... numbers) {
  Bytes key;
  (PutBigEndian(&key, numbers), ...);
  return key;
}

}  // namespace

Bytes StepKey(std::uint64_t step) { return KeyOf(step); }

Bytes PatchKey(std::uint64_t step, std::size_t field_number, std::uint64_t morton_code) {
  return KeyOf(step, static_cast<std::uint32_t>(field_number), morton_code);
}

Bytes MaskKey(std::uint64_t mask) { return KeyOf(mask); }

Bytes MaskPatchKey(std::uint64_t mask, std::uint64_t morton_code) { return KeyOf(mask, morton_code); }

Bytes BoxKey(std::uint64_t step, std::size_t field_number, std::uint8_t level, std::uint32_t node) {
  return KeyOf(step, static_cast<std::uint32_t>(field_number), level, node);
}

Bytes MaskBoxKey(std::uint64_t mask, std::uint8_t level, std::uint32_t node) {
  return KeyOf(mask, level, node);
}

std::vector<NumberedBox> BoxesOf(const std::vector<SubfileDescription>& subfiles) {
  std::vector<NumberedBox> boxes;
  for (std::size_t s = 0; s < subfiles.size(); ++s)
    if (subfiles[s].patches > 0) boxes.push_back({subfiles[s].bounds, static_cast<std::uint32_t>(s)});
  return boxes;
}

void SetMortonCode(std::uint64_t morton_code, Bytes* key) {
  std::byte* const code = key->data() + key->size() - sizeof(morton_code);
  for (std::size_t i = 0; i < sizeof(morton_code); ++i)
    code[i] = static_cast<std::byte>(morton_code >> (8 * (sizeof(morton_code) - 1 - i)));
}

Bytes PatchValue(const query::LocatedPatch& entry) {
  Bytes value;
  PutLittleEndian(&value, entry.subfile);
  entry.patch.EncodeTo(&value);
  return value;
}

Status DecodePatchValue(ByteSpan value, int parts, query::LocatedPatch* entry) {
  constexpr std::size_t kPrefix = sizeof(std::uint32_t);
  if (value.size() != kPrefix + format::PatchEntry::EncodedSize(parts)) {
    return DataLoss("an index record has {} bytes instead of {}", value.size(),
                    kPrefix + format::PatchEntry::EncodedSize(parts));
  }
  entry->subfile = GetLittleEndian<std::uint32_t>(value.data());
  entry->patch = format::PatchEntry::DecodeFrom(value.subspan(kPrefix), parts);
  return Status::Ok();
}

Status CheckRecord(const query::LocatedPatch& entry, const Index3& position, const PatchGrid& grid,
                   const std::vector<SubfileDescription>& subfiles) {
  const std::int64_t patch_index = grid.PatchIndex(position);
  if (entry.patch.patch_index != static_cast<std::uint64_t>(patch_index))
    return DataLoss("patch {} under the key of another", entry.patch.patch_index);
  if (entry.subfile >= subfiles.size())
    return DataLoss("patch {} in subfile {} of {}", patch_index, entry.subfile, subfiles.size());
  return format::CheckRow(entry.patch, grid.PatchBox(position).volume(),
                          {format::HeaderSize(1), subfiles[entry.subfile].bytes});
}

Bytes MaskSubfilesValue(const MaskDescription& mask) {
  Bytes subfiles;
  for (const SubfileDescription& subfile : mask.subfiles) {
    PutLittleEndian(&subfiles, subfile.bytes);
    PutLittleEndian(&subfiles, subfile.patches);
    PutLittleEndian(&subfiles, subfile.table_checksum);
  }
  Bytes value;
  PutLittleEndian(&value, Checksum(subfiles));
  return value;
}

std::uint64_t FirstOfKey(ByteSpan key) {
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < 8; ++i) first = first << 8 | std::to_integer<std::uint64_t>(key[i]);
  return first;
}

}  // namespace quarry::index
