#pragma once

#include <memory>
#include <vector>

#include "quarry/codec/coder.h"

/// Exact layers of fields in which numbers repeat: of all numbers that occur in the patch, a sample is one of
/// the few that are as near to the layer before as that layer promises. Types are floating-point ones.
/// Payload: docs/format.md, "Listed values".
namespace quarry::interpolate {

/// Payload of all levels, without the first byte of the coarsest; none where few numbers repeat.
/// @param before  level 0 of the layer before, decoded
std::vector<Bytes> EncodeListedLayer(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                     ByteSpan before);

/// Has only further layers: AdvanceLayer.
std::unique_ptr<PatchDecoder> NewListedLayerDecoder(const PatchLayout& layout);

}  // namespace quarry::interpolate
