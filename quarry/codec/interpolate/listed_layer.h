#pragma once

#include <memory>
#include <vector>

#include "quarry/codec/coder.h"

/// Exact layers of fields in which numbers repeat: of all numbers that occur in the patch, a sample is one of
/// the few that are as near to the layer before as that layer promises. Types are floating-point ones.
/// Payload: docs/format.md, "Listed values".
namespace quarry::interpolate {

/// Payload of all levels, without the first byte of the coarsest; none where it looks larger than `most`.
/// @param before  level 0 of the layer before, decoded
/// @param most    [bytes] of another form of the layer
std::vector<Bytes> EncodeListedLayer(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                     ByteSpan before, std::size_t most);

/// Decodes only further layers: each level needs the layer before.
std::unique_ptr<PatchDecoder> NewListedLayerDecoder(const PatchLayout& layout);

}  // namespace quarry::interpolate
