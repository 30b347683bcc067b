#include "quarry/query/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "quarry/base/wide_integer.h"
#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Intervals of pointwise bounds are wider by this factor, which covers all rounding on the way.
constexpr double kWithRounding = 1 + 0x1p-40;

/// The recorded range of the valid original samples of the patches; nothing if they have none.
std::optional<Bounds> RecordedOfPatches(const ForEachPart& parts) {
  Bounds range{kInfinity, -kInfinity};
  parts([&](const ReadPlan& part) {
    for (const PlannedPatch& patch : part.patches) {
      if (patch.entry.patch.valid == 0) continue;
      range.low = std::min(range.low, patch.entry.patch.min);
      range.high = std::max(range.high, patch.entry.patch.max);
    }
  });
  if (!(range.low <= range.high)) return std::nullopt;
  constexpr double kLargest = std::numeric_limits<double>::max();
  return Bounds{std::clamp(range.low, -kLargest, kLargest), std::clamp(range.high, -kLargest, kLargest)};
}

/// Edges of logarithmic bins from `begin` to `end`; all 0 if that is where they begin: there is no sample.
std::vector<double> LogEdges(double begin, double end, std::size_t bins) {
  std::vector<double> edges(bins + 1, begin);
  if (!(begin > 0)) return edges;
  const double first = std::log2(begin);
  const double last = std::log2(end);  // end / begin may overflow
  for (std::size_t i = 1; i < bins; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(bins);
    edges[i] = std::clamp(std::exp2(std::lerp(first, last, at)), edges[i - 1], end);
  }
  edges[bins] = end;
  return edges;
}

std::size_t ClassOf(double error) {
  if (!(error > 0)) return 0;
  if (!std::isfinite(error)) return StatisticsAccumulator::kErrorClasses - 1;
  return static_cast<std::size_t>(1 + std::ilogb(error) -
                                  std::ilogb(std::numeric_limits<double>::denorm_min()));
}

std::uint64_t AtLeastZero(std::uint64_t more, std::uint64_t less) { return more - std::min(more, less); }

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
  header.cost.reply_bytes = header.cost.coded_bytes = 0;
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
  if (request.scale != HistogramScale::kLinear && request.bins == 0)
    return InvalidArgument(
        "a scale of bins is given, but there are none; say how many, or leave the scale out");
  if (!request.range) return Status::Ok();
  const auto [begin, end] = *request.range;
  if (!std::isfinite(begin) || !std::isfinite(end) || !(begin < end))
    return InvalidArgument("{}:{} is not a range of a histogram; give two numbers, the smaller one first",
                           begin, end);
  if (request.scale == HistogramScale::kQuantile)
    return InvalidArgument(
        "quantile bins reach from the smallest to the largest sample; leave the range out");
  if (request.scale == HistogramScale::kLog && begin <= 0)
    return InvalidArgument(
        "logarithmic bins begin above 0, {}:{} does not; samples below the range are counted "
        "as such",
        begin, end);
  return Status::Ok();
}

Status CheckHistogram(const ReadPlan& plan, const StatisticsRequest& request, const ForEachPart& parts) {
  if (request.scale != HistogramScale::kLog || request.range) return Status::Ok();
  const std::optional<Bounds> recorded = RecordedOfPatches(parts);
  if (!recorded || recorded->low > 0) return Status::Ok();
  return InvalidArgument(
      "\"{}\" has values from {} to {} in the patches of this box, logarithmic bins begin above "
      "0; give their range, samples below it are counted as such",
      plan.field, recorded->low, recorded->high);
}

Result<HistogramScale> ParseHistogramScale(std::string_view name) {
  if (name == "linear") return HistogramScale::kLinear;
  if (name == "log") return HistogramScale::kLog;
  if (name == "quantile") return HistogramScale::kQuantile;
  return InvalidArgument("\"{}\" is not a scale of bins; the scales are linear, log and quantile", name);
}

double Histogram::Edge(std::size_t number) const {
  if (!edges.empty()) return edges[number];
  if (number == counts.size()) return end;
  const auto n = static_cast<double>(counts.size());
  return begin + (end / n - begin / n) * static_cast<double>(number);
}

