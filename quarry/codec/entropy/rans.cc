#include "quarry/codec/entropy/rans.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quarry/base/per_thread.h"
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
  total = std::max<std::uint64_t>(total, 1);
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
  // Whole blocks are written: the next symbol overwrites the slots beyond the end of this one.
  constexpr std::uint32_t kBlock = 8;
  const std::size_t size = (tables.size() << bits) + kBlock;
  if (slots->size() < size) slots->resize(size);
  std::uint32_t* slot = slots->data();
  for (const SymbolTable& table : tables) {
    for (std::size_t s = 0; s < kSymbols; ++s) {
      const std::uint32_t frequency = table.frequencies[s];
      const auto entry = static_cast<std::uint32_t>(s << 24) | (frequency - 1);
      for (std::uint32_t begin = 0; begin < frequency; begin += kBlock) {
        for (std::uint32_t i = 0; i < kBlock; ++i) slot[begin + i] = entry | (begin + i) << 12;
      }
      slot += frequency;
    }
  }
}

namespace {

SymbolCode MakeCode(std::uint32_t frequency, std::uint32_t begin, int bits) {
  const std::uint64_t complement = (1u << bits) - frequency;
  std::uint64_t reciprocal = 0xffffffffu;
  std::uint64_t bias = begin;
  std::uint64_t shift = 32;
  if (frequency == 1) {
    // Its reciprocal would not fit: x * (2^32 - 1) / 2^32 is x - 1, which the bias corrects.
    bias += (1u << bits) - 1;
  } else {
    const int length = std::bit_width(frequency - 1);
    reciprocal = ((std::uint64_t{1} << (length + 31)) + frequency - 1) / frequency;
    shift = static_cast<std::uint64_t>(32 + length - 1);
  }
  return reciprocal | complement << kComplementAt | bias << kBiasAt | shift << kShiftAt;
}

/// Codes of all coded symbols; those of symbols that do not occur are unset.
const SymbolCode* MakeCodes(std::span<const SymbolTable> tables, int bits) {
  static const PerThread<std::vector<SymbolCode>> scratch;
  std::vector<SymbolCode>& codes = *scratch;
  if (codes.size() < tables.size() * kSymbols) codes.resize(tables.size() * kSymbols);
  SymbolCode* code = codes.data();
  for (const SymbolTable& table : tables) {
    std::uint32_t begin = 0;
    for (std::size_t s = 0; s < kSymbols; ++s, ++code) {
      const std::uint32_t frequency = table.frequencies[s];
      if (frequency > 0) *code = MakeCode(frequency, begin, bits);
      begin += frequency;
    }
  }
  return codes.data();
}

void AppendWords(std::span<const std::uint16_t> words, Bytes* out) {
  const std::size_t at = out->size();
  out->resize(at + words.size_bytes());
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out->data() + at, words.data(), words.size_bytes());
  } else {
    for (std::size_t i = 0; i < words.size(); ++i) {
      (*out)[at + 2 * i] = static_cast<std::byte>(words[i] & 0xff);
      (*out)[at + 2 * i + 1] = static_cast<std::byte>(words[i] >> 8);
    }
  }
}

}  // namespace

void EncodeRans(std::span<const CodedSymbol> symbols, std::span<const std::size_t> run_ends,
                std::span<const SymbolTable> tables, int bits, std::size_t lanes, EncodeRun encode_run,
                Bytes* out) {
  // A symbol gives up at most one word.
  static const PerThread<std::vector<std::uint16_t>> scratch;
  std::vector<std::uint16_t>& words = *scratch;
  if (words.size() < symbols.size() + kWordsBefore) words.resize(symbols.size() + kWordsBefore);
  std::uint16_t* const words_end = words.data() + words.size();
  RansWriter writer;
  writer.lanes = lanes;
  writer.bits = bits;
  writer.codes = MakeCodes(tables, bits);
  writer.next = words_end;
  writer.states.fill(1u << 15);
  std::size_t end = symbols.size();
  for (std::size_t run = run_ends.size(); run-- > 0;) {
    const std::size_t begin = run > 0 ? run_ends[run - 1] : 0;
    encode_run(&writer, symbols.data() + begin, end - begin);
    end = begin;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) PutLittleEndian(out, writer.states[lane]);
  AppendWords({writer.next, words_end}, out);
}

Status StartRans(ByteSpan bytes, std::vector<std::uint16_t>* words, RansReader* reader) {
  const std::size_t lanes = reader->lanes;
  const std::size_t states = lanes * sizeof(std::uint32_t);
  if (bytes.size() < states || (bytes.size() - states) % 2 != 0)
    return DataLoss("{} bytes of coded symbols for {} lanes", bytes.size(), lanes);
  LittleEndianReader from(bytes.data());
  for (std::size_t lane = 0; lane < lanes; ++lane) reader->states[lane] = from.Get<std::uint32_t>();
  reader->position = 0;
  reader->count = (bytes.size() - states) / 2;
  // A round is checked only after decoding: it may read one word per lane beyond the end.
  const std::size_t size = reader->count + 2 * kMostLanes;
  if (words->size() < size) words->resize(size);
  std::fill_n(words->begin() + static_cast<std::ptrdiff_t>(reader->count), 2 * kMostLanes, std::uint16_t{0});
  if constexpr (std::endian::native == std::endian::little) {
    if (reader->count > 0) std::memcpy(words->data(), bytes.data() + states, reader->count * 2);
  } else {
    for (std::size_t i = 0; i < reader->count; ++i) (*words)[i] = from.Get<std::uint16_t>();
  }
  reader->words = words->data();
  return Status::Ok();
}

}  // namespace quarry::entropy
