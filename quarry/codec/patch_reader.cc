#include "quarry/codec/patch_reader.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "quarry/codec/mask/missing_values.h"
#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

const ValidityCoder kValidityCoder;

template <typename T>
T MeanOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (a + b) * T(0.5);
  } else {
    return static_cast<T>((a & b) + ((a ^ b) >> 1));  // rounded down, and no sum that overflows
  }
}

/// @param out, valid  of as many samples; `valid` is empty if those of both are
template <typename T>
void TakeMean(std::span<const T> a, Validity valid_a, std::span<const T> b, Validity valid_b,
              std::span<T> out, std::span<std::uint8_t> valid) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool has_a = valid_a.empty() || valid_a[i] != 0;
    const bool has_b = valid_b.empty() || valid_b[i] != 0;
    out[i] = has_a && has_b ? MeanOf(a[i], b[i]) : has_a ? a[i] : has_b ? b[i] : T(0);
    if (!valid.empty()) valid[i] = has_a || has_b ? 1 : 0;
  }
}

/// A level of a patch at two steps.
Bytes MeanOf(DataType type, const ReferenceLevel& a, const ReferenceLevel& b, Bytes* valid) {
  Bytes mean(a.samples.size());
  const std::size_t count = mean.size() / SizeOf(type);
  valid->resize(a.validity.empty() && b.validity.empty() ? 0 : count);
  DispatchType(type, [&]<typename T>(T) {
    TakeMean<T>(SamplesOf<T>(a.samples), a.validity, SamplesOf<T>(b.samples), b.validity,
                {reinterpret_cast<T*>(mean.data()), count},
                {reinterpret_cast<std::uint8_t*>(valid->data()), valid->size()});
  });
  return mean;
}

/// The patch of one step on its way through the levels.
class StepReader {
 public:
  /// The references whose mean a level refers to.
  using References = std::span<const StepReader* const>;

  StepReader(const PatchCoder& coder, const PatchLayout& layout, int layers)
      : coder_(&coder), layout_(layout), level_(layout.levels) {
    for (int k = 0; k < layers; ++k) decoders_.push_back(coder.NewDecoder(layout));
  }
  StepReader(const StepReader& other)
      : coder_(other.coder_),
        layout_(other.layout_),
        level_(other.level_),
        failed_(other.failed_),
        mask_(other.mask_ ? other.mask_->Clone() : nullptr),
        missing_(other.missing_),
        none_valid_(other.none_valid_) {
    for (const auto& decoder : other.decoders_) decoders_.push_back(decoder->Clone());
  }

  int level() const { return level_; }
  int layers() const { return static_cast<int>(decoders_.size()); }
  ByteSpan samples() const { return masked() ? missing_->samples() : decoders_.back()->samples(); }
  Validity validity() const { return masked() ? AsValidity(mask_->samples()) : Validity(); }
  std::uint64_t memory() const {
    std::uint64_t bytes = masked() ? mask_->memory() + missing_->samples().size() : 0;
    for (const auto& decoder : decoders_) bytes += decoder->memory();
    return bytes;
  }

  Status Advance(const LevelParts& parts, References references) {
    const auto& [payloads, mask_payload] = parts;
    QUARRY_RETURN_IF_ERROR(BeginAdvance(payloads, mask_payload));
    failed_ = true;
    QUARRY_RETURN_IF_ERROR(SetReferences(references));
    Status status =
        masked() ? AdvanceMasked(payloads, mask_payload) : AdvanceUnmasked(payloads, mask_payload);
    references_.clear();
    means_.clear();
    failed_ = !status.ok();
    if (!failed_) --level_;
    return status;
  }

