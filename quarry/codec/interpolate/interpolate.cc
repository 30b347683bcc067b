#include "quarry/codec/interpolate/interpolate.h"

#include <algorithm>

#include "quarry/codec/interpolate/patch_form.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {

Result<CodedPatch> InterpolateCoder::EncodeChecked(const EncodeRequest& request) const {
  const auto& [layout, samples, validity, tolerances, reference] = request;
  if (reference != nullptr) {
    const auto count = static_cast<std::size_t>(Volume(layout.shape));
    const std::size_t bytes = count * SizeOf(layout.type);
    const bool fits = std::all_of(reference->layers.begin(), reference->layers.end(),
                                  [&](ByteSpan layer) { return layer.size() == bytes; });
    if (!fits || reference->layers.size() != tolerances.size() ||
        (!reference->validity.empty() && reference->validity.size() != count))
      return InvalidArgument("a patch of shape {} refers to one of another shape", ToString(layout.shape));
  }
  return interpolate::EncodePatch(layout, samples, validity, tolerances, reference);
}

std::unique_ptr<PatchDecoder> InterpolateCoder::NewPlainDecoder(const PatchLayout& layout) const {
  return interpolate::NewPatchDecoder(layout);
}

}  // namespace quarry
