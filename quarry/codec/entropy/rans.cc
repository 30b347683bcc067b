#include "quarry/codec/entropy/rans.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quarry/codec/entropy/binary_coder.h"

namespace quarry::entropy {
namespace {

// A frequency is stored as its bit count and its leading bits: sending the other bits costs more than it
// gains.
constexpr int kMantissaBits = 4;
constexpr int kMaxLength = 12;

/// Largest representable frequency that is not above `frequency`.
std::uint32_t Representable(std::uint32_t frequency) {
  const int length = std::bit_width(frequency);
  if (length <= kMantissaBits) return frequency;
  const int dropped = length - kMantissaBits;
  return frequency >> dropped << dropped;
}

/// Codes frequencies with adaptive bits: neighbouring symbols have similar frequencies in all tables of a
/// level. `Bits` is BitWriter or BitReader.
template <typename Bits>
class TableStream {
 public:
  explicit TableStream(Bits bits) : bits_(bits) {}

  /// The symbol `rest` gets the remaining frequency; its number and the end of the others are stored.
  void Code(int bits, SymbolTable* symbols) {
    symbols->shift = static_cast<std::uint8_t>(CodeBits(symbols->shift, 5));
    Frequencies* table = &symbols->frequencies;
    symbols->rest = static_cast<std::uint8_t>(CodeBits(symbols->rest, 8));
    const std::size_t end = CodeBits(EndOfOthers(*table, symbols->rest), 8);
    std::uint32_t left = 1u << bits;
    int previous = 0;
    for (std::size_t s = 0; s < end; ++s) {
      if (s == symbols->rest) continue;
      (*table)[s] = CodeFrequency((*table)[s], &previous);
      left -= std::min<std::uint32_t>(left, (*table)[s]);
    }
    (*table)[symbols->rest] = static_cast<std::uint16_t>(left);
  }

 private:
  static std::size_t EndOfOthers(const Frequencies& table, std::size_t rest) {
    std::size_t end = kLargestSymbol + 1;
    while (end > 0 && (table[end - 1] == 0 || end - 1 == rest)) --end;
    return end;
  }

  std::size_t CodeBits(std::size_t value, int count) {
    std::size_t coded = 0;
    for (int bit = count - 1; bit >= 0; --bit)
      coded = coded << 1 | static_cast<std::size_t>(bits_.Even((value >> bit & 1) != 0));
    return coded;
  }

  std::uint16_t CodeFrequency(std::uint16_t frequency, int* previous) {
    const int length = CodeLength(std::bit_width(frequency), *previous);
    *previous = length;
    const int stored = std::min(length, kMantissaBits) - 1;
    if (stored <= 0) return static_cast<std::uint16_t>(length);
    const int dropped = length - 1 - stored;
    std::uint32_t value = 1;
    for (int bit = length - 2; bit >= dropped; --bit)
      value = value << 1 | static_cast<std::uint32_t>(bits_.Even((frequency >> bit & 1) != 0));
    return static_cast<std::uint16_t>(value << dropped);
  }

  /// Four bits along a tree that depends on the previous length.
  int CodeLength(int length, int previous) {
    auto& models = lengths_[static_cast<std::size_t>(previous)];
    std::size_t node = 1;
    for (int bit = 3; bit >= 0; --bit)
      node = node << 1 | static_cast<std::size_t>(bits_.Adaptive((length >> bit & 1) != 0, &models[node]));
    return std::min(static_cast<int>(node) - 16, kMaxLength);
  }

