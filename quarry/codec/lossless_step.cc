#include "quarry/codec/lossless_step.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "quarry/codec/planes.h"

namespace quarry::lossless {
namespace {

// The first byte of a step holds in its lowest three bits the order of the axes, or kFlat.
constexpr std::array<std::array<int, 3>, 6> kAxisOrders = {
    {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
constexpr unsigned kFlat = 6;  // the whole grid as it is, without prediction

// zstd 3 is hardly smaller than 1 on the noise that predictions leave, and often larger.
constexpr int kNumericLevel = 1;
// For grids that repeat themselves.
constexpr int kRepeatsLevel = 9;

// Samples that an estimate looks at, and words on which layouts are tried.
constexpr std::int64_t kEstimateSamples = 4096;
constexpr std::size_t kTrialWords = 16384;

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

/// @param packed  with an order below kFlat
StepCode UnpackStepCode(std::uint16_t packed) {
  StepCode code;
  code.axes = kAxisOrders[packed & 7u];
  for (std::size_t p = 0; p < 3; ++p) {
    const unsigned pass = packed >> (3 + 4 * p);
    code.passes[p] = {static_cast<Predictor>(pass & 3), static_cast<Carry>(pass >> 2 & 3)};
  }
  return code;
}

std::size_t Count(const Index3& shape) { return static_cast<std::size_t>(Volume(shape)); }

std::size_t CountValid(const std::uint8_t* valid, std::size_t count) {
  return static_cast<std::size_t>(std::count_if(valid, valid + count, [](std::uint8_t v) { return v != 0; }));
}

/// Shapes before the first pass and after each: the coarse grid, two in between, the fine one.
std::array<Index3, 4> PassShapes(const Index3& shape, const std::array<int, 3>& axes) {
  std::array<Index3, 4> shapes;
  shapes[3] = shape;
  for (std::size_t p = 3; p > 0; --p) shapes[p - 1] = EvenShape(shapes[p], axes[p - 1]);
  return shapes;
}

/// An array at the shapes after each pass; the last is not copied.
template <typename T>
class PassArrays {
 public:
  PassArrays(const T* finest, const std::array<Index3, 4>& shapes, const std::array<int, 3>& axes)
      : finest_(finest) {
    if (finest == nullptr) return;
    for (std::size_t p = 2; p > 0; --p) {
      between_[p - 1].resize(Count(shapes[p]));
      TakeEven<T>(After(p), shapes[p + 1], axes[p], between_[p - 1].data());
    }
  }

  /// After pass 0, 1 or 2; null when there is no array.
  const T* After(std::size_t pass) const {
    return pass == 2 ? finest_ : finest_ == nullptr ? nullptr : between_[pass].data();
  }

 private:
  const T* finest_;
  std::array<Buffer<T>, 2> between_;
};

/// Samples that a step adds, without the missing ones.
template <typename V>
std::size_t NewSamples(const GridView<V>& grid) {
  const Index3 coarse = {(grid.shape[0] + 1) / 2, (grid.shape[1] + 1) / 2, (grid.shape[2] + 1) / 2};
  if (grid.valid == nullptr) return Count(grid.shape) - Count(coarse);
  std::size_t count = CountValid(grid.valid, Count(grid.shape));
  for (std::int64_t z = 0; z < grid.shape[2]; z += 2) {
    for (std::int64_t y = 0; y < grid.shape[1]; y += 2) {
      const std::uint8_t* row = grid.valid + (z * grid.shape[1] + y) * grid.shape[0];
      for (std::int64_t x = 0; x < grid.shape[0]; x += 2) count -= row[x] != 0 ? 1 : 0;
    }
  }
  return count;
}

/// The passes of a step, one after the other; `pass(p, even, result)` does one of them.
template <typename V, typename DoPass>
void RunPasses(const V* coarse, const std::array<Index3, 4>& shapes, V* result, DoPass do_pass) {
  std::array<Buffer<V>, 2> between;
  const V* even = coarse;
  for (std::size_t p = 0; p < 3; ++p) {
    const bool last = p == 2;
    if (shapes[p] == shapes[p + 1]) {
      // An axis with one sample: nothing to do.
      if (last) std::copy_n(even, Count(shapes[p]), result);
      continue;
    }
    if (!last) between[p].resize(Count(shapes[p + 1]));
    V* to = last ? result : between[p].data();
    do_pass(p, even, to);
    even = to;
  }
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

/// Words in the layout that is smallest, or looks so on a part from the middle of them.
template <typename Word>
void AppendBestPlanes(std::span<const Word> words, int zstd_level, Bytes* out) {
  const std::size_t trial = std::min(words.size(), kTrialWords);
  const std::span<const Word> part = words.subspan((words.size() - trial) / 2, trial);
  Bytes bytes, bits;
  AppendPlanes(std::as_bytes(part), sizeof(Word), PlaneLayout::kBytes, zstd_level, &bytes);
  AppendPlanes(std::as_bytes(part), sizeof(Word), PlaneLayout::kBits, zstd_level, &bits);
  if (trial == words.size()) {
    const Bytes& best = bits.size() < bytes.size() ? bits : bytes;
    out->insert(out->end(), best.begin(), best.end());
    return;
  }
  const PlaneLayout layout = bits.size() < bytes.size() ? PlaneLayout::kBits : PlaneLayout::kBytes;
  AppendPlanes(std::as_bytes(words), sizeof(Word), layout, zstd_level, out);
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

/// One of every `stride` rows of a pass comes to about kEstimateSamples.
std::int64_t EstimateStride(const Index3& shape, int axis) {
  return std::max<std::int64_t>(1, Volume(OddShape(shape, axis)) / kEstimateSamples);
}

struct PassChoice {
  PassCode code;
  double bits = std::numeric_limits<double>::infinity();
};

/// The best predictor and carry along this axis.
template <typename V>
PassChoice SearchPass(const GridView<V>& grid, int axis) {
  const Index3 even_shape = EvenShape(grid.shape, axis);
  Buffer<V> even(Count(even_shape));
  TakeEven<V>(grid.samples, grid.shape, axis, even.data());
  const std::int64_t stride = EstimateStride(grid.shape, axis);
  PassChoice best;
  for (int predictor = 0; predictor < kPredictors; ++predictor) {
    Pass<V> pass{
        even.data(), grid.shape, axis, {static_cast<Predictor>(predictor), Carry::kNone}, grid.dropped_bits};
    const std::array<double, kCarries> bits = EstimatePass<V>(pass, grid.samples, stride);
    for (int carry = 0; carry < kCarries; ++carry) {
      const double estimate = bits[static_cast<std::size_t>(carry)] * static_cast<double>(stride);
      if (estimate < best.bits) best = {{pass.code.predictor, static_cast<Carry>(carry)}, estimate};
    }
  }
  return best;
}

/// The step by prediction, and the words themselves, appended to `out`.
template <typename V>
void AppendPredicted(const V* coarse, const GridView<V>& grid, Bytes* out, V* result) {
  const StepCode code = SearchStepCode<V>(grid, nullptr);
  Buffer<WordOf<V>> words;
  EncodeWords<V>(coarse, grid, code, &words, result);
  PutLittleEndian(out, PackStepCode(code));
  AppendBestPlanes<WordOf<V>>(words, kNumericLevel, out);
}

/// True when the grid, coded as it is, looks hardly larger than `bytes`: on a part, since coding it all is
/// slow.
template <typename Word>
bool FlatLooksGood(std::span<const Word> words, std::size_t bytes) {
  const std::size_t trial = std::min(words.size(), kTrialWords);
  Bytes coded;
  AppendPlanes(std::as_bytes(words.subspan((words.size() - trial) / 2, trial)), sizeof(Word),
               PlaneLayout::kBytes, kNumericLevel, &coded);
  // Repeats reach further than the part, and the better compression finds more of them.
  constexpr double kHope = 1.25;
  return static_cast<double>(coded.size()) * static_cast<double>(words.size()) <
         kHope * static_cast<double>(bytes) * static_cast<double>(trial);
}

}  // namespace

template <typename V>
StepCode SearchStepCode(const GridView<V>& grid, double* bytes) {
  // The last pass first: it has the most samples. What is left for the others is a grid without its odd ones.
  StepCode code;
  double bits = 0;
  std::array<bool, 3> used{};
  Buffer<V> rest;
  GridView<V> now = grid;
  for (std::size_t p = 3; p > 0; --p) {
    PassChoice best;
    int best_axis = -1;
    for (int axis = 0; axis < 3; ++axis) {
      if (used[static_cast<std::size_t>(axis)]) continue;
      if (best_axis < 0) best_axis = axis;
      if (Volume(OddShape(now.shape, axis)) == 0) continue;
      const PassChoice choice = SearchPass<V>(now, axis);
      // Passes along different axes code nearly as many samples: what they spend is compared directly.
      if (choice.bits < best.bits) {
        best = choice;
        best_axis = axis;
      }
    }
    used[static_cast<std::size_t>(best_axis)] = true;
    code.axes[p - 1] = best_axis;
    code.passes[p - 1] = best.code;
    if (best.bits < std::numeric_limits<double>::infinity()) bits += best.bits;
    Buffer<V> even(Count(EvenShape(now.shape, best_axis)));
    TakeEven<V>(now.samples, now.shape, best_axis, even.data());
    now.shape = EvenShape(now.shape, best_axis);
    rest.swap(even);
    now.samples = rest.data();
  }
  if (bytes != nullptr) *bytes = bits / 8;
  return code;
}

template <typename V>
void EncodeStep(const V* coarse, const GridView<V>& grid, Bytes* out, V* result) {
  if (NewSamples(grid) == 0) {
    Buffer<WordOf<V>> none;
    EncodeWords<V>(coarse, grid, StepCode{}, &none, result);
    return;
  }
  const Buffer<WordOf<V>> flat = FlatWords<V>(grid);
  Bytes predicted;
  Buffer<V> predicted_result(Count(grid.shape));
  AppendPredicted<V>(coarse, grid, &predicted, predicted_result.data());
  if (FlatLooksGood<WordOf<V>>(flat, predicted.size())) {
    Bytes direct = {static_cast<std::byte>(kFlat)};
    AppendBestPlanes<WordOf<V>>(flat, kRepeatsLevel, &direct);
    if (direct.size() < predicted.size()) {
      out->insert(out->end(), direct.begin(), direct.end());
      SamplesOfFlatWords<V>(grid, flat.data(), result);
      return;
    }
  }
  out->insert(out->end(), predicted.begin(), predicted.end());
  std::copy(predicted_result.begin(), predicted_result.end(), result);
}

template <typename V>
Status DecodeStep(const V* coarse, const GridView<V>& grid, ByteSpan* payload, V* result) {
  using Word = WordOf<V>;
  const std::size_t new_samples = NewSamples(grid);
  Buffer<Word> words;
  if (new_samples == 0) {
    ReconstructWords<V>(coarse, grid, StepCode{}, nullptr, result);
    return Status::Ok();
  }
  if (payload->empty()) return DataLoss("a level with {} new samples has no bytes", new_samples);
  const unsigned order = std::to_integer<unsigned>((*payload)[0]) & 7u;
  const bool flat = order == kFlat;
  if (order > kFlat) return DataLoss("unknown kind {} of a level", order);
  const std::size_t header = flat ? 1 : 2;
  if (payload->size() < header) return DataLoss("a level ends in its first bytes");
  const std::uint16_t packed = flat ? std::uint16_t{0} : GetLittleEndian<std::uint16_t>(payload->data());
  *payload = payload->subspan(header);
  if (flat) {
    words.resize(grid.valid == nullptr ? Count(grid.shape) : CountValid(grid.valid, Count(grid.shape)));
  } else {
    words.resize(new_samples);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::size_t used,
                          ReadPlanes(*payload, sizeof(Word), std::as_writable_bytes(std::span(words))));
  *payload = payload->subspan(used);
  if (flat) {
    SamplesOfFlatWords<V>(grid, words.data(), result);
  } else {
    ReconstructWords<V>(coarse, grid, UnpackStepCode(packed), words.data(), result);
  }
  return Status::Ok();
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
  QUARRY_ASSIGN_OR_RETURN(const std::size_t used,
                          ReadPlanes(*payload, sizeof(Word), std::as_writable_bytes(std::span(words))));
  *payload = payload->subspan(used);
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
QUARRY_INSTANTIATE(float);
QUARRY_INSTANTIATE(double);
QUARRY_INSTANTIATE(std::int8_t);
QUARRY_INSTANTIATE(std::uint8_t);
QUARRY_INSTANTIATE(std::int16_t);
QUARRY_INSTANTIATE(std::uint16_t);
QUARRY_INSTANTIATE(std::int32_t);
QUARRY_INSTANTIATE(std::uint32_t);
QUARRY_INSTANTIATE(std::int64_t);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
