#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "quarry/codec/entropy/named_tables.h"
#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/entropy/rans.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/adaptive.h"
#include "quarry/codec/interpolate/contexts.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_bands.h"

namespace quarry::interpolate {
namespace {

/// A sample whose index is not among the coded symbols.
template <typename T>
struct Escape {
  std::size_t position;  ///< in the bands one after the other
  bool raw;
  std::int32_t index;
  T value;
};

/// Samples that are all zero, or all have symbols.
struct SampleRun {
  std::size_t begin;
  std::size_t end;
  bool zero;
};

/// Scratch of a thread, in addition to LevelScratch. Bytes a sample, with room for vectors that overrun.
struct SymbolScratch {
  std::vector<std::uint8_t> tables;   ///< table or bin of every sample of a band
  std::vector<std::uint8_t> symbols;  ///< of every sample of a band
  std::vector<std::uint8_t> valid_tables;
  std::vector<std::uint8_t> valid_symbols;
  std::vector<std::uint8_t> coded_tables;  ///< of those samples that are in no group of zeros
  std::vector<std::uint8_t> coded_symbols;
  std::vector<std::uint32_t> slots;
  std::vector<std::uint16_t> words;
  std::vector<std::uint8_t> validity;  ///< of the band
  std::vector<SampleRun> runs;         ///< of the band
  Bytes low_bits;

  static SymbolScratch& OfThread() {
    thread_local SymbolScratch scratch;
    return scratch;
  }
};

/// Room for `samples` and what is read and written beyond the last.
std::uint8_t* BytesFor(std::size_t samples, std::vector<std::uint8_t>* scratch) {
  const std::size_t size = samples + entropy::kMostLanes;
  if (scratch->size() < size) scratch->resize(size);
  return scratch->data();
}

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
        bands_(shape, grid, &LevelScratch<T>::OfThread()),
        scratch_(SymbolScratch::OfThread()),
        intervals_(IntervalScratch<T>::OfThread()) {
    if (further_) intervals_.Split(base.values, shape);
  }

  Status Run(ByteSpan payload, const SamplePlace* place) {
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
    grid_->exact = mode_ == LevelMode::kExact;
    if (mode_ == LevelMode::kExact) {
      QUARRY_RETURN_IF_ERROR(RunExact(payload));
    } else {
      QUARRY_RETURN_IF_ERROR(RunQuantised(head, payload));
    }
    if (place != nullptr) {
      bands_.MergeInto(*place);
    } else {
      bands_.Merge(need_magnitudes_);
    }
    return Status::Ok();
  }

 private:
  Status RunQuantised(std::uint8_t head, ByteSpan payload) {
    if (mode_ != LevelMode::kZero && !(quantiser_.step > 0))
      return DataLoss("a level has indices, but the patch has no step");
    if ((head & kHasEscapes) != 0) QUARRY_RETURN_IF_ERROR(ReadEscapes(&payload));
    if (HasTables()) {
      QUARRY_RETURN_IF_ERROR(StartTables(head, payload));
    } else if (mode_ == LevelMode::kAdaptive) {
      bits_ = entropy::BinaryDecoder(payload);
      model_.emplace();
    } else if (!payload.empty()) {
      return DataLoss("a level without indices has {} extra bytes", payload.size());
    }
    std::size_t begin = 0;
    for (const int band : kBandOrder) {
      const std::size_t size = bands_.Size(band);
      if (size == 0) continue;
      FindValidity(band);
      if (further_) EnterIntervals(band, begin);
      QUARRY_RETURN_IF_ERROR(DecodeSymbols(band, begin));
      QUARRY_RETURN_IF_ERROR(Reconstruct(band, begin));
      begin += size;
    }
    return HasTables() ? CheckEnd() : Status::Ok();
  }

  /// Validity of a band, in scratch, if samples are missing.
  void FindValidity(int band) {
    if (!validity_.empty())
      ExtractBand(validity_.data(), shape_, band, BytesFor(bands_.Size(band), &scratch_.validity));
  }

