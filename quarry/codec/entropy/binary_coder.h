#pragma once

#include <array>
#include <cstdint>

#include "quarry/base/endian.h"

/// Adaptive binary arithmetic coding: slower per symbol than a table coder (a few nanoseconds a bit), but
/// without tables to send. For small arrays and for those that are nearly all zero.
namespace quarry::entropy {

/// Running estimate of the probability that a bit is 1. It starts by counting and ends as an exponential
/// average.
class AdaptiveBit {
 public:
  /// Probability of a 1, in 1/65536; never 0 or 1.
  std::uint32_t probability() const { return probability_; }

  void Update(bool bit) {
    const std::int32_t target = bit ? 65535 - kMargin : kMargin;
    probability_ = static_cast<std::uint16_t>(
        probability_ + (target - probability_) * static_cast<std::int32_t>(kRates[seen_]) / 32768);
    if (seen_ + 1u < kRates.size()) ++seen_;
  }

 private:
  static constexpr std::int32_t kMargin = 24;
  // 1 / (n + 2) in 1/32768: the product above stays below 2^31.
  static constexpr std::array<std::uint16_t, 96> kRates = [] {
    std::array<std::uint16_t, 96> rates{};
    for (std::uint32_t n = 0; n < rates.size(); ++n) rates[n] = static_cast<std::uint16_t>(32768u / (n + 2u));
    return rates;
  }();

  std::uint16_t probability_ = 32768;
  std::uint16_t seen_ = 0;  // 16 bits like the other, so without padding: thousands are initialised at once
};

/// Carry-less range coder with 32-bit range (the scheme of LZMA): bits in, bytes out.
class BinaryEncoder {
 public:
  explicit BinaryEncoder(Bytes* out) : out_(out), begin_(out->size()) {}

  void Encode(bool bit, AdaptiveBit* model) {
    Narrow(bit, model->probability());
    model->Update(bit);
  }
  /// A bit that is as likely 0 as 1.
  void EncodeEven(bool bit) { Narrow(bit, 32768); }
  /// `count` even bits of `value`, highest first.
  void EncodeBits(std::uint64_t value, int count) {
    for (int i = count - 1; i >= 0; --i) EncodeEven((value >> i & 1) != 0);
  }

  /// Writes the pending bits, without trailing zero bytes: the decoder supplies them.
  void Finish() {
    for (int i = 0; i < 5; ++i) ShiftLow();
    while (out_->size() > begin_ && out_->back() == std::byte{0}) out_->pop_back();
  }

 private:
  void Narrow(bool bit, std::uint32_t probability) {
    const std::uint32_t bound = (range_ >> 16) * probability;
    if (bit) {
      range_ = bound;
    } else {
      low_ += bound;
      range_ -= bound;
    }
    while (range_ < kTop) {
      range_ <<= 8;
      ShiftLow();
    }
  }

  void ShiftLow() {
    if (low_ < 0xff000000u || low_ > 0xffffffffu) {
      const auto carry = static_cast<std::uint8_t>(low_ >> 32);
      // The first byte of the scheme is always zero: it is not written.
      if (started_) out_->push_back(static_cast<std::byte>(cache_ + carry));
      for (; pending_ > 0; --pending_) out_->push_back(static_cast<std::byte>(0xff + carry));
      started_ = true;
      cache_ = static_cast<std::uint8_t>(low_ >> 24);
    } else {
      ++pending_;
    }
    low_ = (low_ & 0x00ffffff) << 8;
  }

  static constexpr std::uint32_t kTop = 1u << 24;

  Bytes* out_;
  std::size_t begin_;
  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0xffffffff;
  std::uint8_t cache_ = 0;
  std::uint64_t pending_ = 0;
  bool started_ = false;
};

/// Reads what BinaryEncoder wrote. Any bytes decode to some bits: past the end it reads zeros.
class BinaryDecoder {
 public:
  explicit BinaryDecoder(ByteSpan bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | Next();
  }

  bool Decode(AdaptiveBit* model) {
    const std::uint32_t bound = (range_ >> 16) * model->probability();
    const bool bit = code_ < bound;
    // A branch: the processor mostly predicts the bit and does not wait for the earlier ones.
    if (bit) {
      range_ = bound;
    } else {
      code_ -= bound;
      range_ -= bound;
    }
    while (range_ < kTop) Refill();
    model->Update(bit);
    return bit;
  }
  bool DecodeEven() {
    const std::uint32_t bound = (range_ >> 16) << 15;
    // No branch: the bit is unpredictable.
    const std::uint32_t zero = code_ < bound ? 0 : ~std::uint32_t{0};
    code_ -= bound & zero;
    range_ = bound + ((range_ - 2 * bound) & zero);
    if (range_ < kTop) Refill();  // it had eight bits more than that before it was halved
    return zero == 0;
  }
  std::uint64_t DecodeBits(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 1 | static_cast<std::uint64_t>(DecodeEven());
    return value;
  }

 private:
  void Refill() {
    range_ <<= 8;
    code_ = code_ << 8 | Next();
  }

  std::uint32_t Next() {
    return position_ < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[position_++]) : 0;
  }

  static constexpr std::uint32_t kTop = 1u << 24;

  ByteSpan bytes_;
  std::size_t position_ = 0;
  std::uint32_t code_ = 0;
  std::uint32_t range_ = 0xffffffff;
};

/// One interface for writing and reading, so that each model is written once: a function takes a bit and
/// returns the bit that was written or read. A reader ignores the argument.
struct BitWriter {
  BinaryEncoder* encoder;
  bool Even(bool bit) const {
    encoder->EncodeEven(bit);
    return bit;
  }
  /// The lowest `count` bits of `value`.
  std::uint32_t EvenBits(std::uint32_t value, int count) const {
    encoder->EncodeBits(value, count);
    return value & ((1u << count) - 1);
  }
  bool Adaptive(bool bit, AdaptiveBit* model) const {
    encoder->Encode(bit, model);
    return bit;
  }
};

struct BitReader {
  BinaryDecoder* decoder;
  bool Even(bool /*bit*/) const { return decoder->DecodeEven(); }
  std::uint32_t EvenBits(std::uint32_t /*value*/, int count) const {
    return static_cast<std::uint32_t>(decoder->DecodeBits(count));
  }
  bool Adaptive(bool /*bit*/, AdaptiveBit* model) const { return decoder->Decode(model); }
};

}  // namespace quarry::entropy
