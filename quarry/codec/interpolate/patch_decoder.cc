#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/float32_patch.h"
#include "quarry/codec/interpolate/listed_layer.h"
#include "quarry/codec/interpolate/patch_form.h"
#include "quarry/codec/lossless/lossless.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::interpolate {
namespace {

const LosslessCoder kLosslessCoder;

/// A layer in numbers of its type.
template <typename S>
class Decoder final : public PatchDecoder {
  using T = Working<S>;

 public:
  /// @param in_float64  the patch is one of float64, of float32 numbers; only if S is float
  explicit Decoder(const PatchLayout& layout, bool in_float64 = false)
      : layout_(layout), in_float64_(in_float64), level_(layout.levels) {}

  int level() const override { return level_; }
  ByteSpan samples() const override {
    if (SamplesAreWorkingValues()) {
      return std::as_bytes(std::span(grid_.values.data(), grid_.values.size()));
    }
    return std::as_bytes(std::span(samples_.data(), samples_.size()));
  }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override {
    const auto bytes = [](const auto& array) { return array.size() * sizeof(*array.data()); };
    return bytes(grid_.values) + bytes(grid_.magnitudes) + bytes(samples_);
  }

  Result<bool> Advance(const LevelInput& input) override {
    QUARRY_ASSIGN_OR_RETURN(const int next, Next(input.validity));
    if (level_ == layout_.levels) {
      QUARRY_RETURN_IF_ERROR(Start(input));
    } else if (head_.constant) {
      if (!input.payload.empty())
        return DataLoss("level {} of a constant patch has {} bytes", next, input.payload.size());
    } else {
      const bool merges = input.place != nullptr && input.before == nullptr && SamplesAreWorkingValues() &&
                          LevelShape(layout_.shape, next) != grid_.shape;
      QUARRY_RETURN_IF_ERROR(DecodeOne(input, next, merges ? input.place : nullptr));
      if (merges) return true;
    }
    level_ = next;
    if (SamplesAreWorkingValues()) return false;
    samples_.resize(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, next))));
    if (head_.constant) {
      std::fill(samples_.begin(), samples_.end(), constant_);
    } else {
      ConvertFromWorking<S, T>(grid_.values.data(), samples_.size(), head_, samples_.data());
    }
    return false;
  }

 private:
  /// The layer before, or null.
  static const Decoder* BaseOf(const LevelInput& input) { return static_cast<const Decoder*>(input.before); }

  /// Decodes the coarsest level.
  Status Start(LevelInput input) {
    QUARRY_RETURN_IF_ERROR(ReadHead(&input.payload));
    const Decoder* base = BaseOf(input);
    if (base != nullptr && (head_.constant || base->head_.constant))
      return DataLoss("a further layer of a patch is constant, or of a constant patch");
    return head_.constant ? Status::Ok() : DecodeInnerLevels(input);
  }

  /// The level that is decoded next.
  Result<int> Next(Validity validity) const {
    const int next = level_ - 1;
    if (next < 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    if (!validity.empty() &&
        validity.size() != static_cast<std::size_t>(Volume(LevelShape(layout_.shape, next))))
      return InternalError("the validity of level {} has {} samples", next, validity.size());
    return next;
  }

  /// True when samples need no conversion and therefore no copy.
  bool SamplesAreWorkingValues() const { return !head_.constant && AreWorkingValues<S, T>(head_); }

  Status ReadHead(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch is empty");
    const auto first = std::to_integer<std::uint8_t>((*payload)[0]);
    *payload = payload->subspan(1);
    if (first == kConstant) {
      if (payload->size() != sizeof(S)) return DataLoss("a constant patch has {} bytes", payload->size());
      head_.constant = true;
      constant_ = GetLittleEndian<S>(payload->data());
      return Status::Ok();
    }
    const bool wide = (first & kWideStep) != 0;
    head_.lattice = (first & kLattice) != 0;
    head_.ratio = first >> kRatioShift & 3;
    head_.refers = (first & kRefers) != 0;
    const bool quantum = (first & kQuantum) != 0;
    const std::size_t size = (wide ? 8 : 4) +
                             (quantum         ? 2 * sizeof(double)
                              : head_.lattice ? 2
                                              : 0) +
                             sizeof(T);
    if ((first & kCoded) == 0 || ((first & kFloat32) != 0) != in_float64_ || (quantum && !head_.lattice) ||
        payload->size() < size)
      return DataLoss("the head of a patch is malformed (first byte {:#x}, {} bytes)", first,
                      payload->size());
    LittleEndianReader reader(payload->data());
    head_.step = wide ? reader.Get<double>() : static_cast<double>(reader.Get<float>());
    if (quantum) {
      const auto unit = reader.Get<double>();
      head_.quantum = QuantumOf(unit, reader.Get<double>());
    } else if (head_.lattice) {
      head_.exponent = reader.Get<std::int16_t>();
    }
    const T base = reader.Get<T>();
    const bool step_in_range =
        head_.step >= 0 && head_.step <= static_cast<double>(std::numeric_limits<T>::max());
    if (!step_in_range || !std::isfinite(base) || std::abs(head_.exponent) > 1100 ||
        (std::is_integral_v<S> && (!head_.lattice || head_.exponent != 0 || quantum)) ||
        (quantum && !IsUsable(*head_.quantum))) {
      return DataLoss("the head of a patch is out of range (step {}, exponent {})", head_.step,
                      head_.exponent);
    }
    *payload = payload->subspan(size);
    grid_.values.Resize(1);
    grid_.values.data()[0] = base;
    grid_.magnitudes.Resize(1);
    grid_.magnitudes.data()[0] = 0;
    return Status::Ok();
  }

  /// The payload of the dataset's coarsest level also holds all coarser levels.
  Status DecodeInnerLevels(LevelInput input) {
    const int coarsest = layout_.levels - 1;
    for (int level = InnerLevels(layout_.shape) - 2; level > coarsest; --level) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(&input.payload));
      if (size > input.payload.size())
        return DataLoss("inner level {} has {} bytes, {} are left", level, size, input.payload.size());
      const ValidityBuffer coarse =
          CoarserValidity(input.validity, LevelShape(layout_.shape, coarsest), level - coarsest);
      LevelInput inner = input;
      inner.payload = input.payload.first(size);
      inner.validity = coarse;
      QUARRY_RETURN_IF_ERROR(DecodeOne(inner, level, nullptr));
      input.payload = input.payload.subspan(size);
    }
    if (InnerLevels(layout_.shape) - 2 < coarsest) {
      // The dataset's coarsest level is the single sample, or beyond it.
      return input.payload.empty() ? Status::Ok()
                                   : DataLoss("{} bytes follow a single sample", input.payload.size());
    }
    return DecodeOne(input, coarsest, nullptr);
  }

  /// @param input  of `level`; its reference is of the level that is decoded next, which has `level` inside
  /// @param place  see DecodeLevel
  Status DecodeOne(const LevelInput& input, int level, const SamplePlace* place) {
    assert(level >= 0);
    const Index3 shape = LevelShape(layout_.shape, level);
    if (shape == grid_.shape) {
      return input.payload.empty()
                 ? Status::Ok()
                 : DataLoss("level {} adds no sample, but has {} bytes", level, input.payload.size());
    }
    LevelBase<T> interval;
    Buffer<S> strided;
    Buffer<T> converted;
    if (const Decoder* base = BaseOf(input); base != nullptr) {
      const S* samples = base->SamplesAt(level, &strided);
      interval.values =
          WorkingValues<S, T>(samples, nullptr, static_cast<std::size_t>(Volume(shape)), head_, &converted);
      interval.half_width = HalfWidth<T>(base->head_, base->exact_levels_, level, head_);
    }
    ReferenceValues<S, T> reference;
    if (head_.refers) {
      QUARRY_ASSIGN_OR_RETURN(interval.reference, ReferenceAt(level, input.reference, &reference));
    }
    QUARRY_RETURN_IF_ERROR(DecodeLevel<T>(input.payload, head_.LevelQuantiser(level, 0), shape,
                                          input.validity, interval, level > 0, place, &grid_));
    if (grid_.exact) exact_levels_ |= ExactLevels{1} << level;
    return Status::Ok();
  }

  /// The reference at the level that is being decoded, or one inside it.
  Result<const T*> ReferenceAt(int level, const ReferenceLevel* reference,
                               ReferenceValues<S, T>* values) const {
    if (reference == nullptr) return DataLoss("a patch refers to another step, but its table row does not");
    const int from = level_ - 1;
    assert(from >= 0 && level >= from);
    return values->Of(*reference, LevelShape(layout_.shape, from), std::int64_t{1} << (level - from), head_);
  }

  /// Samples at this level or a coarser one, in `buffer` if these.
  const S* SamplesAt(int level, Buffer<S>* buffer) const {
    const S* own = reinterpret_cast<const S*>(samples().data());
    if (level == level_) return own;
    CopyStrided(own, LevelShape(layout_.shape, level_), std::int64_t{1} << (level - level_), buffer);
    return buffer->data();
  }

  const PatchLayout layout_;
  const bool in_float64_;
  int level_;
  PatchHead head_;
  S constant_ = 0;
  ExactLevels exact_levels_ = 0;
  LevelGrid<T> grid_;
  Buffer<S> samples_;
};

