#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

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

/// Reads the low bits of large indices. Bytes beyond the end are readable.
class LowBitReader {
 public:
  void Start(ByteSpan bytes) {
    storage_.assign(bytes.size() + kLowBitsPadding, std::byte{0});
    if (!bytes.empty()) std::memcpy(storage_.data(), bytes.data(), bytes.size());
    limit_ = bytes.size() * 8;
    position_ = 0;
  }

  /// One index per symbol. False if the bits end too early.
  bool Unfold(const Kernels& kernels, std::span<const entropy::SymbolTable> tables,
              const std::uint8_t* contexts, const std::uint8_t* symbols, std::size_t count,
              std::int32_t* indices) {
    std::array<std::uint8_t, 16> shifts{};
    for (std::size_t t = 0; t < tables.size(); ++t) shifts[t] = tables[t].shift;
    position_ = kernels.unfold_low(symbols, contexts, shifts.data(), storage_.data(), position_, limit_,
                                   count, indices);
    return position_ <= limit_;
  }

 private:
  Bytes storage_;
  std::size_t position_ = 0;
  std::size_t limit_ = 0;
};

/// Samples that are all zero, or all have symbols.
struct SampleRun {
  std::size_t begin;
  std::size_t end;
  bool zero;
};

/// Scratch of a thread, in addition to LevelScratch.
struct SymbolScratch {
  std::vector<std::uint8_t> tables;  ///< table or bin of every sample of a band
  std::vector<std::uint8_t> coded;   ///< the same of those samples that have a symbol
  std::vector<std::uint8_t> symbols;
  std::vector<std::int32_t> unfolded;
  std::vector<std::int32_t> indices;  ///< of the band
  std::vector<std::uint32_t> slots;
  std::vector<std::uint16_t> words;
  std::vector<std::uint8_t> validity;  ///< of the band
  std::vector<SampleRun> runs;         ///< of the band
  LowBitReader low_bits;

  static SymbolScratch& OfThread() {
    thread_local SymbolScratch scratch;
    return scratch;
  }
};

template <typename V>
void EnsureSize(V* vector, std::size_t size) {
  if (vector->size() < size) vector->resize(size);
}

template <typename T>
class LevelDecoder {
 public:
  LevelDecoder(const Quantiser& quantiser, const Index3& shape, Validity validity, bool need_magnitudes,
               LevelGrid<T>* grid)
      : quantiser_(quantiser),
        shape_(shape),
        validity_(validity),
        need_magnitudes_(need_magnitudes),
        grid_(grid),
        bands_(shape, grid, &LevelScratch<T>::OfThread()),
        scratch_(SymbolScratch::OfThread()) {}

  Status Run(ByteSpan payload) {
    std::uint8_t head = 0;
    if (!payload.empty()) {
      head = std::to_integer<std::uint8_t>(payload[0]);
      payload = payload.subspan(1);
    }
    mode_ = static_cast<LevelMode>(head & 3);
    if ((head & ~AllowedBits(mode_)) != 0 || (head & (kOwnPredictor | kOwnWeights)) == kOwnWeights)
      return DataLoss("a level begins with the byte {:#x}", head);
    if ((head & kOwnPredictor) != 0) {
      QUARRY_ASSIGN_OR_RETURN(grid_->predictor,
                              PredictorSpec::DecodeFrom(&payload, (head & kOwnWeights) == 0));
    }
    bands_.SetPredictor(grid_->predictor);
    if (mode_ == LevelMode::kExact) {
      QUARRY_RETURN_IF_ERROR(RunExact(payload));
    } else {
      QUARRY_RETURN_IF_ERROR(RunQuantised(head, payload));
    }
    bands_.Merge(need_magnitudes_);
    return Status::Ok();
  }

