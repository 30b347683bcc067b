#pragma once

#include <cstdint>
#include <optional>

#include "quarry/codec/coder.h"

/// Tiles: boxes of samples that are coded for one answer, with the coders of fields.
namespace quarry {

/// Most samples of a tile. Both ends know it, so that no tile makes a client allocate more.
inline constexpr std::int64_t kMaxTileSamples = std::int64_t{1} << 18;

/// Shape and type of a tile, known to encoder and decoder without its bytes.
struct TileLayout {
  DataType type = DataType::kFloat32;
  Index3 shape{};  ///< 1 to kMaxTileSamples samples
};

/// How a tile is coded.
struct TileCoding {
  CoderId field{};   ///< coder of the field, whose safeguards the tile keeps
  double error = 0;  ///< [unit of the field] largest error that coding adds to a valid sample; 0: none
  std::optional<std::uint64_t> fill;  ///< fill value of the field: bits of one sample, or nothing
};

/// The coder of a tile. It keeps what the coder of the field promises beside the error.
/// @param field  coder of the field; may be unknown
const PatchCoder& TileCoder(DataType type, CoderId field, double error);

/// The error that coding adds at most where `error` is allowed: 0 if the coder of the tile loses nothing.
double TileError(DataType type, CoderId field, double error);

/// [bytes] that coding or decoding a tile takes beside its samples, its bytes included.
/// @param samples  of the tile
std::uint64_t TileMemory(DataType type, std::int64_t samples);

/// Codes a tile: the number of its coder, missing samples, valid samples, and a checksum over them, shape and
/// type.
/// @param samples  dense, x fastest, in native byte order; any bits
/// @errors kInvalidArgument: shape and bytes disagree, or an impossible error
Result<Bytes> EncodeTile(const TileLayout& layout, ByteSpan samples, const TileCoding& coding);

/// Decodes a tile. Any input is safe; the layout bounds the memory.
/// @param place  for the samples; after an error it may hold some of them
/// @errors kDataLoss: the bytes are damaged, or not of this shape and type; kInvalidArgument: an impossible
/// shape
Status DecodeTile(const TileLayout& layout, ByteSpan coded, const SamplePlace& place);

}  // namespace quarry
