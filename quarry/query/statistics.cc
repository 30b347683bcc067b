#include "quarry/query/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quarry/base/wide_integer.h"

namespace quarry::query {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// value - error and value + error, never rounded inwards.
double Lower(double value, double error) {
  return error == 0 ? value : std::nextafter(value - error, -kInfinity);
}
double Upper(double value, double error) {
  return error == 0 ? value : std::nextafter(value + error, kInfinity);
}

/// At the level and layer of the plan.
double ErrorOf(const ReadPlan& plan, const PlannedPatch& patch) {
  return patch.entry.patch.levels[plan.parts.Of(plan.query.layer, plan.query.level)].max_error;
}

/// Where the values of a plan's samples can lie: the recorded ranges of its patches.
/// @param widened  by the error of each patch at the level
Bounds RangeOfPatches(const ReadPlan& plan, bool widened) {
  Bounds range{kInfinity, -kInfinity};
  for (const PlannedPatch& patch : plan.patches) {
    if (patch.entry.patch.valid == 0) continue;
    const double error = widened ? ErrorOf(plan, patch) : 0;
    range.low = std::min(range.low, Lower(patch.entry.patch.min, error));
    range.high = std::max(range.high, Upper(patch.entry.patch.max, error));
  }
  if (!(range.low <= range.high)) return {0, 0};
  constexpr double kLargest = std::numeric_limits<double>::max();
  return {std::clamp(range.low, -kLargest, kLargest), std::clamp(range.high, -kLargest, kLargest)};
}

/// The smallest rank, from 1 on, that at least `percent` of `count` samples do not exceed.
std::uint64_t RankOf(double percent, std::uint64_t count) {
  const double samples = percent * static_cast<double>(count);  // times 100: exact for whole percents
  auto rank = static_cast<std::uint64_t>(std::max(1.0, std::ceil(samples / 100)));
  while (rank > 1 && static_cast<double>(rank - 1) * 100 >= samples) --rank;
  return rank;
}

}  // namespace

ReadRequest SamplesOf(const StatisticsRequest& request) {
  ReadRequest read = request.read;
  read.first_level.reset();
  read.first_layer.reset();
  read.focus.reset();
  read.allow_damage = false;  // the intervals would not hold
  return read;
}

AnswerHeader StatisticsHeader(const ReadPlan& plan) {
  AnswerHeader header = HeaderOf(plan);
  header.price.reply_bytes = 0;
  return header;
}

Status CheckStatistics(const StatisticsRequest& request) {
  if (request.read.values)
    return InvalidArgument("statistics are of all samples of a box; leave the range of values out");
  if (request.percentiles.size() > kMaxPercentiles) {
    return InvalidArgument("{} percentiles are asked for, {} is the most", request.percentiles.size(),
                           kMaxPercentiles);
  }
  for (const double percent : request.percentiles) {
    if (!(percent >= 0 && percent <= 100))
      return InvalidArgument("{} is not a percentile; give numbers from 0 to 100", percent);
  }
  if (request.bins < 0 || request.bins > kMaxBins)
    return InvalidArgument("{} bins are asked for; give a number from 0 to {}", request.bins, kMaxBins);
  if (!request.range) return Status::Ok();
  const auto [begin, end] = *request.range;
  if (std::isfinite(begin) && std::isfinite(end) && begin < end) return Status::Ok();
  return InvalidArgument("{}:{} is not a range of a histogram; give two numbers, the smaller one first",
                         begin, end);
}

StatisticsAccumulator::StatisticsAccumulator(const ReadPlan& plan, const StatisticsRequest& request)
    : request_(request),
      type_(plan.type),
      part_(plan.parts.Of(plan.query.layer, plan.query.level)),
      recorded_(plan.recorded),
      fine_(kFineBins),
      min_{kInfinity, kInfinity, kInfinity},
      max_{-kInfinity, -kInfinity, -kInfinity} {
  const Bounds range = RangeOfPatches(plan, true);
  fine_begin_ = range.low;
  constexpr auto kBins = static_cast<double>(kFineBins);
  if (!IsFloat(type_) && std::ceil(range.high) - std::floor(range.low) < kBins) {
    fine_begin_ = std::floor(range.low);
    fine_scale_ = 1;  // one value a bin
  } else if (range.high > range.low) {
    // Each end is scaled on its own: the difference may overflow.
    fine_scale_ = 1 / (range.high / kBins - range.low / kBins);
    if (!std::isfinite(fine_scale_)) fine_scale_ = 0;
  }
  const Bounds recorded = RangeOfPatches(plan, false);
  const auto [begin, end] = request_.range.value_or(std::pair(recorded.low, recorded.high));
  histogram_.begin = begin;
  histogram_.end = end;
  histogram_.counts.resize(static_cast<std::size_t>(request_.bins));
}

