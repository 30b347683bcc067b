#include "quarry/codec/interpolate/layer_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/choose_predictor.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/sample_range.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/sample_types.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::interpolate {
namespace {

/// Every second sample along each axis.
template <typename U>
Buffer<U> Halved(const U* fine, const Index3& shape) {
  Buffer<U> coarse(BandSize(shape, 0));
  ExtractBand(fine, shape, 0, coarse.data());
  return coarse;
}

template <typename S>
class Encoder {
  using T = Working<S>;
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
    range.Add(samples_.data(), DataOrNull(validity_), samples_.size());
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

    // Samples to code at level 0, and every coarser level of them.
    Buffer<T> working;
    std::vector<const T*> grids = {
        WorkingValues<S, T>(samples_.data(), DataOrNull(validity_), samples_.size(), head, &working)};
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
      const bool placed = l == 0 && inner > 1 && AreWorkingValues<S, T>(head);
      if (l < inner - 1) {
        const auto i = static_cast<std::size_t>(l);
        LevelBase<T> base{bases[i], 0};
        if (bases[i] != nullptr)
          base.half_width = HalfWidth<T>(settings_.before->head, settings_.before->exact_levels, l, head);
        ReferenceValues<S, T> reference;
        if (head.refers) base.reference = ReferenceAt(l, head, &reference);
        SamplePlace place;
        if (placed) place = PlaceForDecoded(&coded.decoded[0]);
        payload = EncodeLevel<T>(head.LevelQuantiser(l, max_error), LevelShape(layout_.shape, l), grids[i],
                                 valid[i], base, l > 0, placed ? &place : nullptr, &grid);
        if (grid.exact) coded.exact_levels |= ExactLevels{1} << l;
      }
      Bytes& out = coded.levels[static_cast<std::size_t>(std::min(l, layout_.levels - 1))];
      if (l > layout_.levels - 1 && l < inner - 1) entropy::PutVarint(payload.size(), &out);
      out.insert(out.end(), payload.begin(), payload.end());
      if (l < layout_.levels && !placed) KeepDecoded(head, grid, &coded.decoded[static_cast<std::size_t>(l)]);
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

  SamplePlace PlaceForDecoded(Bytes* out) const {
    out->resize(samples_.size_bytes());
    return SamplePlace::Dense(out->data(), layout_.shape, sizeof(S));
  }

  void KeepDecoded(const PatchHead& head, const LevelGrid<T>& grid, Bytes* out) const {
    const std::size_t count = grid.values.size();
    out->resize(count * sizeof(S));
    ConvertFromWorking<S, T>(grid.values.data(), count, head, reinterpret_cast<S*>(out->data()));
  }

  /// The exponent of the lattice on which to code the samples: the largest unit of which all valid samples
  /// are multiples, if its steps are no smaller than those without a lattice.
  std::optional<int> LatticeExponent(double largest) const {
    if constexpr (std::is_integral_v<S>) {
      return 0;
    } else {
      if (!(largest > 0)) return std::nullopt;
      // The smallest unit in which the largest sample is a whole number that stays exact.
      const int smallest = std::max(std::ilogb(largest) - std::ilogb(kLargestWhole<T>) + 1,
                                    std::numeric_limits<S>::min_exponent);
      const double unit = std::ldexp(1.0, smallest);
      std::uint64_t bits = 0;  // bits of all samples in that unit
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

  /// The lattice of rounded samples whose unit is not a power of two, if its steps are no smaller than those
  /// without a lattice.
  /// @param power_of_two  the largest of which all samples are multiples; 0: none. Units must be larger
  std::optional<PatchHead> QuantumHead(double largest, double power_of_two) const {
    if (!(largest > 0)) return std::nullopt;
    const double rounding = RoundingOf<T>(largest);
    // Rounding of samples, of multiples as they are read, and of a sum that is larger than all samples.
    constexpr double kRoundings = 8;
    const bool exact = tolerance_ == 0;
    const double tolerance = exact ? 0 : tolerance_ - kRoundings * rounding;
    if (!exact && !(tolerance > 0)) return std::nullopt;
    // With smaller units, steps have so many units that they are no larger than others.
    constexpr double kMostUnits = 16;
    const std::optional<Quantum> quantum = FindQuantum<S>(
        samples_, validity_,
        {.least = static_cast<double>(least_),
         .most = static_cast<double>(most_),
         .rounding = rounding,
         .least_unit = std::max(tolerance / kMostUnits, 1.5 * power_of_two),
         .largest_multiple = kLargestWhole<T>,
         .exact = exact,
         .pays = [&](double unit) { return LatticeStep(unit, tolerance) * unit >= 2 * tolerance_; }});
    if (!quantum) return std::nullopt;
    PatchHead head;
    head.lattice = true;
    head.quantum = quantum;
    head.step = LatticeStep(quantum->unit, tolerance);
    return head;
  }

  PatchHead FloatHead(double largest) const {
    PatchHead head;
    const double ulp = RoundingOf<T>(largest);
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
      PutLittleEndian(out, SignedUnit(*head.quantum));
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
    // The cost of more accurate coarse levels is no loss where layers follow.
    if (tolerance_ >= 5e-2 * range || !settings_.is_last) return 2;
    return tolerance_ >= 5e-3 * range ? 1 : 0;
  }

  /// Replaces sample (0, 0, 0) where it is missing, in working values: the mean of some samples. It is the
  /// prediction wherever many are missing.
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
    // Any mean will do for huge numbers.
    const double mean = std::isfinite(sum) ? sum / count : static_cast<double>(sample_);
    if (head.quantum) return static_cast<T>(MultipleOf(*head.quantum, mean));
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

}  // namespace

template <typename S>
CodedLayer EncodeLayer(const PatchLayout& layout, std::span<const S> samples, Validity validity,
                       const LayerSettings& settings) {
  return Encoder<S>(layout, samples, validity, settings).Run();
}

#define QUARRY_INSTANTIATE(S) \
  template CodedLayer EncodeLayer<S>(const PatchLayout&, std::span<const S>, Validity, const LayerSettings&)
QUARRY_FOR_EACH_NARROW_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::interpolate