  Status AdvanceInto(const LevelParts& parts, References references, const SamplePlace& place) {
    const auto& [payloads, mask_payload] = parts;
    QUARRY_RETURN_IF_ERROR(BeginAdvance(payloads, mask_payload));
    failed_ = true;  // it cannot go on from here
    QUARRY_RETURN_IF_ERROR(SetReferences(references));
    bool placed = false;
    if (masked()) {
      QUARRY_RETURN_IF_ERROR(AdvanceMasked(payloads, mask_payload));
    } else if (layers() == 1) {
      QUARRY_RETURN_IF_ERROR(CheckNoMask(mask_payload));
      QUARRY_ASSIGN_OR_RETURN(placed, AdvanceDecoder(0, {.payload = payloads.front(), .place = &place}));
    } else {
      QUARRY_RETURN_IF_ERROR(AdvanceUnmasked(payloads, mask_payload));
    }
    if (!placed) CopySamples(samples(), LevelShape(layout_.shape, level_ - 1), SizeOf(layout_.type), place);
    return Status::Ok();
  }

  Status AddLayer(std::span<const ByteSpan> payloads) {
    if (failed_ || payloads.size() != static_cast<std::size_t>(layout_.levels - level_))
      return InternalError("{} levels of a further layer, down to level {} of {}", payloads.size(), level_,
                           layout_.levels);
    failed_ = true;
    decoders_.push_back(coder_->NewDecoder(layout_));
    for (int level = layout_.levels - 1; level >= level_; --level) {
      const ByteSpan payload = payloads[static_cast<std::size_t>(layout_.levels - 1 - level)];
      if (none_valid_) {
        QUARRY_RETURN_IF_ERROR(CheckNothing(payload, level));
      } else {
        const ValidityBuffer coarse =
            CoarserValidity(validity(), LevelShape(layout_.shape, level_), level - level_);
        QUARRY_RETURN_IF_ERROR(AdvanceDecoder(decoders_.size() - 1, {payload, coarse}));
      }
    }
    if (masked() && !none_valid_) missing_->Refine(decoders_.back()->samples(), validity());
    failed_ = false;
    return Status::Ok();
  }

  DecodedPatch Decoded() const {
    DecodedPatch decoded;
    if (none_valid_) return decoded;
    for (const auto& decoder : decoders_)
      decoded.layers.emplace_back(decoder->samples().begin(), decoder->samples().end());
    const ByteSpan valid = std::as_bytes(validity());
    decoded.validity.assign(valid.begin(), valid.end());
    return decoded;
  }

  void KeepLayers(int layers) {
    if (layers < this->layers()) decoders_.resize(static_cast<std::size_t>(layers));
  }

 private:
  bool masked() const { return mask_ != nullptr; }

  Status BeginAdvance(std::span<const ByteSpan> payloads, ByteSpan mask_payload) {
    // After an error, mask and samples may be at different levels; decoding cannot continue.
    if (failed_) return InternalError("a patch cannot be decoded further after an error or its last level");
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    if (payloads.size() != decoders_.size())
      return InternalError("{} payloads for {} layers of a patch", payloads.size(), layers());
    if (level_ == layout_.levels) Start(mask_payload);
    return Status::Ok();
  }

  void Start(ByteSpan mask_payload) {
    if (mask_payload.empty()) return;
    mask_ = kValidityCoder.NewDecoder({DataType::kUint8, layout_.shape, layout_.levels});
    missing_.emplace(layout_);
    none_valid_ = ValidityCoder::SaysAllMissing(mask_payload);
  }

  Status CheckNoMask(ByteSpan mask_payload) const {
    if (mask_payload.empty()) return Status::Ok();
    return DataLoss("level {} of a patch without missing samples has a mask of {} bytes", level_ - 1,
                    mask_payload.size());
  }

  static Status CheckNothing(ByteSpan payload, int level) {
    if (payload.empty()) return Status::Ok();
    return DataLoss("level {} of a patch without valid samples has {} bytes of samples", level,
                    payload.size());
  }

  Status AdvanceUnmasked(std::span<const ByteSpan> payloads, ByteSpan mask_payload) {
    QUARRY_RETURN_IF_ERROR(CheckNoMask(mask_payload));
    return AdvanceLayers(payloads, {});
  }

