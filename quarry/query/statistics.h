#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/query/plan.h"

/// Statistics of a box at a level, and how far those of the original samples can be from them.
namespace quarry::query {

/// What of which samples.
struct StatisticsRequest {
  ReadRequest read;  ///< the samples: those that a read of the level wanted alone would deliver
  std::vector<double> percentiles;  ///< 0 to 100 each, at most kMaxPercentiles
  int bins = 0;                     ///< of the histogram; 0: none; at most kMaxBins
  /// [unit of the field] first and last edge of the histogram; left out: the recorded range of the patches
  /// read
  std::optional<std::pair<double, double>> range;
};

inline constexpr std::size_t kMaxPercentiles = 100;
inline constexpr int kMaxBins = 4096;

/// A statistic of the samples of the level, and an interval that holds the same statistic of the original
/// samples at the same places.
struct Bounded {
  double value = 0;
  double low = 0;
  double high = 0;

  friend bool operator==(const Bounded&, const Bounded&) = default;
};

struct Percentile {
  double percent = 0;
  /// The smallest value that at least this share of the samples does not exceed, to a 65536th of the range of
  /// the patches; exact for integers over less than that.
  Bounded at;

  friend bool operator==(const Percentile&, const Percentile&) = default;
};

/// Bins of equal width, half-open but for the last.
struct Histogram {
  double begin = 0;
  double end = 0;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> low;   ///< that many originals at least are in the bin
  std::vector<std::uint64_t> high;  ///< and that many at most
  std::uint64_t below = 0;          ///< samples before the first bin
  std::uint64_t above = 0;          ///< samples behind the last

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// Over the valid samples. Where there is none, all values are NaN and all counts 0.
struct Statistics {
  std::uint64_t valid = 0;
  std::uint64_t missing = 0;
  Bounded min;
  Bounded max;
  Bounded mean;
  Bounded stddev;  ///< of the samples themselves: divided by their number
  /// Where the smallest and the largest of *all* valid original samples of the box lie, those between the
  /// samples of the level too; from the recorded ranges of patches as well. Infinite where nothing is known.
  Bounds box_min;
  Bounds box_max;
  std::vector<Percentile> percentiles;
  Histogram histogram;
};

struct StatisticsAnswer {
  AnswerHeader header;  ///< of the samples; nothing of them is delivered, so that price.reply_bytes is 0
  Statistics statistics;
};

/// The question whose samples are taken: the level wanted alone, in the order that gives every asker the same
/// rounding.
ReadRequest SamplesOf(const StatisticsRequest& request);

/// The header of an answer to this plan.
AnswerHeader StatisticsHeader(const ReadPlan& plan);

/// @errors kInvalidArgument: a percentile outside 0 .. 100, too many of them or of bins, a range that is
/// empty or not finite
Status CheckStatistics(const StatisticsRequest& request);

/// Takes the samples of a plan patch by patch, in the order of the plan, and keeps a few numbers and a table
/// of fixed size: kMemory, however many samples there are. One caller at a time.
///
/// Every original sample at the place of a level sample is within the max_error e that the record of its
/// patch has for the level. So
///   min, max     [m - e, m + e], e of the patch that it is in, over all patches
///   mean         within the mean of e over the samples
///   stddev       within the root mean square of e: it is a seminorm, |s(a) - s(b)| <= s(a - b) <= rms(a - b)
///   percentiles  order statistics move by at most the largest e
///   histogram    a sample further than e from both edges of its bin stays in it
class StatisticsAccumulator {
 public:
  static constexpr std::size_t kFineBins = std::size_t{1} << 16;
  static constexpr std::uint64_t kMemory = kFineBins * 3 * sizeof(double) + (1 << 16);

  StatisticsAccumulator(const ReadPlan& plan, const StatisticsRequest& request);

  /// @param samples   some of `patch` at the plan's level, of the plan's type
  /// @param validity  of the samples; empty: all are valid
  void Add(const PlannedPatch& patch, ByteSpan samples, Validity validity);

  Statistics Finish() const;

 private:
  /// Samples of about the same value.
  struct FineBin {
    std::uint64_t count = 0;
    double min = 0;
    double max = 0;
  };

  template <typename T>
  void AddTyped(std::span<const T> samples, Validity validity, double error);
  std::size_t FineBinOf(double value) const;
  /// Number of the histogram's bin; bins where `value` is behind the last.
  std::size_t BinOf(double value) const;
  double Edge(std::size_t bin) const;

  std::vector<FineBin> NonEmptyBins() const;
  void FillBounds(Statistics* statistics) const;
  void FillPercentiles(const std::vector<FineBin>& bins, Statistics* statistics) const;
  void FillHistogram(const std::vector<FineBin>& bins, Statistics* statistics) const;

  const StatisticsRequest request_;
  const DataType type_;
  const int level_;
  const RecordedRange recorded_;
  double fine_begin_ = 0;
  double fine_scale_ = 0;  // fine bins per unit
  std::vector<FineBin> fine_;
  Histogram histogram_;

  std::uint64_t valid_ = 0;
  std::uint64_t missing_ = 0;
  Bounded min_;
  Bounded max_;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances to the mean
  double errors_ = 0;   // sum of the samples' errors
  double error_squares_ = 0;
  double largest_error_ = 0;
};

}  // namespace quarry::query
