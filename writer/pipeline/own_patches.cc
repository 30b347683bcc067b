#include "writer/pipeline/own_patches.h"

#include <algorithm>

namespace quarry::writer {
namespace {

/// A row, then payloads from the last part to the first.
std::vector<ByteSpan> InStore(const Bytes& row, const std::vector<Bytes>& payloads) {
  std::vector<ByteSpan> parts = {row};
  parts.insert(parts.end(), payloads.rbegin(), payloads.rend());
  return parts;
}

}  // namespace

Status OwnPatches::Add(const EncodedPatchOfGrid& patch, std::int64_t samples) {
  const format::PatchEntry row = SampleRow(patch);
  const bool masked = !patch.encoded.mask_levels.empty();
  Bytes bytes;
  row.EncodeTo(&bytes);
  Bytes mask;
  if (masked) MaskRow(patch, samples).EncodeTo(&mask);
  Own own;
  own.curve_position = static_cast<std::uint64_t>(grid_.CurvePosition(patch.patch_index));
  own.stored = StoredBytes(row);
  own.masked = masked ? 1 : 0;
  const std::lock_guard lock(mutex_);
  if (masked) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t position,
                            store_.Append(InStore(mask, patch.encoded.mask_levels)));
    PutLittleEndian(&bytes, position);
  }
  QUARRY_ASSIGN_OR_RETURN(own.position, store_.Append(InStore(bytes, patch.encoded.levels)));
  if (patch.encoded.valid > 0) {
    min_ = std::min(min_, patch.encoded.min);
    max_ = std::max(max_, patch.encoded.max);
  }
  any_refers_ |= patch.encoded.refers;
  any_masked_ |= masked;
  patches_.push_back(own);
  return Status::Ok();
}

void OwnPatches::Sort() { std::ranges::sort(patches_, {}, &Own::curve_position); }

OutgoingPatches::OutgoingPatches(const OwnPatches& own, Kind kind)
    : own_(&own),
      kind_(kind),
      parts_(kind == Kind::kMasks ? PatchParts{own.parts_.levels, 1} : own.parts_),
      unmasked_bytes_(StoredBytes(UnmaskedRow(0, 1, own.parts_.levels))) {}

std::size_t OutgoingPatches::size() const { return own_->patches_.size(); }
const PatchGrid& OutgoingPatches::grid() const { return own_->grid_; }
std::uint64_t OutgoingPatches::CurvePosition(std::size_t patch) const {
  return own_->patches_[patch].curve_position;
}

std::size_t OutgoingPatches::FirstFrom(std::uint64_t curve_position) const {
  const auto found =
      std::ranges::lower_bound(own_->patches_, curve_position, {}, &OwnPatches::Own::curve_position);
  return static_cast<std::size_t>(found - own_->patches_.begin());
}

Result<std::uint64_t> OutgoingPatches::Stored(std::size_t patch) const {
  const OwnPatches::Own& own = own_->patches_[patch];
  if (!IsMask()) return std::uint64_t{own.stored};
  if (own.masked == 0) return unmasked_bytes_;
  QUARRY_ASSIGN_OR_RETURN(const format::PatchEntry row, Row(patch));
  return StoredBytes(row);
}

Result<std::uint64_t> OutgoingPatches::PositionOf(std::size_t patch) const {
  const OwnPatches::Own& own = own_->patches_[patch];
  if (!IsMask()) return std::uint64_t{own.position};
  std::byte bytes[sizeof(std::uint64_t)];
  const std::size_t row_size = format::PatchEntry::EncodedSize(own_->parts_.count());
  QUARRY_RETURN_IF_ERROR(own_->store_.Read(own.position + row_size, bytes));
  return GetLittleEndian<std::uint64_t>(bytes);
}

Result<format::PatchEntry> OutgoingPatches::Row(std::size_t patch) const {
  const OwnPatches::Own& own = own_->patches_[patch];
  if (IsMask() && own.masked == 0) {
    const std::int64_t index = grid().PatchAtCurvePosition(static_cast<std::int64_t>(own.curve_position));
    return UnmaskedRow(index, grid().PatchBox(index).volume(), parts_.levels);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t position, PositionOf(patch));
  Bytes buffer;
  QUARRY_ASSIGN_OR_RETURN(
      const ByteSpan bytes,
      own_->store_.View(position, format::PatchEntry::EncodedSize(parts_.count()), &buffer));
  return format::PatchEntry::DecodeFrom(bytes, parts_.count());
}

Result<ByteSpan> OutgoingPatches::Payload(std::size_t patch, const format::PatchEntry& row,
                                          const format::PartRun& run, Bytes* buffer) const {
  const OwnPatches::Own& own = own_->patches_[patch];
  const std::uint64_t size = PayloadBytes(row, run);
  if (size == 0) return ByteSpan();
  QUARRY_ASSIGN_OR_RETURN(std::uint64_t position, PositionOf(patch));
  position += format::PatchEntry::EncodedSize(parts_.count());
  if (!IsMask() && own.masked != 0) position += sizeof(std::uint64_t);
  for (std::size_t part = row.levels.size(); part-- > static_cast<std::size_t>(run.first) + 1;)
    position += row.levels[part].size;
  return own_->store_.View(position, size, buffer);
}

}  // namespace quarry::writer
