#include "quarry/codec/interpolate/interpolate.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/choose_predictor.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/interpolate/quantum.h"
#include "quarry/codec/sample_range.h"
#include "quarry/codec/strided.h"

namespace quarry {
namespace {

using interpolate::InnerLevels;
using interpolate::LevelBase;
using interpolate::LevelGrid;
using interpolate::Quantiser;
using interpolate::Quantum;

/// Zeros of both signs are equal but not the same.
template <typename S>
bool SameBits(const S& a, const S& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(S)) == 0;
}

// First byte of the coarsest payload.
constexpr std::uint8_t kConstant = 0x00;  // one sample follows; finer levels are empty
constexpr std::uint8_t kCoded = 0x01;
constexpr std::uint8_t kWideStep = 0x02;  // the step is a float64 instead of a float32
constexpr std::uint8_t kLattice = 0x04;   // samples are multiples of a power of two: its exponent follows
constexpr std::uint8_t kQuantum = 0x08;   // with kLattice: of another unit; it and an offset follow instead
constexpr int kRatioShift = 4;            // bits 4 and 5: which kLevelRatios
constexpr std::uint8_t kRefers = 0x40;    // levels refer to another step

/// Tolerance of a level relative to the next finer one: coarse samples are few, and more accurate ones
/// predict better. The gain depends on the tolerance.
constexpr std::array<double, 4> kLevelRatios = {1.0, 0.9, 0.8, 0.7};
constexpr double kLeastRatio = 0.25;

double LevelFactor(std::size_t ratio, int level) {
  double factor = 1;
  for (int l = 0; l < level; ++l) factor *= kLevelRatios[ratio];
  return std::max(factor, kLeastRatio);
}

/// What a decoder reads from the first bytes of a patch.
struct PatchHead {
  bool constant = false;
  double step = 0;  ///< of level 0; 0: samples are coded exactly
  std::size_t ratio = 0;
  bool lattice = false;
  int exponent = 0;                ///< samples are multiples of 2^exponent; only with lattice
  std::optional<Quantum> quantum;  ///< or of this instead
  bool refers = false;             ///< levels refer to another step

  /// What a lattice consists of multiples of.
  double Unit() const { return quantum ? quantum->unit : lattice ? std::ldexp(1.0, exponent) : 1; }

  bool HasSameLattice(const PatchHead& other) const {
    return lattice && other.lattice && exponent == other.exponent &&
           quantum.has_value() == other.quantum.has_value() &&
           (!quantum || (quantum->unit == other.quantum->unit && quantum->offset == other.quantum->offset));
  }

  /// Quantiser of a level. On a lattice steps are odd: then an index reaches (step - 1) / 2 on both sides.
  Quantiser LevelQuantiser(int level, double max_error) const {
    const double factor = LevelFactor(ratio, level);
    if (!lattice) return {step * factor, max_error, false};
    return {2 * std::floor((step - 1) / 2 * factor) + 1, max_error, true};
  }
};

/// The type that samples are computed in.
template <typename S>
using Working =
    std::conditional_t<std::is_same_v<S, double> || (std::is_integral_v<S> && sizeof(S) == 4), double, float>;

/// Whole numbers up to this stay exact in every step of prediction and quantisation.
template <typename T>
constexpr double kLargestWhole = sizeof(T) == 4 ? 1 << 20 : double(std::int64_t{1} << 48);

/// Units of the lattice, as a factor; exact where it is applied.
template <typename T>
T PowerOfTwo(int exponent) {
  return std::ldexp(T(1), exponent);
}

template <typename S, typename T>
S FromWorking(T value, T unit) {
  if constexpr (std::is_integral_v<S>) {
    constexpr T kLeast = static_cast<T>(std::numeric_limits<S>::min());
    constexpr T kMost = static_cast<T>(std::numeric_limits<S>::max());
    return static_cast<S>(std::clamp(value, kLeast, kMost));
  } else {
    return static_cast<S>(value * unit);
  }
}

template <typename S, typename T>
struct ToWorking {
  /// @param validity  null: all are valid
  QUARRY_INLINE static void Run(const S* __restrict samples, const std::uint8_t* __restrict validity,
                                std::size_t count, T scale, T* __restrict out) {
    if (validity == nullptr) {
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(samples[i]) * scale;
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = validity[i] != 0 ? static_cast<T>(samples[i]) * scale : T(0);
    }
  }
};

template <typename S, typename T>
struct ToMultiples {
  /// Missing samples become 0, whatever they are.
  /// @param validity  null: all are valid
  QUARRY_INLINE static void Run(const S* __restrict samples, const std::uint8_t* __restrict validity,
                                std::size_t count, Quantum quantum, T* __restrict out) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool valid = validity == nullptr || validity[i] != 0;
      out[i] = static_cast<T>(valid ? interpolate::MultipleOf(quantum, static_cast<double>(samples[i])) : 0);
    }
  }
};

