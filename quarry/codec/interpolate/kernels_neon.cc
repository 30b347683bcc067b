#include "quarry/codec/interpolate/kernels_isa.h"

#ifdef QUARRY_HAS_NEON_KERNELS

#include <arm_neon.h>

#include "quarry/codec/interpolate/lanes.h"

// Every 64-bit ARM has NEON: the compiler may use it everywhere.
#define QUARRY_KERNEL

namespace quarry::interpolate::neon {

#include "quarry/codec/interpolate/kernels.inl"

namespace {

/// For every set of lanes that need a word: which bytes of the next words make the 32 bits of each lane.
/// Bytes out of range become 0.
struct WordOrder {
  alignas(16) std::uint8_t bytes[16][16];
};

constexpr WordOrder MakeWordOrder() {
  WordOrder order{};
  for (unsigned set = 0; set < 16; ++set) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 4; ++lane) {
      const bool needs = (set >> lane & 1) != 0;
      order.bytes[set][4 * lane] = needs ? next : 0xff;
      order.bytes[set][4 * lane + 1] = needs ? static_cast<std::uint8_t>(next + 1) : 0xff;
      order.bytes[set][4 * lane + 2] = 0xff;
      order.bytes[set][4 * lane + 3] = 0xff;
      if (needs) next = static_cast<std::uint8_t>(next + 2);
    }
  }
  return order;
}

constexpr WordOrder kWordOrder = MakeWordOrder();

/// Slots of four lanes. There is no gather: four loads.
inline uint32x4_t LoadSlots(const std::uint32_t* slots, uint32x4_t index) {
  uint32x4_t slot = vdupq_n_u32(slots[vgetq_lane_u32(index, 0)]);
  slot = vsetq_lane_u32(slots[vgetq_lane_u32(index, 1)], slot, 1);
  slot = vsetq_lane_u32(slots[vgetq_lane_u32(index, 2)], slot, 2);
  return vsetq_lane_u32(slots[vgetq_lane_u32(index, 3)], slot, 3);
}

/// kPairs pairs of vectors of four lanes.
template <int kPairs>
bool DecodeRounds(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                  std::uint8_t* symbols) {
  constexpr int kVectors = 2 * kPairs;
  constexpr std::size_t kLanes = 8 * kPairs;
  const uint32x4_t low = vdupq_n_u32((1u << reader->bits) - 1);
  const int32x4_t up = vdupq_n_s32(reader->bits);
  const int32x4_t down = vdupq_n_s32(-reader->bits);
  const uint32x4_t twelve = vdupq_n_u32(0xfff);
  const uint32x4_t one = vdupq_n_u32(1);
  const uint32x4_t limit = vdupq_n_u32(1u << 15);
  const uint32x4_t lane_bits = {1, 2, 4, 8};
  uint32x4_t states[kVectors];
  for (int v = 0; v < kVectors; ++v) states[v] = vld1q_u32(reader->states.data() + 4 * v);
  std::size_t position = reader->position;
  const std::size_t whole = count / kLanes * kLanes;
  bool good = true;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (int pair = 0; pair < kPairs; ++pair) {
      const std::size_t at = i + 8 * static_cast<std::size_t>(pair);
      const uint16x8_t wide = vmovl_u8(vld1_u8(tables + at));
      const uint32x4_t table[2] = {vmovl_u16(vget_low_u16(wide)), vmovl_u16(vget_high_u16(wide))};
      uint16x4_t decoded[2];
      for (int half = 0; half < 2; ++half) {
        uint32x4_t& state = states[2 * pair + half];
        const uint32x4_t slot =
            LoadSlots(reader->slots, vaddq_u32(vshlq_u32(table[half], up), vandq_u32(state, low)));
        const uint32x4_t frequency = vaddq_u32(vandq_u32(slot, twelve), one);
        state = vmlaq_u32(vandq_u32(vshrq_n_u32(slot, 12), twelve), frequency, vshlq_u32(state, down));
        decoded[half] = vshrn_n_u32(slot, 16);
      }
      vst1_u8(symbols + at, vshrn_n_u16(vcombine_u16(decoded[0], decoded[1]), 8));
    }
    for (int v = 0; v < kVectors; ++v) {
      const uint32x4_t small = vcltq_u32(states[v], limit);
      const std::uint32_t set = vaddvq_u32(vandq_u32(small, lane_bits));
      // Four words, not eight: behind the last there are as many as there are lanes.
      const uint8x16_t words =
          vreinterpretq_u8_u16(vcombine_u16(vld1_u16(reader->words + position), vdup_n_u16(0)));
      const uint32x4_t refill = vreinterpretq_u32_u8(vqtbl1q_u8(words, vld1q_u8(kWordOrder.bytes[set])));
      states[v] = vbslq_u32(small, vorrq_u32(vshlq_n_u32(states[v], 16), refill), states[v]);
      position += static_cast<std::size_t>(__builtin_popcount(set));
    }
    if (position > reader->count) {
      good = false;
      break;
    }
  }
  for (int v = 0; v < kVectors; ++v) vst1q_u32(reader->states.data() + 4 * v, states[v]);
  reader->position = position;
  return good && DecodeRansScalar(reader, tables, whole, count, symbols);
}

