#pragma once

#include <array>
#include <cstdint>

#include "quarry/codec/binary_coder.h"
#include "quarry/codec/interpolate/contexts.h"

/// Indices as adaptive bits: no tables to send. For small levels, and for those that are nearly all zero.
namespace quarry::interpolate {

/// Flags of groups of samples whose whole neighbourhood is zero: "all zero" or not.
class GroupFlags {
 public:
  static constexpr std::size_t kGroup = 32;

  /// Model of the next flag; tell it the flag with Update.
  AdaptiveBit* model() { return &models_[history_]; }
  void Update(bool all_zero) {
    history_ = static_cast<std::uint8_t>((history_ << 1 | (all_zero ? 1 : 0)) & 3);
  }

 private:
  std::array<AdaptiveBit, 4> models_;
  std::uint8_t history_ = 3;
};

/// Models of one index: is it zero, its sign, how many bits it has, those bits. `Coder` is Writing or Reading
/// of the .cc files: it turns a bit into what was written or read.
class IndexModel {
 public:
  /// Codes an index in its context: the fine bin of its activity. Returns it.
  template <typename Coder>
  std::int32_t Code(Coder& coder, std::int32_t index, std::uint8_t bin) {
    auto& zero = zero_[bin][last_];
    if (coder.Adaptive(index == 0, &zero)) {
      last_ = 0;
      return 0;
    }
    const bool negative = coder.Even(index < 0);
    const std::uint32_t size = static_cast<std::uint32_t>(index < 0 ? -index : index);
    const int length = CodeLength(coder, size == 0 ? 1 : 32 - __builtin_clz(size), bin);
    std::uint32_t value = 1;
    // The bit below the highest is not even: small indices are more frequent.
    for (int bit = length - 2; bit >= 0; --bit) {
      const bool set = (size >> bit & 1) != 0;
      const bool coded = bit == length - 2
                             ? coder.Adaptive(set, &second_[static_cast<std::size_t>(length)][bin])
                             : coder.Even(set);
      value = value << 1 | static_cast<std::uint32_t>(coded);
    }
    last_ = value > 1 ? 2 : 1;
    return negative ? -static_cast<std::int32_t>(value) : static_cast<std::int32_t>(value);
  }

  /// A new band begins.
  void Restart() { last_ = 0; }

 private:
  static constexpr int kMaxLength = 29;

  /// Unary from 1: of few steps, as the context tells the size of what is around.
  template <typename Coder>
  int CodeLength(Coder& coder, int length, std::uint8_t bin) {
    int coded = 1;
    while (coded < kMaxLength &&
           coder.Adaptive(length > coded, &length_[bin][static_cast<std::size_t>(coded)]))
      ++coded;
    return coded;
  }

  std::array<std::array<AdaptiveBit, 3>, kFineBins> zero_;
  std::array<std::array<AdaptiveBit, kMaxLength + 1>, kFineBins> length_;
  std::array<std::array<AdaptiveBit, kFineBins>, kMaxLength + 1> second_;
  std::uint8_t last_ = 0;  ///< 0, 1 or more: the sample before in the same band
};

struct BitWriter {
  BinaryEncoder* encoder;
  bool Even(bool bit) const {
    encoder->EncodeEven(bit);
    return bit;
  }
  bool Adaptive(bool bit, AdaptiveBit* model) const {
    encoder->Encode(bit, model);
    return bit;
  }
};

struct BitReader {
  BinaryDecoder* decoder;
  bool Even(bool /*bit*/) const { return decoder->DecodeEven(); }
  bool Adaptive(bool /*bit*/, AdaptiveBit* model) const { return decoder->Decode(model); }
};

}  // namespace quarry::interpolate
