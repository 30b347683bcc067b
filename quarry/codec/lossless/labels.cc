#include "quarry/codec/lossless/labels.h"

#include <algorithm>
#include <array>
#include <bit>

#include "quarry/codec/entropy/binary_coder.h"
#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/lossless/arithmetic.h"
#include "quarry/codec/sample_types.h"

namespace quarry::lossless {
namespace {

// Lists of samples that equal no neighbour are repetitive; long lists are not of labels.
constexpr std::size_t kLongList = 8192;
constexpr int kListLevel = 9;
constexpr int kLongListLevel = 1;

/// Bits of the samples around a new one: its neighbours along the axis of the pass (`after` is `before` at
/// the end), the sample in the row before, and the one before it in its own row.
template <typename Word>
struct Neighbours {
  Word before;
  Word after;
  Word above;
  Word left;

  /// 0 if equal to `before`, else 1 if equal to `after`, else 2.
  unsigned Kind(Word word) const { return word == before ? 0 : word == after ? 1 : 2; }
  unsigned Context() const { return Kind(above) + 3 * Kind(left); }
};

/// Probabilities of all decisions of a step.
struct Models {
  struct Decisions {
    std::array<entropy::AdaptiveBit, 9> before;
    std::array<entropy::AdaptiveBit, 9> after;
    std::array<entropy::AdaptiveBit, 9> above;
    std::array<entropy::AdaptiveBit, 9> left;
  };
  std::array<Decisions, 2> decisions;        // [neighbours along the axis differ]
  std::array<entropy::AdaptiveBit, 2> rows;  // [the last row was an exception]
};

/// The decisions about one pass, in the same order in encoder and decoder. `Side` codes them: Decide(bit,
/// model) returns the bit, known beforehand only to the encoder; Listed(sample, neighbours) does the same for
/// a sample in the list.
template <typename V, typename Side>
class PassDecisions {
 public:
  using Word = WordOf<V>;

  PassDecisions(Side* side, Models* models) : side_(side), models_(models) {}

  Word Sample(const Neighbours<Word>& near, Word sample) {
    const bool apart = near.before != near.after;
    const unsigned context = near.Context();
    Models::Decisions& models = models_->decisions[apart ? 1 : 0];
    if (side_->Decide(sample == near.before, &models.before[context])) return near.before;
    if (apart && side_->Decide(sample == near.after, &models.after[context])) return near.after;
    if (near.Kind(near.above) == 2 && side_->Decide(sample == near.above, &models.above[context]))
      return near.above;
    if (near.Kind(near.left) == 2 && near.left != near.above &&
        side_->Decide(sample == near.left, &models.left[context]))
      return near.left;
    return side_->Listed(sample, near);
  }

  /// True when a sample of the row differs from its neighbours although they all agree.
  bool Exception(bool exception) {
    last_exception_ = side_->Decide(exception, &models_->rows[last_exception_ ? 1 : 0]);
    return last_exception_;
  }

 private:
  Side* side_;
  Models* models_;
  bool last_exception_ = false;
};

template <typename V>
WordOf<V> MeanWord(const Neighbours<WordOf<V>>& near) {
  const auto before = Load<V>(std::bit_cast<V>(near.before));
  const auto after = Load<V>(std::bit_cast<V>(near.after));
  return OrderedPrediction<V>(Mean<WorkOf<V>>(before, after));
}

template <typename V>
class EncodingSide {
 public:
  using Word = WordOf<V>;

  bool Decide(bool bit, entropy::AdaptiveBit* model) {
    encoder_.Encode(bit, model);
    ++decisions_;
    return bit;
  }
  Word Listed(Word sample, const Neighbours<Word>& near) {
    const Word ordered = OrderedWord<V>(std::bit_cast<V>(sample));
    list_.push_back(ordered);
    differences_.push_back(ZigZag<Word>(static_cast<Word>(ordered - MeanWord<V>(near))));
    return sample;
  }

  std::size_t decisions() const { return decisions_; }

