#include "quarry/codec/entropy/planes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quarry/base/per_thread.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/entropy/zstd_frame.h"

namespace quarry::entropy {
namespace {

// A plane begins with a varint: one of these, or (bytes of the zstd frame) + kFrame.
enum PlaneTag : std::uint64_t {
  kZero = 0,      // nothing follows
  kConstant = 1,  // the byte that fills it follows
  kRaw = 2,       // its bytes follow
  kFrame = 3,
};

// A frame must save at least 1/kWorthwhile of a plane; otherwise copying beats decoding.
constexpr std::size_t kWorthwhile = 256;
// Below this many bytes a frame cannot save anything.
constexpr std::size_t kSmallestFrame = 8;

/// Scratch of this thread, one for each purpose; its contents are unset.
template <int purpose>
std::span<std::byte> Scratch(std::size_t bytes) {
  static const PerThread<Bytes> buffers;
  Bytes& buffer = *buffers;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

void AppendPlane(ByteSpan plane, int zstd_level, Bytes* out) {
  const std::byte first = plane.front();
  if (std::all_of(plane.begin(), plane.end(), [first](std::byte byte) { return byte == first; })) {
    PutVarint(first == std::byte{0} ? kZero : kConstant, out);
    if (first != std::byte{0}) out->push_back(first);
    return;
  }
  static const PerThread<Bytes> scratch;
  Bytes& frame = *scratch;
  frame.clear();
  if (plane.size() >= kSmallestFrame) AppendZstdFrame(plane, zstd_level, &frame);
  const bool worthwhile = !frame.empty() && frame.size() + plane.size() / kWorthwhile + 2 < plane.size();
  const ByteSpan body = worthwhile ? ByteSpan(frame) : plane;
  PutVarint(worthwhile ? kFrame + frame.size() : std::uint64_t{kRaw}, out);
  out->insert(out->end(), body.begin(), body.end());
}

Result<ByteSpan> TakeBytes(std::uint64_t count, ByteSpan* payload) {
  if (count > payload->size()) return DataLoss("a plane needs {} bytes and has {}", count, payload->size());
  const ByteSpan taken = payload->first(count);
  *payload = payload->subspan(count);
  return taken;
}

/// Takes a plane off the front of `payload`.
/// @returns the byte of a constant plane, which leaves `plane` unset; otherwise -1
Result<int> ReadPlane(ByteSpan* payload, std::span<std::byte> plane) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t tag, TakeVarint(payload));
  if (tag == kZero) return 0;
  const std::uint64_t size = tag == kConstant ? 1 : tag == kRaw ? plane.size() : tag - kFrame;
  QUARRY_ASSIGN_OR_RETURN(const ByteSpan body, TakeBytes(size, payload));
  if (tag == kConstant) return std::to_integer<int>(body[0]);
  if (tag == kRaw) {
    std::memcpy(plane.data(), body.data(), body.size());
  } else {
    QUARRY_RETURN_IF_ERROR(ReadZstdFrame(body, plane));
  }
  return -1;
}

template <typename Word>
Word LoadWord(const std::byte* words, std::size_t i) {
  Word word;
  std::memcpy(&word, words + i * sizeof(Word), sizeof(Word));
  return word;
}

template <typename Word>
void StoreWord(Word word, std::size_t i, std::byte* words) {
  std::memcpy(words + i * sizeof(Word), &word, sizeof(Word));
}

/// Byte k of every word.
template <typename Word>
void SplitBytes(ByteSpan words, std::size_t k, std::byte* plane) {
  const std::size_t count = words.size() / sizeof(Word);
  for (std::size_t i = 0; i < count; ++i)
    plane[i] = static_cast<std::byte>(LoadWord<Word>(words.data(), i) >> (8 * k));
}

/// Words from their byte planes, one after the other in `planes`.
template <typename Word>
void JoinBytes(const std::byte* planes, std::span<std::byte> words) {
  const std::size_t count = words.size() / sizeof(Word);
  for (std::size_t i = 0; i < count; ++i) {
    Word word = 0;
    for (std::size_t k = 0; k < sizeof(Word); ++k)
      word = static_cast<Word>(word | static_cast<Word>(planes[k * count + i]) << (8 * k));
    StoreWord<Word>(word, i, words.data());
  }
}

/// Transposes an 8x8 matrix of bits, byte r of `rows` being row r.
/// @source Warren, Hacker's Delight, section 7-3
std::uint64_t TransposeBits(std::uint64_t rows) {
  std::uint64_t swap = (rows ^ (rows >> 7)) & 0x00aa00aa00aa00aa;
  rows ^= swap ^ (swap << 7);
  swap = (rows ^ (rows >> 14)) & 0x0000cccc0000cccc;
  rows ^= swap ^ (swap << 14);
  swap = (rows ^ (rows >> 28)) & 0x00000000f0f0f0f0;
  return rows ^ swap ^ (swap << 28);
}

/// The eight bit planes of one byte plane, each ceil(count / 8) bytes, one after the other. Bits that no
/// word has are zero.
void SplitBits(ByteSpan bytes, std::byte* planes) {
  const std::size_t stride = (bytes.size() + 7) / 8;
  for (std::size_t i = 0; i < stride; ++i) {
    std::uint64_t group = 0;
    const std::size_t members = std::min<std::size_t>(8, bytes.size() - 8 * i);
    for (std::size_t m = 0; m < members; ++m)
      group |= std::to_integer<std::uint64_t>(bytes[8 * i + m]) << (8 * m);
    group = TransposeBits(group);
    for (std::size_t k = 0; k < 8; ++k) planes[k * stride + i] = static_cast<std::byte>(group >> (8 * k));
  }
}

void JoinBits(const std::byte* planes, std::span<std::byte> bytes) {
  const std::size_t stride = (bytes.size() + 7) / 8;
  for (std::size_t i = 0; i < stride; ++i) {
    std::uint64_t group = 0;
    for (std::size_t k = 0; k < 8; ++k)
      group |= std::to_integer<std::uint64_t>(planes[k * stride + i]) << (8 * k);
    group = TransposeBits(group);
    const std::size_t members = std::min<std::size_t>(8, bytes.size() - 8 * i);
    for (std::size_t m = 0; m < members; ++m) bytes[8 * i + m] = static_cast<std::byte>(group >> (8 * m));
  }
}

void SwapWordsOnBigEndian(std::size_t word_size, std::span<std::byte> words) {
  if constexpr (std::endian::native == std::endian::little) return;
  for (std::size_t i = 0; i < words.size(); i += word_size)
    std::reverse(words.begin() + static_cast<std::ptrdiff_t>(i),
                 words.begin() + static_cast<std::ptrdiff_t>(i + word_size));
}

template <typename Word>
void AppendTyped(ByteSpan words, PlaneLayout layout, int zstd_level, Bytes* out) {
  const std::size_t count = words.size() / sizeof(Word);
  const std::span<std::byte> plane = Scratch<0>(count);
  for (std::size_t k = 0; k < sizeof(Word); ++k) {
    SplitBytes<Word>(words, k, plane.data());
    if (layout == PlaneLayout::kBytes) {
      AppendPlane(plane, zstd_level, out);
      continue;
    }
    const std::size_t stride = (count + 7) / 8;
    const std::span<std::byte> bits = Scratch<1>(8 * stride);
    SplitBits(plane, bits.data());
    for (std::size_t b = 0; b < 8; ++b) AppendPlane(bits.subspan(b * stride, stride), zstd_level, out);
  }
}

/// Reads one byte plane into `plane`.
Status ReadBytePlane(PlaneLayout layout, ByteSpan* payload, std::span<std::byte> plane) {
  if (layout == PlaneLayout::kBytes) {
    QUARRY_ASSIGN_OR_RETURN(const int fill, ReadPlane(payload, plane));
    if (fill >= 0) std::memset(plane.data(), fill, plane.size());
    return Status::Ok();
  }
  const std::size_t stride = (plane.size() + 7) / 8;
  const std::span<std::byte> bits = Scratch<1>(8 * stride);
  bool all_zero = true;
  for (std::size_t b = 0; b < 8; ++b) {
    QUARRY_ASSIGN_OR_RETURN(const int fill, ReadPlane(payload, bits.subspan(b * stride, stride)));
    if (fill >= 0) std::memset(bits.data() + b * stride, fill, stride);
    all_zero = all_zero && fill == 0;
  }
  if (all_zero) {
    std::memset(plane.data(), 0, plane.size());
  } else {
    JoinBits(bits.data(), plane);
  }
  return Status::Ok();
}

template <typename Word>
Status ReadTyped(PlaneLayout layout, ByteSpan* payload, std::span<std::byte> words) {
  const std::size_t count = words.size() / sizeof(Word);
  if constexpr (sizeof(Word) == 1) return ReadBytePlane(layout, payload, words);
  const std::span<std::byte> planes = Scratch<0>(words.size());
  for (std::size_t k = 0; k < sizeof(Word); ++k)
    QUARRY_RETURN_IF_ERROR(ReadBytePlane(layout, payload, planes.subspan(k * count, count)));
  JoinBytes<Word>(planes.data(), words);
  return Status::Ok();
}

void AppendWords(ByteSpan words, std::size_t word_size, int zstd_level, Bytes* out) {
  const std::span<std::byte> plane = Scratch<0>(words.size());
  std::memcpy(plane.data(), words.data(), words.size());
  SwapWordsOnBigEndian(word_size, plane);
  AppendPlane(plane, zstd_level, out);
}

Status ReadWords(std::size_t word_size, ByteSpan* payload, std::span<std::byte> words) {
  QUARRY_ASSIGN_OR_RETURN(const int fill, ReadPlane(payload, words));
  if (fill >= 0) std::memset(words.data(), fill, words.size());
  SwapWordsOnBigEndian(word_size, words);
  return Status::Ok();
}

Status ReadLayout(PlaneLayout layout, std::size_t word_size, ByteSpan* payload, std::span<std::byte> words) {
  if (layout == PlaneLayout::kWords) return ReadWords(word_size, payload, words);
  switch (word_size) {
    case 1:
      return ReadTyped<std::uint8_t>(layout, payload, words);
    case 2:
      return ReadTyped<std::uint16_t>(layout, payload, words);
    case 4:
      return ReadTyped<std::uint32_t>(layout, payload, words);
    default:
      return ReadTyped<std::uint64_t>(layout, payload, words);
  }
}

}  // namespace

