// Shared by AVX2 and AVX-512.

namespace {

/// For every set of lanes that need a word: where the bytes of its word are among the next sixteen, 0x80
/// where there is none.
struct WordOrder {
  alignas(32) std::uint8_t bytes[256][32];
};

constexpr WordOrder MakeWordOrder() {
  WordOrder order{};
  for (unsigned set = 0; set < 256; ++set) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      std::uint8_t* bytes = order.bytes[set] + 4 * lane;
      const bool needs = (set >> lane & 1) != 0;
      for (unsigned b = 0; b < 4; ++b) bytes[b] = needs && b < 2 ? next++ : 0x80;
    }
  }
  return order;
}

constexpr WordOrder kWordOrder = MakeWordOrder();

/// The slot at a place, in all lanes.
QUARRY_KERNEL inline __m256i SlotAt(const std::uint32_t* slots, const std::uint32_t* place) {
  return _mm256_set1_epi32(static_cast<int>(slots[*place]));
}

/// The slots at eight places. Eight loads: a gather takes nearly twice as long.
/// @param places  in memory, where loads find them sooner than in a vector
QUARRY_KERNEL inline __m256i EightSlots(const std::uint32_t* slots, const std::uint32_t* places) {
  const __m256i first = _mm256_blend_epi32(SlotAt(slots, places), SlotAt(slots, places + 1), 0x02);
  const __m256i second = _mm256_blend_epi32(SlotAt(slots, places + 2), SlotAt(slots, places + 3), 0x08);
  const __m256i third = _mm256_blend_epi32(SlotAt(slots, places + 4), SlotAt(slots, places + 5), 0x20);
  const __m256i fourth = _mm256_blend_epi32(SlotAt(slots, places + 6), SlotAt(slots, places + 7), 0x80);
  return _mm256_blend_epi32(_mm256_blend_epi32(first, second, 0x0c), _mm256_blend_epi32(third, fourth, 0xc0),
                            0xf0);
}

/// The lowest bytes of eight numbers below 256.
QUARRY_KERNEL inline void StoreEight(const __m256i* symbols, std::uint8_t* out) {
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(symbols[0]), _mm256_extracti128_si256(symbols[0], 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(words, words));
}

/// Stores four times eight symbols. Packing keeps to the halves of a vector; the last step puts their parts
/// in order.
QUARRY_KERNEL inline void StoreFourTimesEight(const __m256i* symbols, std::uint8_t* out) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(symbols[0], symbols[1]),
                                            _mm256_packus_epi32(symbols[2], symbols[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
}

/// kVectors vectors of eight lanes.
template <int kVectors>
QUARRY_KERNEL bool DecodeRounds(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                                std::uint8_t* symbols) {
  constexpr std::size_t kLanes = 8 * kVectors;
  const __m256i low = _mm256_set1_epi32((1 << reader->bits) - 1);
  const __m256i shift = _mm256_set1_epi32(reader->bits);
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i twelve = _mm256_set1_epi32(0xfff);
  const __m256i sixteen = _mm256_set1_epi32(16);
  __m256i states[kVectors];
  for (int v = 0; v < kVectors; ++v)
    states[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reader->states.data() + 8 * v));
  const std::uint32_t* slots = reader->slots;
  std::size_t position = reader->position;
  const std::size_t whole = count / kLanes * kLanes;
  bool good = true;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    alignas(32) std::uint32_t places[kLanes];
    for (int v = 0; v < kVectors; ++v) {
      const __m256i table = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables + i + 8 * static_cast<std::size_t>(v))));
      _mm256_store_si256(reinterpret_cast<__m256i*>(places + 8 * v),
                         _mm256_add_epi32(_mm256_sllv_epi32(table, shift), _mm256_and_si256(states[v], low)));
    }
    __m256i decoded[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const __m256i slot = EightSlots(slots, places + 8 * v);
      const __m256i frequency = _mm256_add_epi32(_mm256_and_si256(slot, twelve), one);
      const __m256i offset = _mm256_and_si256(_mm256_srli_epi32(slot, 12), twelve);
      states[v] =
          _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srlv_epi32(states[v], shift)), offset);
      decoded[v] = _mm256_srli_epi32(slot, 24);
    }
    if constexpr (kVectors < 4) {
      for (int v = 0; v < kVectors; ++v) StoreEight(decoded + v, symbols + i + 8 * v);
    } else {
      for (int v = 0; v < kVectors; v += 4) StoreFourTimesEight(decoded + v, symbols + i + 8 * v);
    }
    for (int v = 0; v < kVectors; ++v) {
      // States are unsigned: those below 2^15 have no higher bits, so the sign does not matter.
      const __m256i small = _mm256_cmpeq_epi32(_mm256_srli_epi32(states[v], 15), _mm256_setzero_si256());
      const auto set = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(small)));
      const __m256i words = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(reader->words + position)));
      const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(kWordOrder.bytes[set]));
      const __m256i shifted = _mm256_sllv_epi32(states[v], _mm256_and_si256(small, sixteen));
      states[v] = _mm256_or_si256(shifted, _mm256_shuffle_epi8(words, order));
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

