#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/question.h"
#include "quarry/result.h"

/// Questions about the distribution of samples, and their answers.
namespace quarry::query {

/// Edges of the bins of a histogram. The numbers are those of the protocol.
enum class HistogramScale : std::uint8_t {
  kLinear = 0,    ///< bins of equal width
  kLog = 1,       ///< the same ratio of the edges of each bin
  kQuantile = 2,  ///< about the same number of samples in each bin
};

/// "linear", "log", "quantile". @errors kInvalidArgument for other names
Result<HistogramScale> ParseHistogramScale(std::string_view name);

/// Which statistics of which samples.
struct StatisticsRequest {
  ReadRequest read;  ///< the samples: those that a read of the level wanted alone would deliver
  std::vector<double> percentiles;  ///< 0 to 100 each, at most kMaxPercentiles
  int bins = 0;                     ///< bins of the histogram; 0: none; at most kMaxBins
  /// [unit of the field] first and last edge of the histogram; left out: the recorded range of the patches
  /// read
  std::optional<std::pair<double, double>> range;
  HistogramScale scale = HistogramScale::kLinear;
};

inline constexpr std::size_t kMaxPercentiles = 100;
inline constexpr int kMaxBins = 4096;

/// A statistic of the samples of the level, and an interval that holds the same statistic of the original
/// samples at the same places.
struct Bounded {
  double value = 0;
  double low = 0;
  double high = 0;
  /// False for a percentile if more than kResolvedShare of the samples lie in the interval, those in the bin
  /// of the value not counted, as they may be equal to it. So the errors hide where the original's percentile
  /// is.
  bool resolved = true;

  friend bool operator==(const Bounded&, const Bounded&) = default;
};

/// Most of the samples in the interval of a percentile that is resolved.
inline constexpr double kResolvedShare = 0.05;

struct Percentile {
  double percent = 0;
  /// The smallest value that at least this share of the samples does not exceed, to the width of a bin of
  /// FineBins. The interval also holds the exact value.
  Bounded at;

  friend bool operator==(const Percentile&, const Percentile&) = default;
};

/// Bins, half-open but for the last.
struct Histogram {
  double begin = 0;  ///< first edge
  double end = 0;    ///< last edge
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> low;   ///< at least this many originals are in the bin
  std::vector<std::uint64_t> high;  ///< at most this many originals are in the bin
  std::uint64_t below = 0;          ///< samples before the first bin
  std::uint64_t above = 0;          ///< samples behind the last
  /// In ascending order, one more than bins; two may be equal, and no sample is between them. Empty: bins of
  /// equal width.
  std::vector<double> edges;

  /// @param number  0 to the number of bins
  double Edge(std::size_t number) const;

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
  AnswerHeader header;  ///< header of the samples; none of them is delivered, so cost.reply_bytes is 0
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

}  // namespace quarry::query
