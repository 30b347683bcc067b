#include "quarry/codec/coder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "quarry/codec/repeats/fold_patch.h"
#include "quarry/codec/repeats/repeats.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

/// [bytes] of a patch that no other form would make much smaller.
constexpr std::uint64_t kFewBytes = 16;

std::uint64_t SizeOfAll(const CodedPatch& coded) {
  std::uint64_t bytes = 0;
  for (const Bytes& level : coded.levels) bytes += level.size();
  return bytes;
}

/// Whether the sizes in a request are right; otherwise the coder says what is wrong.
bool HasRightSizes(const EncodeRequest& request) {
  const auto count = static_cast<std::size_t>(Volume(request.layout.shape));
  const std::size_t bytes = count * SizeOf(request.layout.type);
  const auto fits = [&](ByteSpan samples) { return samples.size() == bytes; };
  const auto fits_mask = [&](Validity validity) { return validity.empty() || validity.size() == count; };
  const PatchReference* reference = request.reference;
  return count > 0 && request.layout.levels > 0 && fits(request.samples) && fits_mask(request.validity) &&
         (reference == nullptr || (fits_mask(reference->validity) &&
                                   std::all_of(reference->layers.begin(), reference->layers.end(), fits)));
}

/// The tolerances that remain for the coder, after numbers that stand for others at this distance.
std::vector<double> LeftOf(Tolerances tolerances, DataType type, double distance) {
  std::vector<double> left(tolerances.begin(), tolerances.end());
  if (distance == 0) return left;
  for (double& tolerance : left) {
    // Differences of floats are rounded, here and where errors are compared.
    tolerance = (IsFloat(type) ? tolerance * (1 - 0x1p-50) : std::floor(tolerance)) - distance;
  }
  return left;
}

/// The reference of the plane that is coded.
struct FirstReference {
  FirstReference(const PatchReference& whole, const repeats::Repeats& repeats, const PatchLayout& layout) {
    for (const ByteSpan layer : whole.layers)
      layers.push_back(FirstPlanes(repeats, layer, layout.shape, SizeOf(layout.type)));
    reference.layers.assign(layers.begin(), layers.end());
    if (whole.validity.empty()) return;
    validity = FirstPlanes(repeats, std::as_bytes(whole.validity), layout.shape, 1);
    reference.validity = {reinterpret_cast<const std::uint8_t*>(validity.data()), validity.size()};
  }
  bool has_any() const {
    return reference.validity.empty() || std::ranges::find(validity, std::byte{1}) != validity.end();
  }

  std::vector<Bytes> layers;
  Bytes validity;
  PatchReference reference;
};

/// Repeats the decoded samples of the plane.
void RepeatDecoded(const repeats::Repeats& repeats, const EncodeRequest& request, CodedPatch* coded) {
  const PatchLayout& layout = request.layout;
  const PatchParts parts{layout.levels, static_cast<int>(request.tolerances.size())};
  for (int part = 0; part < parts.count(); ++part) {
    Bytes& samples = coded->decoded[static_cast<std::size_t>(part)];
    samples = Repeat(repeats, samples, LevelShape(layout.shape, parts.LevelOf(part)), SizeOf(layout.type));
  }
}

}  // namespace

Result<CodedPatch> PatchCoder::EncodeFolded(const EncodeRequest& request,
                                            const repeats::FoldedPatch& folded) const {
  const PatchLayout& whole = request.layout;
  const PatchLayout layout{whole.type, CodedShape(folded.repeats, whole.shape), whole.levels};
  const std::vector<double> tolerances = LeftOf(request.tolerances, layout.type, folded.distance);
  std::optional<FirstReference> first;
  if (request.reference != nullptr) first.emplace(*request.reference, folded.repeats, whole);
  QUARRY_ASSIGN_OR_RETURN(CodedPatch coded,
                          EncodeChecked({layout, folded.samples, folded.validity, tolerances,
                                         first && first->has_any() ? &first->reference : nullptr}));
  Bytes& coarsest = coded.levels.back();
  coarsest.insert(coarsest.begin(), ToByte(folded.repeats));
  return coded;
}

Result<CodedPatch> PatchCoder::EncodeRepeating(const EncodeRequest& request) const {
  const auto& [layout, samples, validity, tolerances, reference] = request;
  const std::optional<repeats::FoldedPatch> same = repeats::FoldSameBits(layout, samples, validity);
  // Coders know constant patches.
  if (same && Volume(CodedShape(same->repeats, layout.shape)) == 1) return EncodeChecked(request);
  std::optional<repeats::FoldedPatch> close;
  const bool has_room = !traits().is_lossless && !traits().has_safeguards && tolerances.back() > 0;
  if (has_room) close = repeats::FoldCloseSamples(layout, samples, validity, tolerances.back());
  if (close && same && close->repeats.along == same->repeats.along) close.reset();
  // Without a mask the plane has a sample even for a line without a valid one. These may cost more than what
  // the coder pays for planes that are the same.
  const bool plain = !same || (!same->repeats.mask && !validity.empty());
  CodedPatch coded;
  const repeats::FoldedPatch* folded = nullptr;
  const auto is_enough = [&] { return !coded.levels.empty() && SizeOfAll(coded) <= kFewBytes; };
  const auto keep_smaller = [&](const repeats::FoldedPatch* form) -> Status {
    if (is_enough()) return Status::Ok();
    QUARRY_ASSIGN_OR_RETURN(CodedPatch other,
                            form != nullptr ? EncodeFolded(request, *form) : EncodeChecked(request));
    if (!coded.levels.empty() && SizeOfAll(other) > SizeOfAll(coded)) return Status::Ok();
    coded = std::move(other);
    folded = form;
    return Status::Ok();
  };
  if (close) QUARRY_RETURN_IF_ERROR(keep_smaller(&*close));
  if (same) QUARRY_RETURN_IF_ERROR(keep_smaller(&*same));
  if (plain) QUARRY_RETURN_IF_ERROR(keep_smaller(nullptr));
  if (folded != nullptr) RepeatDecoded(folded->repeats, request, &coded);
  return coded;
}

Result<CodedPatch> PatchCoder::Encode(const EncodeRequest& request) const {
  const std::size_t layers = request.tolerances.size();
  const int most = traits().most_layers;
  if (layers < 1 || layers > static_cast<std::size_t>(most)) {
    return InvalidArgument("a patch has {} layers of accuracy; coder {} has {}{}", layers, name(),
                           most > 1 ? "1 to " : "", most);
  }
  EncodeRequest usable = request;
  if (!traits().can_refer) usable.reference = nullptr;
  const bool may_repeat = traits().can_repeat && Supports(usable.layout.type) && HasRightSizes(usable);
  return may_repeat ? EncodeRepeating(usable) : EncodeChecked(usable);
}

std::unique_ptr<PatchDecoder> PatchCoder::NewDecoder(const PatchLayout& layout) const {
  return traits().can_repeat ? repeats::NewDecoder(id(), layout) : NewPlainDecoder(layout);
}

}  // namespace quarry
