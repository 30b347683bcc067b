#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "quarry/codec/entropy/binary_coder.h"
#include "quarry/codec/interpolate/contexts.h"

/// Codes indices as adaptive bits, without tables. For small levels, and for those that are nearly all zero.
namespace quarry::interpolate {

/// Flags for runs of samples that are expected to be zero. A block of kBlock samples whose contexts are all
/// zero has one flag; each group of kGroup samples in other blocks has one, unless more than `most_active` of
/// its contexts are not zero.
class GroupFlags {
 public:
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t kGroup = 32;
  /// With tables, a flag also saves time where some contexts are not zero; adaptive bits are nearly free
  /// there.
  static constexpr std::size_t kMostActiveWithTables = 6;

  explicit GroupFlags(std::size_t most_active) : most_active_(most_active) {}

  /// Walks over the samples of a band. `code_flag(model, begin, end)` writes or reads whether samples begin
  /// .. end are all zero; `use(begin, end, zero)` gets all runs in order.
  /// @param contexts  tables or bins of the samples
  template <typename CodeFlag, typename Use>
  void Walk(const std::uint8_t* contexts, std::size_t count, CodeFlag code_flag, Use use) {
    for (std::size_t begin = 0; begin < count;) {
      const std::size_t block_end = std::min(begin + kBlock, count);
      ActiveCounts counts;
      const bool quiet = CountActive(contexts + begin, block_end - begin, &counts) == 0;
      if (quiet && Code(&of_blocks_, code_flag, begin, block_end)) {
        use(begin, block_end, true);
        begin = block_end;
        continue;
      }
      for (std::size_t group = 0; begin < block_end; begin += kGroup, ++group) {
        const std::size_t end = std::min(begin + kGroup, block_end);
        const std::size_t active = counts[group];
        const bool zero = active <= most_active_ &&
                          Code(&of_groups_[quiet ? 0 : 1 + (active + 1) / 2], code_flag, begin, end);
        use(begin, end, zero);
      }
      begin = block_end;
    }
  }

 private:
  using ActiveCounts = std::array<std::uint8_t, kBlock / kGroup>;

  /// Models selected by the two previous flags of this kind.
  struct Kind {
    std::array<entropy::AdaptiveBit, 4> models;
    std::uint8_t history = 3;
  };

  template <typename CodeFlag>
  static bool Code(Kind* kind, CodeFlag& code_flag, std::size_t begin, std::size_t end) {
    const bool zero = code_flag(&kind->models[kind->history], begin, end);
    kind->history = static_cast<std::uint8_t>((kind->history << 1 | (zero ? 1 : 0)) & 3);
    return zero;
  }

  /// Counts the contexts of a block that are not zero, in each of its groups. Returns the sum.
  static std::size_t CountActive(const std::uint8_t* contexts, std::size_t count, ActiveCounts* counts) {
    std::size_t sum = 0;
    for (std::size_t group = 0, begin = 0; begin < count; ++group, begin += kGroup) {
      std::uint8_t active = 0;  // a byte, so that the compiler counts sixteen at once
      if (count - begin >= kGroup) {
        for (std::size_t i = 0; i < kGroup; ++i)
          active = static_cast<std::uint8_t>(active + (contexts[begin + i] != 0));
      } else {
        for (std::size_t i = begin; i < count; ++i)
          active = static_cast<std::uint8_t>(active + (contexts[i] != 0));
      }
      (*counts)[group] = active;
      sum += active;
    }
    return sum;
  }

  const std::size_t most_active_;
  Kind of_blocks_;
  std::array<Kind, 2 + (kMostActiveWithTables + 1) / 2>
      of_groups_;  ///< first in quiet blocks, then by active contexts
};

/// Models of one index: is it zero, its sign, how many bits it has, those bits. `Bits` is entropy::BitWriter
/// or entropy::BitReader.
class IndexModel {
 public:
  /// Codes an index in its context, the fine bin of its activity. Returns the index.
  template <typename Bits>
  std::int32_t Code(Bits& bits, std::int32_t index, std::uint8_t bin) {
    auto& zero = zero_[bin][last_];
    if (bits.Adaptive(index == 0, &zero)) {
      last_ = 0;
      return 0;
    }
    const bool negative = bits.Even(index < 0);
    const std::uint32_t size = static_cast<std::uint32_t>(index < 0 ? -index : index);
    const int length = CodeLength(bits, size == 0 ? 1 : 32 - __builtin_clz(size), bin);
    std::uint32_t value = 1;
    if (length > 1) {
      // The bit below the highest is not even: small indices are more frequent.
      const bool second =
          bits.Adaptive((size >> (length - 2) & 1) != 0, &second_[static_cast<std::size_t>(length)][bin]);
      value = (2u | static_cast<std::uint32_t>(second)) << (length - 2) | bits.EvenBits(size, length - 2);
    }
    last_ = value > 1 ? 2 : 1;
    return negative ? -static_cast<std::int32_t>(value) : static_cast<std::int32_t>(value);
  }

  /// A new band begins.
  void Restart() { last_ = 0; }

 private:
  static constexpr int kMaxLength = 29;

  /// Unary from 1; few steps, because the context predicts the length.
  template <typename Bits>
  int CodeLength(Bits& bits, int length, std::uint8_t bin) {
    int coded = 1;
    while (coded < kMaxLength &&
           bits.Adaptive(length > coded, &length_[bin][static_cast<std::size_t>(coded)]))
      ++coded;
    return coded;
  }

  std::array<std::array<entropy::AdaptiveBit, 3>, kFineBins> zero_;
  std::array<std::array<entropy::AdaptiveBit, kMaxLength + 1>, kFineBins> length_;
  std::array<std::array<entropy::AdaptiveBit, kFineBins>, kMaxLength + 1> second_;
  std::uint8_t last_ = 0;  ///< size of the previous sample in the same band: 0, 1 or more
};

}  // namespace quarry::interpolate
