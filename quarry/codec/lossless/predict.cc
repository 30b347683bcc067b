#include "quarry/codec/lossless/predict.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "quarry/codec/sample_types.h"

namespace quarry::lossless {
namespace {

/// Stencils around an odd sample: b and c are its neighbours, a and d the next even ones.
enum class Stencil { kMean, kCubic, kQuadraticBefore, kQuadraticAfter, kExtrapolate, kBefore, kZero };

/// @param i     odd sample of the line, that is sample 2 i + 1
/// @param even  even samples of the line
Stencil ChooseStencil(Predictor predictor, std::int64_t i, std::int64_t even) {
  if (predictor == Predictor::kNone) return Stencil::kZero;
  if (predictor == Predictor::kNear) return Stencil::kBefore;
  const bool has_a = i >= 1;
  const bool has_c = i + 1 < even;
  const bool has_d = i + 2 < even;
  if (!has_c) return has_a ? Stencil::kExtrapolate : Stencil::kBefore;
  if (predictor == Predictor::kLinear) return Stencil::kMean;
  if (has_a && has_d) return Stencil::kCubic;
  if (has_a) return Stencil::kQuadraticBefore;
  return has_d ? Stencil::kQuadraticAfter : Stencil::kMean;
}

/// predictions[k] from the even samples at[-1][k] to at[2][k], `stride` apart; reads only those in the
/// stencil.
template <typename V>
void Apply(Stencil stencil, const V* at, std::int64_t stride, std::int64_t count, WorkOf<V>* predictions) {
  using Work = WorkOf<V>;
  const auto a = [=](std::int64_t k) { return Load<V>(at[k - stride]); };
  const auto b = [=](std::int64_t k) { return Load<V>(at[k]); };
  const auto c = [=](std::int64_t k) { return Load<V>(at[k + stride]); };
  const auto d = [=](std::int64_t k) { return Load<V>(at[k + 2 * stride]); };
  const auto each = [=](auto prediction) {
    for (std::int64_t k = 0; k < count; ++k) predictions[k] = prediction(k);
  };
  switch (stencil) {
    case Stencil::kMean:
      return each([=](std::int64_t k) { return Mean<Work>(b(k), c(k)); });
    case Stencil::kCubic:
      return each([=](std::int64_t k) {
        const Work inner = Mean<Work>(b(k), c(k));
        return Add<Work>(inner, Scale<3>(Subtract<Work>(inner, Mean<Work>(a(k), d(k)))));
      });
    case Stencil::kQuadraticBefore:
      return each([=](std::int64_t k) {
        const Work bend = Add<Work>(Subtract<Work>(b(k), c(k)), Subtract<Work>(b(k), a(k)));
        return Add<Work>(Mean<Work>(b(k), c(k)), Scale<3>(bend));
      });
    case Stencil::kQuadraticAfter:
      return each([=](std::int64_t k) {
        const Work bend = Add<Work>(Subtract<Work>(c(k), b(k)), Subtract<Work>(c(k), d(k)));
        return Add<Work>(Mean<Work>(b(k), c(k)), Scale<3>(bend));
      });
    case Stencil::kExtrapolate:
      return each([=](std::int64_t k) { return Add<Work>(b(k), Scale<1>(Subtract<Work>(b(k), a(k)))); });
    case Stencil::kBefore:
      return each(b);
    case Stencil::kZero:
      std::fill_n(predictions, count, Work{0});
  }
}

template <typename V>
void PredictAlongX(Predictor predictor, const V* even, std::int64_t evens, std::int64_t odds,
                   WorkOf<V>* predictions) {
  // The stencil is the same for all samples except the first and the last two.
  std::int64_t i = 0;
  const auto one = [&] {
    Apply<V>(ChooseStencil(predictor, i, evens), even + i, 1, 1, predictions + i);
    ++i;
  };
  if (i < odds) one();
  const std::int64_t inside = std::max<std::int64_t>(0, evens - 2 - i);
  if (inside > 0) Apply<V>(ChooseStencil(predictor, i, evens), even + i, 1, inside, predictions + i);
  i += inside;
  while (i < odds) one();
}

template <typename V>
void PredictRow(const Pass<V>& pass, Predictor predictor, const RowPlace& place, WorkOf<V>* predictions) {
  const Index3 even = EvenShape(pass.shape, pass.axis);
  const std::int64_t plane = even[0] * even[1];
  if (pass.axis == 0) {
    const V* row = pass.even + place.outer * plane + place.inner * even[0];
    PredictAlongX<V>(predictor, row, even[0], pass.shape[0] / 2, predictions);
    return;
  }
  const V* row = pass.even + place.outer * plane + place.inner * even[0];
  const std::int64_t i = pass.axis == 1 ? place.inner : place.outer;
  const std::int64_t stride = pass.axis == 1 ? even[0] : plane;
  const Stencil stencil = ChooseStencil(predictor, i, even[static_cast<std::size_t>(pass.axis)]);
  Apply<V>(stencil, row, stride, even[0], predictions);
}

/// Adds the carried errors to predictions: `before` is the error of the previous row, `second` that of the
/// one before it.
template <typename V>
void AddCarry(Carry carry, const WorkOf<V>* predictions, const WorkOf<V>* before, const WorkOf<V>* second,
              std::int64_t count, WorkOf<V>* carried) {
  using Work = WorkOf<V>;
  const auto each = [=](auto error) {
    for (std::int64_t k = 0; k < count; ++k) carried[k] = Add<Work>(predictions[k], error(k));
  };
  switch (carry) {
    case Carry::kNone:
      std::copy_n(predictions, count, carried);
      return;
    case Carry::kHalf:
      return each([=](std::int64_t k) { return Scale<1>(before[k]); });
    case Carry::kFull:
      return each([=](std::int64_t k) { return before[k]; });
    case Carry::kExtrapolated:
      return each([=](std::int64_t k) { return Add<Work>(before[k], Subtract<Work>(before[k], second[k])); });
  }
}

/// The first rows have fewer rows before them.
Carry CarryAfter(Carry carry, std::int64_t rows_before) {
  if (rows_before == 0) return Carry::kNone;
  return rows_before == 1 && carry == Carry::kExtrapolated ? Carry::kFull : carry;
}

/// Errors of the rows that can still be carried.
template <typename V>
class ErrorHistory {
 public:
  using Work = WorkOf<V>;

