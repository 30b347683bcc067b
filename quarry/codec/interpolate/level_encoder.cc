#include <algorithm>
#include <bit>
#include <optional>

#include "quarry/base/per_thread.h"
#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/interpolate/adaptive.h"
#include "quarry/codec/interpolate/choose_predictor.h"
#include "quarry/codec/interpolate/choose_tables.h"
#include "quarry/codec/interpolate/exact_contexts.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/interpolate/symbol_sink.h"

namespace quarry::interpolate {
namespace {

/// Levels whose indices cost so many bits each are tried with adaptive bits, which have no largest index.
constexpr double kTryAdaptiveAbove = 10;
/// So are levels of at most so many samples.
constexpr std::size_t kTryAdaptiveUpTo = 64;
/// Tables decode many times as fast: they may cost more than adaptive bits by this factor.
constexpr double kTablesMayCost = 1.1;
/// Larger levels use them if they cost less than one byte for this many samples.
constexpr std::size_t kSamplesPerAdaptiveByte = 1000;
/// Levels of at most so many samples have one lane: decoding them takes no time worth more bytes.
constexpr std::size_t kOneLaneUpTo = 600;
/// Payload from which 32 and 64 states of four bytes are worth it.
constexpr double kManyLanesBits = 8.0 * 4000;
constexpr double kMostLanesBits = 8.0 * 16000;
/// Of the frequencies of stored tables; named ones have the same.
constexpr int kTableBits = entropy::kNamedBits;

/// Exact coding is tried when indices cost more than this part of the samples themselves.
constexpr double kTryExactAbove = 0.6;

/// Scratch of a thread: everything as large as a level.
template <typename T>
struct EncoderScratch {
  PaddedArray<T> originals;              ///< of all bands, in coding order
  Buffer<std::uint8_t> valid;            ///< of the same, or empty
  Buffer<std::int32_t> indices;          ///< of the same
  Buffer<std::uint8_t> contexts;         ///< of the same: bins, in a further layer with classes
  std::vector<std::size_t> raw_escapes;  ///< positions, ascending
  Buffer<std::int32_t> coded_indices;    ///< of valid samples only, where some are missing
  Buffer<std::uint8_t> coded_contexts;
  std::vector<std::size_t> coded_ends;  ///< of the bands that are not empty
  Buffer<std::uint8_t> class_contexts;  ///< of the same, with classes, where coded_contexts has bins
  std::vector<entropy::CodedSymbol> symbols;
  std::array<std::vector<T>, kBands> kept;
  Buffer<T> signs;         ///< of all samples, in a further layer
  Buffer<T> signed_plane;  ///< originals of a plane, times their signs

  static EncoderScratch& OfThread() {
    static const PerThread<EncoderScratch> scratch;
    return *scratch;
  }
};

/// See LevelEncoder::HideMissing.
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

template <typename T>
class LevelEncoder {
 public:
  LevelEncoder(const Quantiser& quantiser, const Index3& shape, const T* samples, Validity validity,
               const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place, LevelGrid<T>* grid)
      : quantiser_(quantiser),
        shape_(shape),
        further_(base.values != nullptr),
        interval_args_(IntervalArgsOf<T>(quantiser, base.half_width)),
        need_magnitudes_(need_magnitudes),
        place_(place),
        grid_(grid),
        bands_(shape, grid, &LevelScratch<T>::OfThread()),
        inherited_(grid->predictor),
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

  Bytes Run() {
    const int share = refers_ ? PickShare() : 0;
    Bytes payload = Code();
    if (!refers_ || (share == kWholeShare && payload.empty())) return payload;
    payload.insert(payload.begin(), static_cast<std::byte>(share));
    return payload;
  }