  /// @param order  of the axes
  void AppendTo(unsigned order, Bytes* out) {
    encoder_.Finish();
    const int level = list_.size() < kLongList ? kListLevel : kLongListLevel;
    Bytes values, differences;
    entropy::AppendPlanes(std::as_bytes(std::span<const Word>(list_)), sizeof(Word),
                          entropy::PlaneLayout::kBytes, level, &values);
    entropy::AppendPlanes(std::as_bytes(std::span<const Word>(differences_)), sizeof(Word),
                          entropy::PlaneLayout::kBytes, level, &differences);
    const bool relative = differences.size() < values.size();
    const Bytes& list = relative ? differences : values;
    out->push_back(static_cast<std::byte>(kLabelsKind | order << 3 | (relative ? 1u : 0u) << 6));
    entropy::PutVarint(list_.size(), out);
    out->insert(out->end(), list.begin(), list.end());
    entropy::PutVarint(bits_.size(), out);
    out->insert(out->end(), bits_.begin(), bits_.end());
  }

 private:
  Bytes bits_;
  entropy::BinaryEncoder encoder_{&bits_};
  std::size_t decisions_ = 0;
  std::vector<Word> list_;
  std::vector<Word> differences_;
};

template <typename V>
class DecodingSide {
 public:
  using Word = WordOf<V>;

  DecodingSide(ByteSpan bits, Buffer<Word> list, bool relative)
      : decoder_(bits), list_(std::move(list)), relative_(relative) {}

  bool Decide(bool /*bit*/, entropy::AdaptiveBit* model) { return decoder_.Decode(model); }
  Word Listed(Word /*sample*/, const Neighbours<Word>& near) {
    const Word word = next_ < list_.size() ? list_[next_] : Word{0};
    ++next_;
    const Word ordered = relative_ ? static_cast<Word>(MeanWord<V>(near) + UnZigZag<Word>(word)) : word;
    return std::bit_cast<Word>(SampleOf<V>(ordered));
  }

  bool Finished() const { return next_ == list_.size(); }

 private:
  entropy::BinaryDecoder decoder_;
  Buffer<Word> list_;
  bool relative_;
  std::size_t next_ = 0;
};

/// One pass, row by row. Samples are compared by their bits.
template <typename V>
class LabelRows {
 public:
  using Word = WordOf<V>;

  LabelRows(const V* even, const Index3& shape, int axis, const std::uint8_t* valid)
      : even_(even), shape_(shape), axis_(axis), valid_(valid), rows_(shape, axis) {
    const auto length = static_cast<std::size_t>(rows_.length);
    for (Buffer<V>* row : {&gathered_after_, &gathered_above_, &gathered_samples_}) row->resize(length);
    gathered_valid_.assign(length, 1);
  }

  const Rows& rows() const { return rows_; }

  /// Moves to a row; `result` has the rows before it.
  void MoveTo(const RowPlace& place, const V* result) {
    before_ = even_ + EvenRowOffset(shape_, axis_, place);
    after_ = After(place);
    above_ = before_;
    if (RowsBefore(axis_, place) > 0) above_ = OddRow(RowBefore(axis_, place, 1), result, &gathered_above_);
    if (valid_ != nullptr) GatherRow<std::uint8_t>(shape_, axis_, place, valid_, gathered_valid_.data());
  }

  /// The samples of a row, from an array like the result.
  const V* Samples(const RowPlace& place, const V* from) { return OddRow(place, from, &gathered_samples_); }

  /// True when a valid sample differs from its neighbours although they agree.
  bool HasException(const V* samples) const {
    Word exception = 0;
    for (std::int64_t k = 0; k < rows_.length; ++k) {
      const bool counts = Disagreement(k) == 0 && Valid(k);
      exception |= counts ? static_cast<Word>(Bits(samples[k]) ^ Bits(before_[k])) : Word{0};
    }
    return exception != 0;
  }

  std::int64_t CountValid() const {
    return static_cast<std::int64_t>(lossless::CountValid(gathered_valid_.data(), gathered_valid_.size()));
  }
  std::int64_t CountEqualToNeighbours(const V* samples) const {
    std::int64_t equal = 0;
    for (std::int64_t k = 0; k < rows_.length; ++k) {
      const Word bits = Bits(samples[k]);
      equal += Valid(k) && (bits == Bits(before_[k]) || bits == Bits(after_[k])) ? 1 : 0;
    }
    return equal;
  }