  /// Sets what the next level of each layer refers to.
  Status SetReferences(References references) {
    if (references.empty()) return Status::Ok();
    for (const StepReader* reference : references) {
      if (reference->none_valid_) return DataLoss("a patch refers to one without a valid sample");
    }
    references_.clear();
    means_.clear();
    for (std::size_t k = 0; k < decoders_.size(); ++k) {
      ReferenceLevel level = references.front()->Decoded(k);
      if (references.size() > 1) {
        means_.push_back(MeanOf(layout_.type, level, references.back()->Decoded(k), &mean_validity_));
        level = {means_.back(), AsValidity(mean_validity_)};
      }
      references_.push_back(level);
    }
    return Status::Ok();
  }

  /// The level of a layer that others refer to.
  ReferenceLevel Decoded(std::size_t layer) const { return {decoders_[layer]->samples(), validity()}; }

  /// Decodes the next level of a layer.
  /// @param input  but for the layer before and the reference, which it adds
  Result<bool> AdvanceDecoder(std::size_t layer, LevelInput input) {
    const CoderTraits& traits = coder_->traits();
    if (layer >= static_cast<std::size_t>(traits.most_layers))
      return InternalError("coder {} has no layer {}", traits.name, layer);
    if (!references_.empty() && !traits.can_refer)
      return InternalError("coder {} has no references", traits.name);
    if (layer > 0) input.before = decoders_[layer - 1].get();
    if (!references_.empty()) input.reference = &references_[layer];
    return decoders_[layer]->Advance(input);
  }

  Status AdvanceLayers(std::span<const ByteSpan> payloads, Validity validity) {
    for (std::size_t k = 0; k < decoders_.size(); ++k)
      QUARRY_RETURN_IF_ERROR(AdvanceDecoder(k, {payloads[k], validity}));
    return Status::Ok();
  }

  Status AdvanceMasked(std::span<const ByteSpan> payloads, ByteSpan mask_payload) {
    QUARRY_RETURN_IF_ERROR(mask_->Advance({mask_payload}));
    const Validity validity = AsValidity(mask_->samples());
    std::vector<ByteSpan> rest(payloads.begin(), payloads.end());
    QUARRY_RETURN_IF_ERROR(missing_->Take(&rest.front(), validity));
    if (!none_valid_) {
      QUARRY_RETURN_IF_ERROR(AdvanceLayers(rest, validity));
      missing_->Overlay(decoders_.back()->samples(), validity);
      return Status::Ok();
    }
    for (const ByteSpan payload : rest) QUARRY_RETURN_IF_ERROR(CheckNothing(payload, level_ - 1));
    missing_->Overlay({}, validity);
    return Status::Ok();
  }

  const PatchCoder* coder_;
  PatchLayout layout_;
  int level_;
  bool failed_ = false;                                  ///< or ended with AdvanceInto
  std::vector<std::unique_ptr<PatchDecoder>> decoders_;  ///< one for each layer
  std::unique_ptr<PatchDecoder> mask_;                   // null for a patch without missing samples
  std::optional<mask::MissingValuesReader> missing_;
  bool none_valid_ = false;
  std::vector<ReferenceLevel> references_;  ///< references of all layers, until the next level is decoded
  std::vector<Bytes> means_;  ///< means of two references, in each layer, until the next level is decoded
  Bytes mean_validity_;
};

}  // namespace

DecodedPatch MeanOf(DataType type, DecodedPatch first, DecodedPatch second) {
  if (first.empty()) return second;
  if (second.empty()) return first;
  DecodedPatch mean;
  for (std::size_t k = 0; k < first.layers.size(); ++k) {
    mean.layers.push_back(MeanOf(type, {first.layers[k], AsValidity(first.validity)},
                                 {second.layers[k], AsValidity(second.validity)}, &mean.validity));
  }
  return mean;
}