void AppendPlanes(ByteSpan words, std::size_t word_size, PlaneLayout layout, int zstd_level, Bytes* out) {
  if (words.empty()) return;
  out->push_back(static_cast<std::byte>(layout));
  if (layout == PlaneLayout::kWords) {
    AppendWords(words, word_size, zstd_level, out);
    return;
  }
  switch (word_size) {
    case 1:
      return AppendTyped<std::uint8_t>(words, layout, zstd_level, out);
    case 2:
      return AppendTyped<std::uint16_t>(words, layout, zstd_level, out);
    case 4:
      return AppendTyped<std::uint32_t>(words, layout, zstd_level, out);
    default:
      return AppendTyped<std::uint64_t>(words, layout, zstd_level, out);
  }
}

Status TakePlanes(ByteSpan* payload, std::size_t word_size, std::span<std::byte> words) {
  if (words.empty()) return Status::Ok();
  if (payload->empty()) return DataLoss("an array of {} words has no bytes", words.size() / word_size);
  const auto layout = static_cast<PlaneLayout>(payload->front());
  if (layout > PlaneLayout::kWords) return DataLoss("unknown layout {} of planes", static_cast<int>(layout));
  *payload = payload->subspan(1);
  return ReadLayout(layout, word_size, payload, words);
}

}  // namespace quarry::entropy