 private:
  Bytes Code() {
    PredictorSpec spec = PickPredictor();
    bands_.SetPredictor(spec);
    Bytes payload;
    if (quantiser_.step > 0) {
      Quantise();
      payload = CodeIndices(spec);
      grid_->exact = false;
      const double raw = static_cast<double>(coded_indices_.size() * sizeof(T));
      if (static_cast<double>(payload.size()) > kTryExactAbove * raw) {
        Bytes exact = CodeExact(spec);
        if (exact.size() < payload.size()) {
          payload = std::move(exact);
          MakeExact();
        }
      }
    } else {
      payload = CodeExact(spec);
      const Bytes with_tables = CodeExactTables(spec);
      if (!with_tables.empty() && with_tables.size() < payload.size()) {
        payload = with_tables;
        grid_->exact = true;
      } else {
        MakeExact();
      }
    }
    grid_->predictor = spec;
    if (place_ != nullptr) {
      bands_.MergeInto(*place_);
    } else {
      bands_.Merge(need_magnitudes_);
    }
    return payload;
  }

  bool IsValid(std::size_t i) const { return scratch_.valid.empty() || scratch_.valid[i] != 0; }

  /// What predictors are judged by.
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

  PredictorSpec PickPredictor() { return ChoosePredictor<T>(Sample(), inherited_, &bands_); }