  ErrorHistory(const Rows& rows, int axis)
      : axis_(axis), length_(rows.length), errors_(static_cast<std::size_t>(2 * Slots(rows) * length_)) {
    second_ = Slots(rows) * length_;
  }

  /// Predictions plus carried errors.
  void AddTo(Carry carry, const RowPlace& place, const Work* predictions, Work* carried) const {
    const std::int64_t before = RowsBefore(axis_, place);
    AddCarry<V>(CarryAfter(carry, before), predictions, Slot(before - 1, place), Slot(before - 2, place),
                length_, carried);
  }
  /// Where the error of this row goes.
  Work* Of(const RowPlace& place) { return errors_.data() + Offset(RowsBefore(axis_, place), place); }

 private:
  std::int64_t Slots(const Rows& rows) const { return axis_ == 1 ? rows.inner : 1; }
  /// Errors of the row at this depth replace those of two rows before.
  std::int64_t Offset(std::int64_t depth, const RowPlace& place) const {
    return ((depth & 1) != 0 ? second_ : 0) + (axis_ == 1 ? place.inner * length_ : 0);
  }
  const Work* Slot(std::int64_t depth, const RowPlace& place) const {
    return errors_.data() + Offset(depth, place);
  }

  int axis_;
  std::int64_t length_;
  std::int64_t second_ = 0;
  Buffer<Work> errors_;
};

template <typename V>
void WordsOfRow(const V* samples, const WorkOf<V>* carried, std::int64_t count, int dropped,
                WordOf<V>* words) {
  using Word = WordOf<V>;
  for (std::int64_t k = 0; k < count; ++k) {
    const Word actual = ShiftDown<Word>(OrderedWord<V>(samples[k]), dropped);
    const Word expected = ShiftDownRounded<Word>(OrderedPrediction<V>(carried[k]), dropped);
    words[k] = ZigZag<Word>(static_cast<Word>(actual - expected));
  }
}

template <typename V>
void SamplesOfRow(const WordOf<V>* words, const WorkOf<V>* carried, std::int64_t count, int dropped,
                  V* samples) {
  using Word = WordOf<V>;
  if (dropped == 0) {
    for (std::int64_t k = 0; k < count; ++k) {
      samples[k] =
          SampleOf<V>(static_cast<Word>(OrderedPrediction<V>(carried[k]) + UnZigZag<Word>(words[k])));
    }
    return;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const Word expected = ShiftDownRounded<Word>(OrderedPrediction<V>(carried[k]), dropped);
    samples[k] =
        SampleOf<V>(RestoreDropped<V>(static_cast<Word>(expected + UnZigZag<Word>(words[k])), dropped));
  }
}

template <typename V>
void ErrorsOfRow(const V* samples, const WorkOf<V>* predictions, std::int64_t count, WorkOf<V>* errors) {
  for (std::int64_t k = 0; k < count; ++k) {
    errors[k] = Subtract<WorkOf<V>>(Load<V>(samples[k]), predictions[k]);
  }
}

/// The working values of a pass, row by row.
template <typename V>
class RowCoder {
 public:
  using Word = WordOf<V>;
  using Work = WorkOf<V>;

