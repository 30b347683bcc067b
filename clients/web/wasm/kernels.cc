#include <array>
#include <bit>
#include <cstring>

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif

#include "quarry/codec/interpolate/kernels_isa.h"

// Takes the place of kernels_scalar.cc: the same loops, and a third of the time of decoding, that of the rANS
// states, written for this machine.

#define QUARRY_KERNEL

namespace quarry::interpolate::scalar {

#include "quarry/codec/interpolate/kernels.inl"

namespace {

#ifdef __wasm_simd128__

/// For each set of lanes of four: where they find the next words, in their order; zero in the others.
constexpr auto kExpansions = [] {
  std::array<std::array<std::uint8_t, 16>, 16> expansions{};
  for (std::size_t set = 0; set < 16; ++set) {
    expansions[set].fill(0xff);
    std::uint8_t next = 0;
    for (std::size_t lane = 0; lane < 4; ++lane) {
      if ((set >> lane & 1) == 0) continue;
      expansions[set][4 * lane] = next++;
      expansions[set][4 * lane + 1] = next++;
    }
  }
  return expansions;
}();

/// Whole rounds of kLanes symbols from the first on; returns how many symbols these are. Renormalising reads
/// at most kLanes words beyond the position before the round: as many as RansReader has there.
template <std::size_t kLanes>
std::size_t DecodeRounds(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                         std::uint8_t* symbols) {
  constexpr std::size_t kGroups = kLanes / 4;
  v128_t states[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) states[g] = wasm_v128_load(&reader->states[4 * g]);
  const auto bits = static_cast<std::uint32_t>(reader->bits);
  const v128_t mask = wasm_u32x4_splat((1u << bits) - 1);
  const v128_t low = wasm_u32x4_splat(0xfff);
  const v128_t one = wasm_u32x4_splat(1);
  const v128_t least = wasm_u32x4_splat(1u << 15);
  const std::uint32_t* slots = reader->slots;
  const std::uint16_t* words = reader->words;
  std::size_t position = reader->position;
  std::size_t i = 0;
  for (; i + kLanes <= count && position <= reader->count; i += kLanes) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      const v128_t table =
          wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(tables + i + 4 * g)));
      const v128_t index = wasm_v128_or(wasm_i32x4_shl(table, bits), wasm_v128_and(states[g], mask));
      const v128_t slot =
          wasm_u32x4_make(slots[wasm_u32x4_extract_lane(index, 0)], slots[wasm_u32x4_extract_lane(index, 1)],
                          slots[wasm_u32x4_extract_lane(index, 2)], slots[wasm_u32x4_extract_lane(index, 3)]);
      const v128_t frequency = wasm_i32x4_add(wasm_v128_and(slot, low), one);
      const v128_t state = wasm_i32x4_add(wasm_i32x4_mul(frequency, wasm_u32x4_shr(states[g], bits)),
                                          wasm_v128_and(wasm_u32x4_shr(slot, 12), low));
      const v128_t symbol =
          wasm_i8x16_shuffle(slot, slot, 3, 7, 11, 15, 3, 7, 11, 15, 3, 7, 11, 15, 3, 7, 11, 15);
      wasm_v128_store32_lane(symbols + i + 4 * g, symbol, 0);
      const v128_t small = wasm_u32x4_lt(state, least);
      const std::uint32_t set = wasm_i32x4_bitmask(small);
      const v128_t word = wasm_i8x16_swizzle(wasm_v128_load64_zero(words + position),
                                             wasm_v128_load(kExpansions[set].data()));
      states[g] = wasm_v128_bitselect(wasm_v128_or(wasm_i32x4_shl(state, 16), word), state, small);
      position += static_cast<std::size_t>(std::popcount(set));
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) wasm_v128_store(&reader->states[4 * g], states[g]);
  reader->position = position;
  return i;
}

#else

/// The same without branches that nobody can predict, and with states that nothing else can change.
template <std::size_t kLanes>
std::size_t DecodeRounds(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                         std::uint8_t* symbols) {
  std::array<std::uint32_t, kLanes> states;
  std::memcpy(states.data(), reader->states.data(), sizeof(states));
  const auto bits = static_cast<std::uint32_t>(reader->bits);
  const std::uint32_t mask = (1u << bits) - 1;
  const std::uint32_t* slots = reader->slots;
  const std::uint16_t* words = reader->words;
  std::size_t position = reader->position;
  std::size_t i = 0;
  for (; i + kLanes <= count && position <= reader->count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t slot = slots[(std::uint32_t{tables[i + lane]} << bits) + (states[lane] & mask)];
      const std::uint32_t state = ((slot & 0xfff) + 1) * (states[lane] >> bits) + (slot >> 12 & 0xfff);
      symbols[i + lane] = static_cast<std::uint8_t>(slot >> 24);
      const std::uint32_t refilled = state << 16 | words[position];
      const bool small = state < 1u << 15;
      states[lane] = small ? refilled : state;
      position += small ? 1 : 0;
    }
  }
  std::memcpy(reader->states.data(), states.data(), sizeof(states));
  reader->position = position;
  return i;
}

#endif

