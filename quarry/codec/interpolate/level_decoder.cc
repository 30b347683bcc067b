#include <algorithm>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/exact_contexts.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "quarry/codec/interpolate/symbol_decoder.h"
#include "quarry/codec/lossless/arithmetic.h"

namespace quarry::interpolate {
namespace {

template <typename T>
class LevelDecoder {
 public:
  LevelDecoder(const Quantiser& quantiser, const Index3& shape, Validity validity, const LevelBase<T>& base,
               bool need_magnitudes, LevelGrid<T>* grid)
      : quantiser_(quantiser),
        shape_(shape),
        validity_(validity),
        further_(base.values != nullptr),
        interval_args_(IntervalArgsOf<T>(quantiser, base.half_width)),
        need_magnitudes_(need_magnitudes),
        grid_(grid),
        level_scratch_(LevelScratch<T>::OfThread()),
        bands_(shape, grid, &level_scratch_),
        intervals_(IntervalScratch<T>::OfThread()),
        symbols_(bands_.kernels(), NewSamples(), further_) {
    if (further_) intervals_.Split(base.values, shape);
    if (base.reference != nullptr) bands_.SetReference(base.reference, interval_args_.inverse_step);
    refers_ = base.reference != nullptr;
  }

  Status Run(ByteSpan payload, const SamplePlace* place) {
    if (refers_) QUARRY_RETURN_IF_ERROR(ReadShare(&payload));
    std::uint8_t head = 0;
    if (!payload.empty()) {
      head = std::to_integer<std::uint8_t>(payload[0]);
      payload = payload.subspan(1);
    }
    mode_ = ModeOf(head);
    if ((head & ~AllowedBits(mode_)) != 0 || (head & (kOwnPredictor | kOwnWeights)) == kOwnWeights)
      return DataLoss("a level begins with the byte {:#x}", head);
    if ((head & kOwnPredictor) != 0) {
      QUARRY_ASSIGN_OR_RETURN(grid_->predictor,
                              PredictorSpec::DecodeFrom(&payload, (head & kOwnWeights) == 0));
    }
    bands_.SetPredictor(grid_->predictor);
    grid_->exact = mode_ == LevelMode::kExact || mode_ == LevelMode::kExactTables;
    if (mode_ == LevelMode::kExact) {
      QUARRY_RETURN_IF_ERROR(RunExact(payload));
    } else if (mode_ == LevelMode::kExactTables) {
      QUARRY_RETURN_IF_ERROR(RunExactTables(head, payload));
    } else {
      QUARRY_RETURN_IF_ERROR(RunQuantised(head, payload));
    }
    bands_.Merge(need_magnitudes_, place);
    return Status::Ok();
  }

 private:
  /// Nothing at all stands for a level that is as it was.
  Status ReadShare(ByteSpan* payload) {
    int share = kWholeShare;
    if (!payload->empty()) {
      share = std::to_integer<int>((*payload)[0]);
      *payload = payload->subspan(1);
    }
    if (share > kWholeShare) return DataLoss("the reference weight of a level is {}/4", share);
    bands_.SetShare(share);
    return Status::Ok();
  }

  Status RunQuantised(std::uint8_t head, ByteSpan payload) {
    if (mode_ != LevelMode::kZero && !(quantiser_.step > 0))
      return DataLoss("a level has indices, but the patch has no step");
    QUARRY_RETURN_IF_ERROR(symbols_.Start(mode_, head, sizeof(T) == sizeof(double), payload));
    return DecodeBands(&LevelDecoder::FindContexts, &LevelDecoder::Reconstruct);
  }

  /// Both get a band, and where it begins among the new samples.
  /// @param find         the contexts of its samples, in scratch
  /// @param reconstruct  its samples
  Status DecodeBands(void (LevelDecoder::*find)(int, std::size_t),
                     Status (LevelDecoder::*reconstruct)(int, std::size_t)) {
    std::size_t begin = 0;
    for (const int band : kBandOrder) {
      const std::size_t size = bands_.Size(band);
      if (size == 0) continue;
      FindValidity(band);
      (this->*find)(band, begin);
      QUARRY_RETURN_IF_ERROR(
          symbols_.DecodeBand(validity_.empty() ? nullptr : level_scratch_.validity.data(), size, begin));
      QUARRY_RETURN_IF_ERROR((this->*reconstruct)(band, begin));
      begin += size;
    }
    return symbols_.HasTables() ? symbols_.CheckEnd() : Status::Ok();
  }