  /// The share of the reference that leaves the least to code, with the predictor of the coarser level.
  int PickShare() {
    bands_.SetPredictor(inherited_);
    const PredictionSample<T> sample = Sample();
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int share = 0; share <= kWholeShare; ++share) {
      bands_.SetShare(share);
      const double cost = PredictionCost<T>(sample, &bands_);
      if (cost < least) best = share;
      least = std::min(least, cost);
    }
    bands_.SetShare(best);
    return best;
  }

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
    for (const int band : kBandOrder) {
      if (bands_.Size(band) == 0) continue;
      const std::size_t begin = begin_[static_cast<std::size_t>(band)];
      const Index3 extent = bands_.Shape(band);
      const auto plane = static_cast<std::size_t>(extent[0] * extent[1]);
      for (std::int64_t z = 0; z < extent[2]; ++z) {
        const std::size_t at = static_cast<std::size_t>(z) * plane;
        const std::uint16_t* activity = bands_.Activity(band, z);
        std::uint8_t* contexts = scratch_.contexts.data() + begin + at;
        bands_.kernels().fine_bins(activity, plane, contexts);
        const T* predicted = bands_.Predict(band, z);
        const T* originals = scratch_.originals.data() + begin + at;
        if (further_) {
          predicted = EnterIntervals(begin + at, plane, predicted, activity, contexts);
          originals = SignedOriginals(begin + at, plane);
        }
        T* decoded = bands_.Values(band) + at;
        std::uint16_t* magnitudes = bands_.Magnitudes(band) + at;
        const bool escapes = KernelsOf<T>::Quantise(bands_.kernels())(
            args, originals, predicted, plane, scratch_.indices.data() + begin + at, decoded, magnitudes);
        if (!scratch_.valid.empty()) HideMissing(band, begin, at, plane, predicted);
        if (escapes) CollectEscapes(args, begin + at, plane, predicted, decoded);
        if (further_) {
          LeaveIntervals(intervals_.signs.data(), intervals_.misses.data(), plane, decoded, magnitudes);
        }
      }
    }
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
  void HideMissing(int band, std::size_t begin, std::size_t at, std::size_t count, const T* predicted) {
    const std::uint8_t* valid = scratch_.valid.data() + begin + at;
    std::int32_t* indices = scratch_.indices.data() + begin + at;
    T* decoded = bands_.Values(band) + at;
    std::uint16_t* magnitudes = bands_.Magnitudes(band) + at;
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

  /// The cheapest form of the indices, with its first byte.
  Bytes CodeIndices(const PredictorSpec& spec) {
    CollectCoded();
    const bool all_zero =
        std::all_of(coded_indices_.begin(), coded_indices_.end(), [](std::int32_t q) { return q == 0; });
    if (all_zero && scratch_.raw_escapes.empty()) return WithHead(LevelMode::kZero, 0, spec, {}, {});
    const std::size_t samples = coded_indices_.size();
    const TableChoice choice = further_ ? ChooseWithClasses() : ChooseTables(coded_indices_, coded_contexts_);
    if (samples > kOneLaneUpTo) {
      const double adaptive_limit = 8.0 * static_cast<double>(samples) / kSamplesPerAdaptiveByte;
      // The estimate includes tables, which adaptive bits do without.
      if (choice.bits < 1.5 * adaptive_limit + 8 * 60) {
        Bytes adaptive = CodeAdaptive(spec);
        if (static_cast<double>(adaptive.size()) * 8 < adaptive_limit + 8 * 60) return adaptive;
      }
      return CodeTables(choice, spec);
    }
    const bool try_adaptive =
        samples <= kTryAdaptiveUpTo || choice.bits > kTryAdaptiveAbove * static_cast<double>(samples);
    Bytes adaptive = try_adaptive ? CodeAdaptive(spec) : Bytes();
    Bytes tables = CodeTables(choice, spec);
    const bool adaptive_pays =
        static_cast<double>(tables.size()) > kTablesMayCost * static_cast<double>(adaptive.size());
    return try_adaptive && adaptive_pays ? adaptive : tables;
  }

  /// Tables for contexts with classes, or where that is no larger without. Leaves bins as contexts where the
  /// choice has no classes, and otherwise the bins in scratch for adaptive bits.
  TableChoice ChooseWithClasses() {
    std::optional<TableChoice> with;
    if (coded_indices_.size() > kOneLaneUpTo)
      with = ChooseTables(coded_indices_, coded_contexts_, /*has_classes=*/true);
    scratch_.class_contexts.assign(coded_contexts_.begin(), coded_contexts_.end());
    for (std::uint8_t& context : coded_contexts_) context %= kFineBins;
    TableChoice without = ChooseTables(coded_indices_, coded_contexts_);
    return with && with->bits < without.bits ? *with : without;
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

  /// First byte, predictor and escapes in front of a body.
  Bytes WithHead(LevelMode mode, std::uint8_t flags, const PredictorSpec& spec,
                 const std::vector<std::size_t>& index_escapes, const Bytes& body) const {
    auto head = static_cast<std::uint8_t>(static_cast<std::uint8_t>(mode) | flags);
    const bool own = !(spec == inherited_);
    if (own) head |= kOwnPredictor;
    if (own && !spec.HasEqualWeights()) head |= kOwnWeights;
    const bool escapes = mode != LevelMode::kZero && mode != LevelMode::kExact &&
                         (!scratch_.raw_escapes.empty() || !index_escapes.empty());
    if (escapes) head |= kHasEscapes;
    Bytes payload;
    if (head == 0 && body.empty()) return payload;
    payload.push_back(static_cast<std::byte>(head));
    if (own) spec.EncodeTo(&payload);
    if (escapes) AppendEscapes(index_escapes, &payload);
    payload.insert(payload.end(), body.begin(), body.end());
    return payload;
  }

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

  Bytes CodeAdaptive(const PredictorSpec& spec) const {
    Bytes body;
    entropy::BinaryEncoder encoder(&body);
    entropy::BitWriter writer{&encoder};
    GroupFlags flags(0);
    IndexModel model;
    std::size_t band_begin = 0;
    for (const std::size_t band_end : scratch_.coded_ends) {
      model.Restart();
      const std::int32_t* indices = coded_indices_.data() + band_begin;
      const std::uint8_t* bins = coded_contexts_.data() + band_begin;
      flags.Walk(bins, band_end - band_begin, FlagWriter{&encoder, indices},
                 [&](std::size_t begin, std::size_t end, bool zero) {
                   if (zero) {
                     model.Restart();
                     return;
                   }
                   for (std::size_t i = begin; i < end; ++i) model.Code(writer, indices[i], bins[i]);
                 });
      band_begin = band_end;
    }
    encoder.Finish();
    return WithHead(LevelMode::kAdaptive, 0, spec, {}, body);
  }

  /// Writes whether indices are all zero.
  struct FlagWriter {
    entropy::BinaryEncoder* encoder;
    const std::int32_t* indices;

    bool operator()(entropy::AdaptiveBit* model, std::size_t begin, std::size_t end) const {
      const bool zero = std::all_of(indices + begin, indices + end, [](std::int32_t q) { return q == 0; });
      encoder->Encode(zero, model);
      return zero;
    }
  };

  /// @param mode  kTables, or kExactTables, which flags no groups
  Bytes CodeTables(TableChoice choice, const PredictorSpec& spec, LevelMode mode = LevelMode::kTables) {
    std::span<std::uint8_t> tables_of = coded_contexts_;
    if (choice.has_classes) tables_of = scratch_.class_contexts;
    choice.contexts.ContextsToTables(tables_of);

    Bytes group_flags;
    std::vector<SampleRuns> live;
    if (mode == LevelMode::kTables) live = FlagGroups(tables_of, &group_flags);
    const std::uint8_t flags = live.empty() ? 0 : kGroupFlags;
    if (!live.empty() && !choice.names.empty()) ChooseNames(coded_indices_, tables_of, Live(live), &choice);

    SymbolSink sink(bands_.kernels(), choice, coded_indices_.size(), &scratch_.symbols);
    std::vector<std::size_t> run_ends;
    std::size_t begin = 0;
    for (const std::size_t band_end : scratch_.coded_ends) {
      if (live.empty()) {
        sink.Add(coded_indices_, tables_of, begin, band_end);
      } else {
        for (const auto& [run_begin, run_end] : live[run_ends.size()])
          sink.Add(coded_indices_, tables_of, run_begin, run_end);
      }
      begin = band_end;
      run_ends.push_back(sink.size());
    }
    const std::span<const entropy::CodedSymbol> symbols(scratch_.symbols.data(), sink.size());

    const std::vector<entropy::SymbolTable> tables = Tables(choice, sink);
    const std::size_t lanes = LanesFor(choice);
    Bytes body;
    const auto of_lanes = std::find(kLaneCounts.begin(), kLaneCounts.end(), lanes) - kLaneCounts.begin();
    body.push_back(static_cast<std::byte>(
        (tables.size() - 1) | static_cast<std::size_t>(of_lanes) << kLanesAt |
        (choice.names.empty() ? kStoredTables : 0u) | (choice.has_classes ? kClassTables : 0u)));
    for (std::size_t t = 1; t < tables.size(); ++t)
      body.push_back(static_cast<std::byte>(choice.contexts.first[t]));
    if (choice.names.empty()) {
      Bytes part;
      entropy::EncodeTables(tables, kTableBits, &part);
      AppendPart(part, &body);
    } else {
      for (const entropy::TableName name : choice.names) body.push_back(static_cast<std::byte>(name));
    }
    if (!live.empty()) AppendPart(group_flags, &body);
    if (std::any_of(choice.shifts.begin(), choice.shifts.end(), [](std::uint8_t s) { return s > 0; }))
      AppendPart(sink.LowBits(), &body);
    entropy::EncodeRans(symbols, run_ends, tables, kTableBits, lanes, bands_.kernels().encode_rans, &body);
    return WithHead(mode, flags, spec, PositionsOf(sink.too_large()), body);
  }

  std::size_t LanesFor(const TableChoice& choice) const {
    if (coded_indices_.size() <= kOneLaneUpTo) return 1;
    if (choice.bits > kMostLanesBits) return entropy::kMostLanes;
    return choice.bits > kManyLanesBits ? entropy::kManyLanes : entropy::kFewLanes;
  }

  /// Named tables, or those of the symbols that were counted.
  static std::vector<entropy::SymbolTable> Tables(const TableChoice& choice, const SymbolSink& sink) {
    std::vector<entropy::SymbolTable> tables(choice.shifts.size());
    for (std::size_t t = 0; t < tables.size(); ++t) {
      if (!choice.names.empty()) {
        tables[t] = entropy::NamedTable(choice.names[t]);
      } else {
        // A table may be left without samples when all of its groups are zero.
        std::array<std::uint32_t, entropy::kSymbols> counts = sink.Counts(t);
        if (std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; })) counts[0] = 1;
        entropy::Normalise(counts, kTableBits, &tables[t]);
      }
      tables[t].shift = choice.shifts[t];
    }
    return tables;
  }

