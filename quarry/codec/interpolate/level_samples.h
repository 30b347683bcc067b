#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "quarry/base/per_thread.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/choose_predictor.h"
#include "quarry/codec/interpolate/exact_contexts.h"
#include "quarry/codec/interpolate/index_coder.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/lossless/arithmetic.h"

/// The new samples of a level in the encoder: predicted, then quantised or exact.
namespace quarry::interpolate {

/// Scratch of a thread: everything as large as a level.
template <typename T>
struct EncoderScratch {
  PaddedArray<T> originals;              ///< samples of all bands, in coding order
  Buffer<std::uint8_t> valid;            ///< their validity, or empty
  Buffer<std::int32_t> indices;          ///< their indices
  Buffer<std::uint8_t> contexts;         ///< their contexts: bins, in a further layer with classes
  std::vector<std::size_t> raw_escapes;  ///< positions, ascending
  Buffer<std::int32_t> coded_indices;    ///< indices of valid samples only, where some are missing
  Buffer<std::uint8_t> coded_contexts;
  std::vector<std::size_t> coded_ends;  ///< ends of the bands that are not empty
  Buffer<std::uint8_t> class_contexts;  ///< class contexts, where coded_contexts has bins
  std::vector<entropy::CodedSymbol> symbols;
  std::array<std::vector<T>, kBands> kept;
  Buffer<T> signs;         ///< signs of all samples, in a further layer
  Buffer<T> signed_plane;  ///< originals of a plane, times their signs

  static EncoderScratch& OfThread() {
    static const PerThread<EncoderScratch> scratch;
    return *scratch;
  }
};

/// See LevelSamples::HideMissing.
template <typename T, bool kIntegral>
struct HideWhereMissing {
  QUARRY_INLINE static void Run(const std::uint8_t* __restrict valid, const T* __restrict predicted,
                                std::size_t count, std::int32_t* __restrict indices, T* __restrict decoded,
                                std::uint16_t* __restrict magnitudes) {
    // A loop for each array: of arrays of different types, the compiler makes no vectors.
    for (std::size_t i = 0; i < count; ++i) indices[i] = valid[i] != 0 ? indices[i] : 0;
    for (std::size_t i = 0; i < count; ++i)
      magnitudes[i] = static_cast<std::uint16_t>(valid[i] != 0 ? magnitudes[i] : 0);
    for (std::size_t i = 0; i < count; ++i) {
      const T hidden = SanitisedPrediction(predicted[i], kIntegral) + T(0);
      decoded[i] = valid[i] != 0 ? decoded[i] : hidden;
    }
  }
};

/// Lives in the scratch of its thread: one at a time.
template <typename T>
class LevelSamples {
 public:
  LevelSamples(const Quantiser& quantiser, const Index3& shape, const T* samples, Validity validity,
               const LevelBase<T>& base, LevelGrid<T>* grid)
      : quantiser_(quantiser),
        shape_(shape),
        further_(base.values != nullptr),
        interval_args_(IntervalArgsOf<T>(quantiser, base.half_width)),
        bands_(shape, grid, &LevelScratch<T>::OfThread()),
        scratch_(EncoderScratch<T>::OfThread()),
        intervals_(IntervalScratch<T>::OfThread()) {
    std::size_t begin = 0;
    scratch_.originals.Resize(static_cast<std::size_t>(Volume(shape)) - bands_.Size(0));
    scratch_.valid.resize(validity.empty() ? 0 : scratch_.originals.size());
    scratch_.raw_escapes.clear();
    std::array<T*, kBands> originals{};
    std::array<std::uint8_t*, kBands> valid{};
    for (const int band : kBandOrder) {
      const auto b = static_cast<std::size_t>(band);
      begin_[b] = begin;
      originals[b] = scratch_.originals.data() + begin;
      if (!validity.empty()) valid[b] = scratch_.valid.data() + begin;
      begin += bands_.Size(band);
    }
    RunOnBestInstructionSet<SplitBands<T>>(samples, &shape, originals);
    if (!validity.empty()) RunOnBestInstructionSet<SplitBands<std::uint8_t>>(validity.data(), &shape, valid);
    refers_ = base.reference != nullptr;
    if (refers_) bands_.SetReference(base.reference, interval_args_.inverse_step);
    if (!further_) return;
    intervals_.Split(base.values, shape);
    scratch_.signs.resize(scratch_.originals.size());
  }