  explicit RowCoder(const Pass<V>& pass)
      : pass_(pass),
        rows_(pass.shape, pass.axis),
        history_(rows_, pass.axis),
        predictions_(Length()),
        carried_(pass.code.carry != Carry::kNone ? Length() : 0),
        words_(Length()),
        samples_(Length()),
        valid_(pass.valid != nullptr ? Length() : 0) {}

  const Rows& rows() const { return rows_; }

  void Predict(const RowPlace& place) {
    PredictRow<V>(pass_, pass_.code.predictor, place, predictions_.data());
    if (pass_.code.carry == Carry::kNone) {
      now_ = predictions_.data();
      return;
    }
    history_.AddTo(pass_.code.carry, place, predictions_.data(), carried_.data());
    now_ = carried_.data();
  }

  /// @returns words written
  std::int64_t Encode(const RowPlace& place, const V* from, Word* words, V* result) {
    GatherRow<V>(pass_.shape, pass_.axis, place, from, samples_.data());
    std::int64_t written = rows_.length;
    if (pass_.valid == nullptr) {
      WordsOfRow<V>(samples_.data(), now_, rows_.length, pass_.dropped_bits, words);
    } else {
      WordsOfRow<V>(samples_.data(), now_, rows_.length, pass_.dropped_bits, words_.data());
      ReplaceMissing(place);
      written = 0;
      for (std::int64_t k = 0; k < rows_.length; ++k) {
        if (valid_[static_cast<std::size_t>(k)] != 0) words[written++] = words_[static_cast<std::size_t>(k)];
      }
    }
    Finish(place, result);
    return written;
  }

  /// @returns words read
  std::int64_t Reconstruct(const RowPlace& place, const Word* words, V* result) {
    std::int64_t read = rows_.length;
    if (pass_.valid == nullptr) {
      SamplesOfRow<V>(words, now_, rows_.length, pass_.dropped_bits, samples_.data());
    } else {
      GatherRow<std::uint8_t>(pass_.shape, pass_.axis, place, pass_.valid, valid_.data());
      read = 0;
      for (std::int64_t k = 0; k < rows_.length; ++k) {
        words_[static_cast<std::size_t>(k)] =
            valid_[static_cast<std::size_t>(k)] != 0 ? words[read++] : Word{0};
      }
      SamplesOfRow<V>(words_.data(), now_, rows_.length, pass_.dropped_bits, samples_.data());
      ReplaceMissing(place);
    }
    Finish(place, result);
    return read;
  }