void EncodeRans(entropy::RansWriter* writer, const entropy::CodedSymbol* symbols, std::size_t count) {
  EncodeRansScalar(writer, symbols, 0, count);
}

constexpr auto* Classify = &ClassifyScalar;

/// Bits of eight samples, set for each that is valid.
inline std::uint32_t ValidSet(const std::uint8_t* valid) {
  const uint8x8_t lane_bits = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x8_t eight = vld1_u8(valid);
  return vaddv_u8(vand_u8(vtst_u8(eight, eight), lane_bits));
}

std::size_t Compact(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                    std::uint8_t* out) {
  const std::size_t whole = count / 8 * 8;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::uint32_t set = ValidSet(valid + i);
    vst1_u8(out + kept, vtbl1_u8(vld1_u8(bytes + i), vld1_u8(kLanesOfSet[set].data())));
    kept += static_cast<std::size_t>(__builtin_popcount(set));
  }
  return kept + CompactScalar(bytes + whole, valid + whole, count - whole, out + kept);
}

void Expand(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count, std::uint8_t fill,
            std::uint8_t* out) {
  const uint8x8_t filled = vdup_n_u8(fill);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const uint8x8_t eight = vld1_u8(valid + i);
    const std::uint32_t set = ValidSet(valid + i);
    const uint8x8_t moved = vtbl1_u8(vld1_u8(bytes), vld1_u8(kRankInSet[set].data()));
    vst1_u8(out + i, vbsl_u8(vtst_u8(eight, eight), moved, filled));
    bytes += __builtin_popcount(set);
  }
  ExpandScalar(bytes, valid + whole, count - whole, fill, out + whole);
}

/// Eight indices without their low bits.
struct EightIndices {
  int32x4_t first;
  int32x4_t second;
};

inline EightIndices UnfoldEight(const std::uint8_t* symbols) {
  const uint8x8_t symbol = vld1_u8(symbols);
  const uint8x8_t sign = vtst_u8(symbol, vdup_n_u8(1));
  const int16x8_t index = vmovl_s8(vreinterpret_s8_u8(veor_u8(vshr_n_u8(symbol, 1), sign)));
  return {vmovl_s16(vget_low_s16(index)), vmovl_s16(vget_high_s16(index))};
}

/// Four windows from the bits of `position` on, each beginning with the low bits of its index; there must be
/// at most 57 bits before and in them.
/// @param before  bits before each of them
inline uint32x4_t WindowsNearby(std::uint64_t word, uint16x4_t before) {
  const uint64x2_t all = vdupq_n_u64(word);
  const uint32x4_t wide = vmovl_u16(before);
  const int64x2_t first = vnegq_s64(vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(wide))));
  const int64x2_t second = vnegq_s64(vreinterpretq_s64_u64(vmovl_u32(vget_high_u32(wide))));
  return vcombine_u32(vmovn_u64(vshlq_u64(all, first)), vmovn_u64(vshlq_u64(all, second)));
}

/// Adds low bits to four indices.
inline int32x4_t WithLowBits(int32x4_t high, uint32x4_t window, uint16x4_t widths) {
  const int32x4_t shift = vreinterpretq_s32_u32(vmovl_u16(widths));
  const uint32x4_t range = vshlq_u32(vdupq_n_u32(1), shift);
  const uint32x4_t low = vandq_u32(window, vsubq_u32(range, vdupq_n_u32(1)));
  const int32x4_t centred = vreinterpretq_s32_u32(vsubq_u32(low, vshrq_n_u32(range, 1)));
  return vaddq_s32(vshlq_s32(high, shift), centred);
}