/// For every set of lanes that give up a word: which of the words of eight lanes become the last ones, in
/// their order.
struct WordChoice {
  alignas(16) std::uint8_t bytes[256][16];
};

constexpr WordChoice MakeWordChoice() {
  WordChoice choice{};
  for (unsigned set = 0; set < 256; ++set) {
    unsigned place = 8;
    for (unsigned lane = 8; lane-- > 0;) {
      if ((set >> lane & 1) == 0) continue;
      --place;
      choice.bytes[set][2 * place] = static_cast<std::uint8_t>(2 * lane);
      choice.bytes[set][2 * place + 1] = static_cast<std::uint8_t>(2 * lane + 1);
    }
  }
  return choice;
}

constexpr WordChoice kWordChoice = MakeWordChoice();

/// The codes of symbols 0, 2, 4 and 6. Four loads: a gather takes twice as long.
QUARRY_KERNEL inline __m256i EveryOtherCode(const entropy::SymbolCode* codes,
                                            const entropy::CodedSymbol* symbols) {
  const auto* first = reinterpret_cast<const double*>(codes + symbols[0]);
  const auto* second = reinterpret_cast<const double*>(codes + symbols[2]);
  const auto* third = reinterpret_cast<const double*>(codes + symbols[4]);
  const auto* fourth = reinterpret_cast<const double*>(codes + symbols[6]);
  const __m128d low = _mm_loadh_pd(_mm_load_sd(first), second);
  const __m128d high = _mm_loadh_pd(_mm_load_sd(third), fourth);
  return _mm256_castpd_si256(_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1));
}

/// kVectors vectors of eight lanes. Codes come in two halves, those of even and those of odd lanes: products
/// of 64 bits need their room.
template <int kVectors>
QUARRY_KERNEL void EncodeRounds(entropy::RansWriter* writer, const entropy::CodedSymbol* symbols,
                                std::size_t count) {
  constexpr std::size_t kLanes = 8 * kVectors;
  constexpr int kOdd = 0xaa;
  const std::size_t whole = count / kLanes * kLanes;
  EncodeRansScalar(writer, symbols, whole, count);
  const __m128i frequency_shift = _mm_cvtsi32_si128(31 - writer->bits);
  const __m256i largest = _mm256_set1_epi32(0x7fffffff);
  const __m256i complements = _mm256_set1_epi32(0x7ff);
  const __m256i biases = _mm256_set1_epi32(0x7fff);
  const __m256i sixteen = _mm256_set1_epi32(16);
  // The lower halves of eight states, in the lower half of each half.
  const __m256i lower = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4, 5,
                                         8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
  std::uint16_t* next = writer->next;
  __m256i states[kVectors];
  for (int v = 0; v < kVectors; ++v)
    states[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(writer->states.data() + 8 * v));
  for (std::size_t i = whole; i > 0; i -= kLanes) {
    for (int v = kVectors; v-- > 0;) {
      const entropy::CodedSymbol* eight = symbols + i - kLanes + 8 * static_cast<std::size_t>(v);
      const __m256i even = EveryOtherCode(writer->codes, eight);
      const __m256i odd = EveryOtherCode(writer->codes, eight + 1);
      const __m256i upper = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, kOdd);
      const __m256i complement = _mm256_and_si256(upper, complements);
      const __m256i bias = _mm256_and_si256(_mm256_srli_epi32(upper, entropy::kBiasAt - 32), biases);

      const __m256i gives_up = _mm256_cmpgt_epi32(
          states[v], _mm256_sub_epi32(largest, _mm256_sll_epi32(complement, frequency_shift)));
      const auto set = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(gives_up)));
      const __m256i words = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(states[v], lower), 0x08);
      const __m128i choice = _mm_load_si128(reinterpret_cast<const __m128i*>(kWordChoice.bytes[set]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(next - 8),
                       _mm_shuffle_epi8(_mm256_castsi256_si128(words), choice));
      next -= __builtin_popcount(set);

      const __m256i left = _mm256_srlv_epi32(states[v], _mm256_and_si256(gives_up, sixteen));
      const __m256i even_quotient =
          _mm256_srlv_epi64(_mm256_mul_epu32(left, even), _mm256_srli_epi64(even, entropy::kShiftAt));
      const __m256i odd_quotient = _mm256_srlv_epi64(_mm256_mul_epu32(_mm256_srli_epi64(left, 32), odd),
                                                     _mm256_srli_epi64(odd, entropy::kShiftAt));
      const __m256i quotient = _mm256_blend_epi32(even_quotient, _mm256_slli_epi64(odd_quotient, 32), kOdd);
      states[v] = _mm256_add_epi32(_mm256_add_epi32(left, bias), _mm256_mullo_epi32(quotient, complement));
    }
  }
  for (int v = 0; v < kVectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(writer->states.data() + 8 * v), states[v]);
  writer->next = next;
}