bool DecodeRans(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                std::uint8_t* symbols) {
  std::size_t begin = 0;
  switch (reader->lanes) {
    case entropy::kMostLanes:
      begin = DecodeRounds<entropy::kMostLanes>(reader, tables, count, symbols);
      break;
    case entropy::kManyLanes:
      begin = DecodeRounds<entropy::kManyLanes>(reader, tables, count, symbols);
      break;
    case entropy::kFewLanes:
      begin = DecodeRounds<entropy::kFewLanes>(reader, tables, count, symbols);
      break;
    default:
      break;
  }
  return reader->position <= reader->count && DecodeRansScalar(reader, tables, begin, count, symbols);
}

void Classify(const std::uint16_t* activity, std::size_t count, std::span<const std::uint16_t> thresholds,
              std::uint8_t* out) {
  ClassifyScalar(activity, count, thresholds, out);
}

std::size_t Compact(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                    std::uint8_t* out) {
  return CompactScalar(bytes, valid, count, out);
}

void Expand(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count, std::uint8_t fill,
            std::uint8_t* out) {
  ExpandScalar(bytes, valid, count, fill, out);
}

#ifdef __wasm_simd128__

/// Four values of the low bits: what lies at their places, which are bits from `begin` on.
v128_t Windows(const std::byte* begin, std::uint32_t places) {
  const auto window = [&](std::uint32_t place) {
    std::uint32_t word;
    std::memcpy(&word, begin + place / 8, sizeof(word));
    return word >> place % 8;
  };
  return wasm_u32x4_make(window(places & 0xff), window(places >> 8 & 0xff), window(places >> 16 & 0xff),
                         window(places >> 24));
}

/// 2^n for n of up to 30. There are no shifts by a number for each lane: these are the exponents of floats.
v128_t PowersOfTwo(v128_t n) {
  return wasm_i32x4_trunc_sat_f32x4(wasm_i32x4_shl(wasm_i32x4_add(n, wasm_i32x4_splat(127)), 23));
}

/// As kernels_x86.inl does it: eight indices at a time, the places of their low bits by one multiplication.
void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count, LowBits* low_bits,
               std::int32_t* indices) {
  const v128_t width_of = wasm_v128_load(low_bits->widths.data());
  const v128_t one = wasm_i32x4_splat(1);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::size_t position = low_bits->position;
    if (position > low_bits->limit) return;
    const v128_t symbol = wasm_u16x8_load8x8(symbols + i);
    const v128_t widths = wasm_i8x16_swizzle(width_of, wasm_v128_load64_zero(tables + i));
    const auto width = static_cast<std::uint64_t>(wasm_i64x2_extract_lane(widths, 0));
    const std::uint64_t sums = width * 0x0101010101010101u;
    // At most 7 + 7 * 22: places fit into bytes.
    const std::uint64_t places = sums - width + position % 8 * 0x0101010101010101u;
    const v128_t wide = wasm_u16x8_extend_low_u8x16(widths);
    const auto half = [&](v128_t symbol32, v128_t shift, std::uint32_t at, std::int32_t* out) {
      const v128_t sign = wasm_i32x4_neg(wasm_v128_and(symbol32, one));
      const v128_t high = wasm_v128_xor(wasm_u32x4_shr(symbol32, 1), sign);
      if (width == 0) return wasm_v128_store(out, high);
      const v128_t range = PowersOfTwo(shift);
      const v128_t low =
          wasm_v128_and(Windows(low_bits->bytes + position / 8, at), wasm_i32x4_sub(range, one));
      const v128_t centred = wasm_i32x4_sub(low, wasm_u32x4_shr(range, 1));
      wasm_v128_store(out, wasm_i32x4_add(wasm_i32x4_mul(high, range), centred));
    };
    half(wasm_u32x4_extend_low_u16x8(symbol), wasm_u32x4_extend_low_u16x8(wide),
         static_cast<std::uint32_t>(places), indices + i);
    half(wasm_u32x4_extend_high_u16x8(symbol), wasm_u32x4_extend_high_u16x8(wide),
         static_cast<std::uint32_t>(places >> 32), indices + i + 4);
    low_bits->position = position + (sums >> 56);
  }
  UnfoldLowScalar(symbols + whole, tables + whole, count - whole, low_bits, indices + whole);
}

#else

void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count, LowBits* low_bits,
               std::int32_t* indices) {
  UnfoldLowScalar(symbols, tables, count, low_bits, indices);
}

#endif

// Nothing encodes here.
template <>
bool Quantise<float>(const QuantiseArgs<float>&, const float*, const float*, std::size_t, std::int32_t*,
                     float*, std::uint16_t*) {
  __builtin_trap();
}
template <>
bool Quantise<double>(const QuantiseArgs<double>&, const double*, const double*, std::size_t, std::int32_t*,
                      double*, std::uint16_t*) {
  __builtin_trap();
}
void EncodeRans(entropy::RansWriter*, const entropy::CodedSymbol*, std::size_t) { __builtin_trap(); }
bool FoldLow(const std::int32_t*, const std::uint8_t*, const FoldTables&, std::size_t, entropy::CodedSymbol*,
             std::uint32_t*) {
  __builtin_trap();
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("scalar");
  return kernels;
}

}  // namespace quarry::interpolate::scalar
