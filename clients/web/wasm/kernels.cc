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
      const v128_t frequency = wasm_i32x4_add(wasm_v128_and(wasm_u32x4_shr(slot, 12), low), one);
      const v128_t state = wasm_i32x4_add(wasm_i32x4_mul(frequency, wasm_u32x4_shr(states[g], bits)),
                                          wasm_v128_and(slot, low));
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
      const std::uint32_t state = ((slot >> 12 & 0xfff) + 1) * (states[lane] >> bits) + (slot & 0xfff);
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
  const std::size_t begin = reader->lanes == entropy::kManyLanes
                                ? DecodeRounds<entropy::kManyLanes>(reader, tables, count, symbols)
                                : DecodeRounds<entropy::kFewLanes>(reader, tables, count, symbols);
  return reader->position <= reader->count && DecodeRansScalar(reader, tables, begin, count, symbols);
}

std::size_t UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, const std::uint8_t* shifts,
                      const std::byte* bits, std::size_t position, std::size_t limit, std::size_t count,
                      std::int32_t* indices) {
  return UnfoldLowScalar(symbols, tables, shifts, bits, position, limit, count, indices);
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("scalar");
  return kernels;
}

}  // namespace quarry::interpolate::scalar
