#include "quarry/codec/repeats/repeats.h"

#include <algorithm>
#include <cstring>

namespace quarry::repeats {
namespace {

constexpr int kAxisShift = 3;
constexpr std::uint8_t kMask = 0x40;
constexpr std::uint8_t kNoBits = 0x87;

}  // namespace

std::byte ToByte(const Repeats& repeats) {
  std::uint8_t bits = repeats.mask ? kMask : 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (repeats.along[axis]) bits |= static_cast<std::uint8_t>(1U << (kAxisShift + axis));
  }
  return std::byte{bits};
}

std::optional<Repeats> FromByte(std::byte first) {
  const auto bits = std::to_integer<std::uint8_t>(first);
  if (bits == 0 || (bits & kNoBits) != 0) return std::nullopt;
  Repeats repeats;
  for (std::size_t axis = 0; axis < 3; ++axis) repeats.along[axis] = (bits >> (kAxisShift + axis) & 1) != 0;
  repeats.mask = (bits & kMask) != 0;
  return repeats;
}

Index3 CodedShape(const Repeats& repeats, const Index3& shape) {
  Index3 coded = shape;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (repeats.along[axis]) coded[axis] = 1;
  }
  return coded;
}

Bytes FirstPlanes(const Repeats& repeats, ByteSpan samples, const Index3& shape, std::size_t size) {
  const Index3 coded = CodedShape(repeats, shape);
  const std::size_t row = static_cast<std::size_t>(coded[0]) * size;
  Bytes first(static_cast<std::size_t>(Volume(coded)) * size);
  std::byte* to = first.data();
  for (std::int64_t z = 0; z < coded[2]; ++z) {
    for (std::int64_t y = 0; y < coded[1]; ++y, to += row)
      std::memcpy(to, samples.data() + static_cast<std::size_t>((z * shape[1] + y) * shape[0]) * size, row);
  }
  return first;
}

void Repeat(const Repeats& repeats, ByteSpan coded, const Index3& shape, std::size_t size,
            const SamplePlace& place) {
  const Index3 from = CodedShape(repeats, shape);
  const std::size_t row_bytes = static_cast<std::size_t>(shape[0]) * size;
  Bytes repeated(repeats.along[0] ? row_bytes : 0);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::int64_t row = (repeats.along[2] ? 0 : z * from[1]) + (repeats.along[1] ? 0 : y);
      const std::byte* samples = coded.data() + static_cast<std::size_t>(row * from[0]) * size;
      if (repeats.along[0]) {
        std::memcpy(repeated.data(), samples, size);
        // The copies double each time.
        for (std::size_t done = size; done < row_bytes; done *= 2)
          std::memcpy(&repeated[done], repeated.data(), std::min(done, row_bytes - done));
        samples = repeated.data();
      }
      place.WriteRow(y, z, samples, row_bytes);
    }
  }
  place.EndWriting();
}

Bytes Repeat(const Repeats& repeats, ByteSpan coded, const Index3& shape, std::size_t size) {
  Bytes samples(static_cast<std::size_t>(Volume(shape)) * size);
  Repeat(repeats, coded, shape, size, SamplePlace::Dense(samples.data(), shape, size));
  return samples;
}

}  // namespace quarry::repeats