template <typename S, typename T>
struct FromMultiples {
  QUARRY_INLINE static void Run(const T* __restrict values, std::size_t count, Quantum quantum,
                                S* __restrict out) {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = interpolate::SampleOf<S>(quantum, static_cast<double>(values[i]));
  }
};

/// Samples in the type that is computed in, and in units of their lattice: themselves, or in `buffer`.
/// @param validity  null: all are valid. Missing samples become 0
template <typename S, typename T>
const T* WorkingValues(const S* samples, const std::uint8_t* validity, std::size_t count,
                       const PatchHead& head, std::vector<T, BufferAllocator<T>>* buffer) {
  if constexpr (std::is_same_v<S, T>) {
    if (!head.lattice && validity == nullptr) return samples;
  }
  buffer->resize(count);
  if (head.quantum) {
    RunOnBestInstructionSet<ToMultiples<S, T>>(samples, validity, count, *head.quantum, buffer->data());
  } else {
    const T scale = head.lattice ? PowerOfTwo<T>(-head.exponent) : T(1);
    RunOnBestInstructionSet<ToWorking<S, T>>(samples, validity, count, scale, buffer->data());
  }
  return buffer->data();
}

template <typename S, typename T>
void ConvertFromWorking(const T* values, std::size_t count, const PatchHead& head, S* out) {
  if constexpr (std::is_same_v<S, T>) {
    if (!head.lattice || (head.exponent == 0 && !head.quantum)) {
      std::memcpy(out, values, count * sizeof(S));
      return;
    }
  }
  if (head.quantum) return RunOnBestInstructionSet<FromMultiples<S, T>>(values, count, *head.quantum, out);
  const T unit = std::is_integral_v<S> ? T(1) : PowerOfTwo<T>(head.exponent);
  for (std::size_t i = 0; i < count; ++i) out[i] = FromWorking<S>(values[i], unit);
}

/// Levels whose new samples are the original ones, bit by bit: bit l for level l, counted down to one sample.
using ExactLevels = std::uint64_t;

/// Half the width of the interval in which the samples of a level lie, by what the layer before has of them;
/// in working values of this layer.
/// @source docs/format.md, "Further layers"
template <typename T>
double HalfWidth(const PatchHead& before, ExactLevels exact, int level, const PatchHead& own) {
  if ((exact >> level & 1) != 0) return 0;
  const double step = before.LevelQuantiser(level, 0).step;
  const double units = before.lattice ? (step - 1) / 2 : step / 2;
  double width = units;
  if (!own.HasSameLattice(before)) {
    width = units * before.Unit() / own.Unit();
    if (own.lattice) width = std::ceil(width);
  }
  // Whole numbers beyond it are no longer exact.
  const double most = own.lattice ? 3 * kLargestWhole<T> : static_cast<double>(std::numeric_limits<T>::max());
  return width > 0 ? std::min(width, most) : 0;
}

/// A reference level in working values. Missing samples become those before them in memory, the first ones
/// the first valid one, and 0 where there is none.
template <typename S, typename T>
class ReferenceValues {
 public:
  /// @param fine    of `shape`; every `stride`-th sample of them is taken. They outlive what is returned
  const T* Of(const ReferenceLevel& fine, const Index3& shape, std::int64_t stride, const PatchHead& head) {
    const auto* samples = reinterpret_cast<const S*>(fine.samples.data());
    Validity validity = fine.validity;
    auto count = static_cast<std::size_t>(Volume(shape));
    if (stride > 1) {
      CopyStrided(samples, shape, stride, &samples_);
      if (!validity.empty()) CopyStrided(fine.validity.data(), shape, stride, &validity_);
      if (!validity.empty()) validity = validity_;
      samples = samples_.data();
      count = samples_.size();
    }
    if (!validity.empty()) samples = Fill(samples, validity);
    return WorkingValues<S, T>(samples, nullptr, count, head, &working_);
  }

 private:
  template <typename U>
  using Buffer = std::vector<U, BufferAllocator<U>>;

  const S* Fill(const S* samples, Validity validity) {
    const auto first = std::find(validity.begin(), validity.end(), 1);
    S last = first != validity.end() ? samples[first - validity.begin()] : S(0);
    filled_.resize(validity.size());
    for (std::size_t i = 0; i < validity.size(); ++i) {
      if (validity[i] != 0) last = samples[i];
      filled_[i] = last;
    }
    return filled_.data();
  }

  Buffer<S> samples_;
  Buffer<std::uint8_t> validity_;
  Buffer<S> filled_;
  Buffer<T> working_;
};

