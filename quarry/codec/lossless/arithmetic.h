#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

/// The arithmetic of predictions: the same in encoder and decoder on every machine. Floating-point operations
/// are only additions and products by powers of two, each rounded separately (a fused multiply-add would not
/// change them); integers wrap around or have room to spare. Loops over these functions vectorise.
namespace quarry::lossless {

/// The unsigned type as wide as V.
template <typename V>
using WordOf =
    std::conditional_t<sizeof(V) == 1, std::uint8_t,
                       std::conditional_t<sizeof(V) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>>>;

/// The type in which predictions are computed: integers of 8 and 16 bits have room for sums there, those of
/// 32 and 64 bits wrap around.
template <typename V>
using WorkOf =
    std::conditional_t<std::is_floating_point_v<V>, V,
                       std::conditional_t<sizeof(V) == 1, std::int16_t,
                                          std::conditional_t<sizeof(V) <= 4, std::int32_t, std::int64_t>>>;

template <typename Word>
inline constexpr int kTopBit = static_cast<int>(8 * sizeof(Word) - 1);

/// All ones where the highest bit is set, zero elsewhere.
template <typename Word>
constexpr Word SignMask(Word word) {
  return static_cast<Word>(Word{0} - static_cast<Word>(word >> kTopBit<Word>));
}

/// 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
template <typename Word>
constexpr Word ZigZag(Word difference) {
  return static_cast<Word>(static_cast<Word>(difference << 1) ^ SignMask(difference));
}
template <typename Word>
constexpr Word UnZigZag(Word word) {
  return static_cast<Word>(static_cast<Word>(word >> 1) ^
                           static_cast<Word>(Word{0} - static_cast<Word>(word & 1)));
}

/// Shift of a two's complement number, rounded down.
template <typename Word>
constexpr Word ShiftDown(Word word, int bits) {
  constexpr Word kTop = static_cast<Word>(Word{1} << kTopBit<Word>);
  return static_cast<Word>(static_cast<Word>(static_cast<Word>(word ^ kTop) >> bits) -
                           static_cast<Word>(kTop >> bits));
}

/// The bits of a sample as a two's complement number that grows with the sample. Distinguishes negative zero
/// and every NaN.
template <typename V>
WordOf<V> OrderedWord(V sample) {
  using Word = WordOf<V>;
  Word bits;
  std::memcpy(&bits, &sample, sizeof(V));
  if constexpr (std::is_floating_point_v<V>) {
    bits ^= static_cast<Word>(SignMask(bits) >> 1);
  } else if constexpr (std::is_unsigned_v<V>) {
    bits ^= static_cast<Word>(Word{1} << kTopBit<Word>);
  }
  return bits;
}

/// Inverse of OrderedWord.
template <typename V>
V SampleOf(WordOf<V> ordered) {
  using Word = WordOf<V>;
  if constexpr (std::is_floating_point_v<V>) {
    ordered ^= static_cast<Word>(SignMask(ordered) >> 1);
  } else if constexpr (std::is_unsigned_v<V>) {
    ordered ^= static_cast<Word>(Word{1} << kTopBit<Word>);
  }
  V sample;
  std::memcpy(&sample, &ordered, sizeof(V));
  return sample;
}

/// ShiftDown rounded to the nearest, for predictions.
template <typename Word>
constexpr Word ShiftDownRounded(Word word, int bits) {
  return ShiftDown<Word>(static_cast<Word>(word + static_cast<Word>(static_cast<Word>(Word{1} << bits) >> 1)),
                         bits);
}

/// Inverse of ShiftDown if the lowest `bits` of an ordered word were dropped because all samples have zeros
/// there: these are ones in the ordered words of negative floating-point samples.
template <typename V>
WordOf<V> RestoreDropped(WordOf<V> word, int bits) {
  using Word = WordOf<V>;
  const auto shifted = static_cast<Word>(word << bits);
  if constexpr (!std::is_floating_point_v<V>) return shifted;
  const auto low = static_cast<Word>(static_cast<Word>(Word{1} << bits) - 1);
  return static_cast<Word>(shifted | (SignMask(shifted) & low));
}

/// A sample as predictions see it.
template <typename V>
WorkOf<V> Load(V sample) {
  if constexpr (std::is_floating_point_v<V>) return sample;
  return static_cast<std::make_signed_t<WordOf<V>>>(OrderedWord<V>(sample));
}

/// Ordered word of a prediction. NaN counts as zero, because its bits after an operation differ between
/// machines.
template <typename V>
WordOf<V> OrderedPrediction(WorkOf<V> prediction) {
  using Word = WordOf<V>;
  if constexpr (std::is_floating_point_v<V>) {
    constexpr Word kInfinity = sizeof(V) == 4 ? Word{0x7f800000} : static_cast<Word>(0x7ff0000000000000);
    Word bits;
    std::memcpy(&bits, &prediction, sizeof(V));
    const Word magnitude = static_cast<Word>(bits & static_cast<Word>(~Word{0} >> 1));
    bits &= static_cast<Word>(~SignMask(static_cast<Word>(kInfinity - magnitude)));
    return bits ^ static_cast<Word>(SignMask(bits) >> 1);
  } else {
    using Signed = std::make_signed_t<Word>;
    if constexpr (sizeof(WorkOf<V>) > sizeof(V)) {
      constexpr WorkOf<V> kMin = std::numeric_limits<Signed>::min();
      constexpr WorkOf<V> kMax = std::numeric_limits<Signed>::max();
      prediction = prediction < kMin ? kMin : prediction > kMax ? kMax : prediction;
    }
    return static_cast<Word>(prediction);
  }
}

/// The replacement of a missing sample: the prediction, but finite.
template <typename V>
V Replacement(WorkOf<V> prediction) {
  if constexpr (std::is_floating_point_v<V>) {
    const bool finite = prediction - prediction == 0;  // NOLINT(misc-redundant-expression): loops vectorise
    return finite ? prediction : V{0};
  }
  return SampleOf<V>(OrderedPrediction<V>(prediction));
}

template <typename Work>
Work Add(Work a, Work b) {
  if constexpr (std::is_floating_point_v<Work>) {
    return a + b;
  } else {
    using Word = std::make_unsigned_t<Work>;
    return static_cast<Work>(static_cast<Word>(static_cast<Word>(a) + static_cast<Word>(b)));
  }
}

template <typename Work>
Work Subtract(Work a, Work b) {
  if constexpr (std::is_floating_point_v<Work>) {
    return a - b;
  } else {
    using Word = std::make_unsigned_t<Work>;
    return static_cast<Work>(static_cast<Word>(static_cast<Word>(a) - static_cast<Word>(b)));
  }
}

/// a / 2^bits, of integers rounded down.
template <int bits, typename Work>
Work Scale(Work a) {
  if constexpr (std::is_floating_point_v<Work>) {
    constexpr Work kFactor = Work{1} / Work{1 << bits};
    return a * kFactor;
  } else {
    return static_cast<Work>(a >> bits);
  }
}

/// (a + b) / 2, of integers rounded down and without overflow.
template <typename Work>
Work Mean(Work a, Work b) {
  if constexpr (std::is_floating_point_v<Work>) {
    return (a + b) * Work(0.5);
  } else {
    return Add<Work>(static_cast<Work>(a & b), Scale<1>(static_cast<Work>(a ^ b)));
  }
}

}  // namespace quarry::lossless
