#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "quarry/base/endian.h"

/// Numbers in as many bits as each needs, one after the other. Bits fill bytes from the lowest.
namespace quarry::entropy {

class BitStringWriter {
 public:
  explicit BitStringWriter(Bytes* out) : out_(out) {}

  /// @param value  below 2^count
  void Put(std::uint64_t value, int count) {
    for (; count > kMost; count -= kMost, value >>= kMost) Append(static_cast<std::uint32_t>(value), kMost);
    Append(value, count);
  }

  /// The same for many values, faster.
  /// @param width_of  the bits of value i, at most 25
  /// @param widest    of them
  template <typename WidthOf>
  void PutAll(std::span<const std::uint32_t> values, WidthOf width_of, unsigned widest) {
    PutWholeBytes();
    const std::size_t begin = out_->size();
    out_->resize(begin + values.size() * sizeof(std::uint32_t) + sizeof(std::uint64_t));
    std::byte* next = out_->data() + begin;
    // Registers instead of branches: whole bytes of the store stay, and the rest is stored again.
    std::uint64_t pending = pending_;
    auto held = static_cast<unsigned>(held_);
    const auto put = [&](BitRun run) {
      pending |= run.bits << held;
      held += run.count;
      const std::uint64_t bytes = std::endian::native == std::endian::big ? ByteSwapped(pending) : pending;
      std::memcpy(next, &bytes, sizeof bytes);
      next += held / 8;
      pending >>= held & ~7u;
      held &= 7u;
    };
    const auto two = [&](std::size_t i) {
      const unsigned width = width_of(i);
      return BitRun{values[i] | std::uint64_t{values[i + 1]} << width, width + width_of(i + 1)};
    };
    // As many at a time as fit beside the seven bits that may be held: each put waits for the one before.
    std::size_t i = 0;
    for (; 4 * widest <= kMostBeside && i + 4 <= values.size(); i += 4) {
      const BitRun first = two(i);
      const BitRun second = two(i + 2);
      put({first.bits | second.bits << first.count, first.count + second.count});
    }
    for (; i + 2 <= values.size(); i += 2) put(two(i));
    if (i < values.size()) put({values[i], width_of(i)});
    pending_ = pending;
    held_ = static_cast<int>(held);
    out_->resize(static_cast<std::size_t>(next - out_->data()));
  }

  /// Writes the last bytes. Nothing may be put after it.
  void Finish() {
    PutWholeBytes();
    if (held_ > 0) out_->push_back(static_cast<std::byte>(pending_));
  }

 private:
  struct BitRun {
    std::uint64_t bits;
    unsigned count;
  };

  static constexpr int kMost = 32;             ///< at once
  static constexpr unsigned kMostBeside = 57;  ///< the same, while less than a byte is held

  void PutWholeBytes() {
    for (; held_ >= 8; held_ -= 8, pending_ >>= 8) out_->push_back(static_cast<std::byte>(pending_));
  }

  void Append(std::uint64_t value, int count) {
    pending_ |= value << held_;
    held_ += count;
    if (held_ < kMost) return;
    PutLittleEndian(out_, static_cast<std::uint32_t>(pending_));
    pending_ >>= kMost;
    held_ -= kMost;
  }

  Bytes* out_;
  std::uint64_t pending_ = 0;
  int held_ = 0;
};

/// Any bytes are safe: past the end it reads zeros.
class BitStringReader {
 public:
  explicit BitStringReader(ByteSpan bytes) : bytes_(bytes) {}

  /// @param count  at most 64
  std::uint64_t Take(int count) {
    if (count <= kMost) return TakeFew(count);
    const std::uint64_t low = TakeFew(kMost);
    return low | TakeFew(count - kMost) << kMost;
  }

  /// Whether all bytes were read, and no more.
  bool IsAtEnd() const { return next_ == bytes_.size() && held_ < 8; }

 private:
  static constexpr int kMost = 32;  ///< at once

  std::uint64_t TakeFew(int count) {
    if (held_ < count) Fill(count);
    const std::uint64_t value = pending_ & ((std::uint64_t{1} << count) - 1);
    pending_ >>= count;
    held_ -= count;
    return value;
  }

  void Fill(int least) {
    if (next_ + sizeof(std::uint32_t) <= bytes_.size()) {
      pending_ |= std::uint64_t{GetLittleEndian<std::uint32_t>(bytes_.data() + next_)} << held_;
      next_ += sizeof(std::uint32_t);
      held_ += kMost;
      return;
    }
    for (; held_ < least; held_ += 8, ++next_) {
      if (next_ < bytes_.size()) pending_ |= std::to_integer<std::uint64_t>(bytes_[next_]) << held_;
    }
  }

  ByteSpan bytes_;
  std::size_t next_ = 0;
  std::uint64_t pending_ = 0;
  int held_ = 0;
};

/// One of `count` places, all equally likely: the first ones take one bit less than the others.
struct PlaceCode {
  int bits;               ///< number of the first ones
  std::uint64_t shorter;  ///< how many these are

  /// @param count  from 1 to 2^63
  explicit PlaceCode(std::uint64_t count)
      : bits(static_cast<int>(std::bit_width(count)) - 1), shorter((std::uint64_t{2} << bits) - count) {}

  void Put(std::uint64_t place, BitStringWriter* out) const {
    if (place < shorter) return out->Put(place, bits);
    out->Put((place + shorter) >> 1, bits);
    out->Put((place + shorter) & 1, 1);
  }
  std::uint64_t Take(BitStringReader* in) const {
    const std::uint64_t place = in->Take(bits);
    return place < shorter ? place : (place << 1 | in->Take(1)) - shorter;
  }
};

}  // namespace quarry::entropy