  static void AppendPart(const Bytes& part, Bytes* out) {
    entropy::PutVarint(part.size(), out);
    out->insert(out->end(), part.begin(), part.end());
  }

  /// Codes flags; returns the runs of every band that have symbols, or nothing if flags do not pay.
  std::vector<SampleRuns> FlagGroups(std::span<const std::uint8_t> tables_of, Bytes* out) {
    std::vector<SampleRuns> live;
    std::size_t zeros = 0;
    entropy::BinaryEncoder encoder(out);
    GroupFlags flags(GroupFlags::kMostActiveWithTables);
    std::size_t band_begin = 0;
    for (const std::size_t band_end : scratch_.coded_ends) {
      live.emplace_back();
      flags.Walk(tables_of.data() + band_begin, band_end - band_begin,
                 FlagWriter{&encoder, coded_indices_.data() + band_begin},
                 [&](std::size_t begin, std::size_t end, bool zero) {
                   if (zero) {
                     zeros += end - begin;
                   } else if (!live.back().empty() && live.back().back().second == band_begin + begin) {
                     live.back().back().second = band_begin + end;
                   } else {
                     live.back().emplace_back(band_begin + begin, band_begin + end);
                   }
                 });
      band_begin = band_end;
    }
    encoder.Finish();
    if (zeros * 8 <= coded_indices_.size()) live.clear();
    return live;
  }

