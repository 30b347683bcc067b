#include "quarry/codec/interpolate/kernels_isa.h"

#ifdef QUARRY_HAS_X86_KERNELS

#include <immintrin.h>

#include "quarry/codec/interpolate/lanes.h"

#define QUARRY_KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt")))

namespace quarry::interpolate::avx512 {

#include "quarry/codec/interpolate/kernels.inl"
#include "quarry/codec/interpolate/kernels_x86.inl"

namespace {

/// kVectors vectors of sixteen lanes.
template <int kVectors>
QUARRY_KERNEL bool DecodeWideRounds(entropy::RansReader* reader, const std::uint8_t* tables,
                                    std::size_t count, std::uint8_t* symbols) {
  constexpr std::size_t kLanes = 16 * kVectors;
  const __m512i low = _mm512_set1_epi32((1 << reader->bits) - 1);
  const __m512i shift = _mm512_set1_epi32(reader->bits);
  const __m512i limit = _mm512_set1_epi32(1 << 15);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i twelve = _mm512_set1_epi32(0xfff);
  __m512i states[kVectors];
  for (int v = 0; v < kVectors; ++v) states[v] = _mm512_loadu_si512(reader->states.data() + 16 * v);
  const std::uint32_t* slots = reader->slots;
  std::size_t position = reader->position;
  const std::size_t whole = count / kLanes * kLanes;
  bool good = true;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    alignas(64) std::uint32_t places[kLanes];
    for (int v = 0; v < kVectors; ++v) {
      const __m512i table = _mm512_cvtepu8_epi32(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(tables + i + 16 * static_cast<std::size_t>(v))));
      _mm512_store_si512(places + 16 * v,
                         _mm512_add_epi32(_mm512_sllv_epi32(table, shift), _mm512_and_si512(states[v], low)));
    }
    for (int v = 0; v < kVectors; ++v) {
      const std::size_t at = i + 16 * static_cast<std::size_t>(v);
      const __m512i slot = _mm512_inserti64x4(_mm512_castsi256_si512(EightSlots(slots, places + 16 * v)),
                                              EightSlots(slots, places + 16 * v + 8), 1);
      const __m512i frequency = _mm512_add_epi32(_mm512_and_si512(slot, twelve), one);
      const __m512i offset = _mm512_and_si512(_mm512_srli_epi32(slot, 12), twelve);
      states[v] =
          _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srlv_epi32(states[v], shift)), offset);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + at),
                       _mm512_cvtepi32_epi8(_mm512_srli_epi32(slot, 24)));
    }
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 small = _mm512_cmplt_epu32_mask(states[v], limit);
      const __m512i words = _mm512_cvtepu16_epi32(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reader->words + position)));
      const __m512i refill = _mm512_maskz_expand_epi32(small, words);
      states[v] = _mm512_mask_or_epi32(states[v], small, _mm512_slli_epi32(states[v], 16), refill);
      position += static_cast<std::size_t>(__builtin_popcount(small));
    }
    if (position > reader->count) {
      good = false;
      break;
    }
  }
  for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(reader->states.data() + 16 * v, states[v]);
  reader->position = position;
  return good && DecodeRansScalar(reader, tables, whole, count, symbols);
}

template <>
QUARRY_KERNEL bool DecodeRounds<8>(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                                   std::uint8_t* symbols) {
  return DecodeWideRounds<4>(reader, tables, count, symbols);
}

template <>
QUARRY_KERNEL bool DecodeRounds<4>(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                                   std::uint8_t* symbols) {
  return DecodeWideRounds<2>(reader, tables, count, symbols);
}

}  // namespace

#include "quarry/codec/interpolate/kernels_rounds.inl"
#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("avx512");
  return kernels;
}

}  // namespace quarry::interpolate::avx512

#endif