  Bits bits_;
  std::array<std::array<AdaptiveBit, 16>, kMaxLength + 1> lengths_;
};

}  // namespace

void Normalise(const std::array<std::uint32_t, kSymbols>& counts, int bits, SymbolTable* table) {
  std::uint64_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  const std::uint32_t sum = 1u << bits;
  Frequencies& frequencies = table->frequencies;
  // The most frequent symbol absorbs the rounding: it suffers least.
  const auto rest = static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  table->rest = static_cast<std::uint8_t>(rest);
  std::uint32_t others = 0;
  for (std::size_t s = 0; s < kSymbols; ++s) {
    frequencies[s] = 0;
    if (counts[s] == 0 || s == rest) continue;
    const auto scaled =
        static_cast<std::uint32_t>((static_cast<std::uint64_t>(counts[s]) * sum + total / 2) / total);
    frequencies[s] = static_cast<std::uint16_t>(Representable(std::max(scaled, 1u)));
    others += frequencies[s];
  }
  // Rounding up to 1 may exceed the sum; larger frequencies are then reduced.
  while (others >= sum) {
    for (std::size_t s = 0; s < kSymbols && others >= sum; ++s) {
      if (frequencies[s] < 2) continue;
      const auto less = static_cast<std::uint16_t>(Representable(frequencies[s] - 1u));
      others -= static_cast<std::uint32_t>(frequencies[s] - less);
      frequencies[s] = less;
    }
  }
  frequencies[rest] = static_cast<std::uint16_t>(sum - others);
}

void EncodeTables(std::span<const SymbolTable> tables, int bits, Bytes* out) {
  BinaryEncoder encoder(out);
  TableStream<BitWriter> stream({&encoder});
  for (SymbolTable table : tables) stream.Code(bits, &table);
  encoder.Finish();
}

Result<std::vector<SymbolTable>> DecodeTables(ByteSpan bytes, std::size_t count, int bits) {
  BinaryDecoder decoder(bytes);
  TableStream<BitReader> stream({&decoder});
  std::vector<SymbolTable> tables(count);
  for (SymbolTable& table : tables) {
    stream.Code(bits, &table);
    std::uint32_t sum = 0;
    for (const std::uint16_t frequency : table.frequencies) sum += frequency;
    if (sum != 1u << bits || table.shift > kMaxShift) {
      return DataLoss("a table of symbols has the sum {} instead of {}, with {} low bits", sum, 1u << bits,
                      table.shift);
    }
  }
  return tables;
}

void MakeSlots(std::span<const SymbolTable> tables, int bits, std::vector<std::uint32_t>* slots) {
  slots->resize(tables.size() << bits);
  std::uint32_t* slot = slots->data();
  for (const SymbolTable& table : tables) {
    for (std::size_t s = 0; s < kSymbols; ++s) {
      const std::uint32_t frequency = table.frequencies[s];
      const auto entry = static_cast<std::uint32_t>(s << 24) | (frequency - 1) << 12;
      for (std::uint32_t offset = 0; offset < frequency; ++offset) *slot++ = entry | offset;
    }
  }
}

namespace {

/// How coding a symbol changes a state: x -> (x / frequency) * 2^bits + x % frequency + begin, with the
/// division as a multiplication that is exact for states below 2^31 (Giesen, "rANS with static probability
/// distributions", 2014).
struct SymbolCode {
  std::uint32_t reciprocal = 0;
  std::uint32_t largest = 0;  ///< larger or equal states first emit a word
  std::uint16_t bias = 0;
  std::uint16_t complement = 0;  ///< 2^bits - frequency
  std::uint32_t shift = 32;