  static SampleRuns Live(const std::vector<SampleRuns>& of_bands) {
    SampleRuns all;
    for (const SampleRuns& runs : of_bands) all.insert(all.end(), runs.begin(), runs.end());
    return all;
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

  using Word = decltype(OrderedBits(T{}));

  /// Sets the bands to the exact samples, missing ones to their predictions from these.
  template <typename Use>
  void ForEachExact(Use use) {
    for (const int band : kBandOrder) {
      if (bands_.Size(band) == 0) continue;
      const std::size_t begin = begin_[static_cast<std::size_t>(band)];
      const Index3 extent = bands_.Shape(band);
      const auto plane = static_cast<std::size_t>(extent[0] * extent[1]);
      for (std::int64_t z = 0; z < extent[2]; ++z) {
        const std::size_t at = static_cast<std::size_t>(z) * plane;
        const T* predicted = bands_.Predict(band, z);
        if (further_) predicted = EnterIntervals(begin + at, plane, predicted, nullptr, nullptr);
        T* values = bands_.Values(band) + at;
        for (std::size_t i = 0; i < plane; ++i) {
          const T p = SanitisedPrediction(predicted[i], quantiser_.integral);
          const bool valid = IsValid(begin + at + i);
          values[i] = valid ? scratch_.originals.data()[begin + at + i] : p;
          if (valid) use(p, SignedOriginal(begin + at + i));
        }
      }
    }
  }

  /// Restores the quantised bands afterwards: exact coding may not win.
  Bytes CodeExact(const PredictorSpec& spec) {
    KeepBands();
    std::vector<Word> words;
    words.reserve(scratch_.originals.size());
    ForEachExact([&](T predicted, T value) {
      const auto difference = static_cast<Word>(OrderedBits(value) - OrderedBits(predicted));
      words.push_back(static_cast<Word>(difference << 1 ^ (~(difference >> (8 * sizeof(T) - 1)) + 1)));
    });
    RestoreBands();
    Bytes body;
    entropy::AppendPlanes(std::as_bytes(std::span(words)), sizeof(T), entropy::PlaneLayout::kBytes, 1, &body);
    return WithHead(LevelMode::kExact, 0, spec, {}, body);
  }

  /// The same with tables by context; the bands are then the exact samples, their magnitudes the errors of
  /// predictions. Nothing where that has no form.
  Bytes CodeExactTables(const PredictorSpec& spec) {
    if constexpr (!std::is_same_v<T, float>) {
      return {};
    } else {
      if (!further_ || !(interval_args_.half_width > 0)) return {};
      FindExact();
      CollectCoded();
      if (coded_indices_.empty()) return {};
      scratch_.class_contexts.assign(coded_contexts_.begin(), coded_contexts_.end());
      TableChoice choice = ChooseTables(coded_indices_, coded_contexts_, /*has_classes=*/true);
      choice.has_classes = true;
      return CodeTables(std::move(choice), spec, LevelMode::kExactTables);
    }
  }

  void FindExact() {
    scratch_.indices.resize(scratch_.originals.size());
    scratch_.contexts.resize(scratch_.originals.size());
    scratch_.raw_escapes.clear();
    for (const int band : kBandOrder) {
      if (bands_.Size(band) == 0) continue;
      const Index3 extent = bands_.Shape(band);
      const auto count = static_cast<std::size_t>(extent[0] * extent[1]);
      intervals_.Resize(count);
      for (std::int64_t z = 0; z < extent[2]; ++z) {
        const std::size_t at = static_cast<std::size_t>(z) * count;
        const std::size_t begin = begin_[static_cast<std::size_t>(band)] + at;
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
      }
    }
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
      return std::int64_t{static_cast<std::int32_t>(OrderedBits(sample))};
    };
    const std::int64_t difference = ordered(SignedOriginal(i)) - ordered(clamped);
    if (std::abs(difference) <= kMost) {
      scratch_.indices[i] = static_cast<std::int32_t>(difference);
    } else {
      scratch_.raw_escapes.push_back(i);
    }
  }

