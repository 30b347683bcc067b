#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/codec/entropy/bit_string.h"
#include "quarry/codec/entropy/rans.h"
#include "quarry/codec/interpolate/choose_tables.h"
#include "quarry/codec/interpolate/kernels.h"

namespace quarry::interpolate {

/// Turns indices into symbols with their tables, counts the symbols, and collects the low bits.
class SymbolSink {
 public:
  /// @param capacity  how many indices are added at most
  /// @param symbols   gets them one after the other; it may have more elements
  SymbolSink(const Kernels& kernels, const TableChoice& choice, std::size_t capacity,
             std::vector<entropy::CodedSymbol>* symbols)
      : kernels_(kernels), counts_(choice.shifts.size() * entropy::kSymbols), out_(symbols) {
    std::copy(choice.shifts.begin(), choice.shifts.end(), fold_.shifts.begin());
    fold_.limits.fill(entropy::kLargestSymbol);
    for (std::size_t t = 0; t < choice.names.size(); ++t)
      fold_.limits[t] = entropy::LargestSymbolOf(choice.names[t]);
    largest_shift_ = *std::max_element(fold_.shifts.begin(), fold_.shifts.end());
    if (out_->size() < capacity) out_->resize(capacity);
  }

  SymbolSink(const SymbolSink&) = delete;  // its writer points into it
  SymbolSink& operator=(const SymbolSink&) = delete;

  /// Adds indices begin .. end. @param tables  of all of them
  void Add(std::span<const std::int32_t> indices, std::span<const std::uint8_t> tables, std::size_t begin,
           std::size_t end) {
    for (; begin < end; begin += std::min(kRun, end - begin)) {
      const std::size_t count = std::min(kRun, end - begin);
      const std::uint8_t* table = tables.data() + begin;
      if (!kernels_.fold(indices.data() + begin, table, fold_, count, out_->data() + size_, low_.data()))
        ReplaceTooLarge(indices, table, begin, count);
      if (largest_shift_ > 0) {
        low_writer_.PutAll(
            std::span(low_).first(count), [&](std::size_t i) { return fold_.shifts[table[i]]; },
            largest_shift_);
      }
      Count(out_->data() + size_, count);
      size_ += count;
    }
  }

  std::size_t size() const { return size_; }
  /// Positions of the indices that have no symbol; 0 stands for them.
  const std::vector<std::size_t>& too_large() const { return too_large_; }
  std::array<std::uint32_t, entropy::kSymbols> Counts(std::size_t table) const {
    std::array<std::uint32_t, entropy::kSymbols> counts{};
    for (std::size_t s = 0; s < entropy::kSymbols; ++s) {
      for (const std::uint32_t part : counts_[table * entropy::kSymbols + s]) counts[s] += part;
    }
    return counts;
  }
  /// Ends the low bits: nothing may be added after it.
  const Bytes& LowBits() {
    low_writer_.Finish();
    return low_bits_;
  }

 private:
  /// Symbols per fold: they stay in the first cache.
  static constexpr std::size_t kRun = 1024;
  /// Counters in turn: increments of the same counter wait for each other.
  static constexpr std::size_t kCounters = 4;

  void ReplaceTooLarge(std::span<const std::int32_t> indices, const std::uint8_t* tables, std::size_t begin,
                       std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const int shift = fold_.shifts[tables[i]];
      if (Fold(indices[begin + i], shift).symbol <= fold_.limits[tables[i]]) continue;
      too_large_.push_back(begin + i);
      const Folded zero = Fold(0, shift);
      (*out_)[size_ + i] = static_cast<entropy::CodedSymbol>(tables[i] << 8 | zero.symbol);
      low_[i] = zero.low;
    }
  }

  void Count(const entropy::CodedSymbol* symbols, std::size_t count) {
    std::size_t i = 0;
    for (; i + kCounters <= count; i += kCounters) {
      for (std::size_t c = 0; c < kCounters; ++c) ++counts_[symbols[i + c]][c];
    }
    for (; i < count; ++i) ++counts_[symbols[i]][0];
  }

  const Kernels& kernels_;
  FoldTables fold_;
  std::uint8_t largest_shift_ = 0;
  std::vector<std::array<std::uint32_t, kCounters>> counts_;  ///< counts of all coded symbols
  std::vector<entropy::CodedSymbol>* out_;
  std::size_t size_ = 0;
  std::array<std::uint32_t, kRun> low_;
  std::vector<std::size_t> too_large_;
  Bytes low_bits_;
  entropy::BitStringWriter low_writer_{&low_bits_};
};

}  // namespace quarry::interpolate