  /// Codes a row into `result`.
  /// @param samples    null on the decoding side
  /// @param exception  result of HasException
  template <typename Side>
  void Code(const RowPlace& place, const V* samples, bool exception, PassDecisions<V, Side>* decisions,
            V* result) {
    V* row = axis_ == 0 ? gathered_samples_.data() : result + RowOffset(shape_, axis_, place);
    constexpr std::int64_t kChunk = 16;
    for (std::int64_t k = 0; k < rows_.length; k += kChunk) {
      const std::int64_t end = std::min(k + kChunk, rows_.length);
      if (!exception && Agree(k, end)) {
        std::copy(before_ + k, before_ + end, row + k);
      } else {
        CodeSamples(k, end, samples, exception, decisions, row);
      }
    }
    if (axis_ == 0) ScatterRow<V>(even_, shape_, axis_, place, row, result);
  }

 private:
  static Word Bits(V sample) { return std::bit_cast<Word>(sample); }
  bool Valid(std::int64_t k) const { return gathered_valid_[static_cast<std::size_t>(k)] != 0; }

  /// Zero if both neighbours and the sample in the row before are equal.
  Word Disagreement(std::int64_t k) const {
    const Word before = Bits(before_[k]);
    return static_cast<Word>((before ^ Bits(after_[k])) | (before ^ Bits(above_[k])));
  }
  bool Agree(std::int64_t begin, std::int64_t end) const {
    Word disagreement = 0;
    for (std::int64_t k = begin; k < end; ++k) disagreement |= Disagreement(k);
    return disagreement == 0;
  }

  template <typename Side>
  void CodeSamples(std::int64_t begin, std::int64_t end, const V* samples, bool exception,
                   PassDecisions<V, Side>* decisions, V* row) {
    Word left = Bits(begin == 0 ? before_[0] : row[begin - 1]);
    for (std::int64_t k = begin; k < end; ++k) {
      const Neighbours<Word> near{Bits(before_[k]), Bits(after_[k]), Bits(above_[k]), left};
      if (Valid(k) && (exception || Disagreement(k) != 0)) {
        left = decisions->Sample(near, samples != nullptr ? Bits(samples[k]) : Word{0});
      } else {
        left = near.before;
      }
      row[k] = std::bit_cast<V>(left);
    }
  }

  const V* After(const RowPlace& place) {
    if (axis_ != 0) {
      const std::int64_t i = axis_ == 1 ? place.inner : place.outer;
      const bool last = 2 * i + 2 >= shape_[static_cast<std::size_t>(axis_)];
      return last ? before_ : before_ + (axis_ == 1 ? shape_[0] : shape_[0] * shape_[1]);
    }
    if (shape_[0] % 2 != 0) return before_ + 1;
    std::copy_n(before_ + 1, rows_.length - 1, gathered_after_.data());
    gathered_after_.back() = before_[rows_.length - 1];
    return gathered_after_.data();
  }

  /// The odd samples of a row, gathered unless they are contiguous.
  const V* OddRow(const RowPlace& place, const V* from, Buffer<V>* gathered) const {
    if (axis_ != 0) return from + RowOffset(shape_, axis_, place);
    GatherRow<V>(shape_, axis_, place, from, gathered->data());
    return gathered->data();
  }

