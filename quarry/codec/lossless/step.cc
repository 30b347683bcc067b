#include "quarry/codec/lossless/step.h"

#include <algorithm>
#include <limits>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/lossless/labels.h"
#include "quarry/codec/lossless/ranks.h"
#include "quarry/codec/sample_types.h"

namespace quarry::lossless {
namespace {

// zstd 3 is hardly smaller than 1 on the noise of prediction errors, and often larger.
constexpr int kNumericLevel = 1;
// For repetitive grids: level 9 is 1 % smaller and takes twice the time.
constexpr int kRepeatsLevel = 3;

// Number of samples for an estimate: for the order of the axes, then for the predictors.
constexpr std::int64_t kAxisSamples = 1024;
constexpr std::int64_t kPredictorSamples = 3072;
constexpr std::array kSmoothPredictors = {Predictor::kLinear, Predictor::kCubic};
constexpr std::array kAllPredictors = {Predictor::kLinear, Predictor::kCubic, Predictor::kNear,
                                       Predictor::kNone};
// Words on which layouts are tried.
constexpr std::size_t kTrialWords = 16384;

// Repeats extend beyond the tried part.
constexpr double kRepeatsHope = 1.0;
// At least this share of the new samples must equal a neighbour.
constexpr double kShareOfLabels = 0.5;
constexpr std::size_t kBytesPerDecision = 4;
// Largest cost of ranks relative to that of the samples themselves.
constexpr double kRanksWorthwhile = 0.97;

std::uint16_t PackStepCode(const StepCode& code) {
  const auto order = static_cast<unsigned>(std::find(kAxisOrders.begin(), kAxisOrders.end(), code.axes) -
                                           kAxisOrders.begin());
  unsigned packed = order;
  for (std::size_t p = 0; p < 3; ++p) {
    const unsigned pass =
        static_cast<unsigned>(code.passes[p].predictor) | static_cast<unsigned>(code.passes[p].carry) << 2;
    packed |= pass << (3 + 4 * p);
  }
  return static_cast<std::uint16_t>(packed);
}

/// @param packed  with an order below kAxisOrders.size()
StepCode UnpackStepCode(std::uint16_t packed) {
  StepCode code;
  code.axes = kAxisOrders[packed & 7u];
  for (std::size_t p = 0; p < 3; ++p) {
    const unsigned pass = packed >> (3 + 4 * p);
    code.passes[p] = {static_cast<Predictor>(pass & 3), static_cast<Carry>(pass >> 2 & 3)};
  }
  return code;
}

template <typename V>
void EncodeWords(const V* coarse, const GridView<V>& grid, const StepCode& code, Buffer<WordOf<V>>* words,
                 V* result) {
  const std::array<Index3, 4> shapes = PassShapes(grid.shape, code.axes);
  const PassArrays<V> targets(grid.samples, shapes, code.axes);
  const PassArrays<std::uint8_t> valid(grid.valid, shapes, code.axes);
  words->resize(Count(shapes[3]) - Count(shapes[0]));
  std::size_t written = 0;
  RunPasses<V>(coarse, shapes, result, [&](std::size_t p, const V* even, V* to) {
    const Pass<V> pass{even, shapes[p + 1], code.axes[p], code.passes[p], grid.dropped_bits, valid.After(p)};
    written += EncodePass<V>(pass, targets.After(p), words->data() + written, to);
  });
  words->resize(written);
}

template <typename V>
void ReconstructWords(const V* coarse, const GridView<V>& grid, const StepCode& code, const WordOf<V>* words,
                      V* result) {
  const std::array<Index3, 4> shapes = PassShapes(grid.shape, code.axes);
  const PassArrays<std::uint8_t> valid(grid.valid, shapes, code.axes);
  RunPasses<V>(coarse, shapes, result, [&](std::size_t p, const V* even, V* to) {
    const Pass<V> pass{even, shapes[p + 1], code.axes[p], code.passes[p], grid.dropped_bits, valid.After(p)};
    words += ReconstructPass<V>(pass, words, to);
  });
}

/// Appends words in the smaller layout, chosen by a trial on a part from their middle if there are many.
template <typename Word>
void AppendBestPlanes(std::span<const Word> words, int zstd_level, Bytes* out) {
  const std::size_t trial = std::min(words.size(), kTrialWords);
  const std::span<const Word> part = words.subspan((words.size() - trial) / 2, trial);
  Bytes bytes, bits;
  entropy::AppendPlanes(std::as_bytes(part), sizeof(Word), entropy::PlaneLayout::kBytes, zstd_level, &bytes);
  entropy::AppendPlanes(std::as_bytes(part), sizeof(Word), entropy::PlaneLayout::kBits, zstd_level, &bits);
  if (trial == words.size()) {
    const Bytes& best = bits.size() < bytes.size() ? bits : bytes;
    out->insert(out->end(), best.begin(), best.end());
    return;
  }
  const entropy::PlaneLayout layout =
      bits.size() < bytes.size() ? entropy::PlaneLayout::kBits : entropy::PlaneLayout::kBytes;
  entropy::AppendPlanes(std::as_bytes(words), sizeof(Word), layout, zstd_level, out);
}

/// Ordered words of the valid samples.
template <typename V>
Buffer<WordOf<V>> FlatWords(const GridView<V>& grid) {
  Buffer<WordOf<V>> words(Count(grid.shape));
  std::size_t written = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[written] = ShiftDown<WordOf<V>>(OrderedWord<V>(grid.samples[i]), grid.dropped_bits);
    written += grid.valid == nullptr || grid.valid[i] != 0 ? 1 : 0;
  }
  words.resize(written);
  return words;
}

template <typename V>
void SamplesOfFlatWords(const GridView<V>& grid, const WordOf<V>* words, V* result) {
  const std::size_t count = Count(grid.shape);
  for (std::size_t i = 0; i < count; ++i) {
    if (grid.valid != nullptr && grid.valid[i] == 0) continue;
    result[i] = SampleOf<V>(RestoreDropped<V>(*words++, grid.dropped_bits));
  }
  if (grid.valid != nullptr) FillMissing<V>(grid.valid, count, result);
}

struct PassChoice {
  PassCode code;
  double bits = std::numeric_limits<double>::infinity();
};

/// The best carry with one of these predictors along this axis.
template <typename V>
PassChoice SearchPass(const GridView<V>& grid, int axis, std::span<const Predictor> predictors,
                      std::int64_t samples) {
  Buffer<V> even(Count(EvenShape(grid.shape, axis)));
  TakeEven<V>(grid.samples, grid.shape, axis, even.data());
  const std::int64_t stride = std::max<std::int64_t>(1, Volume(OddShape(grid.shape, axis)) / samples);
  PassChoice best;
  for (const Predictor predictor : predictors) {
    const Pass<V> pass{even.data(),       grid.shape, axis, {predictor, Carry::kNone},
                       grid.dropped_bits, grid.valid};
    const std::array<double, kCarries> bits = EstimatePass<V>(pass, grid.samples, stride);
    for (int carry = 0; carry < kCarries; ++carry) {
      const double estimate = bits[static_cast<std::size_t>(carry)] * static_cast<double>(stride);
      if (estimate < best.bits) best = {{predictor, static_cast<Carry>(carry)}, estimate};
    }
  }
  return best;
}

/// The axis that is best predicted from its even samples, among those that are not `used`.
template <typename V>
int SearchAxis(const GridView<V>& grid, const std::array<bool, 3>& used) {
  int best_axis = -1;
  double best_bits = 0;
  for (int axis = 0; axis < 3; ++axis) {
    if (used[static_cast<std::size_t>(axis)]) continue;
    const bool empty = Volume(OddShape(grid.shape, axis)) == 0;
    // Passes along different axes code nearly as many samples, so their bits are compared directly.
    const double bits = empty ? std::numeric_limits<double>::max()
                              : SearchPass<V>(grid, axis, kSmoothPredictors, kAxisSamples).bits;
    if (best_axis < 0 || bits < best_bits) {
      best_axis = axis;
      best_bits = bits;
    }
  }
  return best_axis;
}

/// True if the words, coded whole, look hardly larger than `bytes`; judged from a part, since coding all is
/// slow.
template <typename Word>
bool RepeatsLookGood(std::span<const Word> words, std::size_t bytes) {
  const std::size_t trial = std::min(words.size(), kTrialWords);
  Bytes coded;
  entropy::AppendPlanes(std::as_bytes(words.subspan((words.size() - trial) / 2, trial)), sizeof(Word),
                        entropy::PlaneLayout::kWords, kNumericLevel, &coded);
  return static_cast<double>(coded.size()) * static_cast<double>(words.size()) <
         kRepeatsHope * static_cast<double>(bytes) * static_cast<double>(trial);
}

/// A candidate for the smallest step.
template <typename V>
struct Candidate {
  Bytes bytes;
  Buffer<V> result;
};

template <typename V>
void KeepSmaller(Candidate<V>&& other, Candidate<V>* best) {
  if (best->bytes.empty() || other.bytes.size() < best->bytes.size()) std::swap(*best, other);
}

template <typename V>
Candidate<V> Predicted(const V* coarse, const GridView<V>& grid, const StepCode& code) {
  Candidate<V> predicted{{}, Buffer<V>(Count(grid.shape))};
  Buffer<WordOf<V>> words;
  EncodeWords<V>(coarse, grid, code, &words, predicted.result.data());
  PutLittleEndian(&predicted.bytes, PackStepCode(code));
  AppendBestPlanes<WordOf<V>>(words, kNumericLevel, &predicted.bytes);
  return predicted;
}

/// The new samples unchanged, for repetitive grids.
template <typename V>
void TryRepeats(const V* coarse, const GridView<V>& grid, StepCode code, Candidate<V>* best) {
  for (PassCode& pass : code.passes) pass = {Predictor::kNone, Carry::kNone};
  Candidate<V> repeats{{}, Buffer<V>(Count(grid.shape))};
  Buffer<WordOf<V>> words;
  EncodeWords<V>(coarse, grid, code, &words, repeats.result.data());
  if (!RepeatsLookGood<WordOf<V>>(words, best->bytes.size())) return;
  PutLittleEndian(&repeats.bytes, PackStepCode(code));
  entropy::AppendPlanes(std::as_bytes(std::span<const WordOf<V>>(words)), sizeof(V),
                        entropy::PlaneLayout::kWords, kRepeatsLevel, &repeats.bytes);
  KeepSmaller(std::move(repeats), best);
}

template <typename V>
void TryLabels(const V* coarse, const GridView<V>& grid, const StepCode& code, std::size_t new_samples,
               Candidate<V>* best) {
  if (ShareOfLabels<V>(grid, code.axes[2]) < kShareOfLabels) return;
  Candidate<V> labels{{}, Buffer<V>(Count(grid.shape))};
  const auto order = static_cast<unsigned>(std::find(kAxisOrders.begin(), kAxisOrders.end(), code.axes) -
                                           kAxisOrders.begin());
  const std::size_t decisions = EncodeLabels<V>(coarse, grid, order, &labels.bytes, labels.result.data());
  // Decisions are slow to decode: many of them must pay off.
  const bool slow = decisions * kBytesPerDecision > new_samples * sizeof(V);
  if (slow && 2 * labels.bytes.size() > best->bytes.size()) return;
  KeepSmaller(std::move(labels), best);
}

/// The smallest step without ranks.
template <typename V>
Candidate<V> EncodeDirectly(const V* coarse, const GridView<V>& grid, std::size_t new_samples) {
  const StepCode code = SearchStepCode<V>(grid, nullptr);
  Candidate<V> best = Predicted<V>(coarse, grid, code);
  TryLabels<V>(coarse, grid, code, new_samples, &best);
  TryRepeats<V>(coarse, grid, code, &best);
  return best;
}

template <typename V>
void TryRanks(const V* coarse, const GridView<V>& grid, std::size_t new_samples, Candidate<V>* best) {
  if (!RanksLookGood<V>(grid)) return;
  Candidate<V> ranks{{static_cast<std::byte>(kRanksKind)}, Buffer<V>(Count(grid.shape))};
  const RankedGrid<V> ranked = AppendRankTable<V>(coarse, grid, &ranks.bytes);
  if (ranks.bytes.size() > best->bytes.size()) return;
  const GridView<std::int32_t> rank_grid{ranked.samples.data(), grid.shape, grid.valid, 0};
  const Candidate<std::int32_t> step =
      EncodeDirectly<std::int32_t>(ranked.coarse.data(), rank_grid, new_samples);
  ranks.bytes.insert(ranks.bytes.end(), step.bytes.begin(), step.bytes.end());
  // Ranks cost decoding time.
  if (static_cast<double>(ranks.bytes.size()) > kRanksWorthwhile * static_cast<double>(best->bytes.size()))
    return;
  ranked.ToSamples(step.result, ranks.result.data());
  std::swap(*best, ranks);
}

template <typename V>
Status DecodeDirectly(const V* coarse, const GridView<V>& grid, std::size_t new_samples, ByteSpan* payload,
                      V* result) {
  using Word = WordOf<V>;
  if (payload->empty()) return DataLoss("a level with {} new samples has no bytes", new_samples);
  const unsigned kind = std::to_integer<unsigned>((*payload)[0]) & 7u;
  if (kind == kLabelsKind) return DecodeLabels<V>(coarse, grid, new_samples, payload, result);
  if (kind >= kAxisOrders.size()) return DataLoss("unknown kind {} of a level", kind);
  if (payload->size() < sizeof(std::uint16_t)) return DataLoss("a level ends in its first bytes");
  const StepCode code = UnpackStepCode(GetLittleEndian<std::uint16_t>(payload->data()));
  *payload = payload->subspan(sizeof(std::uint16_t));
  Buffer<Word> words(new_samples);
  QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &words));
  ReconstructWords<V>(coarse, grid, code, words.data(), result);
  return Status::Ok();
}