  /// Predictions of a band inside their intervals, and classes; in scratch. Only bands before it are needed.
  void EnterIntervals(int band, std::size_t begin) {
    const Index3 shape = bands_.Shape(band);
    const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
    intervals_.Resize(bands_.Size(band));
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const std::size_t at = static_cast<std::size_t>(z) * plane;
      EnterIntervals(bands_.Predict(band, z), has_classes_ ? bands_.Activity(band, z) : nullptr, begin, at,
                     plane);
    }
  }

  /// @param begin  of the band among the new samples
  /// @param at     of the plane in the band
  void EnterIntervals(const T* predicted, const std::uint16_t* activity, std::size_t begin, std::size_t at,
                      std::size_t count) {
    IntervalPlane<T> plane;
    plane.predicted = predicted;
    plane.values = intervals_.values.data() + begin + at;
    plane.validity = validity_.empty() ? nullptr : scratch_.validity.data() + at;
    plane.activity = activity;
    plane.count = count;
    plane.clamped = intervals_.clamped.data() + at;
    plane.signs = intervals_.signs.data() + at;
    plane.misses = intervals_.misses.data() + at;
    plane.classes = intervals_.classes.data() + at;
    RunFindIntervals(quantiser_.integral, interval_args_, plane);
  }

  static LevelMode ModeOf(std::uint8_t head) {
    constexpr auto kTables = static_cast<std::uint8_t>(LevelMode::kTables);
    return static_cast<LevelMode>((head & (3 | kTables)) == kTables ? kTables : head & 3);
  }

  bool HasTables() const { return mode_ == LevelMode::kTables || mode_ == LevelMode::kOldTables; }

  /// Bits of the first byte that a mode uses.
  static int AllowedBits(LevelMode mode) {
    const int always = 3 | kOwnPredictor | kOwnWeights;
    switch (mode) {
      case LevelMode::kTables:
        return always | static_cast<int>(LevelMode::kTables) | kGroupFlags | kHasEscapes;
      case LevelMode::kOldTables:
        return always | kGroupFlags | kManyLanesFlag | kHasEscapes | kFineTables;
      case LevelMode::kAdaptive:
        return always | kHasEscapes;
      default:
        return always;
    }
  }

  /// Checks that all words are used and every lane is back in its initial state.
  Status CheckEnd() const {
    bool good = rans_.position == rans_.count;
    for (std::size_t lane = 0; lane < rans_.lanes; ++lane) good &= rans_.states[lane] == 1u << 15;
    return good ? Status::Ok() : DataLoss("the symbols of a level do not end where they should");
  }