  const V* even_;
  Index3 shape_;
  int axis_;
  const std::uint8_t* valid_;
  Rows rows_;
  const V* before_ = nullptr;
  const V* after_ = nullptr;
  const V* above_ = nullptr;
  Buffer<V> gathered_after_;
  Buffer<V> gathered_above_;
  Buffer<V> gathered_samples_;
  Buffer<std::uint8_t> gathered_valid_;
};

/// All passes of a step. `samples` is null on the decoding side.
template <typename V, typename Side>
void CodeLabels(const V* coarse, const GridView<V>& grid, unsigned order, Side* side, V* result) {
  const std::array<int, 3>& axes = kAxisOrders[order];
  const std::array<Index3, 4> shapes = PassShapes(grid.shape, axes);
  const PassArrays<V> targets(grid.samples, shapes, axes);
  const PassArrays<std::uint8_t> valid(grid.valid, shapes, axes);
  Models models;
  RunPasses<V>(coarse, shapes, result, [&](std::size_t p, const V* even, V* to) {
    PassDecisions<V, Side> decisions(side, &models);
    LabelRows<V> rows(even, shapes[p + 1], axes[p], valid.After(p));
    for (RowPlace place{0, 0}; place.outer < rows.rows().outer; ++place.outer) {
      for (place.inner = 0; place.inner < rows.rows().inner; ++place.inner) {
        rows.MoveTo(place, to);
        const V* samples = targets.After(p) != nullptr ? rows.Samples(place, targets.After(p)) : nullptr;
        const bool exception = decisions.Exception(samples != nullptr && rows.HasException(samples));
        rows.Code(place, samples, exception, &decisions, to);
      }
    }
    ScatterEven<V>(even, shapes[p + 1], axes[p], to);
  });
}

}  // namespace

template <typename V>
double ShareOfLabels(const GridView<V>& grid, int axis) {
  Buffer<V> even(Count(EvenShape(grid.shape, axis)));
  TakeEven<V>(grid.samples, grid.shape, axis, even.data());
  LabelRows<V> rows(even.data(), grid.shape, axis, grid.valid);
  // Every row costs a few microseconds at most; a few dozen are enough.
  const std::int64_t count = rows.rows().outer * rows.rows().inner;
  const std::int64_t stride = std::max<std::int64_t>(1, count / 64);
  std::int64_t equal = 0;
  std::int64_t seen = 0;
  for (std::int64_t i = stride / 2; i < count; i += stride) {
    const RowPlace place{i / rows.rows().inner, i % rows.rows().inner};
    rows.MoveTo(place, grid.samples);
    equal += rows.CountEqualToNeighbours(rows.Samples(place, grid.samples));
    seen += rows.CountValid();
  }
  return seen == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(seen);
}

template <typename V>
std::size_t EncodeLabels(const V* coarse, const GridView<V>& grid, unsigned order, Bytes* out, V* result) {
  EncodingSide<V> side;
  CodeLabels<V>(coarse, grid, order, &side, result);
  side.AppendTo(order, out);
  return side.decisions();
}

template <typename V>
Status DecodeLabels(const V* coarse, const GridView<V>& grid, std::size_t new_samples, ByteSpan* payload,
                    V* result) {
  using Word = WordOf<V>;
  const auto header = std::to_integer<unsigned>(payload->front());
  const unsigned order = header >> 3 & 7;
  if (order >= kAxisOrders.size()) return DataLoss("unknown order {} of axes in a level", order);
  *payload = payload->subspan(1);
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t listed, entropy::TakeVarint(payload));
  if (listed > new_samples) return DataLoss("a level of {} new samples lists {}", new_samples, listed);
  Buffer<Word> list(listed);
  QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &list));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t bits, entropy::TakeVarint(payload));
  if (bits > payload->size())
    return DataLoss("{} bytes of a level's labels have only {}", bits, payload->size());
  DecodingSide<V> side(payload->first(bits), std::move(list), (header >> 6 & 1) != 0);
  *payload = payload->subspan(bits);
  CodeLabels<V>(coarse, GridView<V>{nullptr, grid.shape, grid.valid, grid.dropped_bits}, order, &side,
                result);
  if (!side.Finished()) return DataLoss("the length of the list of a level's labels contradicts its bits");
  return Status::Ok();
}

#define QUARRY_INSTANTIATE(V)                                                               \
  template double ShareOfLabels<V>(const GridView<V>&, int);                                \
  template std::size_t EncodeLabels<V>(const V*, const GridView<V>&, unsigned, Bytes*, V*); \
  template Status DecodeLabels<V>(const V*, const GridView<V>&, std::size_t, ByteSpan*, V*)
QUARRY_FOR_EACH_SAMPLE_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