template <typename V>
Status DecodeRanks(const V* coarse, const GridView<V>& grid, std::size_t new_samples, ByteSpan* payload,
                   V* result) {
  *payload = payload->subspan(1);
  QUARRY_ASSIGN_OR_RETURN(const RankedGrid<V> ranked, ReadRankTable<V>(coarse, grid, new_samples, payload));
  Buffer<std::int32_t> ranks(Count(grid.shape));
  QUARRY_RETURN_IF_ERROR(DecodeDirectly<std::int32_t>(
      ranked.coarse.data(), {nullptr, grid.shape, grid.valid, 0}, new_samples, payload, ranks.data()));
  ranked.ToSamples(ranks, result);
  return Status::Ok();
}

}  // namespace

template <typename V>
StepCode SearchStepCode(const GridView<V>& grid, double* bytes) {
  // The last pass first: it has the most samples. The grid without its odd samples is left for the others.
  StepCode code;
  double bits = 0;
  std::array<bool, 3> used{};
  Buffer<V> rest;
  Buffer<std::uint8_t> rest_valid;
  GridView<V> now = grid;
  for (std::size_t p = 3; p > 0; --p) {
    const int axis = SearchAxis<V>(now, used);
    used[static_cast<std::size_t>(axis)] = true;
    code.axes[p - 1] = axis;
    if (Volume(OddShape(now.shape, axis)) == 0) continue;
    const PassChoice choice = SearchPass<V>(now, axis, kAllPredictors, kPredictorSamples);
    code.passes[p - 1] = choice.code;
    bits += choice.bits;
    Buffer<V> even(Count(EvenShape(now.shape, axis)));
    TakeEven<V>(now.samples, now.shape, axis, even.data());
    if (now.valid != nullptr) {
      Buffer<std::uint8_t> even_valid(even.size());
      TakeEven<std::uint8_t>(now.valid, now.shape, axis, even_valid.data());
      rest_valid.swap(even_valid);
      now.valid = rest_valid.data();
    }
    now.shape = EvenShape(now.shape, axis);
    rest.swap(even);
    now.samples = rest.data();
  }
  if (bytes != nullptr) *bytes = bits / 8;
  return code;
}