  /// Validity of a band, in scratch, if samples are missing.
  void FindValidity(int band) {
    if (!validity_.empty())
      ExtractBand(validity_.data(), shape_, band, BytesFor(bands_.Size(band), &level_scratch_.validity));
  }

  /// Contexts of the samples of a band unless all are zero, and in a further layer their predictions inside
  /// their intervals; in scratch. Only bands before it are needed.
  /// @param begin  of the band among the new samples
  void FindContexts(int band, std::size_t begin) {
    const bool has_contexts = mode_ != LevelMode::kZero && mode_ != LevelMode::kExact;
    const std::size_t size = bands_.Size(band);
    std::uint8_t* contexts = has_contexts ? symbols_.Contexts(size) : nullptr;
    if (further_) intervals_.Resize(size);
    bands_.ForEachPlane(band, [&](std::int64_t z, std::size_t at, std::size_t count) {
      const std::uint16_t* activity = nullptr;
      if (has_contexts) {
        activity = bands_.Activity(band, z);
        symbols_.FindContexts(activity, count, contexts + at);
      }
      if (further_) {
        EnterIntervals(bands_.Predict(band, z), symbols_.has_classes() ? activity : nullptr, begin, at, count,
                       contexts);
      }
    });
  }

  /// @param activity  adds the classes to `contexts`, those of the band; or null
  /// @param begin     of the band among the new samples
  /// @param at        of the plane in the band
  void EnterIntervals(const T* predicted, const std::uint16_t* activity, std::size_t begin, std::size_t at,
                      std::size_t count, std::uint8_t* contexts) {
    IntervalPlane<T> plane;
    plane.predicted = predicted;
    plane.values = intervals_.values.data() + begin + at;
    plane.validity = validity_.empty() ? nullptr : level_scratch_.validity.data() + at;
    plane.activity = activity;
    plane.count = count;
    plane.clamped = intervals_.clamped.data() + at;
    plane.signs = intervals_.signs.data() + at;
    plane.misses = intervals_.misses.data() + at;
    plane.contexts = activity != nullptr ? contexts + at : nullptr;
    FindIntervals(quantiser_.integral, interval_args_, plane);
  }

  static LevelMode ModeOf(std::uint8_t head) {
    constexpr auto kTables = static_cast<std::uint8_t>(LevelMode::kTables);
    constexpr auto kExactTables = static_cast<std::uint8_t>(LevelMode::kExactTables);
    const int mode = head & (3 | 0x80);
    return static_cast<LevelMode>(mode == kTables || mode == kExactTables ? mode : head & 3);
  }

  /// Bits of the first byte that a mode uses.
  static int AllowedBits(LevelMode mode) {
    const int always = 3 | kOwnPredictor | kOwnWeights;
    switch (mode) {
      case LevelMode::kTables:
        return always | static_cast<int>(LevelMode::kTables) | kGroupFlags | kHasEscapes;
      case LevelMode::kExactTables:
        return always | static_cast<int>(LevelMode::kExactTables) | kHasEscapes;
      case LevelMode::kOldTables:
        return always | kGroupFlags | kManyLanesFlag | kHasEscapes | kFineTables;
      case LevelMode::kAdaptive:
        return always | kHasEscapes;
      default:
        return always;
    }
  }

  Status Reconstruct(int band, std::size_t begin) {
    const Index3 shape = bands_.Shape(band);
    const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
    // No band of this level depends on the last one.
    const bool keep_magnitudes = need_magnitudes_ || band != kBandOrder.back();
    ReconstructArgs<T> args;
    args.step = static_cast<T>(quantiser_.step);
    args.integral = quantiser_.integral;
    args.count = plane;
    args.low_bits = symbols_.low_bits();
    std::size_t next_large = 0;
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const std::size_t at = static_cast<std::size_t>(z) * plane;
      args.symbols = symbols_.symbols() + at;
      args.tables = args.low_bits != nullptr ? symbols_.tables() + at : nullptr;
      args.predicted = further_ ? intervals_.clamped.data() + at : bands_.Predict(band, z);
      args.decoded = bands_.Values(band) + at;
      args.magnitudes = keep_magnitudes ? bands_.Magnitudes(band) + at : nullptr;
      KernelsOf<T>::Reconstruct(bands_.kernels())(args);
      if (args.low_bits != nullptr && args.low_bits->position > args.low_bits->limit)
        return DataLoss("the low bits of a level end too early");
      Replace(symbols_.large(), &next_large, begin + at, args);
      Replace(symbols_.escapes(), &next_escape_, begin + at, args);
      if (further_) {
        LeaveIntervals(intervals_.signs.data() + at, intervals_.misses.data() + at, plane, args.decoded,
                       args.magnitudes);
      }
    }
    return Status::Ok();
  }

