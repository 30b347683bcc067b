#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "quarry/query/question.h"

/// Questions about the distribution of samples, and their answers.
namespace quarry::query {

/// Which statistics of which samples.
struct StatisticsRequest {
  ReadRequest read;  ///< the samples: those that a read of the level wanted alone would deliver
  std::vector<double> percentiles;  ///< 0 to 100 each, at most kMaxPercentiles
  int bins = 0;                     ///< bins of the histogram; 0: none; at most kMaxBins
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
  /// the patches; exact for integers with a smaller range.
  Bounded at;

  friend bool operator==(const Percentile&, const Percentile&) = default;
};

/// Bins of equal width, half-open but for the last.
struct Histogram {
  double begin = 0;
  double end = 0;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> low;   ///< at least this many originals are in the bin
  std::vector<std::uint64_t> high;  ///< at most this many originals are in the bin
  std::uint64_t below = 0;          ///< samples before the first bin
  std::uint64_t above = 0;          ///< samples behind the last

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// Over the valid samples. Without any, all values are NaN and all counts 0.
struct Statistics {
  std::uint64_t valid = 0;
  std::uint64_t missing = 0;
  Bounded min;
  Bounded max;
  Bounded mean;
  Bounded stddev;  ///< standard deviation of the samples themselves: divided by their number
  /// Where the smallest and the largest of *all* valid original samples of the box lie, those between the
  /// samples of the level included; from the recorded ranges of patches as well. Infinite if nothing is
  /// known.
  Bounds box_min;
  Bounds box_max;
  std::vector<Percentile> percentiles;
  Histogram histogram;
};

struct StatisticsAnswer {
  AnswerHeader header;  ///< header of the samples; none of them is delivered, so price.reply_bytes is 0
  Statistics statistics;
};

/// Totals of the answers to one question of several steps: of all decoded samples, with intervals that hold
/// those of all originals. Without a valid sample, NaN.
struct Totals {
  std::uint64_t valid = 0;
  Bounded min;
  Bounded max;
  Bounded mean;
};
Totals Together(std::span<const Statistics> parts);

/// @errors kInvalidArgument: a percentile outside 0 .. 100, too many of them or of bins, a range that is
/// empty or not finite
Status CheckStatistics(const StatisticsRequest& request);

}  // namespace quarry::query
