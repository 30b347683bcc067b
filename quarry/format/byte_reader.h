#pragma once

#include <cstdint>

#include "quarry/base/endian.h"

namespace quarry::format {

/// Takes values off the front of a table or of records. A missing or impossible value reads as 0, and is
/// remembered.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }
  void Fail() { ok_ = false; }

  unsigned Byte() {
    const ByteSpan byte = Take(1);
    return byte.empty() ? 0 : std::to_integer<unsigned>(byte[0]);
  }

  std::uint64_t Varint(std::uint64_t most) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = Byte();
      const std::uint64_t part = (byte & 127) << shift;
      if (part >> shift != (byte & 127)) break;
      value |= part;
      if (byte < 128 && value <= most) return value;
    }
    ok_ = false;
    return 0;
  }

  /// The leading bytes of a number, most significant first, at most so many.
  std::uint64_t Bits(unsigned size, unsigned most) {
    ok_ = ok_ && size <= most;
    std::uint64_t bits = 0;
    const ByteSpan bytes = Take(ok_ ? size : 0);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bits |= std::to_integer<std::uint64_t>(bytes[i]) << (56 - 8 * i);
    return bits;
  }

  template <typename T>
  T Number() {
    const ByteSpan bytes = Take(sizeof(T));
    return bytes.empty() ? T{} : GetLittleEndian<T>(bytes.data());
  }

  ByteSpan Take(std::size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const ByteSpan taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

 private:
  ByteSpan bytes_;
  bool ok_ = true;
};

}  // namespace quarry::format
