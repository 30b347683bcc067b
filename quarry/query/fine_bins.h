#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "quarry/query/read_plan.h"

/// Counts of samples in many narrow bins, from which order statistics follow.
namespace quarry::query {

/// value - error and value + error, never rounded inwards.
double LowerEnd(double value, double error);
double UpperEnd(double value, double error);

/// [samples of the plan's level] where those of a patch lie: its recorded range, widened by its error.
Bounds RangeOf(const ReadPlan& plan, const PlannedPatch& patch);

/// An integer with the order of a value among those of its type: a < b if and only if KeyOf(a) < KeyOf(b).
/// Between powers of two it is a linear function of the value. Both zeros have the same.
/// @param value  float64 of a sample of type T
template <typename T>
std::uint64_t KeyOf(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    const auto bits = std::bit_cast<Bits>(static_cast<T>(value) + T{0});  // -0 + 0 is 0
    return (bits & kSign) != 0 ? Bits(~bits) : Bits(bits | kSign);
  } else if constexpr (std::is_signed_v<T>) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    // float64 has no largest integer of 64 bits: samples near it become 2^63.
    if (value >= 0x1p63) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) ^ kSign;
  } else {
    if (value >= 0x1p64) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(value);
  }
}

/// Bins of samples in ascending order of value, with the exact number, smallest and largest sample of each.
/// Their widths follow from the recorded ranges of the patches, which are known before the first sample.
///
/// The range of all patches is cut into at most kCells cells of 2^s keys (see KeyOf), so that no cell of
/// floating-point numbers crosses a power of two. A cell is cut into bins of equally many keys, so of equal
/// width: one a key, or as many as the largest of three shares of kShare bins demands.
///
///   the cell's share of   good for
///   the range             fields that fill their range
///   all keys in it        fields over many decades: each octave has the same number of bins
///   the valid samples     narrow distributions with few samples far away; the samples of a patch are taken
///                         to be divided equally over the cells that its recorded range meets
///
/// So a bin, but for one key, is at most a 65536th of the range wide and has at most a 65536th of the keys.
/// No two values share a bin if there are at most 65536 keys, as of integers of a small range. Samples
/// outside the recorded ranges, of a damaged dataset, are in the first or the last bin.
class FineBins {
 public:
  static constexpr std::size_t kShare = std::size_t{1} << 16;
  static constexpr std::size_t kCells = std::size_t{1} << 12;
  /// The shares, and for rounding at most one bin a cell and one at each end.
  static constexpr std::size_t kMost = 3 * kShare + kCells + 2;

  struct Bin {
    std::uint64_t count = 0;  ///< after Close, with that of all bins before
    double min = 0;
    double max = 0;
  };
  struct Cell {
    std::uint32_t first = 0;  ///< bin; that of the first cell may be below 0, modulo 2^32
    std::uint32_t bins = 0;
  };
  static constexpr std::uint64_t kMemory = kMost * sizeof(Bin) + kCells * (sizeof(Cell) + 2 * sizeof(double));

  /// A sample by its place in the order.
  struct Found {
    double value = 0;  ///< interpolated between the ends of its bin
    double low = 0;    ///< it is at least this; the ends are those of the bin, or equal if they are its place
    double high = 0;   ///< at most this
    const Bin* bin = nullptr;
  };

  /// @param parts  of the plan, looked at twice
  FineBins(const ReadPlan& plan, const ForEachPart& parts);
  explicit FineBins(const ReadPlan& plan) : FineBins(plan, OnlyPart(plan)) {}
  FineBins(const FineBins&) = delete;
  FineBins& operator=(const FineBins&) = delete;

  /// @param samples   of type T, that of the plan
  /// @param validity  of the samples; empty: all are valid
  template <typename T>
  void Add(std::span<const T> samples, Validity validity) {
    const Places places = places_;  // a copy, which no write to a bin can change
    Bin* const bins = bins_.data();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (!validity.empty() && validity[i] == 0) continue;
      const auto value = static_cast<double>(samples[i]);
      Bin& bin = bins[places.Of(KeyOf<T>(value))];
      bin.min = bin.count == 0 ? value : std::min(bin.min, value);
      bin.max = bin.count == 0 ? value : std::max(bin.max, value);
      ++bin.count;
    }
  }

  /// Bins, at most kMost; after Close, those with samples.
  std::size_t size() const { return bins_.size(); }

  /// Once, after the last sample and before the questions below: drops the empty bins.
  void Close();

  /// @param rank  1 to the number of samples
  Found At(std::uint64_t rank) const;

  /// Samples in the bins before the first of which `holds` is false; it is true of none after that.
  template <typename Predicate>
  std::uint64_t CountWhile(Predicate holds) const {
    const auto end = std::partition_point(bins_.begin(), bins_.end(), holds);
    return end == bins_.begin() ? 0 : std::prev(end)->count;
  }

 private:
  /// From keys to bins.
  struct Places {
    std::uint64_t low = 0;  ///< keys
    std::uint64_t high = 0;
    int shift = 0;    ///< a cell has 2^shift keys
    int dropped = 0;  ///< bits of a key that do not choose the bin
    std::uint64_t first_cell = 0;
    const Cell* cells = nullptr;

    std::uint64_t CellOf(std::uint64_t key) const {
      return (std::clamp(key, low, high) >> shift) - first_cell;
    }
    std::size_t Of(std::uint64_t key) const {
      const std::uint64_t inside = std::clamp(key, low, high);
      const Cell& cell = cells[(inside >> shift) - first_cell];
      // At most 32 bits, times at most kMost.
      const std::uint64_t offset = (inside & ((std::uint64_t{1} << shift) - 1)) >> dropped;
      return std::uint32_t(cell.first +
                           static_cast<std::uint32_t>((offset * cell.bins) >> (shift - dropped)));
    }
  };

  template <typename T>
  void Divide(const ForEachPart& parts, const Bounds& range);
  /// [cell] share of the bins, 1 in all.
  template <typename T>
  std::vector<double> SharesOfPatches(const ForEachPart& parts) const;

  Places places_;
  std::vector<Cell> cells_;
  std::vector<Bin> bins_;
};

}  // namespace quarry::query