template <typename S>
class Decoder final : public PatchDecoder {
  using T = Working<S>;
  template <typename U>
  using Buffer = std::vector<U, BufferAllocator<U>>;

 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}

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

  Status Advance(ByteSpan payload, Validity validity) override {
    return AdvanceFrom(payload, validity, nullptr);
  }

  Status Refer(const ReferenceLevel& reference) override {
    const auto count = static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level_ - 1)));
    if (level_ == 0 || reference.samples.size() != count * sizeof(S) ||
        (!reference.validity.empty() && reference.validity.size() != count))
      return InternalError("level {} refers to {} bytes", level_ - 1, reference.samples.size());
    reference_ = reference;
    return Status::Ok();
  }

  Status AdvanceLayer(ByteSpan payload, Validity validity, const PatchDecoder& before) override {
    const auto& base = static_cast<const Decoder&>(before);
    if (base.level_ >= level_) return InternalError("a layer would be finer than the one before");
    if (level_ == layout_.levels) repeats_ = payload.empty();
    if (!repeats_) return AdvanceFrom(payload, validity, &base);
    QUARRY_RETURN_IF_ERROR(CheckNext(validity));
    if (!payload.empty())
      return DataLoss("level {} of a layer that adds nothing has {} bytes", level_ - 1, payload.size());
    if (base.level_ == --level_) Repeat(base);
    return Status::Ok();
  }

  Result<bool> AdvanceInto(ByteSpan payload, Validity validity, const SamplePlace& place) override {
    QUARRY_RETURN_IF_ERROR(CheckNext(validity));
    const int next = level_ - 1;
    const bool is_first = level_ == layout_.levels;
    const bool merges =
        !is_first && SamplesAreWorkingValues() && LevelShape(layout_.shape, next) != grid_.shape;
    if (!merges) return PatchDecoder::AdvanceInto(payload, validity, place);
    QUARRY_RETURN_IF_ERROR(DecodeOne(payload, next, validity, nullptr, &place));
    return true;
  }

 private:
  /// @param base  of the layer before, or null
  Status AdvanceFrom(ByteSpan payload, Validity validity, const Decoder* base) {
    QUARRY_RETURN_IF_ERROR(CheckNext(validity));
    const int next = level_ - 1;
    if (level_ == layout_.levels) {
      QUARRY_RETURN_IF_ERROR(ReadHead(&payload));
      if (base != nullptr && (head_.constant || base->head_.constant))
        return DataLoss("a further layer of a patch is constant, or of a constant patch");
      if (!head_.constant) QUARRY_RETURN_IF_ERROR(DecodeInnerLevels(payload, validity, base));
    } else if (head_.constant) {
      if (!payload.empty())
        return DataLoss("level {} of a constant patch has {} bytes", next, payload.size());
    } else {
      QUARRY_RETURN_IF_ERROR(DecodeOne(payload, next, validity, base, nullptr));
    }
    level_ = next;
    reference_.reset();
    if (SamplesAreWorkingValues()) return Status::Ok();
    samples_.resize(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, next))));
    if (head_.constant) {
      std::fill(samples_.begin(), samples_.end(), constant_);
    } else {
      ConvertFromWorking<S, T>(grid_.values.data(), samples_.size(), head_, samples_.data());
    }
    return Status::Ok();
  }

  /// Becomes what the layer before is.
  void Repeat(const Decoder& base) {
    head_ = base.head_;
    exact_levels_ = base.exact_levels_;
    constant_ = base.constant_;
    grid_ = base.grid_;
    samples_ = base.samples_;
  }

  Status CheckNext(Validity validity) const {
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const int next = level_ - 1;
    if (!validity.empty() &&
        validity.size() != static_cast<std::size_t>(Volume(LevelShape(layout_.shape, next))))
      return InternalError("the validity of level {} has {} samples", next, validity.size());
    return Status::Ok();
  }

  /// True when samples need no conversion and therefore no copy.
  bool SamplesAreWorkingValues() const {
    return std::is_same_v<S, T> && !head_.constant &&
           (!head_.lattice || (head_.exponent == 0 && !head_.quantum));
  }

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
    if ((first & kCoded) == 0 || first >> 7 != 0 || (quantum && !head_.lattice) || payload->size() < size)
      return DataLoss("the head of a patch is malformed (first byte {:#x}, {} bytes)", first,
                      payload->size());
    LittleEndianReader reader(payload->data());
    head_.step = wide ? reader.Get<double>() : static_cast<double>(reader.Get<float>());
    if (quantum) {
      const auto unit = reader.Get<double>();
      head_.quantum = Quantum{unit, reader.Get<double>()};
    } else if (head_.lattice) {
      head_.exponent = reader.Get<std::int16_t>();
    }
    const T base = reader.Get<T>();
    const bool step_in_range =
        head_.step >= 0 && head_.step <= static_cast<double>(std::numeric_limits<T>::max());
    if (!step_in_range || !std::isfinite(base) || std::abs(head_.exponent) > 1100 ||
        (std::is_integral_v<S> && (!head_.lattice || head_.exponent != 0 || quantum)) ||
        (quantum && !(head_.quantum->unit > 0 && std::isfinite(head_.quantum->unit) &&
                      std::isfinite(head_.quantum->offset)))) {
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
  Status DecodeInnerLevels(ByteSpan payload, Validity validity, const Decoder* base) {
    const int coarsest = layout_.levels - 1;
    for (int level = InnerLevels(layout_.shape) - 2; level > coarsest; --level) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(&payload));
      if (size > payload.size())
        return DataLoss("inner level {} has {} bytes, {} are left", level, size, payload.size());
      const std::vector<std::uint8_t> coarse = SubsampledValidity(validity, coarsest, level);
      QUARRY_RETURN_IF_ERROR(DecodeOne(payload.first(size), level, coarse, base, nullptr));
      payload = payload.subspan(size);
    }
    if (InnerLevels(layout_.shape) - 2 < coarsest) {
      // The dataset's coarsest level is the single sample, or beyond it.
      return payload.empty() ? Status::Ok() : DataLoss("{} bytes follow a single sample", payload.size());
    }
    return DecodeOne(payload, coarsest, validity, base, nullptr);
  }

  /// @param base   of the layer before, or null
  /// @param place  see interpolate::DecodeLevel
  Status DecodeOne(ByteSpan payload, int level, Validity validity, const Decoder* base,
                   const SamplePlace* place) {
    assert(level >= 0);
    const Index3 shape = LevelShape(layout_.shape, level);
    if (shape == grid_.shape) {
      return payload.empty() ? Status::Ok()
                             : DataLoss("level {} adds no sample, but has {} bytes", level, payload.size());
    }
    LevelBase<T> interval;
    Buffer<S> strided;
    Buffer<T> converted;
    if (base != nullptr) {
      const S* samples = base->SamplesAt(level, &strided);
      interval.values =
          WorkingValues<S, T>(samples, nullptr, static_cast<std::size_t>(Volume(shape)), head_, &converted);
      interval.half_width = HalfWidth<T>(base->head_, base->exact_levels_, level, head_);
    }
    ReferenceValues<S, T> reference;
    if (head_.refers) {
      QUARRY_ASSIGN_OR_RETURN(interval.reference, ReferenceAt(level, &reference));
    }
    QUARRY_RETURN_IF_ERROR(interpolate::DecodeLevel<T>(payload, head_.LevelQuantiser(level, 0), shape,
                                                       validity, interval, level > 0, place, &grid_));
    if (grid_.exact) exact_levels_ |= ExactLevels{1} << level;
    return Status::Ok();
  }

  /// The reference at the level that is being decoded, or one inside it.
  Result<const T*> ReferenceAt(int level, ReferenceValues<S, T>* values) const {
    if (!reference_) return DataLoss("a patch refers to another step, but is said not to");
    const int from = level_ - 1;
    assert(from >= 0 && level >= from);
    return values->Of(*reference_, LevelShape(layout_.shape, from), std::int64_t{1} << (level - from), head_);
  }

  /// Samples at this level or a coarser one, in `buffer` if these.
  const S* SamplesAt(int level, Buffer<S>* buffer) const {
    const S* own = reinterpret_cast<const S*>(samples().data());
    if (level == level_) return own;
    CopyStrided(own, LevelShape(layout_.shape, level_), std::int64_t{1} << (level - level_), buffer);
    return buffer->data();
  }

  /// @param validity  of level `from`
  std::vector<std::uint8_t> SubsampledValidity(Validity validity, int from, int level) const {
    std::vector<std::uint8_t> coarse;
    if (validity.empty()) return coarse;
    CopyStrided(validity.data(), LevelShape(layout_.shape, from), std::int64_t{1} << (level - from), &coarse);
    return coarse;
  }

  const PatchLayout layout_;
  int level_;
  PatchHead head_;
  S constant_ = 0;
  bool repeats_ = false;  ///< a further layer that adds nothing to the one before
  ExactLevels exact_levels_ = 0;
  std::optional<ReferenceLevel> reference_;  ///< of the next level
  LevelGrid<T> grid_;
  Buffer<S> samples_;
};