StatisticsAccumulator::StatisticsAccumulator(const ReadPlan& plan, const StatisticsRequest& request,
                                             const ForEachPart& parts)
    : request_(request),
      type_(plan.type),
      part_(plan.parts.Of(plan.query.layer, plan.query.level)),
      relative_(plan.query.level == 0 ? plan.relative_error : 0),
      recorded_(plan.recorded),
      fine_(plan, parts),
      errors_of_(kErrorClasses),
      min_{kInfinity, kInfinity, kInfinity},
      max_{-kInfinity, -kInfinity, -kInfinity} {
  const Bounds recorded = request_.range ? Bounds{} : RecordedOfPatches(parts).value_or(Bounds{});
  const auto [begin, end] = request_.range.value_or(std::pair(recorded.low, recorded.high));
  histogram_.begin = begin;
  histogram_.end = end;
  histogram_.counts.resize(static_cast<std::size_t>(request_.bins));
  const std::size_t bins = histogram_.counts.size();
  if (bins == 0 || request_.scale == HistogramScale::kQuantile) return;
  if (request_.scale == HistogramScale::kLog) {
    edges_ = histogram_.edges = LogEdges(begin, end, bins);
    return;
  }
  for (std::size_t i = 0; i <= bins; ++i) edges_.push_back(histogram_.Edge(i));
  const double per_unit = 1 / (edges_[1] - edges_[0]);
  if (std::isfinite(per_unit)) bins_per_unit_ = per_unit;
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
  double magnitudes = 0;
  double low = kInfinity;
  double high = -kInfinity;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!is_valid(i)) continue;
    const auto value = static_cast<double>(samples[i]);
    ++count;
    sum += value;
    magnitudes += std::abs(value);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  missing_ += samples.size() - count;
  if (count == 0) return;
  error += RoundingOfConversion<T>(std::max(std::abs(low), std::abs(high)));
  const auto n = static_cast<double>(count);
  const double mean = sum / n;
  double squares = 0;
  double value_squares = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!is_valid(i)) continue;
    const auto value = static_cast<double>(samples[i]);
    squares += (value - mean) * (value - mean);
    value_squares += value * value;
  }
  fine_.Add(samples, validity);
  for (std::size_t i = 0; !edges_.empty() && i < samples.size(); ++i) {
    if (is_valid(i)) Count(static_cast<double>(samples[i]));
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
  double errors = n * error;
  double error_squares = n * error * error;
  if (relative_ > 0) {
    const double share = relative_ / (1 - relative_) * kWithRounding;
    errors = std::min(errors, share * magnitudes);
    error_squares = std::min(error_squares, share * share * value_squares);
  }
  errors_ += errors;
  error_squares_ += error_squares;
  largest_error_ = std::max(largest_error_, error);
  ErrorClass& of_error = errors_of_[ClassOf(error)];
  of_error.samples += count;
  of_error.largest = std::max(of_error.largest, error);
}

double StatisticsAccumulator::Lower(double sample, double error) const {
  const double low = LowerEnd(sample, error);
  if (relative_ == 0) return low;
  return std::max(low, sample / (1 + std::copysign(relative_ * kWithRounding, sample)));
}

double StatisticsAccumulator::Upper(double sample, double error) const {
  const double high = UpperEnd(sample, error);
  if (relative_ == 0) return high;
  return std::min(high, sample / (1 - std::copysign(relative_ * kWithRounding, sample)));
}

void StatisticsAccumulator::Count(double value) {
  if (value < histogram_.begin) {
    ++histogram_.below;
  } else if (const std::size_t bin = BinOf(value); bin < histogram_.counts.size()) {
    ++histogram_.counts[bin];
  } else {
    ++histogram_.above;
  }
}

std::size_t StatisticsAccumulator::BinOf(double value) const {
  const std::size_t bins = edges_.size() - 1;
  if (!(value <= histogram_.end)) return bins;
  if (bins_per_unit_ == 0) {
    const auto inner = std::upper_bound(edges_.begin() + 1, edges_.end() - 1, value);
    return static_cast<std::size_t>(inner - edges_.begin()) - 1;
  }
  const double place = (value - histogram_.begin) * bins_per_unit_;  // rounded, so perhaps next to its bin
  auto bin = static_cast<std::size_t>(std::min(place, static_cast<double>(bins - 1)));
  while (bin > 0 && value < edges_[bin]) --bin;
  while (bin + 1 < bins && value >= edges_[bin + 1]) ++bin;
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
  if (all.valid > 0) all.mean = {mean, LowerEnd(mean, error), UpperEnd(mean, error)};
  return all;
}

Statistics StatisticsAccumulator::Finish() {
  Statistics statistics;
  statistics.valid = valid_;
  statistics.missing = missing_;
  FillBounds(&statistics);
  fine_.Close();
  std::erase_if(errors_of_, [](const ErrorClass& one) { return one.samples == 0; });
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
  statistics->mean = {mean_, LowerEnd(mean_, mean_error), UpperEnd(mean_, mean_error)};
  statistics->stddev = {stddev, std::max(0.0, LowerEnd(stddev, rms_error)), UpperEnd(stddev, rms_error)};
}

