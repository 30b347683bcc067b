#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "quarry/bytes.h"
#include "quarry/codec/lossless/arithmetic.h"

namespace quarry::interpolate {

/// Magnitudes that occur in a patch, and the values that they stand for: each of them with both signs, in
/// ascending order. Looks up a value in a few steps, however many there are.
/// @source docs/format.md, "Listed values"
template <typename S>
class ValueList {
 public:
  using Word = lossless::WordOf<S>;
  using Words = std::vector<Word, BufferAllocator<Word>>;
  using Signed = std::make_signed_t<Word>;

  /// Values of the list: those from `begin` to before `end`.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t size() const { return end > begin ? end - begin : 0; }
  };

  const Words& magnitudes() const { return magnitudes_; }
  std::uint64_t memory() const {
    return magnitudes_.size() * sizeof(Word) + starts_.size() * sizeof(std::uint32_t);
  }

  /// @param more  ascending, none of them known
  void Add(const Words& more) {
    Words merged(magnitudes_.size() + more.size());
    std::merge(magnitudes_.begin(), magnitudes_.end(), more.begin(), more.end(), merged.begin());
    magnitudes_ = std::move(merged);
    MakeStarts();
  }

  /// The values within `reach` of a number, the ends rounded to the nearest of the type.
  Range Around(S number, double reach) const {
    const auto middle = static_cast<double>(number);
    const Signed low = Ordered(static_cast<S>(middle - reach));
    const Signed high = Ordered(static_cast<S>(middle + reach));
    return {Below(low), high < 0 ? magnitudes_.size() - CountBelow(Magnitude(high))
                                 : magnitudes_.size() + CountBelow(Magnitude(high) + 1)};
  }

  /// Where a value of the list is.
  std::size_t PlaceOf(S value) const { return Below(Ordered(value)); }

  S ValueAt(std::size_t place) const {
    const std::size_t count = magnitudes_.size();
    const Word ordered =
        place < count ? static_cast<Word>(~magnitudes_[count - 1 - place]) : magnitudes_[place - count];
    return lossless::SampleOf<S>(ordered);
  }

 private:
  static Signed Ordered(S value) { return static_cast<Signed>(lossless::OrderedWord<S>(value)); }
  static Word Magnitude(Signed ordered) { return static_cast<Word>(ordered < 0 ? ~ordered : ordered); }

  /// How many values are below this one.
  std::size_t Below(Signed ordered) const {
    const Word magnitude = Magnitude(ordered);
    return ordered < 0 ? magnitudes_.size() - CountBelow(magnitude + 1)
                       : magnitudes_.size() + CountBelow(magnitude);
  }

  /// How many magnitudes are below this one.
  std::size_t CountBelow(Word magnitude) const {
    if (magnitudes_.empty() || magnitude <= magnitudes_.front()) return 0;
    if (magnitude > magnitudes_.back()) return magnitudes_.size();
    const std::size_t bucket = BucketOf(magnitude);
    const auto begin = magnitudes_.begin();
    return static_cast<std::size_t>(
        std::lower_bound(begin + starts_[bucket], begin + starts_[bucket + 1], magnitude) - begin);
  }

  std::size_t BucketOf(Word magnitude) const {
    return static_cast<std::size_t>((magnitude - magnitudes_.front()) >> shift_);
  }

  /// About as many buckets as magnitudes, each of an equal part of their range.
  void MakeStarts() {
    starts_.clear();
    if (magnitudes_.empty()) return;
    const auto range = static_cast<Word>(magnitudes_.back() - magnitudes_.front());
    shift_ = std::max(
        static_cast<int>(std::bit_width(range)) - static_cast<int>(std::bit_width(magnitudes_.size())), 0);
    starts_.assign(BucketOf(magnitudes_.back()) + 2, 0);
    for (const Word magnitude : magnitudes_) ++starts_[BucketOf(magnitude) + 1];
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  }

  Words magnitudes_;
  std::vector<std::uint32_t, BufferAllocator<std::uint32_t>> starts_;  ///< start of each bucket, and the end
  int shift_ = 0;
};

}  // namespace quarry::interpolate