/// Every second sample along each axis.
template <typename U>
std::vector<U, BufferAllocator<U>> Halved(const U* fine, const Index3& shape) {
  std::vector<U, BufferAllocator<U>> coarse(interpolate::BandSize(shape, 0));
  interpolate::ExtractBand(fine, shape, 0, coarse.data());
  return coarse;
}

/// A layer as it was coded, for the next one.
struct CodedLayer {
  std::vector<Bytes> levels;   ///< payload per level, 0 the finest
  std::vector<Bytes> decoded;  ///< see CodedPatch
  PatchHead head;
  ExactLevels exact_levels = 0;
};

/// What is wanted of a layer.
struct LayerSettings {
  double tolerance = 0;
  bool is_last = true;
  bool without_lattice = false;        ///< multiples of a unit lose the sign of zero
  const CodedLayer* before = nullptr;  ///< null: this is the first one
  ByteSpan reference;                  ///< level 0 at another step; empty: there is none
  Validity reference_validity;
};

template <typename S>
class Encoder {
  using T = Working<S>;
  template <typename U>
  using Buffer = std::vector<U, BufferAllocator<U>>;
  /// Above it, steps and their reciprocals are no longer normal numbers.
  static constexpr double kLargestTolerance = static_cast<double>(std::numeric_limits<T>::max() / 16);