/// A layer of a patch. Its first byte says how it is coded.
class LayerDecoder final : public PatchDecoder {
 public:
  explicit LayerDecoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}
  LayerDecoder(const LayerDecoder& other)
      : layout_(other.layout_),
        level_(other.level_),
        repeats_(other.repeats_),
        form_(other.form_),
        coded_(other.coded_ ? other.coded_->Clone() : nullptr),
        widened_(other.widened_) {}

  int level() const override { return level_; }
  ByteSpan samples() const override {
    if (!coded_) return {};
    return form_ == Form::kFloat32 ? ByteSpan(widened_) : coded_->samples();
  }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<LayerDecoder>(*this); }
  std::uint64_t memory() const override { return widened_.size() + (coded_ ? coded_->memory() : 0); }

  Result<bool> Advance(const LevelInput& input) override {
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    if (input.reference != nullptr) QUARRY_RETURN_IF_ERROR(CheckReference(*input.reference));
    if (input.before != nullptr)
      return AdvanceFurther(input, static_cast<const LayerDecoder&>(*input.before));
    if (!coded_) Start(FirstForm(input.payload));
    return AdvanceCoded(input);
  }

 private:
  enum class Form : std::uint8_t {
    kOwnType,
    kFloat32,   ///< a patch of float64, of float32 numbers
    kLossless,  ///< a further layer that `lossless` has coded
    kListed,    ///< a further layer whose numbers are listed
  };

  /// Exact layers that are not refined: nothing may come after them.
  static bool IsOtherForm(Form form) { return form == Form::kLossless || form == Form::kListed; }

  Form FirstForm(ByteSpan coarsest) const {
    const bool flagged = !coarsest.empty() && (coarsest.front() & std::byte{kFloat32}) != std::byte{0};
    return flagged && layout_.type == DataType::kFloat64 ? Form::kFloat32 : Form::kOwnType;
  }

  Form FurtherForm(ByteSpan coarsest) const {
    if (coarsest.front() == std::byte{kLossless}) return Form::kLossless;
    if (coarsest.front() == std::byte{kListed} && IsFloat(layout_.type)) return Form::kListed;
    return FirstForm(coarsest);
  }

  void Start(Form form) {
    form_ = form;
    if (form == Form::kLossless) {
      coded_ = kLosslessCoder.NewDecoder(layout_);
    } else if (form == Form::kListed) {
      coded_ = NewListedLayerDecoder(layout_);
    } else if (form == Form::kFloat32) {
      const PatchLayout layout{DataType::kFloat32, layout_.shape, layout_.levels};
      coded_ = std::make_unique<Decoder<float>>(layout, /*in_float64=*/true);
    } else {
      coded_ = DispatchNarrow(layout_.type, [&]<typename S>(S) -> std::unique_ptr<PatchDecoder> {
        return std::make_unique<Decoder<S>>(layout_);
      });
    }
  }

  Status CheckReference(const ReferenceLevel& reference) const {
    const auto count = static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level_ - 1)));
    if (reference.samples.size() != count * SizeOf(layout_.type) ||
        (!reference.validity.empty() && reference.validity.size() != count))
      return InternalError("level {} refers to {} bytes", level_ - 1, reference.samples.size());
    return Status::Ok();
  }

  Result<bool> AdvanceFurther(LevelInput input, const LayerDecoder& base) {
    if (base.level_ >= level_) return InternalError("a layer would be finer than the one before");
    if (level_ == layout_.levels) repeats_ = input.payload.empty();
    if (repeats_) return Repeat(input.payload, base);
    if (!coded_) Start(FurtherForm(input.payload));
    if (!base.coded_ || base.coded_->level() != base.level_)
      return InternalError("a layer that adds nothing is not as fine as the one before it");
    if (IsOtherForm(base.form_)) return DataLoss("a layer of a patch follows one without loss");
    if (IsOtherForm(form_)) return AdvanceOtherForm(input);
    if (form_ != base.form_)
      return DataLoss("a layer of a patch is coded in another way than the one before");
    input.before = base.coded_.get();
    return AdvanceCoded(input);
  }

  /// @param input  with the decoder of the layer before as coded_ needs it
  Result<bool> AdvanceCoded(LevelInput input) {
    ReferenceLevel narrow;
    Float32Samples narrow_samples;
    if (form_ == Form::kFloat32) {
      input.place = nullptr;
      if (input.reference != nullptr) {
        narrow = *input.reference;
        narrow_samples = ToFloat32(SamplesOf<double>(narrow.samples));
        narrow.samples = std::as_bytes(std::span(narrow_samples));
        input.reference = &narrow;
      }
    }
    QUARRY_ASSIGN_OR_RETURN(const bool placed, coded_->Advance(input));
    Finish();
    return placed;
  }

  void Finish() {
    --level_;
    if (form_ != Form::kFloat32) return;
    const ByteSpan narrow = coded_->samples();
    widened_ = ToFloat64({reinterpret_cast<const float*>(narrow.data()), narrow.size() / sizeof(float)});
  }

  Result<bool> AdvanceOtherForm(LevelInput input) {
    input.reference = nullptr;
    if (form_ == Form::kLossless) input.before = nullptr;
    if (level_ == layout_.levels) input.payload = input.payload.subspan(1);
    return AdvanceCoded(input);
  }

  /// Repeats the layer before.
  Result<bool> Repeat(ByteSpan payload, const LayerDecoder& base) {
    if (!payload.empty())
      return DataLoss("level {} of a layer that adds nothing has {} bytes", level_ - 1, payload.size());
    if (base.level_ != --level_) return false;
    form_ = base.form_;
    coded_ = base.coded_ ? base.coded_->Clone() : nullptr;
    widened_ = base.widened_;
    return false;
  }

  const PatchLayout layout_;
  int level_;
  bool repeats_ = false;  ///< a further layer that adds nothing to the one before
  Form form_ = Form::kOwnType;
  std::unique_ptr<PatchDecoder> coded_;  ///< null before the first level
  Bytes widened_;                        ///< samples of float32 numbers
};

}  // namespace

std::unique_ptr<PatchDecoder> NewPatchDecoder(const PatchLayout& layout) {
  return std::make_unique<LayerDecoder>(layout);
}

}  // namespace quarry::interpolate
