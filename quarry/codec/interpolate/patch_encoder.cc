#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "quarry/codec/interpolate/float32_patch.h"
#include "quarry/codec/interpolate/layer_encoder.h"
#include "quarry/codec/interpolate/listed_layer.h"
#include "quarry/codec/interpolate/patch_form.h"
#include "quarry/codec/lossless/lossless.h"
#include "quarry/codec/sample_span.h"

namespace quarry::interpolate {
namespace {

/// Whether decoded samples are within the tolerance already; for the tolerance 0, bit by bit.
template <typename S>
bool Keeps(const CodedLayer& layer, std::span<const S> samples, Validity validity, double tolerance) {
  const S* decoded = reinterpret_cast<const S*>(layer.decoded[0].data());
  // Differences are rounded.
  const double bound = tolerance * (1 - 4 * std::numeric_limits<double>::epsilon());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!validity.empty() && validity[i] == 0) continue;
    const double error = std::abs(static_cast<double>(samples[i]) - static_cast<double>(decoded[i]));
    if (!(error <= bound) || (tolerance == 0 && !SameBits(samples[i], decoded[i]))) return false;
  }
  return true;
}

/// A patch in layers, and which of these refer to another step: bit k for layer k.
struct CodedLayers {
  CodedPatch patch;
  unsigned referring = 0;
};

std::size_t SizeOfAll(std::span<const Bytes> parts) {
  std::size_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size();
  return bytes;
}

/// @param reference  or null
template <typename S>
CodedLayers CodeLayers(const PatchLayout& layout, std::span<const S> samples, Validity validity,
                       Tolerances tolerances, const PatchReference* reference) {
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  CodedLayers layers;
  CodedPatch& coded = layers.patch;
  coded.levels.resize(static_cast<std::size_t>(parts.count()));
  coded.decoded.resize(coded.levels.size());
  CodedLayer layer;
  for (int k = 0; k < parts.layers; ++k) {
    const double tolerance = tolerances[static_cast<std::size_t>(k)];
    const bool is_last = k + 1 == parts.layers;
    if (k > 0 && Keeps(layer, samples, validity, tolerance)) {
      layer.levels.assign(layer.levels.size(), Bytes());
    } else {
      LayerSettings settings{tolerance, is_last, /*without_lattice=*/false, k > 0 ? &layer : nullptr, {}, {}};
      if (reference != nullptr) {
        settings.reference = reference->layers[static_cast<std::size_t>(k)];
        settings.reference_validity = reference->validity;
      }
      CodedLayer next = EncodeLayer<S>(layout, samples, validity, settings);
      if (k > 0 && tolerance == 0 && !Keeps(next, samples, validity, 0)) {
        settings.without_lattice = true;
        next = EncodeLayer<S>(layout, samples, validity, settings);
      }
      layer = std::move(next);
      layers.referring |= static_cast<unsigned>(layer.head.refers) << k;
    }
    const auto to = static_cast<std::ptrdiff_t>(parts.Of(k, 0));
    std::move(layer.levels.begin(), layer.levels.end(), coded.levels.begin() + to);
    if (is_last) {
      std::move(layer.decoded.begin(), layer.decoded.end(), coded.decoded.begin() + to);
    } else {
      std::copy(layer.decoded.begin(), layer.decoded.end(), coded.decoded.begin() + to);
    }
  }
  return layers;
}

/// A float64 patch whose samples are all float32 numbers, coded as float32: its exact layer then costs the
/// same as that of a float32 patch.
CodedLayers CodeAsFloat32(const PatchLayout& layout, std::span<const double> samples, Validity validity,
                          Tolerances tolerances, const PatchReference* reference) {
  const Float32Samples narrow = ToFloat32(samples);
  std::vector<Float32Samples> narrow_layers;
  PatchReference narrow_reference;
  if (reference != nullptr) {
    narrow_reference.validity = reference->validity;
    for (const ByteSpan layer : reference->layers)
      narrow_layers.push_back(ToFloat32(SamplesOf<double>(layer)));
    for (const Float32Samples& layer : narrow_layers)
      narrow_reference.layers.push_back(std::as_bytes(std::span(layer)));
  }
  CodedLayers layers = CodeLayers<float>({DataType::kFloat32, layout.shape, layout.levels}, narrow, validity,
                                         tolerances, reference != nullptr ? &narrow_reference : nullptr);
  CodedPatch& coded = layers.patch;
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  for (int k = 0; k < parts.layers; ++k) {
    if (Bytes& coarsest = coded.levels[parts.Of(k, layout.levels - 1)]; !coarsest.empty())
      coarsest.front() |= std::byte{kFloat32};
  }
  for (Bytes& level : coded.decoded) level = ToFloat64(SamplesOf<float>(level));
  return layers;
}

