#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "quarry/bytes.h"

namespace quarry {

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big,
              "mixed-endian machines are not supported");

/// `value` with its bytes in reverse order.
template <typename T>
requires std::is_arithmetic_v<T> T ByteSwapped(T value) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (std::size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Writes `value` in little-endian order, the order of every number in a Quarry file, to sizeof(T) bytes.
template <typename T>
requires std::is_arithmetic_v<T>
void StoreLittleEndian(T value, std::byte* to) {
  if constexpr (std::endian::native == std::endian::big) value = ByteSwapped(value);
  std::memcpy(to, &value, sizeof(T));
}

/// Appends `value` in this order.
template <typename T>
requires std::is_arithmetic_v<T>
void PutLittleEndian(Bytes* out, T value) {
  // resize and copy: on an insert of a range GCC 12 warns of out-of-bounds writes that do not exist
  const std::size_t end = out->size();
  out->resize(end + sizeof(T));
  StoreLittleEndian(value, out->data() + end);
}

/// Reads a little-endian number; the caller has checked that sizeof(T) bytes are there.
template <typename T>
requires std::is_arithmetic_v<T> T GetLittleEndian(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) value = ByteSwapped(value);
  return value;
}

/// Walks over a byte string of checked length and reads one little-endian number after another.
class LittleEndianReader {
 public:
  explicit LittleEndianReader(const std::byte* bytes) : next_(bytes) {}

  template <typename T>
  T Get() {
    T value = GetLittleEndian<T>(next_);
    next_ += sizeof(T);
    return value;
  }
  void Skip(std::size_t count) { next_ += count; }

 private:
  const std::byte* next_;
};

}  // namespace quarry
