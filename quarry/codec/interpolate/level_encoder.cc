#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/interpolate/choose_predictor.h"
#include "quarry/codec/interpolate/choose_tables.h"
#include "quarry/codec/interpolate/index_coder.h"
#include "quarry/codec/interpolate/level.h"
#include "quarry/codec/interpolate/level_samples.h"
#include "quarry/codec/lossless/arithmetic.h"

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

/// Exact coding is tried when indices cost more than this part of the samples themselves.
constexpr double kTryExactAbove = 0.6;

template <typename T>
class LevelEncoder {
 public:
  LevelEncoder(const Quantiser& quantiser, const Index3& shape, const T* samples, Validity validity,
               const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place, LevelGrid<T>* grid)
      : quantiser_(quantiser),
        need_magnitudes_(need_magnitudes),
        place_(place),
        grid_(grid),
        samples_(quantiser, shape, samples, validity, base, grid),
        inherited_(grid->predictor) {}

  Bytes Run() {
    const int share = samples_.refers() ? PickShare() : 0;
    Bytes payload = Code();
    if (!samples_.refers() || (share == kWholeShare && payload.empty())) return payload;
    payload.insert(payload.begin(), static_cast<std::byte>(share));
    return payload;
  }

 private:
  Bytes Code() {
    const PredictorSpec spec = ChoosePredictor<T>(samples_.Sample(), inherited_, &samples_.bands());
    samples_.bands().SetPredictor(spec);
    Bytes payload;
    if (quantiser_.step > 0) {
      samples_.Quantise();
      payload = CodeIndices(spec);
      grid_->exact = false;
      const double raw = static_cast<double>(samples_.coded().indices.size() * sizeof(T));
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
    samples_.bands().Merge(need_magnitudes_, place_);
    return payload;
  }

  /// The share of the reference that leaves the least to code, with the predictor of the coarser level.
  int PickShare() {
    samples_.bands().SetPredictor(inherited_);
    const PredictionSample<T> sample = samples_.Sample();
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int share = 0; share <= kWholeShare; ++share) {
      samples_.bands().SetShare(share);
      const double cost = PredictionCost<T>(sample, &samples_.bands());
      if (cost < least) best = share;
      least = std::min(least, cost);
    }
    samples_.bands().SetShare(best);
    return best;
  }

  /// The cheapest form of the indices, with its first byte.
  Bytes CodeIndices(const PredictorSpec& spec) {
    samples_.CollectCoded();
    const CodedIndices coded = samples_.coded();
    const bool all_zero =
        std::all_of(coded.indices.begin(), coded.indices.end(), [](std::int32_t q) { return q == 0; });
    if (all_zero && samples_.raw_escapes().empty()) return WithHead(LevelMode::kZero, 0, spec, {}, {});
    const std::size_t samples = coded.indices.size();
    const TableChoice choice =
        samples_.further() ? ChooseWithClasses(coded) : ChooseTables(coded.indices, coded.contexts);
    if (samples > kOneLaneUpTo) {
      const double adaptive_limit = 8.0 * static_cast<double>(samples) / kSamplesPerAdaptiveByte;
      // The estimate includes tables, which adaptive bits do without.
      if (choice.bits < 1.5 * adaptive_limit + 8 * 60) {
        Bytes adaptive = WithAdaptive(coded, spec);
        if (static_cast<double>(adaptive.size()) * 8 < adaptive_limit + 8 * 60) return adaptive;
      }
      return WithTables(choice, spec);
    }
    const bool try_adaptive =
        samples <= kTryAdaptiveUpTo || choice.bits > kTryAdaptiveAbove * static_cast<double>(samples);
    Bytes adaptive = try_adaptive ? WithAdaptive(coded, spec) : Bytes();
    Bytes tables = WithTables(choice, spec);
    const bool adaptive_pays =
        static_cast<double>(tables.size()) > kTablesMayCost * static_cast<double>(adaptive.size());
    return try_adaptive && adaptive_pays ? adaptive : tables;
  }