QUARRY_KERNEL void EncodeRans(entropy::RansWriter* writer, const entropy::CodedSymbol* symbols,
                              std::size_t count) {
  switch (writer->lanes) {
    case entropy::kMostLanes:
      return EncodeRounds<8>(writer, symbols, count);
    case entropy::kManyLanes:
      return EncodeRounds<4>(writer, symbols, count);
    case entropy::kFewLanes:
      return EncodeRounds<1>(writer, symbols, count);
    default:
      return EncodeRansScalar(writer, symbols, 0, count);
  }
}

/// 32 activities at a time. Most thresholds fit into bytes, which compare twice as many.
QUARRY_KERNEL void Classify(const std::uint16_t* activity, std::size_t count,
                            std::span<const std::uint16_t> thresholds, std::uint8_t* out) {
  __m256i limits[kMaxTables - 1];
  std::size_t in_bytes = 0;
  for (std::size_t k = 0; k < thresholds.size(); ++k) {
    if (thresholds[k] <= 255) ++in_bytes;
    limits[k] = thresholds[k] <= 255 ? _mm256_set1_epi8(static_cast<char>(thresholds[k]))
                                     : _mm256_set1_epi16(static_cast<short>(thresholds[k]));
  }
  const __m256i most = _mm256_set1_epi16(255);
  const std::size_t whole = count / 32 * 32;
  for (std::size_t i = 0; i < whole; i += 32) {
    const auto* from = reinterpret_cast<const __m256i*>(activity + i);
    const __m256i first = _mm256_loadu_si256(from);
    const __m256i second = _mm256_loadu_si256(from + 1);
    __m256i above_first = _mm256_setzero_si256();
    __m256i above_second = _mm256_setzero_si256();
    for (std::size_t k = in_bytes; k < thresholds.size(); ++k) {
      above_first =
          _mm256_sub_epi16(above_first, _mm256_cmpeq_epi16(_mm256_max_epu16(first, limits[k]), first));
      above_second =
          _mm256_sub_epi16(above_second, _mm256_cmpeq_epi16(_mm256_max_epu16(second, limits[k]), second));
    }
    // Packing interleaves halves; so does packing the activities.
    __m256i table = _mm256_packus_epi16(above_first, above_second);
    const __m256i bytes = _mm256_packus_epi16(_mm256_min_epu16(first, most), _mm256_min_epu16(second, most));
    for (std::size_t k = 0; k < in_bytes; ++k)
      table = _mm256_sub_epi8(table, _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, limits[k]), bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute4x64_epi64(table, 0xd8));
  }
  ClassifyScalar(activity + whole, count - whole, thresholds, out + whole);
}

/// A byte of ones for each of eight samples that is missing.
QUARRY_KERNEL inline __m128i MissingOfEight(const std::uint8_t* valid) {
  return _mm_cmpeq_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(valid)), _mm_setzero_si128());
}

/// The others, a bit each.
QUARRY_KERNEL inline std::uint32_t ValidSet(__m128i missing) {
  return ~static_cast<std::uint32_t>(_mm_movemask_epi8(missing)) & 0xff;
}

QUARRY_KERNEL std::size_t Compact(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                                  std::uint8_t* out) {
  const std::size_t whole = count / 8 * 8;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::uint32_t set = ValidSet(MissingOfEight(valid + i));
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + i));
    const __m128i order = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLanesOfSet[set].data()));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + kept), _mm_shuffle_epi8(eight, order));
    kept += static_cast<std::size_t>(__builtin_popcount(set));
  }
  return kept + CompactScalar(bytes + whole, valid + whole, count - whole, out + kept);
}

QUARRY_KERNEL void Expand(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                          std::uint8_t fill, std::uint8_t* out) {
  const __m128i filled = _mm_set1_epi8(static_cast<char>(fill));
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const __m128i missing = MissingOfEight(valid + i);
    const std::uint32_t set = ValidSet(missing);
    const __m128i order = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kRankInSet[set].data()));
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i),
                     _mm_blendv_epi8(_mm_shuffle_epi8(eight, order), filled, missing));
    bytes += __builtin_popcount(set);
  }
  ExpandScalar(bytes, valid + whole, count - whole, fill, out + whole);
}

