#include <memory>
#include <utility>

#include "quarry/codec/repeats/repeats.h"
#include "quarry/codec/sample_span.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::repeats {
namespace {

/// A layer of a patch. The first byte of the first layer says whether all layers repeat.
class Decoder final : public PatchDecoder {
 public:
  Decoder(CoderId coder, const PatchLayout& layout) : coder_(coder), layout_(layout) {}
  Decoder(const Decoder& other)
      : coder_(other.coder_),
        layout_(other.layout_),
        repeats_(other.repeats_),
        coded_(other.coded_ ? other.coded_->Clone() : nullptr),
        samples_(other.samples_) {}

  int level() const override { return coded_ ? coded_->level() : layout_.levels; }
  ByteSpan samples() const override {
    if (!coded_) return {};
    return repeats_.any() ? ByteSpan(samples_) : coded_->samples();
  }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override { return samples_.size() + (coded_ ? coded_->memory() : 0); }

  Result<bool> Advance(const LevelInput& input) override {
    LevelInput plain = input;
    const auto* before = static_cast<const Decoder*>(input.before);
    if (before != nullptr && !before->coded_)
      return InternalError("a layer would be finer than the one before");
    if (!coded_) QUARRY_RETURN_IF_ERROR(Start(before, &plain));
    if (before != nullptr) plain.before = before->coded_.get();
    return repeats_.any() ? AdvancePlane(plain, input.place) : coded_->Advance(plain);
  }

 private:
  /// @param before  the layer before, or null
  Status Start(const Decoder* before, LevelInput* input) {
    if (before != nullptr) {
      repeats_ = before->repeats_;
    } else if (!input->payload.empty()) {
      if (const std::optional<Repeats> repeats = FromByte(input->payload.front())) {
        QUARRY_RETURN_IF_ERROR(Check(*repeats, input->validity));
        repeats_ = *repeats;
        input->payload = input->payload.subspan(1);
      }
    }
    coded_ = FindCoder(coder_)->NewPlainDecoder(
        {layout_.type, CodedShape(repeats_, layout_.shape), layout_.levels});
    return Status::Ok();
  }

  Status Check(const Repeats& repeats, Validity validity) const {
    bool possible = repeats.any() && !(repeats.mask && validity.empty());
    for (std::size_t axis = 0; axis < 3; ++axis)
      possible = possible && !(repeats.along[axis] && layout_.shape[axis] == 1);
    if (possible) return Status::Ok();
    return DataLoss("a patch of shape {} says that it repeats in an impossible way (first byte {:#x})",
                    ToString(layout_.shape), std::to_integer<int>(ToByte(repeats)));
  }

  /// @param place  see LevelInput
  Result<bool> AdvancePlane(LevelInput input, const SamplePlace* place) {
    const int level = coded_->level() - 1;
    if (level < 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const Index3 shape = LevelShape(layout_.shape, level);
    const auto count = static_cast<std::size_t>(Volume(shape));
    const std::size_t size = SizeOf(layout_.type);
    if (!input.validity.empty() && input.validity.size() != count)
      return InternalError("the validity of level {} has {} samples", level, input.validity.size());
    const auto first_of = [&](Validity validity) {
      return validity.empty() ? Bytes() : FirstPlanes(repeats_, std::as_bytes(validity), shape, 1);
    };
    const Bytes validity = repeats_.mask ? first_of(input.validity) : Bytes();
    input.validity = AsValidity(validity);
    Bytes reference_samples;
    Bytes reference_validity;
    ReferenceLevel reference;
    if (input.reference != nullptr) {
      if (input.reference->samples.size() != count * size ||
          (!input.reference->validity.empty() && input.reference->validity.size() != count))
        return InternalError("level {} refers to {} bytes", level, input.reference->samples.size());
      reference_samples = FirstPlanes(repeats_, input.reference->samples, shape, size);
      reference_validity = first_of(input.reference->validity);
      reference = {reference_samples, AsValidity(reference_validity)};
      input.reference = &reference;
    }
    input.place = nullptr;
    QUARRY_RETURN_IF_ERROR(coded_->Advance(input).status());
    const ByteSpan plane = coded_->samples();
    if (plane.size() != static_cast<std::size_t>(Volume(CodedShape(repeats_, shape))) * size) {
      samples_.clear();  // a layer that repeats a finer one has none yet
      return false;
    }
    if (place != nullptr) {
      Repeat(repeats_, plane, shape, size, *place);
      return true;
    }
    samples_ = Repeat(repeats_, plane, shape, size);
    return false;
  }

  const CoderId coder_;
  const PatchLayout layout_;
  Repeats repeats_;
  std::unique_ptr<PatchDecoder>
      coded_;      ///< decodes the plane, or the whole patch; null before the first level
  Bytes samples_;  ///< the whole level, if the patch repeats
};

}  // namespace

std::unique_ptr<PatchDecoder> NewDecoder(CoderId coder, const PatchLayout& layout) {
  return std::make_unique<Decoder>(coder, layout);
}

}  // namespace quarry::repeats