/// Eight indices at a time: the places of their low bits are running sums of at most 176, so one
/// multiplication computes all eight.
void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count, LowBits* low_bits,
               std::int32_t* indices) {
  const uint8x16_t width_of = vld1q_u8(low_bits->widths.data());
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::size_t position = low_bits->position;
    if (position > low_bits->limit) return;
    const uint8x8_t widths = vqtbl1_u8(width_of, vld1_u8(tables + i));
    const std::uint64_t width = vget_lane_u64(vreinterpret_u64_u8(widths), 0);
    const std::uint64_t sums = width * 0x0101010101010101u;
    // A word has at least 57 bits from any position on.
    if (sums >> 56 > 57) {
      UnfoldLowScalar(symbols + i, tables + i, 8, low_bits, indices + i);
      continue;
    }
    EightIndices high = UnfoldEight(symbols + i);
    if (width != 0) {
      std::uint64_t word;
      __builtin_memcpy(&word, low_bits->bytes + position / 8, 8);
      word >>= position % 8;
      const uint16x8_t before = vmovl_u8(vcreate_u8(sums - width));
      const uint16x8_t wide = vmovl_u8(widths);
      high.first = WithLowBits(high.first, WindowsNearby(word, vget_low_u16(before)), vget_low_u16(wide));
      high.second = WithLowBits(high.second, WindowsNearby(word, vget_high_u16(before)), vget_high_u16(wide));
      low_bits->position = position + (sums >> 56);
    }
    vst1q_s32(indices + i, high.first);
    vst1q_s32(indices + i + 4, high.second);
  }
  UnfoldLowScalar(symbols + whole, tables + whole, count - whole, low_bits, indices + whole);
}

/// The symbols of four indices; their low bits go to `low`.
inline uint32x4_t FoldFour(const std::int32_t* indices, uint16x4_t shifts, std::uint32_t* low) {
  const int32x4_t shift = vreinterpretq_s32_u32(vmovl_u16(shifts));
  const uint32x4_t range = vshlq_u32(vdupq_n_u32(1), shift);
  const int32x4_t shifted = vaddq_s32(vld1q_s32(indices), vreinterpretq_s32_u32(vshrq_n_u32(range, 1)));
  const int32x4_t high = vshlq_s32(shifted, vnegq_s32(shift));
  vst1q_u32(low, vandq_u32(vreinterpretq_u32_s32(shifted), vsubq_u32(range, vdupq_n_u32(1))));
  return vreinterpretq_u32_s32(veorq_s32(vshlq_n_s32(high, 1), vshrq_n_s32(high, 31)));
}

/// Eight indices at a time; the shifts of their tables by a look-up of bytes.
bool FoldLow(const std::int32_t* indices, const std::uint8_t* tables, const FoldTables& fold,
             std::size_t count, entropy::CodedSymbol* symbols, std::uint32_t* low) {
  const uint8x16_t shift_of = vld1q_u8(fold.shifts.data());
  const uint8x16_t limit_of = vld1q_u8(fold.limits.data());
  const uint32x4_t byte = vdupq_n_u32(0xff);
  uint32x4_t above = vdupq_n_u32(0);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const uint8x8_t table = vld1_u8(tables + i);
    const uint16x8_t shift = vmovl_u8(vqtbl1_u8(shift_of, table));
    const uint32x4_t first = FoldFour(indices + i, vget_low_u16(shift), low + i);
    const uint32x4_t second = FoldFour(indices + i + 4, vget_high_u16(shift), low + i + 4);
    const uint16x8_t limit = vmovl_u8(vqtbl1_u8(limit_of, table));
    above = vorrq_u32(above, vcgtq_u32(first, vmovl_u16(vget_low_u16(limit))));
    above = vorrq_u32(above, vcgtq_u32(second, vmovl_u16(vget_high_u16(limit))));
    const uint16x8_t symbol =
        vcombine_u16(vmovn_u32(vandq_u32(first, byte)), vmovn_u32(vandq_u32(second, byte)));
    vst1q_u16(symbols + i, vorrq_u16(symbol, vshlq_n_u16(vmovl_u8(table), 8)));
  }
  const bool rest_fits =
      FoldLowScalar(indices + whole, tables + whole, fold, count - whole, symbols + whole, low + whole);
  return rest_fits && vmaxvq_u32(above) == 0;
}

}  // namespace

#include "quarry/codec/interpolate/kernels_rounds.inl"
#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("neon");
  return kernels;
}

}  // namespace quarry::interpolate::neon

#endif