  LevelBands<T>& bands() { return bands_; }
  EncoderScratch<T>& scratch() { return scratch_; }
  bool further() const { return further_; }
  bool refers() const { return refers_; }
  const IntervalArgs<T>& interval_args() const { return interval_args_; }
  /// Positions of samples that their indices do not restore, see AppendEscapes.
  const std::vector<std::size_t>& raw_escapes() const { return scratch_.raw_escapes; }
  /// The result of CollectCoded.
  CodedIndices coded() { return {coded_indices_, coded_contexts_, scratch_.coded_ends}; }

  /// Samples for the choice of a predictor.
  PredictionSample<T> Sample() const {
    PredictionSample<T> sample;
    sample.shape = shape_;
    for (const std::size_t band : {1u, 2u, 4u}) {
      sample.originals[band] = scratch_.originals.data() + begin_[band];
      sample.valid[band] = scratch_.valid.empty() ? nullptr : scratch_.valid.data() + begin_[band];
    }
    sample.step = quantiser_.step > 0 ? quantiser_.step : ExactScale();
    return sample;
  }

  /// Indices and contexts of all new samples, and the bands as a decoder will have them.
  void Quantise() {
    const std::size_t samples = scratch_.originals.size();
    scratch_.indices.resize(samples);
    scratch_.contexts.resize(samples);
    QuantiseArgs<T> args;
    args.step = static_cast<T>(quantiser_.step);
    args.inverse_step = T(1) / args.step;
    args.max_error = static_cast<T>(quantiser_.max_error);
    args.max_index = sizeof(T) == 4 ? T(4e6) : T(1 << 28);
    args.integral = quantiser_.integral;
    ForEachPlane([&](int band, std::int64_t z, std::size_t begin, std::size_t at, std::size_t count) {
      const std::uint16_t* activity = bands_.Activity(band, z);
      std::uint8_t* contexts = scratch_.contexts.data() + begin;
      bands_.kernels().fine_bins(activity, count, contexts);
      const T* predicted = bands_.Predict(band, z);
      const T* originals = scratch_.originals.data() + begin;
      if (further_) {
        predicted = EnterIntervals(begin, count, predicted, activity, contexts);
        originals = SignedOriginals(begin, count);
      }
      T* decoded = bands_.Values(band) + at;
      std::uint16_t* magnitudes = bands_.Magnitudes(band) + at;
      std::int32_t* indices = scratch_.indices.data() + begin;
      const bool escapes = KernelsOf<T>::Quantise(bands_.kernels())(args, originals, predicted, count,
                                                                    indices, decoded, magnitudes);
      if (!scratch_.valid.empty()) HideMissing(begin, count, predicted, decoded, magnitudes);
      if (escapes) CollectEscapes(args, begin, count, predicted, decoded);
      if (further_)
        LeaveIntervals(intervals_.signs.data(), intervals_.misses.data(), count, decoded, magnitudes);
    });
  }

  /// Valid samples only, band after band.
  void CollectCoded() {
    const bool some_missing = !scratch_.valid.empty();
    if (some_missing) {
      scratch_.coded_indices.resize(scratch_.indices.size());
      scratch_.coded_contexts.resize(scratch_.indices.size());
    }
    scratch_.coded_ends.clear();
    std::size_t coded = 0;
    for (const int band : kBandOrder) {
      const std::size_t begin = begin_[static_cast<std::size_t>(band)];
      const std::size_t end = begin + bands_.Size(band);
      if (begin == end) continue;
      coded = some_missing ? CollectValid(begin, end, coded) : end;
      scratch_.coded_ends.push_back(coded);
    }
    coded_indices_ = std::span(some_missing ? scratch_.coded_indices : scratch_.indices).first(coded);
    coded_contexts_ = std::span(some_missing ? scratch_.coded_contexts : scratch_.contexts).first(coded);
  }