  /// Puts samples that are not among the symbols into a plane.
  /// @param begin  of the plane among the new samples
  static void Replace(const std::vector<Escape>& escapes, std::size_t* next, std::size_t begin,
                      const ReconstructArgs<T>& plane) {
    for (; *next < escapes.size() && escapes[*next].position < begin + plane.count; ++*next) {
      const Escape& escape = escapes[*next];
      const std::size_t i = escape.position - begin;
      const T predicted = SanitisedPrediction(plane.predicted[i], plane.integral);
      plane.decoded[i] =
          escape.raw ? static_cast<T>(escape.value) : predicted + static_cast<T>(escape.index) * plane.step;
      if (plane.magnitudes == nullptr) continue;
      const std::int32_t size = std::min<std::int32_t>(std::abs(escape.index), kMaxMagnitude);
      plane.magnitudes[i] = static_cast<std::uint16_t>(size);
    }
  }

  std::size_t NewSamples() const { return static_cast<std::size_t>(Volume(shape_)) - BandSize(shape_, 0); }

  /// Every valid sample as the difference of its ordered bits from those of its prediction.
  Status RunExact(ByteSpan payload) {
    using Word = lossless::WordOf<T>;
    std::vector<Word> words(CountValid());
    QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(&payload, &words));
    if (!payload.empty()) return DataLoss("an exact level has {} bytes too many", payload.size());
    const Word* next = words.data();
    std::size_t begin = 0;
    for (const int band : kBandOrder) {
      const std::size_t size = bands_.Size(band);
      if (size == 0) continue;
      if (validity_.empty()) std::fill_n(BytesFor(size, &level_scratch_.validity), size, std::uint8_t{1});
      FindValidity(band);
      const std::uint8_t* validity = level_scratch_.validity.data();
      FindContexts(band, begin);
      begin += size;
      const Index3 shape = bands_.Shape(band);
      const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
      std::fill_n(bands_.Magnitudes(band), size, std::uint16_t{0});
      T* value = bands_.Values(band);
      for (std::int64_t z = 0; z < shape[2]; ++z) {
        const std::size_t at = static_cast<std::size_t>(z) * plane;
        const T* predicted = further_ ? intervals_.clamped.data() + at : bands_.Predict(band, z);
        const std::uint8_t* valid = validity + at;
        for (std::size_t i = 0; i < plane; ++i) {
          const T p = SanitisedPrediction(predicted[i], quantiser_.integral);
          if (valid[i] == 0) {
            *value++ = p;
            continue;
          }
          const T exact = lossless::SampleOf<T>(lossless::OrderedWord(p) + lossless::UnZigZag(*next++));
          if (!std::isfinite(exact)) return DataLoss("an exact sample is not finite");
          *value++ = further_ ? exact * intervals_.signs[at + i] : exact;
        }
      }
    }
    return Status::Ok();
  }

  /// The same with tables by context.
  Status RunExactTables(std::uint8_t head, ByteSpan payload) {
    if constexpr (std::is_same_v<T, float>) {
      if (!further_ || !(interval_args_.half_width > 0))
        return DataLoss("an exact level has tables, but no interval");
      QUARRY_RETURN_IF_ERROR(symbols_.Start(mode_, head, /*wide=*/false, payload));
      if (!symbols_.has_classes()) return DataLoss("an exact level has tables without classes");
      return DecodeBands(&LevelDecoder::FindExact, &LevelDecoder::ReconstructExact);
    } else {
      return DataLoss("an exact level of float64 has tables");
    }
  }

  void FindExact(int band, std::size_t begin) {
    intervals_.Resize(bands_.Size(band));
    std::uint8_t* contexts = symbols_.Contexts(bands_.Size(band));
    bands_.ForEachPlane(band, [&](std::int64_t z, std::size_t at, std::size_t count) {
      ExactPlane plane;
      plane.activity = bands_.Activity(band, z);
      plane.predicted = bands_.Predict(band, z);
      plane.values = intervals_.values.data() + begin + at;
      plane.validity = validity_.empty() ? nullptr : level_scratch_.validity.data() + at;
      plane.count = count;
      plane.half_width = interval_args_.half_width;
      plane.relative_width = interval_args_.relative_width;
      plane.integral = quantiser_.integral;
      plane.clamped = intervals_.clamped.data() + at;
      plane.unclamped = intervals_.unclamped.data() + at;
      plane.signs = intervals_.signs.data() + at;
      plane.contexts = contexts + at;
      FindExactContexts(plane);
    });
  }

