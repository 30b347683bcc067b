#pragma once

#include <span>
#include <vector>

#include "quarry/codec/patch_codec.h"

/// One patch as the input of a fuzzer: its layout in the first bytes, then its payloads.
///
/// | bytes | meaning |
/// |---|---|
/// | 1 | bits 0 to 2: type of the samples; bit 3: there are mask payloads; bits 4 and 5: layers less 1 |
/// | 3 | samples along x, y, z, less 1, modulo 64 |
/// | 1 | levels less 1, modulo 8 |
/// | 2 or 4 a part, the last first | u16 size of the payload; with masks, in layer 0 u16 size of the mask
/// payload | | the rest | per part, the last first: mask payload, payload |
namespace quarry::fuzz {

struct PayloadInput {
  PatchLayout layout;
  int layers = 1;
  std::vector<ByteSpan> levels;       ///< payloads of all parts
  std::vector<ByteSpan> mask_levels;  ///< mask of each level, 0 the finest; all empty without masks

  PatchParts parts() const { return {layout.levels, layers}; }
};

/// Accepts any bytes: payloads that reach beyond the end are cut, and large patches are made smaller.
/// @param types  the layout's type is one of these
/// @param most_layers  of the coder
PayloadInput ReadInput(ByteSpan bytes, std::span<const DataType> types, int most_layers = 1);

/// Inverse of ReadInput for layouts that it does not change.
/// @param mask_levels  as EncodedPatch::mask_levels
Bytes WriteInput(const PatchLayout& layout, std::span<const DataType> types, std::span<const Bytes> levels,
                 std::span<const Bytes> mask_levels);

/// Types that a coder supports, in the order of their numbers.
std::vector<DataType> SupportedTypes(const PatchCoder& coder);

/// Decodes all levels. @returns the samples of every level that could be decoded, the coarsest first
std::vector<Bytes> DecodeInput(const PatchCoder& coder, const PayloadInput& input);

/// The same of a patch at several steps, all of one layout: the last refers to the mean of the others, at
/// most two.
std::vector<Bytes> DecodeSteps(const PatchCoder& coder, std::span<const PayloadInput> steps);

}  // namespace quarry::fuzz