  /// Converts positions among the coded samples to positions among all new samples.
  std::vector<std::size_t> PositionsOf(const std::vector<std::size_t>& coded) const {
    if (scratch_.valid.empty() || coded.empty()) return coded;
    std::vector<std::size_t> positions;
    std::size_t count = 0;
    for (std::size_t i = 0; i < scratch_.valid.size() && positions.size() < coded.size(); ++i) {
      if (scratch_.valid[i] == 0) continue;
      if (count++ == coded[positions.size()]) positions.push_back(i);
    }
    return positions;
  }

  /// Writes the samples that indices do not restore, with their positions.
  /// @param index_escapes  positions of those that have an index, which no table holds
  void AppendEscapes(const std::vector<std::size_t>& index_escapes, Bytes* out) const {
    entropy::PutVarint(scratch_.raw_escapes.size() + index_escapes.size(), out);
    std::vector<std::size_t> positions(scratch_.raw_escapes);
    positions.insert(positions.end(), index_escapes.begin(), index_escapes.end());
    std::sort(positions.begin(), positions.end());
    std::size_t next = 0;
    for (const std::size_t position : positions) {
      entropy::PutVarint(position - next, out);
      next = position + 1;
      if (std::binary_search(scratch_.raw_escapes.begin(), scratch_.raw_escapes.end(), position)) {
        entropy::PutVarint(0, out);
        PutLittleEndian(out, SignedOriginal(position));
      } else {
        const std::int32_t q = scratch_.indices[position];
        entropy::PutVarint((static_cast<std::uint32_t>(q) << 1 ^ static_cast<std::uint32_t>(q >> 31)) + 1u,
                           out);
      }
    }
  }

  /// Sets the bands to the exact samples, missing ones to their predictions from these.
  template <typename Use>
  void ForEachExact(Use use) {
    ForEachPlane([&](int band, std::int64_t z, std::size_t begin, std::size_t at, std::size_t count) {
      const T* predicted = bands_.Predict(band, z);
      if (further_) predicted = EnterIntervals(begin, count, predicted, nullptr, nullptr);
      T* values = bands_.Values(band) + at;
      for (std::size_t i = 0; i < count; ++i) {
        const T p = SanitisedPrediction(predicted[i], quantiser_.integral);
        const bool valid = IsValid(begin + i);
        values[i] = valid ? scratch_.originals.data()[begin + i] : p;
        if (valid) use(p, SignedOriginal(begin + i));
      }
    });
  }

  /// Differences of the exact samples from predictions as indices, and their contexts; the bands are then the
  /// exact samples, their magnitudes the errors of predictions.
  void FindExact() {
    scratch_.indices.resize(scratch_.originals.size());
    scratch_.contexts.resize(scratch_.originals.size());
    scratch_.raw_escapes.clear();
    ForEachPlane([&](int band, std::int64_t z, std::size_t begin, std::size_t at, std::size_t count) {
      intervals_.Resize(count);
      ExactPlane plane;
      plane.activity = bands_.Activity(band, z);
      plane.predicted = bands_.Predict(band, z);
      plane.values = intervals_.values.data() + begin;
      plane.validity = scratch_.valid.empty() ? nullptr : scratch_.valid.data() + begin;
      plane.count = count;
      plane.half_width = interval_args_.half_width;
      plane.relative_width = interval_args_.relative_width;
      plane.integral = quantiser_.integral;
      plane.clamped = intervals_.clamped.data();
      plane.unclamped = intervals_.unclamped.data();
      plane.signs = intervals_.signs.data();
      plane.contexts = scratch_.contexts.data() + begin;
      FindExactContexts(plane);
      std::copy_n(intervals_.signs.data(), count, scratch_.signs.data() + begin);
      T* values = bands_.Values(band) + at;
      for (std::size_t i = 0; i < count; ++i) FindDifference(begin + i, intervals_.clamped[i], values + i);
      ErrorMagnitudes(values, intervals_.unclamped.data(), count, plane.half_width,
                      bands_.Magnitudes(band) + at);
    });
  }