void StatisticsAccumulator::Add(const PlannedPatch& patch, ByteSpan samples, Validity validity) {
  DispatchType(type_, [&]<typename T>(T) {
    AddTyped(std::span(reinterpret_cast<const T*>(samples.data()), samples.size() / sizeof(T)), validity,
             patch.entry.patch.levels[part_].max_error);
  });
}

template <typename T>
void StatisticsAccumulator::AddTyped(std::span<const T> samples, Validity validity, double error) {
  const auto is_valid = [&](std::size_t i) { return validity.empty() || validity[i] != 0; };
  std::uint64_t count = 0;
  double sum = 0;
  double low = kInfinity;
  double high = -kInfinity;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!is_valid(i)) continue;
    const auto value = static_cast<double>(samples[i]);
    ++count;
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  missing_ += samples.size() - count;
  if (count == 0) return;
  error += RoundingOfConversion<T>(std::max(std::abs(low), std::abs(high)));
  const auto n = static_cast<double>(count);
  const double mean = sum / n;
  double squares = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!is_valid(i)) continue;
    const auto value = static_cast<double>(samples[i]);
    squares += (value - mean) * (value - mean);
    FineBin& fine = fine_[FineBinOf(value)];
    fine.min = fine.count == 0 ? value : std::min(fine.min, value);
    fine.max = fine.count == 0 ? value : std::max(fine.max, value);
    ++fine.count;
    if (histogram_.counts.empty()) continue;
    if (value < histogram_.begin) {
      ++histogram_.below;
    } else if (const std::size_t bin = BinOf(value); bin < histogram_.counts.size()) {
      ++histogram_.counts[bin];
    } else {
      ++histogram_.above;
    }
  }
  min_ = {std::min(min_.value, low), std::min(min_.low, Lower(low, error)),
          std::min(min_.high, Upper(low, error))};
  max_ = {std::max(max_.value, high), std::max(max_.low, Lower(high, error)),
          std::max(max_.high, Upper(high, error))};
  // Two sets of samples become one. @source Chan, Golub, LeVeque 1979
  const auto before = static_cast<double>(valid_);
  const double apart = mean - mean_;
  valid_ += count;
  mean_ += apart * (n / static_cast<double>(valid_));
  squares_ += squares + apart * apart * (before * n / static_cast<double>(valid_));
  errors_ += n * error;
  error_squares_ += n * error * error;
  largest_error_ = std::max(largest_error_, error);
}

std::size_t StatisticsAccumulator::FineBinOf(double value) const {
  // Monotonic in the value, so that bins stay in order despite rounding; "not larger" also takes a NaN.
  const double place = (value - fine_begin_) * fine_scale_;
  if (!(place > 0)) return 0;
  return place < static_cast<double>(kFineBins) ? static_cast<std::size_t>(place) : kFineBins - 1;
}

double StatisticsAccumulator::Edge(std::size_t bin) const {
  const std::size_t bins = histogram_.counts.size();
  if (bin == bins) return histogram_.end;
  const auto n = static_cast<double>(bins);
  return histogram_.begin + (histogram_.end / n - histogram_.begin / n) * static_cast<double>(bin);
}

std::size_t StatisticsAccumulator::BinOf(double value) const {
  const std::size_t bins = histogram_.counts.size();
  if (!(value <= histogram_.end)) return bins;
  const auto n = static_cast<double>(bins);
  const double width = histogram_.end / n - histogram_.begin / n;
  std::size_t bin =
      width > 0 ? static_cast<std::size_t>(std::min(n - 1, (value - histogram_.begin) / width)) : 0;
  while (bin > 0 && value < Edge(bin)) --bin;
  while (bin + 1 < bins && value >= Edge(bin + 1)) ++bin;
  return bin;
}

Totals Together(std::span<const Statistics> parts) {
  Totals all{0, {kNone, kNone, kNone}, {kNone, kNone, kNone}, {kNone, kNone, kNone}};
  double mean = 0;
  double error = 0;  // rounding error of the mean
  for (const Statistics& part : parts) {
    if (part.valid == 0) continue;
    const bool first = all.valid == 0;
    const auto least = [&](double a, double b) { return first ? b : std::min(a, b); };
    const auto most = [&](double a, double b) { return first ? b : std::max(a, b); };
    all.min = {least(all.min.value, part.min.value), least(all.min.low, part.min.low),
               least(all.min.high, part.min.high)};
    all.max = {most(all.max.value, part.max.value), most(all.max.low, part.max.low),
               most(all.max.high, part.max.high)};
    all.valid += part.valid;
    const double share = static_cast<double>(part.valid) / static_cast<double>(all.valid);
    mean += (part.mean.value - mean) * share;
    error += (std::max(part.mean.high - part.mean.value, part.mean.value - part.mean.low) - error) * share;
  }
  if (all.valid > 0) all.mean = {mean, Lower(mean, error), Upper(mean, error)};
  return all;
}