 public:
  Encoder(const PatchLayout& layout, std::span<const S> samples, Validity validity,
          const LayerSettings& settings)
      : layout_(layout),
        samples_(samples),
        validity_(validity),
        settings_(settings),
        tolerance_(std::min(settings.tolerance, kLargestTolerance)) {}

  CodedLayer Run() {
    Examine();
    return constant_ ? CodeConstant() : CodeLevels();
  }

 private:
  /// Range of the valid samples, and whether they are all the same bits.
  void Examine() {
    std::size_t first = 0;
    while (!IsValid(first)) ++first;
    sample_ = samples_[first];
    SampleRange<S> range(sample_);
    range.Add(samples_.data(), validity_.empty() ? nullptr : validity_.data(), samples_.size());
    least_ = range.least();
    most_ = range.most();
    if (least_ != most_) return;
    constant_ = true;
    for (std::size_t i = first; i < samples_.size(); ++i)
      constant_ &= !IsValid(i) || SameBits(samples_[i], sample_);
  }

  bool IsValid(std::size_t i) const { return validity_.empty() || validity_[i] != 0; }

  CodedLayer CodeConstant() const {
    CodedLayer coded;
    coded.head.constant = true;
    coded.levels.resize(static_cast<std::size_t>(layout_.levels));
    coded.levels.back().push_back(static_cast<std::byte>(kConstant));
    PutLittleEndian(&coded.levels.back(), sample_);
    for (int l = 0; l < layout_.levels; ++l) {
      const std::vector<S> decoded(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, l))), sample_);
      const ByteSpan bytes = std::as_bytes(std::span(decoded));
      coded.decoded.emplace_back(bytes.begin(), bytes.end());
    }
    return coded;
  }

  CodedLayer CodeLevels() {
    const double largest =
        std::max(std::abs(static_cast<double>(least_)), std::abs(static_cast<double>(most_)));
    PatchHead head = ChooseHead(largest);
    head.ratio = PickRatio();
    const double max_error = head.lattice ? (head.step - 1) / 2 : SafeTolerance();

    // What is coded at level 0, and every coarser level of it.
    Buffer<T> working;
    std::vector<const T*> grids = {WorkingValues<S, T>(
        samples_.data(), validity_.empty() ? nullptr : validity_.data(), samples_.size(), head, &working)};
    std::vector<Validity> valid = {validity_};
    std::vector<Buffer<T>> coarse_grids;
    std::vector<Buffer<std::uint8_t>> coarse_valid;
    const int inner = InnerLevels(layout_.shape);
    Buffer<T> working_base;
    std::vector<const T*> bases(static_cast<std::size_t>(inner), nullptr);
    head.refers = ReferencePays(head, grids.front());
    if (settings_.before != nullptr) {
      bases[0] = WorkingValues<S, T>(reinterpret_cast<const S*>(settings_.before->decoded[0].data()), nullptr,
                                     samples_.size(), head, &working_base);
    }
    for (int l = 1; l < inner; ++l) {
      const Index3 shape = LevelShape(layout_.shape, l - 1);
      coarse_grids.push_back(Halved(grids.back(), shape));
      grids.push_back(coarse_grids.back().data());
      if (const auto i = static_cast<std::size_t>(l); bases[i - 1] != nullptr) {
        coarse_grids.push_back(Halved(bases[i - 1], shape));
        bases[i] = coarse_grids.back().data();
      }
      coarse_valid.push_back(validity_.empty() ? Buffer<std::uint8_t>() : Halved(valid.back().data(), shape));
      valid.push_back(coarse_valid.back());
    }

    LevelGrid<T> grid;
    grid.values.Resize(1);
    grid.magnitudes.Resize(1);
    grid.magnitudes.data()[0] = 0;
    const bool has_base = validity_.empty() || valid.back()[0] != 0;
    const T base = has_base ? grids.back()[0] : MeanForBase(head);
    grid.values.data()[0] = base;

    CodedLayer coded;
    coded.head = head;
    coded.levels.resize(static_cast<std::size_t>(layout_.levels));
    coded.decoded.resize(coded.levels.size());
    AppendHead(head, base, &coded.levels.back());
    for (int l = std::max(inner, layout_.levels) - 1; l >= 0; --l) {
      Bytes payload;
      if (l < inner - 1) {
        const auto i = static_cast<std::size_t>(l);
        LevelBase<T> base{bases[i], 0};
        if (bases[i] != nullptr)
          base.half_width = HalfWidth<T>(settings_.before->head, settings_.before->exact_levels, l, head);
        ReferenceValues<S, T> reference;
        if (head.refers) base.reference = ReferenceAt(l, head, &reference);
        payload = interpolate::EncodeLevel<T>(head.LevelQuantiser(l, max_error), LevelShape(layout_.shape, l),
                                              grids[i], valid[i], base, l > 0, &grid);
        if (grid.exact) coded.exact_levels |= ExactLevels{1} << l;
      }
      Bytes& out = coded.levels[static_cast<std::size_t>(std::min(l, layout_.levels - 1))];
      if (l > layout_.levels - 1 && l < inner - 1) entropy::PutVarint(payload.size(), &out);
      out.insert(out.end(), payload.begin(), payload.end());
      if (l < layout_.levels) KeepDecoded(head, grid, &coded.decoded[static_cast<std::size_t>(l)]);
    }
    return coded;
  }

  /// @param level  counted down to one sample
  const T* ReferenceAt(int level, const PatchHead& head, ReferenceValues<S, T>* values) const {
    return values->Of({settings_.reference, settings_.reference_validity}, layout_.shape,
                      std::int64_t{1} << level, head);
  }

  /// @param samples  of level 0, in working values
  bool ReferencePays(const PatchHead& head, const T* samples) const {
    if (settings_.reference.empty() || Volume(layout_.shape) == 1 || !(head.step > 0)) return false;
    ReferenceValues<S, T> reference;
    return interpolate::ReferencePays<T>(layout_.shape, samples, validity_, ReferenceAt(0, head, &reference),
                                         head.step);
  }

  PatchHead ChooseHead(double largest) const {
    if (settings_.without_lattice) return FloatHead(largest);
    const std::optional<int> exponent = LatticeExponent(largest);
    if constexpr (std::is_floating_point_v<S>) {
      const double unit = exponent ? std::ldexp(1.0, *exponent) : 0;
      if (const std::optional<PatchHead> head = QuantumHead(largest, unit)) return *head;
    }
    return exponent ? LatticeHead(*exponent) : FloatHead(largest);
  }

  void KeepDecoded(const PatchHead& head, const LevelGrid<T>& grid, Bytes* out) const {
    const std::size_t count = grid.values.size();
    out->resize(count * sizeof(S));
    ConvertFromWorking<S, T>(grid.values.data(), count, head, reinterpret_cast<S*>(out->data()));
  }

  /// The exponent of the lattice on which to code the samples: of the largest unit of which all valid samples
  /// are multiples, if steps on it are no smaller than steps that know nothing of it.
  std::optional<int> LatticeExponent(double largest) const {
    if constexpr (std::is_integral_v<S>) {
      return 0;
    } else {
      if (!(largest > 0)) return std::nullopt;
      // The smallest unit in which the largest sample is a whole number that stays exact.
      const int smallest = std::max(std::ilogb(largest) - std::ilogb(kLargestWhole<T>) + 1,
                                    std::numeric_limits<S>::min_exponent);
      const double unit = std::ldexp(1.0, smallest);
      std::uint64_t bits = 0;  // of all samples in that unit
      for (std::size_t i = 0; i < samples_.size(); ++i) {
        if (!IsValid(i)) continue;
        const double scaled = std::abs(static_cast<double>(samples_[i])) / unit;
        // A number may be so small beside the unit that the quotient is rounded to zero.
        if (scaled != std::nearbyint(scaled) || (scaled == 0 && samples_[i] != 0)) return std::nullopt;
        bits |= static_cast<std::uint64_t>(scaled);
      }
      const int exponent = smallest + std::countr_zero(bits);
      const double largest_unit = std::ldexp(1.0, exponent);
      return LatticeStep(largest_unit, tolerance_) * largest_unit >= 2 * tolerance_ ? std::optional(exponent)
                                                                                    : std::nullopt;
    }
  }

  /// The step, in units: as many whole numbers as are within the tolerance of one.
  static double LatticeStep(double unit, double tolerance) {
    // A step too large for exact arithmetic gains nothing over a smaller one.
    return 2 * std::min(std::floor(tolerance / unit), kLargestWhole<T>) + 1;
  }

  PatchHead LatticeHead(int exponent) const {
    PatchHead head;
    head.lattice = true;
    head.exponent = exponent;
    head.step = LatticeStep(std::ldexp(1.0, exponent), tolerance_);
    return head;
  }

  /// The lattice of rounded samples whose unit is no power of two, if steps on it are no smaller than
  /// without.
  /// @param power_of_two  the largest of which all samples are multiples; 0: none. Units must be larger
  std::optional<PatchHead> QuantumHead(double largest, double power_of_two) const {
    if (!(largest > 0)) return std::nullopt;
    const double rounding = RoundingOf(largest);
    // Rounding of samples, of multiples as they are read, and of a sum that is larger than all samples.
    constexpr double kRoundings = 8;
    const double tolerance = tolerance_ - kRoundings * rounding;
    if (!(tolerance > 0)) return std::nullopt;
    // Of smaller units, steps have so many that they are no larger than others.
    constexpr double kMostUnits = 16;
    const std::optional<Quantum> quantum = interpolate::FindQuantum<S>(
        samples_, validity_,
        {.least = static_cast<double>(least_),
         .most = static_cast<double>(most_),
         .rounding = rounding,
         .least_unit = std::max(tolerance / kMostUnits, 1.5 * power_of_two),
         .largest_multiple = kLargestWhole<T>,
         .pays = [&](double unit) { return LatticeStep(unit, tolerance) * unit >= 2 * tolerance_; }});
    if (!quantum) return std::nullopt;
    PatchHead head;
    head.lattice = true;
    head.quantum = quantum;
    head.step = LatticeStep(quantum->unit, tolerance);
    return head;
  }

  /// Distance of a number from the next one of the type that is computed in.
  static double RoundingOf(double magnitude) {
    return std::max(std::ldexp(1.0, std::ilogb(std::max(magnitude, std::numeric_limits<double>::min())) -
                                        std::numeric_limits<T>::digits + 1),
                    static_cast<double>(std::numeric_limits<T>::denorm_min()));
  }

  PatchHead FloatHead(double largest) const {
    PatchHead head;
    const double ulp = RoundingOf(largest);
    // Room for the rounding of prediction + index * step, so that it hardly ever exceeds the tolerance.
    const double half = tolerance_ - 1.5 * ulp;
    const auto step = static_cast<T>(2 * half);
    if (tolerance_ >= 4 * ulp && step >= std::numeric_limits<T>::min() * 4 && std::isfinite(T(1) / step))
      head.step = Stored(2 * half);
    return head;
  }

  /// The step as stored: in four bytes if its exponent allows.
  static double Stored(double step) {
    if (step < 1e-30 || step > 1e30) return step;
    const auto narrow = static_cast<float>(step);
    return static_cast<double>(static_cast<double>(narrow) > step ? std::nextafterf(narrow, 0) : narrow);
  }

  static void AppendHead(const PatchHead& head, T base, Bytes* out) {
    const bool wide = static_cast<double>(static_cast<float>(head.step)) != head.step;
    out->push_back(static_cast<std::byte>(kCoded | (wide ? kWideStep : 0) | (head.lattice ? kLattice : 0) |
                                          (head.quantum ? kQuantum : 0) | head.ratio << kRatioShift |
                                          (head.refers ? kRefers : 0)));
    if (wide) {
      PutLittleEndian(out, head.step);
    } else {
      PutLittleEndian(out, static_cast<float>(head.step));
    }
    if (head.quantum) {
      PutLittleEndian(out, head.quantum->unit);
      PutLittleEndian(out, head.quantum->offset);
    } else if (head.lattice) {
      PutLittleEndian(out, static_cast<std::int16_t>(head.exponent));
    }
    PutLittleEndian(out, base);
  }

  /// Checks run in the working precision; within this bound, their rounding cannot hide an error above the
  /// tolerance.
  double SafeTolerance() const {
    return tolerance_ * (1 - 4 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  }

  std::size_t PickRatio() const {
    const double range = static_cast<double>(most_) - static_cast<double>(least_);
    // What more accurate coarse levels cost is no loss where layers follow.
    if (tolerance_ >= 5e-2 * range || !settings_.is_last) return 2;
    return tolerance_ >= 5e-3 * range ? 1 : 0;
  }

  /// What stands for sample (0, 0, 0) where it is missing, in working values: the mean of some samples. It is
  /// the prediction wherever many are missing.
  T MeanForBase(const PatchHead& head) const {
    constexpr std::size_t kSamples = 4096;
    const std::size_t stride = samples_.size() / kSamples | 1;  // odd, so that not all are from one column
    double sum = static_cast<double>(sample_);
    double count = 1;
    for (std::size_t i = 0; i < samples_.size(); i += stride) {
      if (!IsValid(i)) continue;
      sum += static_cast<double>(samples_[i]);
      count += 1;
    }
    // Of huge numbers, any will do.
    const double mean = std::isfinite(sum) ? sum / count : static_cast<double>(sample_);
    if (head.quantum) return static_cast<T>(interpolate::MultipleOf(*head.quantum, mean));
    return static_cast<T>(head.lattice ? std::nearbyint(std::ldexp(mean, -head.exponent)) : mean);
  }

  const PatchLayout& layout_;
  const std::span<const S> samples_;
  const Validity validity_;
  const LayerSettings settings_;
  const double tolerance_;
  S least_ = 0;
  S most_ = 0;
  S sample_ = 0;
  bool constant_ = false;
};

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