  /// Sets the bands to the exact samples, without magnitudes.
  void MakeExact() {
    ForEachExact([](T, T) {});
    for (const int band : kBandOrder)
      std::fill_n(bands_.Magnitudes(band), bands_.Size(band), std::uint16_t{0});
  }

  void KeepBands() {
    for (const int band : kBandOrder)
      scratch_.kept[static_cast<std::size_t>(band)].assign(bands_.Values(band),
                                                           bands_.Values(band) + bands_.Size(band));
  }
  void RestoreBands() {
    for (const int band : kBandOrder)
      std::copy(scratch_.kept[static_cast<std::size_t>(band)].begin(),
                scratch_.kept[static_cast<std::size_t>(band)].end(), bands_.Values(band));
  }

 private:
  using Word = lossless::WordOf<T>;

  /// Calls use(band, z, begin, at, count) for each plane of the bands, in coding order: where it begins among
  /// the new samples and in its band.
  template <typename Use>
  void ForEachPlane(Use use) {
    for (const int band : kBandOrder) {
      const std::size_t begin = begin_[static_cast<std::size_t>(band)];
      bands_.ForEachPlane(band, [&](std::int64_t z, std::size_t at, std::size_t count) {
        use(band, z, begin + at, at, count);
      });
    }
  }

  bool IsValid(std::size_t i) const { return scratch_.valid.empty() || scratch_.valid[i] != 0; }

  /// In exact coding, the cost of a residual is relative to the precision of the samples.
  double ExactScale() const {
    double largest = 0;
    for (std::size_t i = 0; i < scratch_.originals.size(); ++i) {
      if (IsValid(i))
        largest = std::max(largest, std::abs(static_cast<double>(scratch_.originals.data()[i])));
    }
    const double scale = largest * static_cast<double>(std::numeric_limits<T>::epsilon());
    return scale > static_cast<double>(std::numeric_limits<T>::min())
               ? scale
               : static_cast<double>(std::numeric_limits<T>::min());
  }

  /// Moves the predictions of a plane into their intervals, and keeps its signs.
  /// @param activity  adds the classes to `contexts`; or null
  /// @returns the predictions, times the signs
  const T* EnterIntervals(std::size_t begin, std::size_t count, const T* predicted,
                          const std::uint16_t* activity, std::uint8_t* contexts) {
    intervals_.Resize(count);
    IntervalPlane<T> plane;
    plane.predicted = predicted;
    plane.values = intervals_.values.data() + begin;
    plane.validity = scratch_.valid.empty() ? nullptr : scratch_.valid.data() + begin;
    plane.activity = activity;
    plane.count = count;
    plane.clamped = intervals_.clamped.data();
    plane.signs = intervals_.signs.data();
    plane.misses = intervals_.misses.data();
    plane.contexts = contexts;
    FindIntervals(quantiser_.integral, interval_args_, plane);
    std::copy_n(intervals_.signs.data(), count, scratch_.signs.data() + begin);
    return intervals_.clamped.data();
  }

  const T* SignedOriginals(std::size_t begin, std::size_t count) {
    scratch_.signed_plane.resize(std::max(scratch_.signed_plane.size(), count));
    const T* __restrict originals = scratch_.originals.data() + begin;
    const T* __restrict signs = scratch_.signs.data() + begin;
    T* __restrict out = scratch_.signed_plane.data();
    for (std::size_t i = 0; i < count; ++i) out[i] = originals[i] * signs[i];
    return out;
  }

