#include "writer/pipeline/encode.h"

#include "quarry/base/missing.h"
#include "quarry/base/wide_integer.h"
#include "quarry/codec/sample_survey.h"
#include "writer/pipeline/rounding.h"

namespace quarry::writer {
namespace {

template <typename T>
SampleScan ScanOneByOne(std::span<const T> samples, std::optional<std::uint64_t> fill) {
  SampleScan scan;
  for (const T sample : samples) {
    if (IsMissing(sample, fill)) continue;
    scan.min = std::min(scan.min, RoundedDown(sample));
    scan.max = std::max(scan.max, RoundedUp(sample));
    ++scan.valid;
  }
  return scan;
}

template <typename T>
SampleScan ScanTyped(std::span<const T> samples, std::optional<std::uint64_t> fill) {
  if (samples.empty()) return {};
  const SampleSurvey survey = SurveySamples(samples, fill);
  if (survey.any_missing) return ScanOneByOne(samples, fill);
  return {survey.min, survey.max, samples.size()};
}

}  // namespace

SampleScan ScanSamples(DataType type, ByteSpan samples, std::optional<std::uint64_t> fill) {
  return DispatchType(type, [&]<typename T>(T) {
    return ScanTyped(std::span(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T)), fill);
  });
}

Result<EncodedPatchOfGrid> EncodePatchOfGrid(const PatchGrid& grid, const EncodeSettings& settings,
                                             const PatchSamples& patch, const DecodedPatch* reference,
                                             DecodedPatch* decoded) {
  const PatchCoder* coder = FindCoder(settings.coder);
  if (coder == nullptr)
    return InvalidArgument("coder {} is not in this version", static_cast<int>(settings.coder));
  try {
    const PatchLayout layout{settings.type, grid.PatchBox(patch.patch_index).shape(), settings.levels};
    std::vector<double> tolerances;
    for (const double tolerance : settings.tolerances)
      tolerances.push_back(ToleranceAfter(tolerance, patch.change));
    Result<EncodedPatch> result =
        EncodePatch(*coder, layout, patch.samples, {settings.fill, tolerances, reference, decoded});
    if (!result.ok()) return std::move(result).status().Annotate(fmt::format("patch {}", patch.patch_index));
    const PatchParts parts{settings.levels, static_cast<int>(tolerances.size())};
    for (int k = 0; k < parts.layers; ++k) {
      AddChange(patch.change, settings.tolerances[static_cast<std::size_t>(k)],
                std::span(result->errors).subspan(parts.Of(k, 0), static_cast<std::size_t>(settings.levels)));
    }
    return EncodedPatchOfGrid{patch.patch_index, *std::move(result)};
  } catch (const std::bad_alloc&) {
    return InternalError("out of memory while encoding patch {}; use more ranks or smaller patches",
                         patch.patch_index);
  }
}

}  // namespace quarry::writer