/// @param reference  or null
template <typename S>
CodedPatch CodeLayers(const PatchLayout& layout, std::span<const S> samples, Validity validity,
                      Tolerances tolerances, const PatchReference* reference) {
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  CodedPatch coded;
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
      CodedLayer next = Encoder<S>(layout, samples, validity, settings).Run();
      if (k > 0 && tolerance == 0 && !Keeps(next, samples, validity, 0)) {
        settings.without_lattice = true;
        next = Encoder<S>(layout, samples, validity, settings).Run();
      }
      layer = std::move(next);
      coded.refers |= layer.head.refers;
    }
    const auto to = static_cast<std::ptrdiff_t>(parts.Of(k, 0));
    std::move(layer.levels.begin(), layer.levels.end(), coded.levels.begin() + to);
    if (is_last) {
      std::move(layer.decoded.begin(), layer.decoded.end(), coded.decoded.begin() + to);
    } else {
      std::copy(layer.decoded.begin(), layer.decoded.end(), coded.decoded.begin() + to);
    }
  }
  return coded;
}

Status CheckTolerances(Tolerances tolerances) {
  if (tolerances.empty() || tolerances.size() > static_cast<std::size_t>(kMaxLayers))
    return InvalidArgument("{} layers of accuracy; a patch has 1 to {}", tolerances.size(), kMaxLayers);
  for (std::size_t k = 0; k < tolerances.size(); ++k) {
    if (!(tolerances[k] >= 0)) return InvalidArgument("tolerance {} is not a positive number", tolerances[k]);
    if (k > 0 && !(tolerances[k] <= tolerances[k - 1]))
      return InvalidArgument("layer {} has the tolerance {}, which is above {}, that of the layer before", k,
                             tolerances[k], tolerances[k - 1]);
  }
  return Status::Ok();
}

}  // namespace