  Status ReconstructExact(int band, std::size_t begin) {
    const std::size_t size = bands_.Size(band);
    constexpr std::size_t kRun = 256;
    std::array<std::int32_t, kRun> indices;
    T* values = bands_.Values(band);
    for (std::size_t at = 0; at < size; at += kRun) {
      const std::size_t count = std::min(kRun, size - at);
      const std::uint8_t* symbols = symbols_.symbols() + at;
      if (LowBits* low_bits = symbols_.low_bits(); low_bits != nullptr) {
        bands_.kernels().unfold(symbols, symbols_.tables() + at, count, low_bits, indices.data());
        if (low_bits->position > low_bits->limit) return DataLoss("the low bits of a level end too early");
      } else {
        for (std::size_t i = 0; i < count; ++i) indices[i] = (symbols[i] >> 1) ^ -(symbols[i] & 1);
      }
      QUARRY_RETURN_IF_ERROR(AddDifferences(begin + at, at, {indices.data(), count}, values + at));
    }
    ErrorMagnitudes(values, intervals_.unclamped.data(), size, interval_args_.half_width,
                    bands_.Magnitudes(band));
    return Status::Ok();
  }

  /// @param begin    of the run among the new samples
  /// @param at       of the run in the band
  /// @param indices  of its samples
  Status AddDifferences(std::size_t begin, std::size_t at, std::span<std::int32_t> indices, T* values) {
    const std::vector<Escape>& escapes = symbols_.escapes();
    const std::size_t first = next_escape_;
    for (; next_escape_ < escapes.size() && escapes[next_escape_].position < begin + indices.size();
         ++next_escape_) {
      if (!escapes[next_escape_].raw)
        indices[escapes[next_escape_].position - begin] = escapes[next_escape_].index;
    }
    using Word = lossless::WordOf<T>;
    bool finite = true;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const Word ordered = lossless::OrderedWord(intervals_.clamped[at + i]) + static_cast<Word>(indices[i]);
      const T value = lossless::SampleOf<T>(ordered);
      finite &= std::isfinite(value);
      values[i] = value * intervals_.signs[at + i];
    }
    for (std::size_t e = first; e < next_escape_; ++e) {
      const std::size_t i = escapes[e].position - begin;
      if (escapes[e].raw) values[i] = static_cast<T>(escapes[e].value) * intervals_.signs[at + i];
    }
    return finite ? Status::Ok() : DataLoss("an exact sample is not finite");
  }

  std::size_t CountValid() const {
    if (validity_.empty()) return NewSamples();
    std::size_t valid = 0;
    for (std::int64_t i = 0, z = 0; z < shape_[2]; ++z) {
      for (std::int64_t y = 0; y < shape_[1]; ++y) {
        for (std::int64_t x = 0; x < shape_[0]; ++x, ++i) {
          const bool is_new = ((x | y | z) & 1) != 0;
          valid += is_new && validity_[static_cast<std::size_t>(i)] != 0 ? 1 : 0;
        }
      }
    }
    return valid;
  }

  const Quantiser& quantiser_;
  const Index3 shape_;
  const Validity validity_;
  const bool further_;  ///< there is a layer before
  const IntervalArgs<T> interval_args_;
  const bool need_magnitudes_;
  LevelGrid<T>* grid_;
  LevelScratch<T>& level_scratch_;
  LevelBands<T> bands_;
  IntervalScratch<T>& intervals_;
  SymbolDecoder symbols_;

  bool refers_ = false;  ///< to another step
  LevelMode mode_ = LevelMode::kZero;
  std::size_t next_escape_ = 0;
};

}  // namespace

template <typename T>
Status DecodeLevel(ByteSpan payload, const Quantiser& quantiser, const Index3& shape, Validity validity,
                   const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place,
                   LevelGrid<T>* grid) {
  return LevelDecoder<T>(quantiser, shape, validity, base, need_magnitudes, grid).Run(payload, place);
}

template Status DecodeLevel<float>(ByteSpan, const Quantiser&, const Index3&, Validity,
                                   const LevelBase<float>&, bool, const SamplePlace*, LevelGrid<float>*);
template Status DecodeLevel<double>(ByteSpan, const Quantiser&, const Index3&, Validity,
                                    const LevelBase<double>&, bool, const SamplePlace*, LevelGrid<double>*);

}  // namespace quarry::interpolate
