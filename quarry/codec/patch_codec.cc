#include "quarry/codec/patch_codec.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "quarry/base/wide_integer.h"
#include "quarry/codec/error_record/error_record.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/mask/missing_values.h"
#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/sample_range.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/sample_survey.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

const ValidityCoder kValidityCoder;

template <typename T>
struct ClassifySamples {
  /// 1 for a valid sample, 0 for a missing one.
  QUARRY_INLINE static void Run(const T* __restrict samples, std::size_t count, MissingTest<T> is_missing,
                                std::uint8_t* __restrict mask) {
    for (std::size_t i = 0; i < count; ++i) mask[i] = static_cast<std::uint8_t>(1 - is_missing(samples[i]));
  }
};

template <typename T>
Bytes Classify(std::span<const T> samples, std::optional<std::uint64_t> fill) {
  Bytes mask(samples.size());
  RunOnBestInstructionSet<ClassifySamples<T>>(samples.data(), samples.size(), MissingTest<T>(fill),
                                              reinterpret_cast<std::uint8_t*>(mask.data()));
  return mask;
}

/// @param samples  without missing ones
template <typename T>
void RecordRange(std::span<const T> samples, EncodedPatch* encoded) {
  SampleRange<T> range(samples[0]);
  range.Add(samples.data(), nullptr, samples.size());
  encoded->min = RoundedDown(range.least());
  encoded->max = RoundedUp(range.most());
}

/// Encodes a patch with the coder and records the error, not the range.
/// @param missing_replaced  `original`, with any missing samples replaced
Result<EncodedPatch> EncodeSamples(const PatchCoder& coder, const PatchLayout& layout, ByteSpan original,
                                   ByteSpan missing_replaced, Validity validity,
                                   const EncodeOptions& options) {
  const Tolerances tolerances = options.tolerances;
  const bool refers = options.reference != nullptr && !options.reference->empty();
  PatchReference reference;
  if (refers) reference = options.reference->AsReference();
  QUARRY_ASSIGN_OR_RETURN(CodedPatch coded, coder.Encode({layout, missing_replaced, validity, tolerances,
                                                          refers ? &reference : nullptr}));
  EncodedPatch encoded;
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  for (int k = parts.layers - 1; k >= 0; --k) {
    const std::span<const Bytes> decoded =
        std::span(coded.decoded).subspan(parts.Of(k, 0), static_cast<std::size_t>(layout.levels));
    const std::vector<LevelError> errors = RecordErrors(layout, original, validity, decoded);
    const double bound = coder.traits().is_lossless ? 0 : tolerances[static_cast<std::size_t>(k)];
    if (!coder.traits().bound_is_relative && !(errors[0].max_error <= bound)) {
      return InternalError(
          "a patch decodes with an error of {} instead of {}: this is a bug in Quarry, please report it",
          errors[0].max_error, bound);
    }
    if (!coder.Keeps(layout.type, original, validity, bound, decoded.front())) {
      return InternalError(
          "a patch decodes without the guarantee of {}, at {}: this is a bug in Quarry, please report it",
          coder.name(), bound);
    }
    encoded.errors.insert(encoded.errors.end(), errors.begin(), errors.end());
  }
  encoded.levels = std::move(coded.levels);
  encoded.refers = coded.refers;
  if (options.decoded != nullptr) {
    const auto* valid = reinterpret_cast<const std::byte*>(validity.data());
    options.decoded->validity.assign(valid, valid + validity.size());
    for (int k = 0; k < parts.layers; ++k)
      options.decoded->layers.push_back(std::move(coded.decoded[parts.Of(k, 0)]));
  }
  return encoded;
}

/// Encodes a patch in which some or all samples are missing.
Result<EncodedPatch> EncodeMasked(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                  const Bytes& mask, bool some_valid, const EncodeOptions& options) {
  const PatchLayout mask_layout{DataType::kUint8, layout.shape, layout.levels};
  QUARRY_ASSIGN_OR_RETURN(CodedPatch coded_mask,
                          kValidityCoder.Encode({mask_layout, mask, {}, kOneExactLayer}));
  EncodedPatch encoded;
  const auto levels = static_cast<std::size_t>(layout.levels);
  encoded.levels.resize(options.tolerances.size() * levels);
  encoded.errors.resize(encoded.levels.size());
  encoded.min = std::numeric_limits<double>::infinity();
  encoded.max = -std::numeric_limits<double>::infinity();
  if (some_valid) {
    // So no coder sees a number that is not finite, even if it ignores the validity.
    Bytes replaced(samples.size());
    DispatchType(layout.type, [&]<typename T>(T) {
      CopyPlausibly(SamplesOf<T>(samples).data(), AsValidity(mask), reinterpret_cast<T*>(replaced.data()));
    });
    QUARRY_ASSIGN_OR_RETURN(encoded,
                            EncodeSamples(coder, layout, samples, replaced, AsValidity(mask), options));
    DispatchType(layout.type, [&](auto zero) { RecordRange(SamplesOf<decltype(zero)>(replaced), &encoded); });
  }
  // Missing values are the same in all layers: the first has them, whose parts come last.
  std::vector<Bytes> first =
      mask::AddMissingValues(layout, samples, coded_mask.decoded, std::span(encoded.levels).last(levels));
  std::move(first.begin(), first.end(), encoded.levels.end() - layout.levels);
  encoded.mask_levels = std::move(coded_mask.levels);
  return encoded;
}

Status CheckPatch(const PatchLayout& layout, ByteSpan samples, std::optional<std::uint64_t> fill) {
  const std::size_t size = SizeOf(layout.type);
  if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) * size || samples.empty())
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  if (fill.has_value() && size < sizeof(*fill) && *fill >> (8 * size) != 0)
    return InvalidArgument("fill value {:#x} has more bits than a sample of type {}", *fill,
                           Name(layout.type));
  return Status::Ok();
}

}  // namespace

Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                 const EncodeOptions& options) {
  const std::optional<std::uint64_t>& fill = options.fill;
  QUARRY_RETURN_IF_ERROR(CheckPatch(layout, samples, fill));
  const PatchParts parts{layout.levels, static_cast<int>(options.tolerances.size())};
  const SampleSurvey survey = DispatchType(
      layout.type, [&](auto zero) { return SurveySamples(SamplesOf<decltype(zero)>(samples), fill); });
  if (!survey.any_missing) {
    QUARRY_ASSIGN_OR_RETURN(EncodedPatch encoded,
                            EncodeSamples(coder, layout, samples, samples, {}, options));
    encoded.valid = static_cast<std::uint64_t>(Volume(layout.shape));
    encoded.min = survey.min;
    encoded.max = survey.max;
    encoded.parts = parts;
    return encoded;
  }
  const Bytes mask = DispatchType(
      layout.type, [&](auto zero) { return Classify(SamplesOf<decltype(zero)>(samples), fill); });
  const auto valid = static_cast<std::uint64_t>(std::count(mask.begin(), mask.end(), std::byte{1}));
  Result<EncodedPatch> encoded = EncodeMasked(coder, layout, samples, mask, valid > 0, options);
  if (!encoded.ok()) return encoded;
  encoded->valid = valid;
  encoded->parts = parts;
  return encoded;
}

}  // namespace quarry