void StatisticsAccumulator::FillPercentiles(Statistics* statistics) const {
  for (const double percent : request_.percentiles) {
    Percentile percentile{percent, {kNone, kNone, kNone}};
    // The rank of the sample, from 1 on: the first sample is the 0th percentile.
    if (valid_ > 0) percentile.at = PercentileAt(std::min(RankOf(percent, valid_), valid_));
    statistics->percentiles.push_back(percentile);
  }
}

Bounded StatisticsAccumulator::PercentileAt(std::uint64_t rank) const {
  const FineBins::Found found = fine_.At(rank);
  Bounded at{found.value, -kInfinity, kInfinity};
  std::uint64_t larger = 0;  // samples with larger errors
  for (auto one = errors_of_.rbegin(); one != errors_of_.rend(); ++one) {
    if (rank > larger) at.low = std::max(at.low, LowerEnd(fine_.At(rank - larger).low, one->largest));
    if (rank + larger <= valid_)
      at.high = std::min(at.high, UpperEnd(fine_.At(rank + larger).high, one->largest));
    larger += one->samples;
  }
  at.low = std::max(at.low, Lower(found.low, largest_error_));
  at.high = std::min(at.high, Upper(found.high, largest_error_));
  // The errors of the ends are those of their patches.
  if (rank == 1) at = min_;
  if (rank == valid_) at = max_;
  at.resolved = IsResolved(at, *found.bin);
  return at;
}

bool StatisticsAccumulator::IsResolved(const Bounded& at, const FineBins::Bin& bin) const {
  const auto below = [&](double value) {
    return fine_.CountWhile([&](const FineBins::Bin& one) { return one.max < value; });
  };
  const std::uint64_t up_to = fine_.CountWhile([&](const FineBins::Bin& one) { return one.min <= at.high; });
  const std::uint64_t in_bin = bin.count - below(bin.min);
  const std::uint64_t others = AtLeastZero(up_to, below(at.low) + in_bin);
  return static_cast<double>(others) <= kResolvedShare * static_cast<double>(valid_);
}

void StatisticsAccumulator::FillHistogram(Statistics* statistics) const {
  Histogram& histogram = statistics->histogram;
  histogram = histogram_;
  if (request_.scale == HistogramScale::kQuantile) CountQuantiles(&histogram);
  if (largest_error_ == 0) {
    histogram.low = histogram.high = histogram.counts;
    return;
  }
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    const bool closed = b + 1 == histogram.counts.size();
    // Certainly inside, whatever their originals were; and possibly inside.
    const double begin = histogram.Edge(b);
    const double end = histogram.Edge(b + 1);
    const auto low_of = [&](const FineBins::Bin& f) { return Lower(f.min, largest_error_); };
    const auto high_of = [&](const FineBins::Bin& f) { return Upper(f.max, largest_error_); };
    histogram.low.push_back(
        AtLeastZero(fine_.CountWhile([&](const FineBins::Bin& f) {
          return closed ? high_of(f) <= end : high_of(f) < end;
        }),
                    fine_.CountWhile([&](const FineBins::Bin& f) { return low_of(f) < begin; })));
    histogram.high.push_back(
        AtLeastZero(fine_.CountWhile([&](const FineBins::Bin& f) { return low_of(f) <= end; }),
                    fine_.CountWhile([&](const FineBins::Bin& f) { return high_of(f) < begin; })));
  }
}

/// The edges lie where fine bins begin, so the counts are exact.
void StatisticsAccumulator::CountQuantiles(Histogram* histogram) const {
  const std::size_t bins = histogram->counts.size();
  histogram->edges.assign(bins + 1, 0);
  histogram->begin = histogram->end = 0;
  if (valid_ == 0) return;
  histogram->begin = min_.value;
  histogram->end = max_.value;
  std::uint64_t before = 0;  // samples below the edge
  for (std::size_t b = 0; b < bins; ++b) {
    const std::uint64_t rank = valid_ / bins * b + valid_ % bins * b / bins + 1;
    const double edge = fine_.At(rank).bin->min;
    const std::uint64_t below = fine_.CountWhile([&](const FineBins::Bin& one) { return one.max < edge; });
    histogram->edges[b] = edge;
    if (b > 0) histogram->counts[b - 1] = below - before;
    before = below;
  }
  histogram->edges[bins] = max_.value;
  histogram->counts[bins - 1] = valid_ - before;
}

}  // namespace quarry::query
