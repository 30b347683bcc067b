// Shared by AVX2 and AVX-512.

namespace {

/// For every set of lanes that need a word: which of the next words goes to which lane.
struct WordOrder {
  alignas(32) std::uint8_t lanes[256][8];
};

constexpr WordOrder MakeWordOrder() {
  WordOrder order{};
  for (unsigned set = 0; set < 256; ++set) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) order.lanes[set][lane] = (set >> lane & 1) != 0 ? next++ : 0;
  }
  return order;
}

constexpr WordOrder kWordOrder = MakeWordOrder();

/// kVectors vectors of eight lanes.
template <int kVectors>
QUARRY_KERNEL bool DecodeRounds(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                                std::uint8_t* symbols) {
  constexpr std::size_t kLanes = 8 * kVectors;
  const __m256i low = _mm256_set1_epi32((1 << reader->bits) - 1);
  const __m128i shift = _mm_cvtsi32_si128(reader->bits);
  const __m256i twelve = _mm256_set1_epi32(0xfff);
  const __m256i one = _mm256_set1_epi32(1);
  // Byte 3 of every 32-bit slot, gathered into the first four bytes of each half.
  const __m256i top_bytes = _mm256_setr_epi8(3, 7, 11, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3,
                                             7, 11, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  __m256i states[kVectors];
  for (int v = 0; v < kVectors; ++v)
    states[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reader->states.data() + 8 * v));
  const auto* slots = reinterpret_cast<const int*>(reader->slots);
  std::size_t position = reader->position;
  const std::size_t whole = count / kLanes * kLanes;
  bool good = true;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (int v = 0; v < kVectors; ++v) {
      const __m256i table = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables + i + 8 * static_cast<std::size_t>(v))));
      const __m256i index =
          _mm256_add_epi32(_mm256_sll_epi32(table, shift), _mm256_and_si256(states[v], low));
      const __m256i slot = _mm256_i32gather_epi32(slots, index, 4);
      const __m256i frequency = _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(slot, 12), twelve), one);
      states[v] = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srl_epi32(states[v], shift)),
                                   _mm256_and_si256(slot, twelve));
      const __m256i packed = _mm256_shuffle_epi8(slot, top_bytes);
      const std::uint32_t first = static_cast<std::uint32_t>(_mm256_extract_epi32(packed, 0));
      const std::uint32_t second = static_cast<std::uint32_t>(_mm256_extract_epi32(packed, 4));
      const std::uint64_t eight = first | static_cast<std::uint64_t>(second) << 32;
      __builtin_memcpy(symbols + i + 8 * v, &eight, 8);
    }
    for (int v = 0; v < kVectors; ++v) {
      // States are unsigned: those below 2^15 have no higher bits, so the sign does not matter.
      const __m256i small = _mm256_cmpeq_epi32(_mm256_srli_epi32(states[v], 15), _mm256_setzero_si256());
      const auto set = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(small)));
      const __m256i words =
          _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(reader->words + position)));
      const __m256i order =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kWordOrder.lanes[set])));
      const __m256i refilled =
          _mm256_or_si256(_mm256_slli_epi32(states[v], 16), _mm256_permutevar8x32_epi32(words, order));
      states[v] = _mm256_blendv_epi8(states[v], refilled, small);
      position += static_cast<std::size_t>(__builtin_popcount(set));
    }
    if (position > reader->count) {
      good = false;
      break;
    }
  }
  for (int v = 0; v < kVectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(reader->states.data() + 8 * v), states[v]);
  reader->position = position;
  return good && DecodeRansScalar(reader, tables, whole, count, symbols);
}

/// Eight indices at a time: the places of their low bits are running sums of at most 176, so one
/// multiplication computes all eight.
QUARRY_KERNEL std::size_t UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables,
                                    const std::uint8_t* shifts, const std::byte* bits, std::size_t position,
                                    std::size_t limit, std::size_t count, std::int32_t* indices) {
  const __m128i shift_of = _mm_loadu_si128(reinterpret_cast<const __m128i*>(shifts));
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i seven = _mm256_set1_epi32(7);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    if (position > limit) return position;
    const __m256i symbol =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols + i)));
    const __m256i sign = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(symbol, one));
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi32(symbol, 1), sign);
    const __m128i widths =
        _mm_shuffle_epi8(shift_of, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables + i)));
    const auto width = static_cast<std::uint64_t>(_mm_cvtsi128_si64(widths));
    if (width == 0) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices + i), high);
      continue;
    }
    const std::uint64_t sums = width * 0x0101010101010101u;
    const __m256i place =
        _mm256_add_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(sums - width))),
                         _mm256_set1_epi32(static_cast<int>(position % 8)));
    const __m256i window = _mm256_i32gather_epi32(reinterpret_cast<const int*>(bits + position / 8),
                                                  _mm256_srli_epi32(place, 3), 1);
    const __m256i shift = _mm256_cvtepu8_epi32(widths);
    const __m256i range = _mm256_sllv_epi32(one, shift);
    const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(window, _mm256_and_si256(place, seven)),
                                         _mm256_sub_epi32(range, one));
    const __m256i centred = _mm256_sub_epi32(low, _mm256_srli_epi32(range, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices + i),
                        _mm256_add_epi32(_mm256_sllv_epi32(high, shift), centred));
    position += sums >> 56;
  }
  return UnfoldLowScalar(symbols + whole, tables + whole, shifts, bits, position, limit, count - whole,
                         indices + whole);
}

}  // namespace
