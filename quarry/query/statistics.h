#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/query/fine_bins.h"
#include "quarry/query/read_plan.h"
#include "quarry/statistics_question.h"

/// Statistics of a box at a level, and how far from them those of the original samples can be.
namespace quarry::query {

/// The read of the samples: the wanted level alone, in an order that gives every asker the same rounding.
ReadRequest SamplesOf(const StatisticsRequest& request);

/// The header of an answer to this plan.
AnswerHeader StatisticsHeader(const ReadPlan& plan);

/// Before the samples are read.
/// @param parts  of the plan
/// @errors kInvalidArgument: logarithmic bins without a range, where the recorded range of the patches is not
/// above 0
Status CheckHistogram(const ReadPlan& plan, const StatisticsRequest& request, const ForEachPart& parts);

/// Takes the samples of a plan patch by patch, in plan order, and keeps a few numbers and a table of fixed
/// size: kMemory, however many samples there are. One caller at a time.
///
/// Every original sample at the place of a level sample differs from it by at most e, the max_error recorded
/// for its patch at that level. So
///   min, max     [m - e, m + e], e of the patch that it is in, over all patches
///   mean         within the mean of e over the samples
///   stddev       within the root mean square of e: it is a seminorm, |s(a) - s(b)| <= s(a - b) <= rms(a - b)
///   histogram    a sample further than the largest e from both edges of its bin stays in it
///   percentiles  see below
///
/// Let s(r) be the r-th smallest sample and o(r) the r-th smallest original. For any number d, let m be the
/// number of samples with e > d. If o(r) < s(r - m) - d, then r originals are below s(r - m) - d, so at least
/// r - m samples with e <= d are below s(r - m): one too many. The other end is alike, so
///   s(r - m) - d <= o(r) <= s(r + m) + d
/// With d the largest e, m is 0. A smaller d gives a shorter interval if few patches have large errors. The
/// interval is the intersection over all d at which m changes, in classes of e by powers of two. It holds
/// s(r) too. FineBins gives an interval for each s(k), which only widens that of o(r).
///
/// At level 0 of a field with a pointwise bound t, every original of s > 0 lies in [s / (1 + t), s / (1 - t)]
/// as well, that of s < 0 in the mirror of it, and zeros are zeros. Both ends increase with s, so o(r) lies
/// between those of s(r), and an end of a bin is compared with those of its samples. Errors of the mean and
/// of the standard deviation are then at most t / (1 - t) |s|.
class StatisticsAccumulator {
 public:
  static constexpr std::uint64_t kAnswerMemory = 512 << 10;
  /// Samples with errors of about the same size.
  struct ErrorClass {
    std::uint64_t samples = 0;
    double largest = 0;
  };
  /// No error, and one for each exponent of float64, infinity included.
  static constexpr std::size_t kErrorClasses = 1 + 2099;
  /// Memory of the bins, and of the answer with its message.
  static constexpr std::uint64_t kMemory = FineBins::kMemory + kErrorClasses * sizeof(ErrorClass) +
                                           (kMaxBins + 1) * sizeof(double) + kAnswerMemory;

  /// @param parts  of the plan, looked at before the first sample
  StatisticsAccumulator(const ReadPlan& plan, const StatisticsRequest& request, const ForEachPart& parts);

  /// @param samples   some of `patch` at the plan's level, of the plan's type
  /// @param validity  of the samples; empty: all are valid
  void Add(const PlannedPatch& patch, ByteSpan samples, Validity validity);

  /// Once, at the end.
  Statistics Finish();

 private:
  template <typename T>
  void AddTyped(std::span<const T> samples, Validity validity, double error);
  void Count(double value);
  /// Number of the histogram's bin; bins where `value` is behind the last.
  std::size_t BinOf(double value) const;

  /// Ends of the interval that has the original of a sample; they increase with the sample.
  double Lower(double sample, double error) const;
  double Upper(double sample, double error) const;

  void FillBounds(Statistics* statistics) const;
  void FillPercentiles(Statistics* statistics) const;
  /// @param rank  from 1 on
  Bounded PercentileAt(std::uint64_t rank) const;
  /// @param bin  of the value
  bool IsResolved(const Bounded& at, const FineBins::Bin& bin) const;
  void FillHistogram(Statistics* statistics) const;
  void CountQuantiles(Histogram* histogram) const;

  const StatisticsRequest request_;
  const DataType type_;
  const std::size_t part_;  ///< part of a patch that has the samples
  const double relative_;   ///< t of the samples; 0: none is promised
  const RecordedRange recorded_;
  FineBins fine_;
  std::vector<ErrorClass> errors_of_;  // by the size of the error; at the end without the empty ones
  Histogram histogram_;
  std::vector<double> edges_;  // edges of the bins; none if samples are not counted as they come
  double bins_per_unit_ = 0;   // 0: unknown, the bin is searched

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