  /// The sample as it is coded.
  T SignedOriginal(std::size_t i) const {
    return further_ ? scratch_.originals.data()[i] * scratch_.signs[i] : scratch_.originals.data()[i];
  }

  /// Missing samples become their predictions and have no index. A decoder adds zero steps, which turns -0
  /// into +0; this does the same.
  void HideMissing(std::size_t begin, std::size_t count, const T* predicted, T* decoded,
                   std::uint16_t* magnitudes) {
    const std::uint8_t* valid = scratch_.valid.data() + begin;
    std::int32_t* indices = scratch_.indices.data() + begin;
    if (quantiser_.integral) {
      RunOnBestInstructionSet<HideWhereMissing<T, true>>(valid, predicted, count, indices, decoded,
                                                         magnitudes);
    } else {
      RunOnBestInstructionSet<HideWhereMissing<T, false>>(valid, predicted, count, indices, decoded,
                                                          magnitudes);
    }
  }

  /// Collects samples that their indices do not restore within the tolerance. The kernel only reports that
  /// some exist.
  void CollectEscapes(const QuantiseArgs<T>& args, std::size_t begin, std::size_t count, const T* predicted,
                      const T* decoded) {
    for (std::size_t i = 0; i < count; ++i) {
      if (scratch_.indices[begin + i] != 0 || !IsValid(begin + i)) continue;
      // Index 0 stands for the prediction; the kernel gave an escape its own value instead.
      const T p = SanitisedPrediction(predicted[i], args.integral);
      if (std::bit_cast<Word>(decoded[i]) != std::bit_cast<Word>(p + T(0) * args.step))
        scratch_.raw_escapes.push_back(begin + i);
    }
  }

  /// Appends the valid ones of samples begin .. end to the `coded` ones before; returns how many there are
  /// then.
  std::size_t CollectValid(std::size_t begin, std::size_t end, std::size_t coded) {
    const std::uint8_t* valid = scratch_.valid.data();
    const std::int32_t* indices = scratch_.indices.data();
    const std::uint8_t* contexts = scratch_.contexts.data();
    std::int32_t* coded_indices = scratch_.coded_indices.data();
    std::uint8_t* coded_contexts = scratch_.coded_contexts.data();
    // Always written, kept only where valid: a branch would be unpredictable.
    for (std::size_t i = begin; i < end; ++i) {
      coded_indices[coded] = indices[i];
      coded_contexts[coded] = contexts[i];
      coded += valid[i] != 0 ? 1 : 0;
    }
    return coded;
  }

  /// @param clamped  the prediction of sample i, inside its interval and times its sign
  void FindDifference(std::size_t i, T clamped, T* value) {
    constexpr std::int64_t kMost = std::int64_t{1} << 28;  // escapes hold no larger ones
    scratch_.indices[i] = 0;
    if (!IsValid(i)) {
      *value = clamped * scratch_.signs[i];
      return;
    }
    *value = scratch_.originals.data()[i];
    const auto ordered = [](T sample) {
      return std::int64_t{static_cast<std::int32_t>(lossless::OrderedWord(sample))};
    };
    const std::int64_t difference = ordered(SignedOriginal(i)) - ordered(clamped);
    if (std::abs(difference) <= kMost) {
      scratch_.indices[i] = static_cast<std::int32_t>(difference);
    } else {
      scratch_.raw_escapes.push_back(i);
    }
  }

  const Quantiser& quantiser_;
  const Index3 shape_;
  const bool further_;   ///< there is a layer before
  bool refers_ = false;  ///< to another step
  const IntervalArgs<T> interval_args_;
  LevelBands<T> bands_;
  EncoderScratch<T>& scratch_;
  IntervalScratch<T>& intervals_;
  std::array<std::size_t, kBands> begin_{};
  std::span<const std::int32_t> coded_indices_;  ///< indices to be coded, in scratch
  std::span<std::uint8_t> coded_contexts_;       ///< contexts of the coded indices
};

}  // namespace quarry::interpolate
