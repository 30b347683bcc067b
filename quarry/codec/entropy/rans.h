#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Range asymmetric numeral systems (Duda 2013) with static tables and many interleaved states: 32-bit states
/// in [2^15, 2^31), refilled 16 bits at a time.
namespace quarry::entropy {

inline constexpr std::size_t kSymbols = 256;
/// The largest symbol in use.
inline constexpr std::uint32_t kLargestSymbol = 254;
/// Most bits of an index that are stored beside its symbol.
inline constexpr int kMaxShift = 22;

/// How often each symbol of a table occurs, in 2^-bits; the sum is 2^bits.
using Frequencies = std::array<std::uint16_t, kSymbols>;

/// Statistics of the indices of one context: an index is a symbol, and `shift` bits that are stored as they
/// are.
struct SymbolTable {
  std::uint8_t shift = 0;
  std::uint8_t rest = 0;  ///< the symbol that gets the remaining frequency, which is not stored
  Frequencies frequencies{};
};

/// Scales counts to frequencies with a sum of 2^bits, every symbol that occurs at least 1, in the precision
/// that the format stores. @param counts at least one is not 0
void Normalise(const std::array<std::uint32_t, kSymbols>& counts, int bits, SymbolTable* table);

/// Tables as bytes, all tables of a level in one adaptive stream.
void EncodeTables(std::span<const SymbolTable> tables, int bits, Bytes* out);
/// @param bytes  exactly the stream. @errors kDataLoss
Result<std::vector<SymbolTable>> DecodeTables(ByteSpan bytes, std::size_t count, int bits);

/// Slots for RansReader: 2^bits for each table. `slots` grows where it is too small, and may be longer.
void MakeSlots(std::span<const SymbolTable> tables, int bits, std::vector<std::uint32_t>* slots);

/// One coded symbol of the encoder: its table in the upper byte, the symbol in the lower.
using CodedSymbol = std::uint16_t;

/// Numbers of interleaved states. More of them hide more of each one's latency, for four bytes each.
inline constexpr std::size_t kFewLanes = 8;
inline constexpr std::size_t kManyLanes = 32;
inline constexpr std::size_t kMostLanes = 64;

/// How coding a symbol changes a state: x -> (x / frequency) * 2^bits + x % frequency + begin, with the
/// division as a multiplication that is exact for states below 2^31 (Giesen, "rANS with static probability
/// distributions", 2014): x + bias + (x * reciprocal >> shift) * complement. One word, so that it is one
/// load: reciprocal (32 bits), complement (11), which is 2^bits - frequency, bias (15), shift (6).
using SymbolCode = std::uint64_t;
inline constexpr int kComplementAt = 32;
inline constexpr int kBiasAt = 43;
inline constexpr int kShiftAt = 58;

/// Words that an encoding loop may write before the next one.
inline constexpr std::size_t kWordsBefore = 8;

/// State of an encoding loop. The loops are compiled for every instruction set
/// (interpolate::Kernels::encode_rans).
struct RansWriter {
  std::array<std::uint32_t, kMostLanes> states{};
  std::size_t lanes = kFewLanes;
  int bits = 11;
  const SymbolCode* codes = nullptr;  ///< codes of all coded symbols
  std::uint16_t* next = nullptr;      ///< the next word goes before it: decoding reverses encoding
};

/// Codes the symbols of a run, from the last to the first.
using EncodeRun = void (*)(RansWriter*, const CodedSymbol* symbols, std::size_t count);

/// Codes runs of symbols; each run starts at lane 0. Appends the states, then the words, in decoding order.
/// @param run_ends  where every run ends in `symbols`; the last is symbols.size()
void EncodeRans(std::span<const CodedSymbol> symbols, std::span<const std::size_t> run_ends,
                std::span<const SymbolTable> tables, int bits, std::size_t lanes, EncodeRun encode_run,
                Bytes* out);

/// State of a decoding loop: the coder states, and the words that refill them. The loops are compiled for
/// every instruction set (interpolate::Kernels::decode_rans).
struct RansReader {
  std::array<std::uint32_t, kMostLanes> states{};
  std::size_t lanes = kFewLanes;
  int bits = 11;
  /// 2^bits for each table: symbol << 24 | offset in the symbol << 12 | frequency - 1.
  const std::uint32_t* slots = nullptr;
  const std::uint16_t* words = nullptr;  ///< readable up to kMostLanes words beyond the last
  std::size_t position = 0;
  std::size_t count = 0;
};

/// Sets up a reader, whose lanes and bits are set, for the output of EncodeRans.
/// @param words  scratch that holds the words while decoding. @errors kDataLoss
Status StartRans(ByteSpan bytes, std::vector<std::uint16_t>* words, RansReader* reader);

}  // namespace quarry::entropy
