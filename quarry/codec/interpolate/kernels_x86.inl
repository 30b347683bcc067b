// What AVX2 and AVX-512 share.

namespace {

/// Eight indices at a time: the places of their low bits are running sums of at most 176, so that one
/// multiplication makes all eight.
QUARRY_KERNEL void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, const std::uint8_t* shifts,
                             const std::byte* bits, std::size_t position, std::size_t count,
                             std::int32_t* indices) {
  const __m128i shift_of = _mm_loadu_si128(reinterpret_cast<const __m128i*>(shifts));
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i seven = _mm256_set1_epi32(7);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
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
  UnfoldLowScalar(symbols + whole, tables + whole, shifts, bits, position, count - whole, indices + whole);
}

}  // namespace