 private:
  std::size_t Length() const { return static_cast<std::size_t>(rows_.length); }

  /// Replaces missing samples by their prediction without carried errors, so that they carry nothing on.
  void ReplaceMissing(const RowPlace& place) {
    GatherRow<std::uint8_t>(pass_.shape, pass_.axis, place, pass_.valid, valid_.data());
    const Work* replacements = predictions_.data();
    if (pass_.code.predictor == Predictor::kNone) {
      // Zero would be far from the samples around.
      near_.resize(Length());
      PredictRow<V>(pass_, Predictor::kNear, place, near_.data());
      replacements = near_.data();
    }
    for (std::size_t k = 0; k < Length(); ++k) {
      if (valid_[k] == 0) samples_[k] = Replacement<V>(replacements[k]);
    }
  }

  void Finish(const RowPlace& place, V* result) {
    if (pass_.code.carry != Carry::kNone)
      ErrorsOfRow<V>(samples_.data(), predictions_.data(), rows_.length, history_.Of(place));
    ScatterRow<V>(pass_.even, pass_.shape, pass_.axis, place, samples_.data(), result);
  }

  const Pass<V>& pass_;
  Rows rows_;
  ErrorHistory<V> history_;
  Buffer<Work> predictions_;
  Buffer<Work> carried_;
  Buffer<Work> near_;
  Buffer<Word> words_;
  Buffer<V> samples_;
  Buffer<std::uint8_t> valid_;
  const Work* now_ = nullptr;  // predictions of the row, plus carried errors
};

/// Moves the valid words to the front; `valid` is empty when all are. @returns how many there are
template <typename Word>
std::int64_t DropMissing(const Buffer<std::uint8_t>& valid, Buffer<Word>* words) {
  if (valid.empty()) return static_cast<std::int64_t>(words->size());
  std::size_t kept = 0;
  for (std::size_t k = 0; k < valid.size(); ++k) {
    (*words)[kept] = (*words)[k];
    kept += valid[k] != 0 ? 1 : 0;
  }
  return static_cast<std::int64_t>(kept);
}

/// Words counted by their number of significant bits.
class WidthHistogram {
 public:
  template <typename Word>
  void Count(const Word* words, std::int64_t count) {
    // Two counters in turn: increments of the same counter wait for each other.
    for (std::int64_t k = 0; k < count; ++k)
      ++counts_[static_cast<std::size_t>(k & 1)][static_cast<std::size_t>(std::bit_width(words[k]))];
  }

  /// Bits of an entropy coder that codes the width and copies the bits below the highest one.
  double Bits() const {
    std::array<std::int64_t, kWidths> counts;
    for (std::size_t width = 0; width < kWidths; ++width)
      counts[width] = counts_[0][width] + counts_[1][width];
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    double bits = static_cast<double>(total) * Log2(total);
    for (std::size_t width = 0; width < kWidths; ++width) {
      const double copied = width > 1 ? static_cast<double>(width - 1) : 0.0;
      bits += static_cast<double>(counts[width]) * (copied - Log2(counts[width]));
    }
    return bits;
  }

 private:
  /// Approximate log2, the same on every machine: the choice of predictors must not depend on the machine.
  static double Log2(std::int64_t count) {
    if (count == 0) return 0;
    const int floor = std::bit_width(static_cast<std::uint64_t>(count)) - 1;
    const double f = static_cast<double>(count) / static_cast<double>(std::int64_t{1} << floor) - 1;
    return static_cast<double>(floor) + f + 0.344 * f * (1 - f);
  }

  static constexpr std::size_t kWidths = 65;