  Status ReadEscapes(ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, entropy::TakeVarint(payload));
    const std::size_t samples = NewSamples();
    if (count > payload->size() || count > samples)
      return DataLoss("{} escapes in {} bytes for {} samples", count, payload->size(), samples);
    std::uint64_t position = 0;
    escapes_.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t gap, entropy::TakeVarint(payload));
      position += gap + (i > 0 ? 1 : 0);
      if (position >= samples) return DataLoss("an escape at sample {} of {}", position, samples);
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t code, entropy::TakeVarint(payload));
      Escape<T> escape{static_cast<std::size_t>(position), code == 0, 0, 0};
      if (escape.raw) {
        if (payload->size() < sizeof(T)) return DataLoss("an escape ends too early");
        escape.value = GetLittleEndian<T>(payload->data());
        if (!std::isfinite(escape.value)) return DataLoss("an escape is not finite");
        *payload = payload->subspan(sizeof(T));
      } else {
        if (code > std::uint64_t{1} << 30) return DataLoss("an escape of index code {}", code);
        const auto zigzag = static_cast<std::uint32_t>(code - 1);
        escape.index = static_cast<std::int32_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
      }
      escapes_.push_back(escape);
    }
    return Status::Ok();
  }

  Status StartTables(std::uint8_t head, ByteSpan payload) {
    if (mode_ == LevelMode::kOldTables) {
      QUARRY_RETURN_IF_ERROR(ReadOldLayout(head, &payload));
    } else {
      QUARRY_RETURN_IF_ERROR(ReadLayout(&payload));
    }
    rans_.slots = scratch_.slots.data();
    has_groups_ = (head & kGroupFlags) != 0;
    if (has_groups_) {
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan flags, TakePart(&payload));
      bits_ = entropy::BinaryDecoder(flags);
    }
    has_low_bits_ = std::any_of(low_bits_.widths.begin(), low_bits_.widths.end(),
                                [](std::uint8_t width) { return width > 0; });
    if (has_low_bits_) {
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan low_bits, TakePart(&payload));
      // Memory is bounded by the level, not by what the payload claims.
      if (low_bits.size() > NewSamples() * entropy::kMaxShift / 8 + 1)
        return DataLoss("a level of {} new samples has {} bytes of low bits", NewSamples(), low_bits.size());
      StartLowBits(low_bits);
    }
    if (payload.size() / 2 > NewSamples() + 2 * rans_.lanes)
      return DataLoss("a level of {} new samples has {} bytes of symbols", NewSamples(), payload.size());
    return entropy::StartRans(payload, &scratch_.words, &rans_);
  }

  /// Which samples have which table, how many lanes there are, and the tables.
  Status ReadLayout(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("a level ends before its tables");
    const auto layout = std::to_integer<std::uint8_t>(payload->front());
    const std::size_t tables = (layout & ((1u << kLanesAt) - 1)) + 1;
    has_classes_ = (layout & kClassTables) != 0;
    if (tables > (has_classes_ ? kMaxTablesOfClasses : kMaxTables) || (has_classes_ && !further_))
      return DataLoss("a level has tables of the layout {:#x}", layout);
    if (payload->size() < tables) return DataLoss("a level ends in its contexts");
    contexts_.first = {0};
    for (std::size_t t = 1; t < tables; ++t) {
      const auto context = std::to_integer<std::uint8_t>((*payload)[t]);
      if (context <= contexts_.first.back() || context >= (has_classes_ ? kMostContexts : kFineBins))
        return DataLoss("table {} of a level begins with context {} after {}", t, context,
                        contexts_.first.back());
      contexts_.first.push_back(context);
    }
    *payload = payload->subspan(tables);
    if (!has_classes_) thresholds_ = contexts_.Thresholds();
    rans_.lanes = kLaneCounts[layout >> kLanesAt & 3];
    rans_.bits = entropy::kNamedBits;
    return (layout & kStoredTables) != 0 ? ReadStoredTables(tables, payload) : ReadNames(tables, payload);
  }

  Status ReadOldLayout(std::uint8_t head, ByteSpan* payload) {
    if (payload->size() < 4) return DataLoss("a level ends in its contexts");
    const auto bins = GetLittleEndian<std::uint32_t>(payload->data());
    *payload = payload->subspan(4);
    if (bins >> (kFineBins - 1) != 0) return DataLoss("a level has a table for impossible activities");
    contexts_.first = {0};
    for (std::uint8_t bin = 1; bin < kFineBins; ++bin) {
      if ((bins >> (bin - 1) & 1) != 0) contexts_.first.push_back(bin);
    }
    if (contexts_.first.size() > kMaxTables)
      return DataLoss("a level has {} tables of symbols", contexts_.first.size());
    thresholds_ = contexts_.Thresholds();
    rans_.lanes = (head & kManyLanesFlag) != 0 ? entropy::kManyLanes : entropy::kFewLanes;
    rans_.bits = (head & kFineTables) != 0 ? 11 : 10;
    return ReadStoredTables(contexts_.first.size(), payload);
  }

  Status ReadStoredTables(std::size_t count, ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan bytes, TakePart(payload));
    QUARRY_ASSIGN_OR_RETURN(const std::vector<entropy::SymbolTable> tables,
                            entropy::DecodeTables(bytes, count, rans_.bits));
    for (std::size_t t = 0; t < count; ++t) low_bits_.widths[t] = tables[t].shift;
    entropy::MakeSlots(tables, rans_.bits, &scratch_.slots);
    return Status::Ok();
  }

  Status ReadNames(std::size_t count, ByteSpan* payload) {
    if (payload->size() < count) return DataLoss("a level ends in the names of its tables");
    std::array<entropy::TableName, kMaxTablesOfClasses> names{};
    for (std::size_t t = 0; t < count; ++t) {
      names[t] = std::to_integer<std::uint8_t>((*payload)[t]);
      low_bits_.widths[t] = static_cast<std::uint8_t>(entropy::ShiftOf(names[t]));
    }
    *payload = payload->subspan(count);
    entropy::MakeNamedSlots(std::span(names).first(count), &scratch_.slots);
    return Status::Ok();
  }

  void StartLowBits(ByteSpan bytes) {
    scratch_.low_bits.assign(bytes.size() + kLowBitsPadding, std::byte{0});
    if (!bytes.empty()) std::memcpy(scratch_.low_bits.data(), bytes.data(), bytes.size());
    low_bits_.bytes = scratch_.low_bits.data();
    low_bits_.limit = bytes.size() * 8;
  }

  static Result<ByteSpan> TakePart(ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(payload));
    if (size > payload->size())
      return DataLoss("a part of {} bytes where {} are left", size, payload->size());
    const ByteSpan part = payload->first(size);
    *payload = payload->subspan(size);
    return part;
  }

  /// Symbols of a band into scratch_.symbols, and their tables into scratch_.tables if they have low bits.
  /// Samples without a symbol get 0, which stands for the index 0, and kNoTable.
  /// @param begin  of the band among the new samples
  Status DecodeSymbols(int band, std::size_t begin) {
    const std::size_t size = bands_.Size(band);
    std::uint8_t* symbols = BytesFor(size, &scratch_.symbols);
    if (mode_ == LevelMode::kZero) {
      std::fill_n(symbols, size, std::uint8_t{0});
      return Status::Ok();
    }
    std::uint8_t* tables = BytesFor(size, &scratch_.tables);
    FindTables(band, tables);
    large_.clear();
    next_large_ = 0;
    if (validity_.empty()) return DecodeValid(tables, size, begin, symbols);

    const Kernels& kernels = bands_.kernels();
    const std::uint8_t* validity = scratch_.validity.data();
    std::uint8_t* valid_tables = BytesFor(size, &scratch_.valid_tables);
    std::uint8_t* valid_symbols = BytesFor(size, &scratch_.valid_symbols);
    const std::size_t valid = kernels.compact(tables, validity, size, valid_tables);
    QUARRY_RETURN_IF_ERROR(DecodeValid(valid_tables, valid, begin, valid_symbols));
    kernels.expand(valid_symbols, validity, size, 0, symbols);
    if (has_low_bits_) kernels.expand(valid_tables, validity, size, kNoTable, tables);
    PlaceLarge(validity, begin);
    return Status::Ok();
  }

  /// Tables of all samples of a band; bins in adaptive mode.
  void FindTables(int band, std::uint8_t* tables) {
    const Kernels& kernels = bands_.kernels();
    const Index3 shape = bands_.Shape(band);
    const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const std::uint16_t* activity = bands_.Activity(band, z);
      std::uint8_t* of_plane = tables + static_cast<std::size_t>(z) * plane;
      if (HasTables() && !has_classes_) {
        kernels.classify(activity, plane, thresholds_, of_plane);
      } else {
        kernels.fine_bins(activity, plane, of_plane);
      }
    }
    if (!has_classes_) return;
    AddClasses(intervals_.classes.data(), bands_.Size(band), tables);
    contexts_.ContextsToTables(std::span(tables, bands_.Size(band)));
  }

  /// Symbols of `count` valid samples. Those in groups of zeros get the symbol 0 and kNoTable.
  Status DecodeValid(std::uint8_t* tables, std::size_t count, std::size_t begin, std::uint8_t* symbols) {
    if (mode_ == LevelMode::kAdaptive) {
      DecodeAdaptive(tables, count, begin, symbols);
      return Status::Ok();
    }
    if (!has_groups_) return DecodeRans(tables, count, symbols);
    const std::size_t coded = FindGroups(tables, count);
    std::uint8_t* coded_symbols = BytesFor(coded, &scratch_.coded_symbols);
    QUARRY_RETURN_IF_ERROR(DecodeRans(scratch_.coded_tables.data(), coded, coded_symbols));
    for (const SampleRun& run : scratch_.runs) {
      const std::size_t size = run.end - run.begin;
      if (run.zero) {
        std::memset(symbols + run.begin, 0, size);
        std::memset(tables + run.begin, kNoTable, size);
      } else {
        std::memcpy(symbols + run.begin, coded_symbols, size);
        coded_symbols += size;
      }
    }
    return Status::Ok();
  }

  /// Runs of samples in groups of zeros and of others, and the tables of the others. Returns how many these
  /// are.
  std::size_t FindGroups(const std::uint8_t* tables, std::size_t count) {
    std::uint8_t* coded_tables = BytesFor(count, &scratch_.coded_tables);
    scratch_.runs.clear();
    flags_.Walk(
        tables, count,
        [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits_.Decode(model); },
        [&](std::size_t begin, std::size_t end, bool zero) {
          if (!scratch_.runs.empty() && scratch_.runs.back().zero == zero) {
            scratch_.runs.back().end = end;
          } else {
            scratch_.runs.push_back({begin, end, zero});
          }
        });
    std::size_t coded = 0;
    for (const SampleRun& run : scratch_.runs) {
      if (run.zero) continue;
      std::memcpy(coded_tables + coded, tables + run.begin, run.end - run.begin);
      coded += run.end - run.begin;
    }
    return coded;
  }

  Status DecodeRans(const std::uint8_t* tables, std::size_t count, std::uint8_t* symbols) {
    return bands_.kernels().decode_rans(&rans_, tables, count, symbols)
               ? Status::Ok()
               : DataLoss("the symbols of a level end too early");
  }

  /// Indices without a symbol go to large_.
  void DecodeAdaptive(const std::uint8_t* bins, std::size_t count, std::size_t begin, std::uint8_t* symbols) {
    // A local copy stays in registers; each bit waits for the previous one.
    entropy::BinaryDecoder bits = bits_;
    entropy::BitReader reader{&bits};
    model_->Restart();
    quiet_flags_.Walk(
        bins, count,
        [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits.Decode(model); },
        [&](std::size_t run_begin, std::size_t run_end, bool zero) {
          if (zero) {
            std::memset(symbols + run_begin, 0, run_end - run_begin);
            model_->Restart();
            return;
          }
          for (std::size_t i = run_begin; i < run_end; ++i) {
            const std::int32_t index = model_->Code(reader, 0, bins[i]);
            const auto symbol =
                static_cast<std::uint32_t>(index) << 1 ^ static_cast<std::uint32_t>(index >> 31);
            const bool fits = symbol <= entropy::kLargestSymbol;
            symbols[i] = static_cast<std::uint8_t>(fits ? symbol : 0);
            if (!fits) large_.push_back({begin + i, false, index, 0});
          }
        });
    bits_ = bits;
  }

  /// Turns positions among the valid samples of a band into positions among all of them.
  void PlaceLarge(const std::uint8_t* validity, std::size_t begin) {
    std::size_t valid = begin;
    std::size_t i = 0;
    for (Escape<T>& large : large_) {
      for (; validity[i] == 0 || valid < large.position; ++i) valid += validity[i] != 0 ? 1 : 0;
      large.position = begin + i;
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
    args.low_bits = has_low_bits_ ? &low_bits_ : nullptr;
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const std::size_t at = static_cast<std::size_t>(z) * plane;
      args.symbols = scratch_.symbols.data() + at;
      args.tables = has_low_bits_ ? scratch_.tables.data() + at : nullptr;
      args.predicted = further_ ? intervals_.clamped.data() + at : bands_.Predict(band, z);
      args.decoded = bands_.Values(band) + at;
      args.magnitudes = keep_magnitudes ? bands_.Magnitudes(band) + at : nullptr;
      KernelsOf<T>::Reconstruct(bands_.kernels())(args);
      if (low_bits_.position > low_bits_.limit) return DataLoss("the low bits of a level end too early");
      Replace(large_, &next_large_, begin + at, args);
      Replace(escapes_, &next_escape_, begin + at, args);
      if (further_) {
        RunOnBestInstructionSet<LeaveIntervals<T>>(intervals_.signs.data() + at,
                                                   intervals_.misses.data() + at, plane, args.decoded,
                                                   args.magnitudes);
      }
    }
    return Status::Ok();
  }

  /// Puts samples that are not among the symbols into a plane.
  /// @param begin  of the plane among the new samples
  static void Replace(const std::vector<Escape<T>>& escapes, std::size_t* next, std::size_t begin,
                      const ReconstructArgs<T>& plane) {
    for (; *next < escapes.size() && escapes[*next].position < begin + plane.count; ++*next) {
      const Escape<T>& escape = escapes[*next];
      const std::size_t i = escape.position - begin;
      const T predicted = SanitisedPrediction(plane.predicted[i], plane.integral);
      plane.decoded[i] = escape.raw ? escape.value : predicted + static_cast<T>(escape.index) * plane.step;
      if (plane.magnitudes == nullptr) continue;
      const std::int32_t size = std::min<std::int32_t>(std::abs(escape.index), kMaxMagnitude);
      plane.magnitudes[i] = static_cast<std::uint16_t>(size);
    }
  }

  std::size_t NewSamples() const { return static_cast<std::size_t>(Volume(shape_)) - BandSize(shape_, 0); }

  /// Every valid sample as the difference of its ordered bits from those of its prediction.
  Status RunExact(ByteSpan payload) {
    using Word = decltype(OrderedBits(T{}));
    std::vector<Word> words(CountValid());
    QUARRY_ASSIGN_OR_RETURN(
        const std::size_t used,
        entropy::ReadPlanes(payload, sizeof(T), std::as_writable_bytes(std::span(words))));
    if (used != payload.size())
      return DataLoss("an exact level has {} bytes too many", payload.size() - used);
    const Word* next = words.data();
    std::size_t begin = 0;
    for (const int band : kBandOrder) {
      const std::size_t size = bands_.Size(band);
      if (size == 0) continue;
      if (validity_.empty()) std::fill_n(BytesFor(size, &scratch_.validity), size, std::uint8_t{1});
      FindValidity(band);
      const std::uint8_t* validity = scratch_.validity.data();
      if (further_) EnterIntervals(band, begin);
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
          const Word zigzag = *next++;
          const T exact =
              FromOrderedBits<T>(static_cast<Word>(OrderedBits(p) + ((zigzag >> 1) ^ (~(zigzag & 1) + 1))));
          if (!std::isfinite(exact)) return DataLoss("an exact sample is not finite");
          *value++ = further_ ? exact * intervals_.signs[at + i] : exact;
        }
      }
    }
    return Status::Ok();
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
  LevelBands<T> bands_;
  SymbolScratch& scratch_;
  IntervalScratch<T>& intervals_;

  LevelMode mode_ = LevelMode::kZero;
  std::vector<Escape<T>> escapes_;
  std::size_t next_escape_ = 0;
  std::vector<Escape<T>> large_;  ///< of the band: indices of adaptive bits that no symbol stands for
  std::size_t next_large_ = 0;
  ContextMap contexts_;
  bool has_classes_ = false;
  std::vector<std::uint16_t> thresholds_;  ///< of bins
  entropy::RansReader rans_;
  bool has_groups_ = false;
  bool has_low_bits_ = false;
  LowBits low_bits_;
  entropy::BinaryDecoder bits_ = entropy::BinaryDecoder({});
  GroupFlags quiet_flags_ = GroupFlags(0);
  GroupFlags flags_ = GroupFlags(GroupFlags::kMostActiveWithTables);
  std::optional<IndexModel> model_;  ///< eight KiB that most levels do not need
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