 private:
  Status RunQuantised(std::uint8_t head, ByteSpan payload) {
    if (mode_ != LevelMode::kZero && !(quantiser_.step > 0))
      return DataLoss("a level has indices, but the patch has no step");
    if ((head & kHasEscapes) != 0) QUARRY_RETURN_IF_ERROR(ReadEscapes(&payload));
    if (mode_ == LevelMode::kRans) {
      QUARRY_RETURN_IF_ERROR(StartRansMode(head, payload));
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
      QUARRY_RETURN_IF_ERROR(DecodeIndices(band, size));
      Reconstruct(band, begin, size);
      begin += size;
    }
    return mode_ == LevelMode::kRans ? CheckEnd() : Status::Ok();
  }

  /// Bits of the first byte that a mode uses.
  static int AllowedBits(LevelMode mode) {
    const int always = 3 | kOwnPredictor | kOwnWeights;
    if (mode == LevelMode::kRans) return always | kGroupFlags | kManyLanesFlag | kHasEscapes | kFineTables;
    return mode == LevelMode::kAdaptive ? always | kHasEscapes : always;
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

  Status StartRansMode(std::uint8_t head, ByteSpan payload) {
    const int bits = (head & kFineTables) != 0 ? 11 : 10;
    if (payload.size() < 4) return DataLoss("a level ends in its contexts");
    const auto bins = GetLittleEndian<std::uint32_t>(payload.data());
    payload = payload.subspan(4);
    if (bins >> (kFineBins - 1) != 0) return DataLoss("a level has a table for impossible activities");
    ContextMap contexts;
    contexts.first_bins.push_back(0);
    for (std::uint8_t bin = 1; bin < kFineBins; ++bin) {
      if ((bins >> (bin - 1) & 1) != 0) contexts.first_bins.push_back(bin);
    }
    if (contexts.first_bins.size() > kMaxTables)
      return DataLoss("a level has {} tables of symbols", contexts.first_bins.size());
    thresholds_ = contexts.Thresholds();
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan tables, TakePart(&payload));
    QUARRY_ASSIGN_OR_RETURN(tables_, entropy::DecodeTables(tables, contexts.first_bins.size(), bits));
    has_groups_ = (head & kGroupFlags) != 0;
    if (has_groups_) {
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan flags, TakePart(&payload));
      bits_ = entropy::BinaryDecoder(flags);
    }
    has_low_bits_ = std::any_of(tables_.begin(), tables_.end(),
                                [](const entropy::SymbolTable& t) { return t.shift > 0; });
    if (has_low_bits_) {
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan low_bits, TakePart(&payload));
      // Memory is bounded by the level, not by what the payload claims.
      if (low_bits.size() > NewSamples() * entropy::kMaxShift / 8 + 1)
        return DataLoss("a level of {} new samples has {} bytes of low bits", NewSamples(), low_bits.size());
      scratch_.low_bits.Start(low_bits);
    }
    if (payload.size() / 2 > NewSamples() + 2 * entropy::kManyLanes)
      return DataLoss("a level of {} new samples has {} bytes of symbols", NewSamples(), payload.size());
    entropy::MakeSlots(tables_, bits, &scratch_.slots);
    rans_.slots = scratch_.slots.data();
    return entropy::StartRans(payload,
                              (head & kManyLanesFlag) != 0 ? entropy::kManyLanes : entropy::kFewLanes, bits,
                              &scratch_.words, &rans_);
  }

  static Result<ByteSpan> TakePart(ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(payload));
    if (size > payload->size())
      return DataLoss("a part of {} bytes where {} are left", size, payload->size());
    const ByteSpan part = payload->first(size);
    *payload = payload->subspan(size);
    return part;
  }

  /// Indices of a band into scratch_.indices.
  Status DecodeIndices(int band, std::size_t size) {
    EnsureSize(&scratch_.indices, size);
    if (mode_ == LevelMode::kZero) {
      std::fill_n(scratch_.indices.begin(), size, 0);
      return Status::Ok();
    }
    EnsureSize(&scratch_.tables, size + entropy::kManyLanes);
    const std::uint16_t* activity = bands_.Activity(band);
    if (mode_ == LevelMode::kRans) {
      bands_.kernels().classify(activity, size, thresholds_.data(), scratch_.tables.data());
    } else {
      bands_.kernels().fine_bins(activity, size, scratch_.tables.data());
    }
    if (validity_.empty()) return DecodeCoded(scratch_.tables.data(), size, scratch_.indices.data());

    // Missing samples have no symbols.
    EnsureSize(&scratch_.validity, size);
    ExtractBand(validity_.data(), shape_, band, scratch_.validity.data());
    std::size_t valid = 0;
    for (std::size_t i = 0; i < size; ++i) {
      scratch_.tables[valid] = scratch_.tables[i];
      valid += scratch_.validity[i] != 0 ? 1 : 0;
    }
    EnsureSize(&scratch_.unfolded, size);
    QUARRY_RETURN_IF_ERROR(DecodeCoded(scratch_.tables.data(), valid, scratch_.unfolded.data()));
    std::size_t next = 0;
    for (std::size_t i = 0; i < size; ++i)
      scratch_.indices[i] = scratch_.validity[i] != 0 ? scratch_.unfolded[next++] : 0;
    return Status::Ok();
  }

  /// Indices of `count` samples that all have symbols, unless their group says otherwise.
  Status DecodeCoded(const std::uint8_t* tables, std::size_t count, std::int32_t* indices) {
    if (mode_ == LevelMode::kAdaptive) {
      DecodeAdaptive(tables, count, indices);
      return Status::Ok();
    }
    if (!has_groups_) return DecodeSymbols(tables, count, indices);
    EnsureSize(&scratch_.coded, count + entropy::kManyLanes);
    scratch_.runs.clear();
    std::size_t coded = 0;
    flags_.Walk(
        tables, count,
        [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits_.Decode(model); },
        [&](std::size_t begin, std::size_t end, bool zero) {
          scratch_.runs.push_back({begin, end, zero});
          if (zero) return;
          std::memcpy(scratch_.coded.data() + coded, tables + begin, end - begin);
          coded += end - begin;
        });
    EnsureSize(&group_indices_, coded);
    QUARRY_RETURN_IF_ERROR(DecodeSymbols(scratch_.coded.data(), coded, group_indices_.data()));
    const std::int32_t* next = group_indices_.data();
    for (const SampleRun& run : scratch_.runs) {
      const std::size_t size = run.end - run.begin;
      if (run.zero) {
        std::memset(indices + run.begin, 0, size * sizeof(std::int32_t));
      } else {
        std::memcpy(indices + run.begin, next, size * sizeof(std::int32_t));
        next += size;
      }
    }
    return Status::Ok();
  }

  Status DecodeSymbols(const std::uint8_t* tables, std::size_t count, std::int32_t* indices) {
    EnsureSize(&scratch_.symbols, count + entropy::kManyLanes);
    if (!bands_.kernels().decode_rans(&rans_, tables, count, scratch_.symbols.data()))
      return DataLoss("the symbols of a level end too early");
    if (has_low_bits_) {
      if (!scratch_.low_bits.Unfold(bands_.kernels(), tables_, tables, scratch_.symbols.data(), count,
                                    indices))
        return DataLoss("the low bits of a level end too early");
      return Status::Ok();
    }
    bands_.kernels().unfold(scratch_.symbols.data(), count, indices);
    return Status::Ok();
  }

  void DecodeAdaptive(const std::uint8_t* bins, std::size_t count, std::int32_t* indices) {
    // A local copy stays in registers; each bit waits for the previous one.
    entropy::BinaryDecoder bits = bits_;
    entropy::BitReader reader{&bits};
    model_->Restart();
    quiet_flags_.Walk(
        bins, count,
        [&](entropy::AdaptiveBit* model, std::size_t, std::size_t) { return bits.Decode(model); },
        [&](std::size_t begin, std::size_t end, bool zero) {
          if (zero) {
            std::memset(indices + begin, 0, (end - begin) * sizeof(std::int32_t));
            model_->Restart();
            return;
          }
          for (std::size_t i = begin; i < end; ++i) indices[i] = model_->Code(reader, 0, bins[i]);
        });
    bits_ = bits;
  }

  void Reconstruct(int band, std::size_t begin, std::size_t size) {
    const std::size_t first = next_escape_;
    while (next_escape_ < escapes_.size() && escapes_[next_escape_].position < begin + size) {
      const Escape<T>& escape = escapes_[next_escape_++];
      scratch_.indices[escape.position - begin] = escape.index;
    }
    const QuantiseArgs<T> args{static_cast<T>(quantiser_.step), 0, 0, 0, quantiser_.integral};
    const Index3 shape = bands_.Shape(band);
    const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
    T* values = bands_.Values(band);
    std::uint16_t* magnitudes = bands_.Magnitudes(band);
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      const std::size_t at = static_cast<std::size_t>(z) * plane;
      KernelsOf<T>::Dequantise(bands_.kernels())(args, scratch_.indices.data() + at, bands_.Predict(band, z),
                                                 plane, values + at, magnitudes + at);
    }
    for (std::size_t i = first; i < next_escape_; ++i) {
      if (escapes_[i].raw) values[escapes_[i].position - begin] = escapes_[i].value;
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
    for (const int band : kBandOrder) {
      const std::size_t size = bands_.Size(band);
      if (size == 0) continue;
      EnsureSize(&scratch_.validity, size);
      if (validity_.empty()) {
        std::fill_n(scratch_.validity.begin(), size, std::uint8_t{1});
      } else {
        ExtractBand(validity_.data(), shape_, band, scratch_.validity.data());
      }
      const Index3 shape = bands_.Shape(band);
      const auto plane = static_cast<std::size_t>(shape[0] * shape[1]);
      std::fill_n(bands_.Magnitudes(band), size, std::uint16_t{0});
      T* value = bands_.Values(band);
      for (std::int64_t z = 0; z < shape[2]; ++z) {
        const T* predicted = bands_.Predict(band, z);
        const std::uint8_t* valid = scratch_.validity.data() + static_cast<std::size_t>(z) * plane;
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
          *value++ = exact;
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
  const bool need_magnitudes_;
  LevelGrid<T>* grid_;
  LevelBands<T> bands_;
  SymbolScratch& scratch_;

  LevelMode mode_ = LevelMode::kZero;
  std::vector<Escape<T>> escapes_;
  std::size_t next_escape_ = 0;
  std::array<std::uint16_t, kMaxTables - 1> thresholds_{};
  std::vector<entropy::SymbolTable> tables_;
  std::vector<std::int32_t> group_indices_;
  entropy::RansReader rans_;
  bool has_groups_ = false;
  bool has_low_bits_ = false;
  entropy::BinaryDecoder bits_ = entropy::BinaryDecoder({});
  GroupFlags quiet_flags_ = GroupFlags(0);
  GroupFlags flags_ = GroupFlags(GroupFlags::kMostActiveWithTables);
  std::optional<IndexModel> model_;  ///< eight KiB that most levels do not need
};

}  // namespace

template <typename T>
Status DecodeLevel(ByteSpan payload, const Quantiser& quantiser, const Index3& shape, Validity validity,
                   bool need_magnitudes, LevelGrid<T>* grid) {
  return LevelDecoder<T>(quantiser, shape, validity, need_magnitudes, grid).Run(payload);
}

template Status DecodeLevel<float>(ByteSpan, const Quantiser&, const Index3&, Validity, bool,
                                   LevelGrid<float>*);
template Status DecodeLevel<double>(ByteSpan, const Quantiser&, const Index3&, Validity, bool,
                                    LevelGrid<double>*);

}  // namespace quarry::interpolate
