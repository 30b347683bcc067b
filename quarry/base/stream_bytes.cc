#include "quarry/base/stream_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace quarry {

#if defined(__SSE2__)

namespace {

constexpr std::size_t kLine = 64;

/// A whole line of the cache, which the processor writes as one.
void StreamLine(std::byte* to, const std::byte* from) {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* line = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(line, a);
  _mm_stream_si128(line + 1, b);
  _mm_stream_si128(line + 2, c);
  _mm_stream_si128(line + 3, d);
}

}  // namespace

void StreamBytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t before = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = std::min(before, bytes);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) StreamLine(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
}

void EndStreaming() { _mm_sfence(); }

#else

void StreamBytes(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void EndStreaming() {}

#endif

}  // namespace quarry