template <typename V>
void EncodeStep(const V* coarse, const GridView<V>& grid, Bytes* out, V* result) {
  const std::size_t new_samples = NewSamples(grid);
  if (new_samples == 0) {
    Buffer<WordOf<V>> none;
    EncodeWords<V>(coarse, grid, StepCode{}, &none, result);
    return;
  }
  Candidate<V> best = EncodeDirectly<V>(coarse, grid, new_samples);
  TryRanks<V>(coarse, grid, new_samples, &best);
  out->insert(out->end(), best.bytes.begin(), best.bytes.end());
  std::copy(best.result.begin(), best.result.end(), result);
}

template <typename V>
Status DecodeStep(const V* coarse, const GridView<V>& grid, ByteSpan* payload, V* result) {
  const std::size_t new_samples = NewSamples(grid);
  if (new_samples == 0) {
    ReconstructWords<V>(coarse, grid, StepCode{}, nullptr, result);
    return Status::Ok();
  }
  const bool in_ranks = !payload->empty() && (std::to_integer<unsigned>((*payload)[0]) & 7u) == kRanksKind;
  return in_ranks ? DecodeRanks<V>(coarse, grid, new_samples, payload, result)
                  : DecodeDirectly<V>(coarse, grid, new_samples, payload, result);
}

