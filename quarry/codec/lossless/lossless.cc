#include "quarry/codec/lossless/lossless.h"

#include <span>

#include "quarry/codec/lossless/patch_form.h"
#include "quarry/codec/sample_span.h"

namespace quarry {
namespace {

/// The samples that readers get of each level.
std::vector<Bytes> SubsampledLevels(const PatchLayout& layout, ByteSpan samples) {
  std::vector<Bytes> levels(static_cast<std::size_t>(layout.levels));
  DispatchType(layout.type, [&]<typename T>(T) {
    for (int l = 0; l < layout.levels; ++l) {
      const lossless::Buffer<T> level = lossless::Subsample<T>(SamplesOf<T>(samples), layout.shape, l);
      const ByteSpan bytes = std::as_bytes(std::span<const T>(level));
      levels[static_cast<std::size_t>(l)].assign(bytes.begin(), bytes.end());
    }
  });
  return levels;
}

}  // namespace

bool LosslessCoder::Supports(DataType type) const { return SizeOf(type) != 0; }

Result<CodedPatch> LosslessCoder::EncodeChecked(const EncodeRequest& request) const {
  const auto& [layout, samples, validity, tolerances, reference] = request;
  if (!Supports(layout.type))
    return InvalidArgument("codec lossless does not code type {}", static_cast<int>(layout.type));
  const std::size_t count = lossless::Count(layout.shape);
  if (samples.empty() || samples.size() != count * SizeOf(layout.type)) {
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  }
  if (!validity.empty() && validity.size() != count) {
    return InvalidArgument("a patch of shape {} has validity of {} samples", ToString(layout.shape),
                           validity.size());
  }
  CodedPatch coded;
  coded.levels = lossless::EncodeLevels(layout, samples, validity);
  coded.decoded = SubsampledLevels(layout, samples);
  return coded;
}

std::unique_ptr<PatchDecoder> LosslessCoder::NewPlainDecoder(const PatchLayout& layout) const {
  return lossless::NewPatchDecoder(layout);
}

}  // namespace quarry
