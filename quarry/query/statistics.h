#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/query/read_plan.h"
#include "quarry/query/statistics_question.h"

/// Statistics of a box at a level, and how far from them those of the original samples can be.
namespace quarry::query {

/// The read of the samples: the wanted level alone, in an order that gives every asker the same rounding.
ReadRequest SamplesOf(const StatisticsRequest& request);

/// The header of an answer to this plan.
AnswerHeader StatisticsHeader(const ReadPlan& plan);

/// Takes the samples of a plan patch by patch, in plan order, and keeps a few numbers and a table of fixed
/// size: kMemory, however many samples there are. One caller at a time.
///
/// Every original sample at the place of a level sample differs from it by at most e, the max_error recorded
/// for its patch at that level. So
///   min, max     [m - e, m + e], e of the patch that it is in, over all patches
///   mean         within the mean of e over the samples
///   stddev       within the root mean square of e: it is a seminorm, |s(a) - s(b)| <= s(a - b) <= rms(a - b)
///   percentiles  order statistics move by at most the largest e
///   histogram    a sample further than e from both edges of its bin stays in it
class StatisticsAccumulator {
 public:
  static constexpr std::size_t kFineBins = std::size_t{1} << 16;
  static constexpr std::uint64_t kAnswerMemory = 384 << 10;
  /// Memory of the bins, of their sums at the end, and of the answer with its message.
  static constexpr std::uint64_t kMemory = kFineBins * (3 + 1) * sizeof(double) + kAnswerMemory;

  StatisticsAccumulator(const ReadPlan& plan, const StatisticsRequest& request);

  /// @param samples   some of `patch` at the plan's level, of the plan's type
  /// @param validity  of the samples; empty: all are valid
  void Add(const PlannedPatch& patch, ByteSpan samples, Validity validity);

  /// Once, at the end.
  Statistics Finish();

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

  void FillBounds(Statistics* statistics) const;
  void FillPercentiles(Statistics* statistics) const;
  void FillHistogram(Statistics* statistics) const;

  const StatisticsRequest request_;
  const DataType type_;
  const std::size_t part_;  ///< part of a patch that has the samples
  const RecordedRange recorded_;
  double fine_begin_ = 0;
  double fine_scale_ = 0;      // fine bins per unit
  std::vector<FineBin> fine_;  // in ascending order of value; at the end without the empty ones
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