/// The patches of all steps that one needs.
class PatchReader::State {
 public:
  State(const PatchCoder& coder, const PatchLayout& layout, int layers, ReferenceGraph graph)
      : graph_(std::move(graph)) {
    if (graph_.empty()) graph_.emplace_back();
    steps_.reserve(graph_.size());
    for (std::size_t i = 0; i < graph_.size(); ++i) steps_.emplace_back(coder, layout, layers);
  }

  const StepReader& own() const { return steps_.back(); }
  StepReader* mutable_own() { return &steps_.back(); }
  bool refers() const { return steps_.size() > 1; }

  std::uint64_t memory() const {
    std::uint64_t bytes = 0;
    for (const StepReader& step : steps_) bytes += step.memory();
    return bytes;
  }

  Status Advance(std::span<const LevelParts> parts) {
    QUARRY_RETURN_IF_ERROR(AdvanceReferences(parts));
    return steps_.back().Advance(parts.back(), ReferencesOf(steps_.size() - 1));
  }

  Status AdvanceInto(std::span<const LevelParts> parts, const SamplePlace& place) {
    QUARRY_RETURN_IF_ERROR(AdvanceReferences(parts));
    return steps_.back().AdvanceInto(parts.back(), ReferencesOf(steps_.size() - 1), place);
  }

 private:
  Status AdvanceReferences(std::span<const LevelParts> parts) {
    if (parts.size() != steps_.size())
      return InternalError("{} payloads for {} steps of a patch", parts.size(), steps_.size());
    if (failed_)
      return InternalError("a patch cannot be decoded further after an error in what it refers to");
    for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
      Status status = steps_[i].Advance(parts[i], ReferencesOf(i));
      failed_ = !status.ok();
      if (failed_) return status;
    }
    return Status::Ok();
  }

  std::vector<const StepReader*> ReferencesOf(std::size_t step) const {
    std::vector<const StepReader*> references;
    for (const std::size_t place : graph_[step]) references.push_back(&steps_[place]);
    return references;
  }

  ReferenceGraph graph_;
  std::vector<StepReader> steps_;
  bool failed_ = false;
};

PatchReader::PatchReader(const PatchCoder& coder, const PatchLayout& layout, int layers,
                         ReferenceGraph references)
    : state_(std::make_unique<State>(coder, layout, layers, std::move(references))) {}
PatchReader::PatchReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PatchReader::~PatchReader() = default;
PatchReader::PatchReader(PatchReader&&) noexcept = default;
PatchReader& PatchReader::operator=(PatchReader&&) noexcept = default;

Status PatchReader::Advance(std::span<const ByteSpan> payloads, ByteSpan mask_payload) {
  const LevelParts parts{payloads, mask_payload};
  return state_->Advance({&parts, 1});
}
Status PatchReader::Advance(std::span<const LevelParts> steps) { return state_->Advance(steps); }
Status PatchReader::AdvanceInto(std::span<const LevelParts> steps, const SamplePlace& place) {
  return state_->AdvanceInto(steps, place);
}
Status PatchReader::AdvanceInto(std::span<const ByteSpan> payloads, ByteSpan mask_payload,
                                const SamplePlace& place) {
  const LevelParts parts{payloads, mask_payload};
  return state_->AdvanceInto({&parts, 1}, place);
}
Status PatchReader::AddLayer(std::span<const ByteSpan> payloads) {
  if (state_->refers()) return InternalError("a patch that refers to others gets no further layer alone");
  return state_->mutable_own()->AddLayer(payloads);
}
DecodedPatch PatchReader::Decoded() const { return state_->own().Decoded(); }
int PatchReader::level() const { return state_->own().level(); }
int PatchReader::layers() const { return state_->own().layers(); }
void PatchReader::KeepLayers(int layers) { state_->mutable_own()->KeepLayers(layers); }
ByteSpan PatchReader::samples() const { return state_->own().samples(); }
Validity PatchReader::validity() const { return state_->own().validity(); }
PatchReader PatchReader::Clone() const { return PatchReader(std::make_unique<State>(*state_)); }
std::uint64_t PatchReader::memory() const { return state_->memory(); }

}  // namespace quarry