template <typename V>
void EncodeBase(const GridView<V>& grid, Bytes* out, V* result) {
  using Word = WordOf<V>;
  const Buffer<Word> flat = FlatWords<V>(grid);
  Buffer<Word> words(flat.size());
  Word before = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = ZigZag<Word>(static_cast<Word>(flat[i] - before));
    before = flat[i];
  }
  AppendBestPlanes<Word>(words, kNumericLevel, out);
  SamplesOfFlatWords<V>(grid, flat.data(), result);
}

template <typename V>
Status DecodeBase(const GridView<V>& grid, ByteSpan* payload, V* result) {
  using Word = WordOf<V>;
  const std::size_t count = Count(grid.shape);
  Buffer<Word> words(grid.valid == nullptr ? count : CountValid(grid.valid, count));
  QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &words));
  Word before = 0;
  for (Word& word : words) {
    before = static_cast<Word>(before + UnZigZag<Word>(word));
    word = before;
  }
  SamplesOfFlatWords<V>(grid, words.data(), result);
  return Status::Ok();
}

template <typename V>
void FillMissing(const std::uint8_t* valid, std::size_t count, V* samples) {
  V before = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (valid[i] == 0) samples[i] = before;
    before = samples[i];
  }
}

#define QUARRY_INSTANTIATE(V)                                                 \
  template StepCode SearchStepCode<V>(const GridView<V>&, double*);           \
  template void EncodeStep<V>(const V*, const GridView<V>&, Bytes*, V*);      \
  template Status DecodeStep<V>(const V*, const GridView<V>&, ByteSpan*, V*); \
  template void EncodeBase<V>(const GridView<V>&, Bytes*, V*);                \
  template Status DecodeBase<V>(const GridView<V>&, ByteSpan*, V*);           \
  template void FillMissing<V>(const std::uint8_t*, std::size_t, V*)
QUARRY_FOR_EACH_SAMPLE_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