/// Eight windows from the bits of `position` on, each beginning with the low bits of its index.
/// @param before  bits before each of them, in bytes
QUARRY_KERNEL inline __m256i WindowsNearby(const std::byte* bits, std::size_t position, __m128i before) {
  std::uint64_t word;
  __builtin_memcpy(&word, bits + position / 8, 8);
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(word >> (position % 8)));
  const __m256i first = _mm256_srlv_epi64(all, _mm256_cvtepu8_epi64(before));
  const __m256i second = _mm256_srlv_epi64(all, _mm256_cvtepu8_epi64(_mm_srli_si128(before, 4)));
  const __m256 lower = _mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(lower), 0xd8);
}

/// The same where they may be anywhere in 23 bytes.
QUARRY_KERNEL inline __m256i WindowsApart(const std::byte* bits, std::size_t position, __m128i before) {
  const __m256i place =
      _mm256_add_epi32(_mm256_cvtepu8_epi32(before), _mm256_set1_epi32(static_cast<int>(position % 8)));
  const __m256i window = _mm256_i32gather_epi32(reinterpret_cast<const int*>(bits + position / 8),
                                                _mm256_srli_epi32(place, 3), 1);
  return _mm256_srlv_epi32(window, _mm256_and_si256(place, _mm256_set1_epi32(7)));
}

/// Eight indices at a time: the places of their low bits are running sums of at most 176, so one
/// multiplication computes all eight.
QUARRY_KERNEL void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count,
                             LowBits* low_bits, std::int32_t* indices) {
  const __m128i width_of = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low_bits->widths.data()));
  const __m256i one = _mm256_set1_epi32(1);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::size_t position = low_bits->position;
    if (position > low_bits->limit) return;
    const __m256i symbol =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols + i)));
    const __m256i sign = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(symbol, one));
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi32(symbol, 1), sign);
    const __m128i widths =
        _mm_shuffle_epi8(width_of, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables + i)));
    const auto width = static_cast<std::uint64_t>(_mm_cvtsi128_si64(widths));
    if (width == 0) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices + i), high);
      continue;
    }
    const std::uint64_t sums = width * 0x0101010101010101u;
    const __m128i before = _mm_cvtsi64_si128(static_cast<long long>(sums - width));
    // A word has at least 57 bits from any position on.
    const __m256i window = sums >> 56 <= 57 ? WindowsNearby(low_bits->bytes, position, before)
                                            : WindowsApart(low_bits->bytes, position, before);
    const __m256i shift = _mm256_cvtepu8_epi32(widths);
    const __m256i range = _mm256_sllv_epi32(one, shift);
    const __m256i low = _mm256_and_si256(window, _mm256_sub_epi32(range, one));
    const __m256i centred = _mm256_sub_epi32(low, _mm256_srli_epi32(range, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices + i),
                        _mm256_add_epi32(_mm256_sllv_epi32(high, shift), centred));
    low_bits->position = position + (sums >> 56);
  }
  UnfoldLowScalar(symbols + whole, tables + whole, count - whole, low_bits, indices + whole);
}

/// Eight indices at a time; the shifts of their tables by a shuffle of bytes.
QUARRY_KERNEL bool FoldLow(const std::int32_t* indices, const std::uint8_t* tables, const FoldTables& fold,
                           std::size_t count, entropy::CodedSymbol* symbols, std::uint32_t* low) {
  const __m128i shift_of = _mm_loadu_si128(reinterpret_cast<const __m128i*>(fold.shifts.data()));
  const __m128i limit_of = _mm_loadu_si128(reinterpret_cast<const __m128i*>(fold.limits.data()));
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i byte = _mm256_set1_epi32(0xff);
  __m256i above = _mm256_setzero_si256();
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const __m128i table = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables + i));
    const __m256i shift = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(shift_of, table));
    const __m256i range = _mm256_sllv_epi32(one, shift);
    const __m256i shifted = _mm256_add_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices + i)), _mm256_srli_epi32(range, 1));
    const __m256i high = _mm256_srav_epi32(shifted, shift);
    const __m256i symbol = _mm256_xor_si256(_mm256_slli_epi32(high, 1), _mm256_srai_epi32(high, 31));
    const __m256i limit = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(limit_of, table));
    above = _mm256_or_si256(above, _mm256_xor_si256(_mm256_max_epu32(symbol, limit), limit));
    const __m256i coded =
        _mm256_or_si256(_mm256_and_si256(symbol, byte), _mm256_slli_epi32(_mm256_cvtepu8_epi32(table), 8));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(coded, coded), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + i), _mm256_castsi256_si128(packed));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + i),
                        _mm256_and_si256(shifted, _mm256_sub_epi32(range, one)));
  }
  const bool rest_fits =
      FoldLowScalar(indices + whole, tables + whole, fold, count - whole, symbols + whole, low + whole);
  return rest_fits && _mm256_testz_si256(above, above) != 0;
}

}  // namespace