  /// Tables for contexts with classes, or where that is no larger without. Leaves bins as contexts where the
  /// choice has no classes, and otherwise the bins in scratch for adaptive bits.
  TableChoice ChooseWithClasses(const CodedIndices& coded) {
    std::optional<TableChoice> with;
    if (coded.indices.size() > kOneLaneUpTo)
      with = ChooseTables(coded.indices, coded.contexts, /*has_classes=*/true);
    samples_.scratch().class_contexts.assign(coded.contexts.begin(), coded.contexts.end());
    for (std::uint8_t& context : coded.contexts) context %= kFineBins;
    TableChoice without = ChooseTables(coded.indices, coded.contexts);
    return with && with->bits < without.bits ? *with : without;
  }

  Bytes WithAdaptive(const CodedIndices& coded, const PredictorSpec& spec) const {
    return WithHead(LevelMode::kAdaptive, 0, spec, {}, CodeAdaptive(coded));
  }

  /// @param mode  kTables, or kExactTables, which flags no groups
  Bytes WithTables(TableChoice choice, const PredictorSpec& spec, LevelMode mode = LevelMode::kTables) {
    CodedIndices coded = samples_.coded();
    if (choice.has_classes) coded.contexts = samples_.scratch().class_contexts;
    const CodedTables tables = CodeTables(std::move(choice), coded, samples_.bands().kernels(),
                                          mode == LevelMode::kTables, &samples_.scratch().symbols);
    return WithHead(mode, tables.flags, spec, samples_.PositionsOf(tables.too_large), tables.body);
  }

  /// First byte, predictor and escapes in front of a body.
  Bytes WithHead(LevelMode mode, std::uint8_t flags, const PredictorSpec& spec,
                 const std::vector<std::size_t>& index_escapes, const Bytes& body) const {
    auto head = static_cast<std::uint8_t>(static_cast<std::uint8_t>(mode) | flags);
    const bool own = !(spec == inherited_);
    if (own) head |= kOwnPredictor;
    if (own && !spec.HasEqualWeights()) head |= kOwnWeights;
    const bool escapes = mode != LevelMode::kZero && mode != LevelMode::kExact &&
                         (!samples_.raw_escapes().empty() || !index_escapes.empty());
    if (escapes) head |= kHasEscapes;
    Bytes payload;
    if (head == 0 && body.empty()) return payload;
    payload.push_back(static_cast<std::byte>(head));
    if (own) spec.EncodeTo(&payload);
    if (escapes) samples_.AppendEscapes(index_escapes, &payload);
    payload.insert(payload.end(), body.begin(), body.end());
    return payload;
  }

  /// Restores the quantised bands afterwards: exact coding may not win.
  Bytes CodeExact(const PredictorSpec& spec) {
    using Word = lossless::WordOf<T>;
    samples_.KeepBands();
    std::vector<Word> words;
    words.reserve(samples_.scratch().originals.size());
    samples_.ForEachExact([&](T predicted, T value) {
      words.push_back(lossless::ZigZag(lossless::OrderedWord(value) - lossless::OrderedWord(predicted)));
    });
    samples_.RestoreBands();
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
      if (!samples_.further() || !(samples_.interval_args().half_width > 0)) return {};
      samples_.FindExact();
      samples_.CollectCoded();
      const CodedIndices coded = samples_.coded();
      if (coded.indices.empty()) return {};
      samples_.scratch().class_contexts.assign(coded.contexts.begin(), coded.contexts.end());
      return WithTables(ChooseTables(coded.indices, coded.contexts, /*has_classes=*/true), spec,
                        LevelMode::kExactTables);
    }
  }

  void MakeExact() {
    grid_->exact = true;
    samples_.MakeExact();
  }

  const Quantiser& quantiser_;
  const bool need_magnitudes_;
  const SamplePlace* place_;  ///< for the samples of the level, which the grid then does not get; or null
  LevelGrid<T>* grid_;
  LevelSamples<T> samples_;
  const PredictorSpec inherited_;
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