  std::array<std::array<std::int64_t, kWidths>, 2> counts_{};
};

}  // namespace

template <typename V>
std::size_t EncodePass(const Pass<V>& pass, const V* samples, WordOf<V>* words, V* result) {
  RowCoder<V> coder(pass);
  std::int64_t written = 0;
  for (RowPlace place{0, 0}; place.outer < coder.rows().outer; ++place.outer) {
    for (place.inner = 0; place.inner < coder.rows().inner; ++place.inner) {
      coder.Predict(place);
      written += coder.Encode(place, samples, words + written, result);
    }
  }
  ScatterEven<V>(pass.even, pass.shape, pass.axis, result);
  return static_cast<std::size_t>(written);
}

template <typename V>
std::size_t ReconstructPass(const Pass<V>& pass, const WordOf<V>* words, V* result) {
  RowCoder<V> coder(pass);
  std::int64_t read = 0;
  for (RowPlace place{0, 0}; place.outer < coder.rows().outer; ++place.outer) {
    for (place.inner = 0; place.inner < coder.rows().inner; ++place.inner) {
      coder.Predict(place);
      read += coder.Reconstruct(place, words + read, result);
    }
  }
  ScatterEven<V>(pass.even, pass.shape, pass.axis, result);
  return static_cast<std::size_t>(read);
}

template <typename V>
std::array<double, kCarries> EstimatePass(const Pass<V>& pass, const V* samples, std::int64_t stride) {
  using Work = WorkOf<V>;
  const Rows rows(pass.shape, pass.axis);
  const auto length = static_cast<std::size_t>(rows.length);
  std::array<WidthHistogram, kCarries> histograms;
  Buffer<Work> predictions(length), carried(length), before(length), second(length);
  Buffer<V> row(length);
  Buffer<WordOf<V>> words(length);
  Buffer<std::uint8_t> valid(pass.valid != nullptr ? length : 0);
  const auto errors = [&](const RowPlace& place, Work* out) {
    PredictRow<V>(pass, pass.code.predictor, place, predictions.data());
    GatherRow<V>(pass.shape, pass.axis, place, samples, row.data());
    ErrorsOfRow<V>(row.data(), predictions.data(), rows.length, out);
  };
  for (std::int64_t i = stride / 2; i < rows.outer * rows.inner; i += stride) {
    const RowPlace place{i / rows.inner, i % rows.inner};
    const std::int64_t rows_before = RowsBefore(pass.axis, place);
    if (rows_before > 0) errors(RowBefore(pass.axis, place, 1), before.data());
    if (rows_before > 1) errors(RowBefore(pass.axis, place, 2), second.data());
    PredictRow<V>(pass, pass.code.predictor, place, predictions.data());
    GatherRow<V>(pass.shape, pass.axis, place, samples, row.data());
    if (pass.valid != nullptr)
      GatherRow<std::uint8_t>(pass.shape, pass.axis, place, pass.valid, valid.data());
    for (int carry = 0; carry < kCarries; ++carry) {
      AddCarry<V>(CarryAfter(static_cast<Carry>(carry), rows_before), predictions.data(), before.data(),
                  second.data(), rows.length, carried.data());
      WordsOfRow<V>(row.data(), carried.data(), rows.length, pass.dropped_bits, words.data());
      histograms[static_cast<std::size_t>(carry)].Count(words.data(), DropMissing<WordOf<V>>(valid, &words));
    }
  }
  std::array<double, kCarries> bits;
  std::transform(histograms.begin(), histograms.end(), bits.begin(),
                 [](const WidthHistogram& histogram) { return histogram.Bits(); });
  return bits;
}

#define QUARRY_INSTANTIATE(V)                                                    \
  template std::size_t EncodePass<V>(const Pass<V>&, const V*, WordOf<V>*, V*);  \
  template std::size_t ReconstructPass<V>(const Pass<V>&, const WordOf<V>*, V*); \
  template std::array<double, kCarries> EstimatePass<V>(const Pass<V>&, const V*, std::int64_t)
QUARRY_FOR_EACH_SAMPLE_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