/// Replaces the first exact layer, which only empty ones follow, by another form of it, if that is smaller:
/// they know of numbers that repeat.
Status TryOtherForms(const PatchLayout& layout, ByteSpan samples, Validity validity, CodedLayers* layers) {
  CodedPatch& coded = layers->patch;
  const PatchParts parts{layout.levels, static_cast<int>(coded.levels.size()) / layout.levels};
  const auto levels_of = [&](int k) {
    return std::span(coded.levels).subspan(parts.Of(k, 0), static_cast<std::size_t>(layout.levels));
  };
  int exact = parts.layers - 1;
  while (exact > 0 && SizeOfAll(levels_of(exact)) == 0) --exact;
  if (exact == 0) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(CodedPatch other,
                          LosslessCoder().Encode({layout, samples, validity, kOneExactLayer}));
  std::uint8_t form = kLossless;
  std::vector<Bytes> listed =
      EncodeListedLayer(layout, samples, validity, coded.decoded[parts.Of(exact - 1, 0)],
                        std::min(SizeOfAll(other.levels), SizeOfAll(levels_of(exact))));
  if (!listed.empty() && SizeOfAll(listed) < SizeOfAll(other.levels)) {
    other.levels = std::move(listed);
    form = kListed;
  }
  if (SizeOfAll(other.levels) + 1 >= SizeOfAll(levels_of(exact))) return Status::Ok();
  Bytes& coarsest = other.levels.back();
  coarsest.insert(coarsest.begin(), std::byte{form});
  std::move(other.levels.begin(), other.levels.end(), levels_of(exact).begin());
  for (int k = exact; k < parts.layers; ++k) {
    std::copy(other.decoded.begin(), other.decoded.end(),
              coded.decoded.begin() + static_cast<std::ptrdiff_t>(parts.Of(k, 0)));
  }
  layers->referring &= ~(1U << exact);
  return Status::Ok();
}

/// Replaces the layers of a patch of float64 by those of float32, if that has all its numbers and they are
/// smaller: there are fewer bits for whole numbers, and for tolerances that are small beside the samples.
void TryFloat32(const PatchLayout& layout, ByteSpan samples, Validity validity, Tolerances tolerances,
                const PatchReference* reference, CodedLayers* layers) {
  if (layout.type != DataType::kFloat64 || !AreFloat32(SamplesOf<double>(samples), validity)) return;
  CodedLayers narrow = CodeAsFloat32(layout, SamplesOf<double>(samples), validity, tolerances, reference);
  if (SizeOfAll(narrow.patch.levels) < SizeOfAll(layers->patch.levels)) *layers = std::move(narrow);
}

Status CheckTolerances(Tolerances tolerances) {
  for (std::size_t k = 0; k < tolerances.size(); ++k) {
    if (!(tolerances[k] >= 0)) return InvalidArgument("tolerance {} is not a positive number", tolerances[k]);
    if (k > 0 && !(tolerances[k] <= tolerances[k - 1]))
      return InvalidArgument("layer {} has the tolerance {}, which is above {}, that of the layer before", k,
                             tolerances[k], tolerances[k - 1]);
  }
  return Status::Ok();
}

}  // namespace

Result<CodedPatch> EncodePatch(const PatchLayout& layout, ByteSpan samples, Validity validity,
                               Tolerances tolerances, const PatchReference* reference) {
  if (IsWideInteger(layout.type))
    return InvalidArgument("codec interpolate does not code {}", Name(layout.type));
  const auto count = static_cast<std::size_t>(Volume(layout.shape));
  if (samples.size() != count * SizeOf(layout.type) || samples.empty() ||
      (!validity.empty() && validity.size() != count)) {
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  }
  QUARRY_RETURN_IF_ERROR(CheckTolerances(tolerances));
  if (layout.levels < 1 || (!validity.empty() && std::count(validity.begin(), validity.end(), 0) ==
                                                     static_cast<std::ptrdiff_t>(count))) {
    return InvalidArgument("a patch of {} levels without a valid sample", layout.levels);
  }
  CodedLayers layers = DispatchNarrow(layout.type, [&]<typename S>(S) {
    return CodeLayers<S>(layout, SamplesOf<S>(samples), validity, tolerances, reference);
  });
  if (tolerances.size() > 1 && tolerances.back() == 0) {
    TryFloat32(layout, samples, validity, tolerances, reference, &layers);
    QUARRY_RETURN_IF_ERROR(TryOtherForms(layout, samples, validity, &layers));
  }
  layers.patch.refers = layers.referring != 0;
  return std::move(layers.patch);
}

}  // namespace quarry::interpolate
