#include "quarry/codec/tile.h"

#include <algorithm>
#include <span>

#include "quarry/base/checksum.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"

namespace quarry {
namespace {

/// A tile has one level: the coders find their own coarser ones inside it.
constexpr int kLevels = 1;

PatchLayout PatchOf(const TileLayout& layout) { return {layout.type, layout.shape, kLevels}; }

Status CheckShape(const TileLayout& layout) {
  std::int64_t samples = SizeOf(layout.type) == 0 ? 0 : 1;
  for (const std::int64_t side : layout.shape) {
    if (side < 1 || side > kMaxTileSamples) samples = 0;
    samples = std::min(samples * side, kMaxTileSamples + 1);
  }
  if (samples >= 1 && samples <= kMaxTileSamples) return Status::Ok();
  return InvalidArgument("a tile of shape {} and type {} has no sample, or more than {}",
                         ToString(layout.shape), Name(layout.type), kMaxTileSamples);
}

/// A tile decodes to nonsense under another shape or type, so they are part of the checksum.
std::uint64_t ChecksumOf(const TileLayout& layout, ByteSpan coded) {
  Bytes place;
  PutLittleEndian(&place, static_cast<std::uint8_t>(layout.type));
  for (const std::int64_t side : layout.shape) PutLittleEndian(&place, side);
  StreamingChecksum checksum;
  checksum.Update(place);
  checksum.Update(coded);
  return checksum.Finish();
}

/// The parts of a tile.
struct TileParts {
  const PatchCoder* coder = nullptr;
  ByteSpan mask;  ///< empty: no sample is missing
  ByteSpan payload;
};

/// @param coded  without the checksum
Result<TileParts> Divide(const TileLayout& layout, ByteSpan coded) {
  if (coded.empty()) return DataLoss("a coded tile has no content");
  TileParts parts;
  parts.coder = FindCoder(static_cast<CoderId>(coded.front()));
  coded = coded.subspan(1);
  if (parts.coder == nullptr || !parts.coder->traits().codes_fields || !parts.coder->Supports(layout.type))
    return DataLoss("a coded tile of type {} names an impossible coder", Name(layout.type));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t mask_size, entropy::TakeVarint(&coded));
  if (mask_size > coded.size())
    return DataLoss("the mask of a coded tile has {} bytes, and {} are left", mask_size, coded.size());
  parts.mask = coded.first(static_cast<std::size_t>(mask_size));
  parts.payload = coded.subspan(static_cast<std::size_t>(mask_size));
  return parts;
}

}  // namespace

const PatchCoder& TileCoder(DataType type, CoderId field, double error) {
  const PatchCoder& lossless = *FindCoder(CoderId::kLossless);
  const PatchCoder* const stored = FindCoder(field);
  if (IsWideInteger(type) || stored == nullptr || !stored->Supports(type)) return lossless;
  const CoderTraits& traits = stored->traits();
  // An error within the largest one of the field may be more than a small sample is allowed.
  if (traits.bound_is_relative) return lossless;
  const bool exact = error == 0;
  // Lossless fields may be labels, which have no smooth values to predict.
  if (exact && (IsFloat(type) || traits.is_lossless)) return lossless;
  return traits.has_safeguards && !exact ? *stored : *FindCoder(CoderId::kInterpolate);
}

double TileError(DataType type, CoderId field, double error) {
  return TileCoder(type, field, error).traits().is_lossless ? 0 : error;
}

std::uint64_t TileMemory(DataType type, std::int64_t samples) {
  // Measured with all coders, missing samples and shapes: at most 20, 52 and 96 bytes a sample of 1, 4 and 8.
  return static_cast<std::uint64_t>(samples) * (12 + 12 * SizeOf(type));
}

Result<Bytes> EncodeTile(const TileLayout& layout, ByteSpan samples, const TileCoding& coding) {
  QUARRY_RETURN_IF_ERROR(CheckShape(layout));
  if (!(coding.error >= 0)) return InvalidArgument("a tile cannot be coded within {}", coding.error);
  const PatchCoder& coder = TileCoder(layout.type, coding.field, coding.error);
  QUARRY_ASSIGN_OR_RETURN(const EncodedPatch encoded,
                          EncodePatch(coder, PatchOf(layout), samples, coding.fill, coding.error));
  const ByteSpan mask = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels.front());
  const Bytes& payload = encoded.levels.front();
  Bytes coded;
  coded.reserve(mask.size() + payload.size() + 16);
  coded.push_back(static_cast<std::byte>(coder.id()));
  entropy::PutVarint(mask.size(), &coded);
  coded.insert(coded.end(), mask.begin(), mask.end());
  coded.insert(coded.end(), payload.begin(), payload.end());
  PutLittleEndian(&coded, ChecksumOf(layout, coded));
  return coded;
}

Status DecodeTile(const TileLayout& layout, ByteSpan coded, const SamplePlace& place) {
  QUARRY_RETURN_IF_ERROR(CheckShape(layout));
  constexpr std::size_t kChecksum = sizeof(std::uint64_t);
  if (coded.size() < kChecksum) return DataLoss("a coded tile has {} bytes", coded.size());
  const ByteSpan content = coded.first(coded.size() - kChecksum);
  const auto stored = GetLittleEndian<std::uint64_t>(content.data() + content.size());
  const std::uint64_t computed = ChecksumOf(layout, content);
  if (stored != computed) {
    return DataLoss("a coded tile of {} has the checksum {}, and {} is computed", ToString(layout.shape),
                    ChecksumText(stored), ChecksumText(computed));
  }
  QUARRY_ASSIGN_OR_RETURN(const TileParts parts, Divide(layout, content));
  PatchReader reader(*parts.coder, PatchOf(layout));
  return reader.AdvanceInto(parts.payload, parts.mask, place);
}

}  // namespace quarry