Statistics StatisticsAccumulator::Finish() {
  Statistics statistics;
  statistics.valid = valid_;
  statistics.missing = missing_;
  FillBounds(&statistics);
  std::erase_if(fine_, [](const FineBin& bin) { return bin.count == 0; });  // in place: no copy is counted
  FillPercentiles(&statistics);
  FillHistogram(&statistics);
  return statistics;
}

void StatisticsAccumulator::FillBounds(Statistics* statistics) const {
  statistics->box_min = {recorded_.all.low, recorded_.inside.low};
  statistics->box_max = {recorded_.inside.high, recorded_.all.high};
  if (valid_ == 0) {
    statistics->min = statistics->max = statistics->mean = statistics->stddev = {kNone, kNone, kNone};
    return;
  }
  // Samples of the level lie in the box, each within its error of the original.
  statistics->box_min.high = std::min(statistics->box_min.high, min_.high);
  statistics->box_max.low = std::max(statistics->box_max.low, max_.low);
  statistics->min = min_;
  statistics->max = max_;
  const auto n = static_cast<double>(valid_);
  const double mean_error = errors_ / n;
  const double rms_error = std::sqrt(error_squares_ / n);
  const double stddev = std::sqrt(squares_ / n);
  statistics->mean = {mean_, Lower(mean_, mean_error), Upper(mean_, mean_error)};
  statistics->stddev = {stddev, std::max(0.0, Lower(stddev, rms_error)), Upper(stddev, rms_error)};
}

void StatisticsAccumulator::FillPercentiles(Statistics* statistics) const {
  for (const double percent : request_.percentiles) {
    Percentile percentile{percent, {kNone, kNone, kNone}};
    // The rank of the sample, from 1 on: the first sample is the 0th percentile.
    const std::uint64_t rank = RankOf(percent, valid_);
    std::uint64_t before = 0;
    for (const FineBin& bin : fine_) {
      before += bin.count;
      if (before < std::min(rank, valid_)) continue;
      percentile.at = {bin.min / 2 + bin.max / 2, Lower(bin.min, largest_error_),
                       Upper(bin.max, largest_error_)};
      if (bin.min == bin.max) percentile.at.value = bin.min;
      // The ends are known exactly.
      if (rank == 1) percentile.at = {min_.value, min_.low, min_.high};
      if (rank >= valid_) percentile.at = {max_.value, max_.low, max_.high};
      break;
    }
    statistics->percentiles.push_back(percentile);
  }
}

void StatisticsAccumulator::FillHistogram(Statistics* statistics) const {
  const std::vector<FineBin>& bins = fine_;
  Histogram& histogram = statistics->histogram;
  histogram = histogram_;
  std::vector<std::uint64_t> before;
  before.reserve(bins.size() + 1);
  before.push_back(0);
  for (const FineBin& bin : bins) before.push_back(before.back() + bin.count);
  // Samples in fine bins number first .. last - 1, which are in ascending order of value.
  const auto samples = [&](auto first, auto last) {
    return first < last ? before[static_cast<std::size_t>(last - bins.begin())] -
                              before[static_cast<std::size_t>(first - bins.begin())]
                        : std::uint64_t{0};
  };
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    const bool closed = b + 1 == histogram.counts.size();
    if (largest_error_ == 0) {
      histogram.low.push_back(histogram.counts[b]);
      histogram.high.push_back(histogram.counts[b]);
      continue;
    }
    // Certainly inside, whatever their originals were; and possibly inside.
    const double begin = Upper(Edge(b), largest_error_);
    const double end = Lower(Edge(b + 1), largest_error_);
    const double widened_begin = Lower(Edge(b), largest_error_);
    const double widened_end = Upper(Edge(b + 1), largest_error_);
    histogram.low.push_back(samples(
        std::partition_point(bins.begin(), bins.end(), [&](const FineBin& f) { return f.min < begin; }),
        std::partition_point(bins.begin(), bins.end(),
                             [&](const FineBin& f) { return closed ? f.max <= end : f.max < end; })));
    histogram.high.push_back(
        samples(std::partition_point(bins.begin(), bins.end(),
                                     [&](const FineBin& f) { return f.max < widened_begin; }),
                std::partition_point(bins.begin(), bins.end(),
                                     [&](const FineBin& f) { return f.min <= widened_end; })));
  }
}

}  // namespace quarry::query
