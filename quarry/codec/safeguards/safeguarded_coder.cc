#include "quarry/codec/safeguards/safeguarded_coder.h"

#include <cmath>

#include "quarry/box.h"
#include "quarry/codec/safeguards/patch_form.h"

namespace quarry {
namespace {

int Sign(auto sample) { return sample > 0 ? 1 : sample < 0 ? -1 : 0; }

template <typename T>
bool IsKept(Safeguard safeguard, double tolerance, T sample, T decoded) {
  if (safeguard == Safeguard::kZeros) return sample != 0 || decoded == 0;
  if (Sign(sample) != Sign(decoded)) return false;
  if (safeguard == Safeguard::kSigns) return true;
  const auto value = static_cast<double>(sample);
  return std::abs(value - static_cast<double>(decoded)) <= tolerance * std::abs(value);
}

}  // namespace

const CoderTraits& SafeguardedCoder::traits() const {
  static constexpr CoderTraits kZeros{.id = CoderId::kInterpolateZeros,
                                      .name = "interpolate-zeros",
                                      .has_safeguards = true,
                                      .can_repeat = true};
  static constexpr CoderTraits kSigns{.id = CoderId::kInterpolateSigns,
                                      .name = "interpolate-signs",
                                      .has_safeguards = true,
                                      .can_repeat = true};
  static constexpr CoderTraits kRelative{.id = CoderId::kInterpolateRelative,
                                         .name = "interpolate-relative",
                                         .bound_is_relative = true,
                                         .has_safeguards = true,
                                         .can_repeat = true};
  if (safeguard_ == Safeguard::kZeros) return kZeros;
  return safeguard_ == Safeguard::kSigns ? kSigns : kRelative;
}

bool SafeguardedCoder::Supports(DataType type) const {
  return safeguard_ == Safeguard::kRelative ? IsFloat(type) : SizeOf(type) != 0 && !IsWideInteger(type);
}

bool SafeguardedCoder::Keeps(DataType type, ByteSpan samples, Validity validity, double tolerance,
                             ByteSpan decoded) const {
  return DispatchNarrow(type, [&](auto zero) {
    using T = decltype(zero);
    const std::span<const T> before = SamplesOf<T>(samples);
    const std::span<const T> after = SamplesOf<T>(decoded);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (safeguards::IsValid(validity, i) && !IsKept(safeguard_, tolerance, before[i], after[i]))
        return false;
    }
    return true;
  });
}

Result<CodedPatch> SafeguardedCoder::EncodeChecked(const EncodeRequest& request) const {
  const auto& [layout, samples, validity, tolerances, reference] = request;
  const double tolerance = tolerances.front();
  if (!Supports(layout.type)) return InvalidArgument("codec {} does not code {}", name(), Name(layout.type));
  if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) * SizeOf(layout.type))
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  if (traits().bound_is_relative && !(tolerance < 1))
    return InvalidArgument("a relative error of {} keeps nothing; give one below 1", tolerance);
  return safeguards::EncodePatch(safeguard_, *this, layout, samples, validity, tolerance);
}

std::unique_ptr<PatchDecoder> SafeguardedCoder::NewPlainDecoder(const PatchLayout& layout) const {
  return safeguards::NewPatchDecoder(safeguard_, layout);
}

}  // namespace quarry