  void MakeExact() {
    grid_->exact = true;
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

  const Quantiser& quantiser_;
  const Index3 shape_;
  const bool further_;   ///< there is a layer before
  bool refers_ = false;  ///< to another step
  const IntervalArgs<T> interval_args_;
  const bool need_magnitudes_;
  const SamplePlace* place_;  ///< for the samples of the level, which the grid then does not get; or null
  LevelGrid<T>* grid_;
  LevelBands<T> bands_;
  const PredictorSpec inherited_;
  EncoderScratch<T>& scratch_;
  IntervalScratch<T>& intervals_;
  std::array<std::size_t, kBands> begin_{};
  std::span<const std::int32_t> coded_indices_;  ///< in scratch: what is coded
  std::span<std::uint8_t> coded_contexts_;       ///< of the same
};

}  // namespace

template <typename T>
Bytes EncodeLevel(const Quantiser& quantiser, const Index3& shape, const T* samples, Validity validity,
                  const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place,
                  LevelGrid<T>* grid) {
  return LevelEncoder<T>(quantiser, shape, samples, validity, base, need_magnitudes, place, grid).Run();
}

template Bytes EncodeLevel<float>(const Quantiser&, const Index3&, const float*, Validity,
                                  const LevelBase<float>&, bool, const SamplePlace*, LevelGrid<float>*);
template Bytes EncodeLevel<double>(const Quantiser&, const Index3&, const double*, Validity,
                                   const LevelBase<double>&, bool, const SamplePlace*, LevelGrid<double>*);

}  // namespace quarry::interpolate