Result<CodedPatch> InterpolateCoder::Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                            double tolerance) const {
  return EncodeLayers(layout, samples, validity, {&tolerance, 1});
}

Result<CodedPatch> InterpolateCoder::EncodeLayers(const PatchLayout& layout, ByteSpan samples,
                                                  Validity validity, Tolerances tolerances) const {
  return EncodeWith(layout, samples, validity, tolerances, nullptr);
}

Result<CodedPatch> InterpolateCoder::EncodeReferring(const PatchLayout& layout, ByteSpan samples,
                                                     Validity validity, Tolerances tolerances,
                                                     const PatchReference& reference) const {
  const auto count = static_cast<std::size_t>(Volume(layout.shape));
  const bool fits = std::all_of(reference.layers.begin(), reference.layers.end(),
                                [&](ByteSpan layer) { return layer.size() == count * SizeOf(layout.type); });
  if (!fits || reference.layers.size() != tolerances.size() ||
      (!reference.validity.empty() && reference.validity.size() != count))
    return InvalidArgument("a patch of shape {} refers to one of another shape", ToString(layout.shape));
  return EncodeWith(layout, samples, validity, tolerances, &reference);
}

Result<CodedPatch> InterpolateCoder::EncodeWith(const PatchLayout& layout, ByteSpan samples,
                                                Validity validity, Tolerances tolerances,
                                                const PatchReference* reference) {
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
  return DispatchType(layout.type, [&]<typename S>(S) -> CodedPatch {
    return CodeLayers<S>(layout, {reinterpret_cast<const S*>(samples.data()), count}, validity, tolerances,
                         reference);
  });
}

std::unique_ptr<PatchDecoder> InterpolateCoder::NewDecoder(const PatchLayout& layout) const {
  return DispatchType(layout.type, [&]<typename S>(S) -> std::unique_ptr<PatchDecoder> {
    return std::make_unique<Decoder<S>>(layout);
  });
}

}  // namespace quarry