  static SymbolCode Make(std::uint32_t frequency, std::uint32_t begin, int bits) {
    SymbolCode code;
    code.largest = frequency << (31 - bits);
    code.complement = static_cast<std::uint16_t>((1u << bits) - frequency);
    if (frequency == 1) {
      // Its reciprocal would not fit: x * (2^32 - 1) / 2^32 is x - 1, which the bias corrects.
      code.reciprocal = 0xffffffffu;
      code.bias = static_cast<std::uint16_t>(begin + (1u << bits) - 1);
      return code;
    }
    const int length = std::bit_width(frequency - 1);
    code.reciprocal =
        static_cast<std::uint32_t>(((std::uint64_t{1} << (length + 31)) + frequency - 1) / frequency);
    code.shift = static_cast<std::uint32_t>(32 + length - 1);
    code.bias = static_cast<std::uint16_t>(begin);
    return code;
  }
};

}  // namespace

void EncodeRans(std::span<const CodedSymbol> symbols, std::span<const std::size_t> run_ends,
                std::span<const SymbolTable> tables, int bits, std::size_t lanes, Bytes* out) {
  thread_local std::vector<SymbolCode> codes_of_thread;
  if (codes_of_thread.size() < tables.size() * kSymbols) codes_of_thread.resize(tables.size() * kSymbols);
  SymbolCode* const codes = codes_of_thread.data();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    std::uint32_t begin = 0;
    for (std::size_t s = 0; s < kSymbols; ++s) {
      const std::uint32_t frequency = tables[t].frequencies[s];
      if (frequency > 0) codes[t * kSymbols + s] = SymbolCode::Make(frequency, begin, bits);
      begin += frequency;
    }
  }
  // Decoding reverses encoding, so symbols are coded from the last to the first.
  thread_local std::vector<std::uint16_t> words;
  if (words.size() < symbols.size() + 1) words.resize(symbols.size() + 1);
  std::uint16_t* const words_end = words.data() + words.size();
  std::uint16_t* next = words_end;
  std::array<std::uint32_t, kManyLanes> states;
  states.fill(1u << 15);
  std::size_t end = symbols.size();
  for (std::size_t run = run_ends.size(); run-- > 0;) {
    const std::size_t begin = run > 0 ? run_ends[run - 1] : 0;
    std::size_t lane = (end - begin) % lanes;
    for (std::size_t i = end; i-- > begin;) {
      lane = (lane - 1) & (lanes - 1);
      const SymbolCode& code = codes[symbols[i]];
      std::uint32_t state = states[lane];
      // Always written, kept only when needed: a branch would be unpredictable.
      const std::uint32_t gives_up_word = state >= code.largest ? 1 : 0;
      next[-1] = static_cast<std::uint16_t>(state);
      next -= gives_up_word;
      state >>= gives_up_word << 4;
      const auto quotient =
          static_cast<std::uint32_t>(static_cast<std::uint64_t>(state) * code.reciprocal >> code.shift);
      states[lane] = state + code.bias + quotient * code.complement;
    }
    end = begin;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) PutLittleEndian(out, states[lane]);
  const std::size_t at = out->size();
  const auto count = static_cast<std::size_t>(words_end - next);
  out->resize(at + count * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < count; ++i) {
    (*out)[at + 2 * i] = static_cast<std::byte>(next[i] & 0xff);
    (*out)[at + 2 * i + 1] = static_cast<std::byte>(next[i] >> 8);
  }
}

Status StartRans(ByteSpan bytes, std::size_t lanes, int bits, std::vector<std::uint16_t>* words,
                 RansReader* reader) {
  const std::size_t states = lanes * sizeof(std::uint32_t);
  if (bytes.size() < states || (bytes.size() - states) % 2 != 0)
    return DataLoss("{} bytes of coded symbols for {} lanes", bytes.size(), lanes);
  LittleEndianReader from(bytes.data());
  reader->lanes = lanes;
  reader->bits = bits;
  for (std::size_t lane = 0; lane < lanes; ++lane) reader->states[lane] = from.Get<std::uint32_t>();
  reader->position = 0;
  reader->count = (bytes.size() - states) / 2;
  // A round is checked only after decoding: it may read one word per lane beyond the end.
  words->assign(reader->count + 2 * kManyLanes, 0);
  if constexpr (std::endian::native == std::endian::little) {
    if (reader->count > 0) std::memcpy(words->data(), bytes.data() + states, reader->count * 2);
  } else {
    for (std::size_t i = 0; i < reader->count; ++i) (*words)[i] = from.Get<std::uint16_t>();
  }
  reader->words = words->data();
  return Status::Ok();
}

}  // namespace quarry::entropy
