#include "quarry/codec/interpolate/interpolate.h"

#include <algorithm>

#include "quarry/codec/interpolate/patch_form.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {

Result<CodedPatch> InterpolateCoder::Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                            double tolerance) const {
  return interpolate::EncodePatch(layout, samples, validity, {&tolerance, 1}, nullptr);
}

Result<CodedPatch> InterpolateCoder::EncodeLayers(const PatchLayout& layout, ByteSpan samples,
                                                  Validity validity, Tolerances tolerances) const {
  return interpolate::EncodePatch(layout, samples, validity, tolerances, nullptr);
}

Result<CodedPatch> InterpolateCoder::EncodeReferring(const PatchLayout& layout, ByteSpan samples,
                                                     Validity validity, Tolerances tolerances,
                                                     const PatchReference& reference) const {
  const auto count = static_cast<std::size_t>(Volume(layout.shape));
  const bool fits = std::all_of(reference.layers.begin(), reference.layers.end(),
                                [&](ByteSpan layer) { return layer.size() == count * SizeOf(layout.type); });
  if (!fits || reference.layers.size() != tolerances.size() ||
      (!reference.validity.empty() && reference.validity.size() != count))
    return InvalidArgument("a patch of shape {} refers to one of another shape", ToString(layout.shape));
  return interpolate::EncodePatch(layout, samples, validity, tolerances, &reference);
}

std::unique_ptr<PatchDecoder> InterpolateCoder::NewDecoder(const PatchLayout& layout) const {
  return interpolate::NewPatchDecoder(layout);
}

}  // namespace quarry
