// Statistics of samples of every distribution: order statistics and histograms against a sort of the samples.
#include "quarry/query/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <type_traits>

#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

template <typename T>
inline constexpr DataType kTypeOf = std::is_same_v<T, float>          ? DataType::kFloat32
                                    : std::is_same_v<T, double>       ? DataType::kFloat64
                                    : std::is_same_v<T, std::int16_t> ? DataType::kInt16
                                    : std::is_same_v<T, std::int64_t> ? DataType::kInt64
                                                                      : DataType::kUint64;

/// Samples of one level in patches of `patch` samples each.
template <typename T>
struct Field {
  std::vector<T> samples;
  std::vector<T> originals = samples;
  std::size_t patch = 1000;
  std::vector<double> errors = {};  ///< errors of the patches; none: all 0
  double relative = 0;              ///< pointwise bound

  std::span<const T> PatchOf(const std::vector<T>& values, std::size_t number) const {
    const std::size_t begin = number * patch;
    return std::span(values).subspan(begin, std::min(patch, values.size() - begin));
  }

  /// With the recorded range of each patch, that of its originals.
  ReadPlan Plan() const {
    ReadPlan plan;
    plan.field = "density";
    plan.type = kTypeOf<T>;
    plan.relative_error = relative;
    plan.levels.push_back({});
    for (std::size_t p = 0; p * patch < samples.size(); ++p) {
      const std::span<const T> of = PatchOf(originals, p);
      PlannedPatch added;
      added.entry.patch.levels.resize(1);
      added.entry.patch.levels[0].max_error = errors.empty() ? 0 : errors.at(p);
      added.entry.patch.valid = of.size();
      added.entry.patch.min = static_cast<double>(*std::min_element(of.begin(), of.end()));
      added.entry.patch.max = static_cast<double>(*std::max_element(of.begin(), of.end()));
      plan.patches.push_back(added);
    }
    return plan;
  }

  Statistics Ask(const StatisticsRequest& request) const {
    const ReadPlan plan = Plan();
    StatisticsAccumulator accumulator(plan, request, OnlyPart(plan));
    for (std::size_t p = 0; p < plan.patches.size(); ++p)
      accumulator.Add(plan.patches[p], std::as_bytes(PatchOf(samples, p)), {});
    return accumulator.Finish();
  }
};

const std::vector<double> kPercents = {0, 0.1, 1, 5, 25, 50, 75, 95, 99, 99.9, 100};

template <typename T>
std::vector<double> Sorted(const std::vector<T>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// The smallest value that at least this share does not exceed.
double PercentileOf(const std::vector<double>& sorted, double percent) {
  std::size_t rank = 1;
  while (static_cast<double>(rank) * 100 < percent * static_cast<double>(sorted.size())) ++rank;
  return sorted[rank - 1];
}

template <typename T>
void ExpectIntervalsHold(const Field<T>& field) {
  const Statistics found = field.Ask({.percentiles = kPercents});
  const std::vector<double> samples = Sorted(field.samples);
  const std::vector<double> originals = Sorted(field.originals);
  for (const Percentile& percentile : found.percentiles) {
    SCOPED_TRACE(percentile.percent);
    for (const std::vector<double>* sorted : {&samples, &originals}) {
      EXPECT_LE(percentile.at.low, PercentileOf(*sorted, percentile.percent));
      EXPECT_GE(percentile.at.high, PercentileOf(*sorted, percentile.percent));
    }
    EXPECT_LE(percentile.at.low, percentile.at.value);
    EXPECT_GE(percentile.at.high, percentile.at.value);
  }
}

std::vector<float> Drawn(std::size_t count, const std::function<double(std::mt19937&)>& draw) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(draw(random));
  return values;
}

double Normal(std::mt19937& random) { return std::normal_distribution<double>()(random); }

/// 10 to the power of 3 times a normal number: 25 decades.
std::vector<float> Decades(std::size_t count) {
  return Drawn(count, [](std::mt19937& random) { return std::pow(10, 3 * Normal(random)); });
}

std::vector<std::vector<float>> Distributions() {
  constexpr std::size_t kCount = 5000;
  constexpr auto kDenormal = static_cast<double>(std::numeric_limits<float>::denorm_min());
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  std::vector<std::vector<float>> all = {
      Decades(kCount),
      Drawn(kCount, [](auto& random) { return 300 + Normal(random); }),
      Drawn(kCount, [](auto& random) { return random() % 3 == 0 ? 1e20 : 300 + Normal(random); }),
      Drawn(kCount, [](auto& random) { return std::pow(10, Normal(random)) * (random() % 2 == 0 ? -1 : 1); }),
      Drawn(kCount, [](auto& random) { return static_cast<double>(random() % 1000) * kDenormal; }),
      Drawn(kCount, [](auto& random) { return random() % 4 == 0 ? Normal(random) : 0; }),
      Drawn(kCount, [](auto& random) { return random() % 2 == 0 ? -0.0 : 0.0; }),
      Drawn(kCount, [](auto& random) { return (random() % 2 == 0 ? -1 : 1) * kLargest; }),
      Drawn(kCount, [](auto&) { return 5; }),
      {7},
  };
  all.push_back(Drawn(kCount, [](auto&) { return 5; }));
  all.back()[kCount / 2] = -1e30f;
  return all;
}

TEST(StatisticsPercentiles, AreInTheirIntervalsWhateverTheDistribution) {
  std::size_t number = 0;
  for (const std::vector<float>& samples : Distributions()) {
    SCOPED_TRACE(number++);
    ExpectIntervalsHold(Field<float>{samples});
    ExpectIntervalsHold(Field<double>{std::vector<double>(samples.begin(), samples.end())});
    ExpectIntervalsHold(Field<float>{.samples = samples, .patch = samples.size()});
  }
}

TEST(StatisticsPercentiles, HoldThoseOfOriginalsWithinTheErrorOfTheirPatch) {
  std::mt19937 random(3);
  std::size_t number = 0;
  for (const std::vector<float>& samples : Distributions()) {
    SCOPED_TRACE(number++);
    Field<double> field{std::vector<double>(samples.begin(), samples.end())};
    for (std::size_t p = 0; p * field.patch < samples.size(); ++p)
      field.errors.push_back(random() % 4 == 0 ? 0 : std::pow(10, 4 * Normal(random)));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double error = field.errors[i / field.patch];
      // Rounding must not make the difference larger than the error.
      field.originals[i] += 0.999 * error * std::uniform_real_distribution<double>(-1, 1)(random);
    }
    ExpectIntervalsHold(field);
  }
}

TEST(StatisticsPercentiles, AreResolvedOverManyDecades) {
  const Field<float> field{Decades(200'000)};
  const std::vector<double> sorted = Sorted(field.samples);

  for (const auto& [percent, at] : field.Ask({.percentiles = kPercents}).percentiles) {
    SCOPED_TRACE(percent);
    const double exact = PercentileOf(sorted, percent);
    // Some 90 octaves of 2^23 keys in 65536 bins: at most 2^14 keys, a 512th of an octave.
    EXPECT_LE(at.high - at.low, exact / 256);
    EXPECT_NEAR(at.value, exact, exact / 256);
    EXPECT_TRUE(at.resolved);
  }
}

TEST(StatisticsPercentiles, AreResolvedToAShareOfTheRangeWhereSamplesFillIt) {
  for (const double middle : {0.0, 300.0, -1e6}) {
    SCOPED_TRACE(middle);
    const Field<float> field{Drawn(100'000, [&](auto& random) { return middle + Normal(random); })};
    const std::vector<double> sorted = Sorted(field.samples);
    const double share = (sorted.back() - sorted.front()) / 65536;
    const double gap = std::abs(middle) * std::numeric_limits<float>::epsilon();  // between samples

    for (const auto& [percent, at] : field.Ask({.percentiles = kPercents}).percentiles) {
      EXPECT_LE(at.high - at.low, share + gap) << percent;
      EXPECT_NEAR(at.value, PercentileOf(sorted, percent), share + gap) << percent;
    }
  }
}

TEST(StatisticsPercentiles, AreResolvedWhereFewPatchesHaveSamplesFarAway) {
  Field<float> field{Drawn(100'000, [](auto& random) { return 300 + Normal(random); })};
  field.samples[0] = field.originals[0] = 1e30f;
  field.samples[1] = field.originals[1] = -1e30f;

  const Statistics found = field.Ask({.percentiles = {1, 50, 99}});

  // 99 of 100 patches share the cell of 300, with 2^20 keys: at most 17 keys a bin, of 2^-15 each.
  for (const auto& [percent, at] : found.percentiles) EXPECT_LE(at.high - at.low, 17 * 0x1p-15) << percent;
}

TEST(StatisticsPercentiles, AreExactForIntegersOfASmallRange) {
  std::mt19937 random(5);
  Field<std::int16_t> field;
  for (int i = 0; i < 10'000; ++i) field.samples.push_back(static_cast<std::int16_t>(random()));
  field.originals = field.samples;
  const std::vector<double> sorted = Sorted(field.samples);

  for (const auto& [percent, at] : field.Ask({.percentiles = kPercents}).percentiles) {
    EXPECT_EQ(at.value, PercentileOf(sorted, percent));
    EXPECT_EQ(at.low, at.value);
    EXPECT_EQ(at.high, at.value);
  }
}

TEST(StatisticsPercentiles, HoldIntegersThatFloat64DoesNotHave) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Field<std::int64_t> wide{{kLeast, kLeast + 1, -1, 0, 1, kMost - 1, kMost}};
  ExpectIntervalsHold(wide);
  std::mt19937_64 random(5);
  for (int i = 0; i < 10'000; ++i) wide.samples.push_back(static_cast<std::int64_t>(random()));
  wide.originals = wide.samples;
  ExpectIntervalsHold(wide);
  ExpectIntervalsHold(Field<std::uint64_t>{{0, 1, 1ull << 53, (1ull << 53) + 1, ~0ull - 1, ~0ull}});
}

TEST(StatisticsPercentiles, AreExactWhereTheirShareIsAWholeNumberOfSamples) {
  // 1 to 100: the p-th percentile is p. In binary fractions, 7 / 100 * 100 is more than 7.
  Field<float> field{std::vector<float>(100)};
  std::iota(field.samples.begin(), field.samples.end(), 1.0f);
  field.originals = field.samples;
  StatisticsRequest request;
  for (int percent = 1; percent <= 100; ++percent) request.percentiles.push_back(percent);

  const Statistics found = field.Ask(request);

  for (std::size_t p = 0; p < 100; ++p)
    EXPECT_EQ(found.percentiles.at(p).at, (Bounded{double(p + 1), double(p + 1), double(p + 1)}));
}

TEST(StatisticsPercentiles, FewLargeErrorsMoveTheRankAndNotTheValue) {
  // 0 to 99,999 in 100 patches, in any order. One patch has an error of 1e9, the others of 0.25.
  Field<float> field{std::vector<float>(100'000)};
  std::iota(field.samples.begin(), field.samples.end(), 0.0f);
  std::shuffle(field.samples.begin(), field.samples.end(), std::mt19937(1));
  field.originals = field.samples;
  field.errors.assign(100, 0.25);
  field.errors[17] = 1e9;

  const Bounded median = field.Ask({.percentiles = {50}}).percentiles.at(0).at;

  // The ranks 49,000 and 51,000 are at most two bins from their values, a bin is less than 2^18 keys of 2e9
  // wide.
  EXPECT_NEAR(median.low, 48'999 - 0.25, 600);
  EXPECT_NEAR(median.high, 50'999 + 0.25, 600);
  EXPECT_TRUE(median.resolved);
}

TEST(StatisticsPercentiles, OfAPointwiseBoundAreResolvedOverManyDecades) {
  constexpr double kBound = 1e-3;
  for (const bool has_both_signs : {false, true}) {
    std::mt19937 random(2);
    std::normal_distribution<double> exponent(0, 3);
    std::uniform_real_distribution<double> error(-kBound, kBound);
    Field<double> field{std::vector<double>(50'000)};
    field.relative = kBound;
    field.errors.assign(50, 0);
    for (std::size_t i = 0; i < field.samples.size(); ++i) {
      double& original = field.originals[i];
      original = i % 1000 == 7 ? 0 : std::pow(10, exponent(random));
      if (has_both_signs && i % 3 == 0) original = -original;
      field.samples[i] = original * (1 + error(random));
      field.errors[i / 1000] = std::max(field.errors[i / 1000], std::abs(field.samples[i] - original));
    }
    ExpectIntervalsHold(field);
    const StatisticsRequest request{.percentiles = {1, 50, 99}, .bins = 50, .range = std::pair(-10.0, 10.0)};
    const Statistics found = field.Ask(request);
    for (const Percentile& one : found.percentiles) {
      EXPECT_TRUE(one.at.resolved) << one.percent;
      EXPECT_LE(one.at.high - one.at.low, 0.03 * std::abs(one.at.value)) << one.percent;
    }
    // Counts, mean and deviation of the originals.
    const Histogram& histogram = found.histogram;
    for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
      const bool is_last = b + 1 == histogram.counts.size();
      const auto count = static_cast<std::uint64_t>(std::ranges::count_if(field.originals, [&](double value) {
        const double end = histogram.Edge(b + 1);
        return value >= histogram.Edge(b) && (value < end || (is_last && value == end));
      }));
      EXPECT_LE(histogram.low[b], count) << b;
      EXPECT_GE(histogram.high[b], count) << b;
      EXPECT_LE(histogram.high[b] - histogram.low[b], 1000U) << b;
    }
    const double mean = std::accumulate(field.originals.begin(), field.originals.end(), 0.0) / 50'000;
    EXPECT_LE(found.mean.low, mean);
    EXPECT_GE(found.mean.high, mean);
    if (!has_both_signs) {
      EXPECT_LE(found.mean.high - found.mean.low, 2.1 * kBound * std::abs(mean));
    }
  }
}

TEST(StatisticsPercentiles, SayWhenTheirIntervalHoldsALargePartOfTheSamples) {
  Field<float> field{Drawn(100'000, [](auto& random) { return std::uniform_real_distribution<>()(random); })};
  const auto resolved = [&](double error, double percent) {
    field.errors.assign(100, error);
    return field.Ask({.percentiles = {percent}}).percentiles.at(0).at.resolved;
  };
  EXPECT_TRUE(resolved(0, 50));
  EXPECT_TRUE(resolved(0.024, 50)) << "4.8 % of the samples are in the interval";
  EXPECT_FALSE(resolved(0.026, 50)) << "5.2 %";
  EXPECT_TRUE(resolved(0.048, 0)) << "nothing is below the smallest";
  EXPECT_FALSE(resolved(0.052, 0));

  // Half of the samples equal the median. They do not count, although their bin has others, too.
  std::fill(field.samples.begin() + 30'000, field.samples.begin() + 80'000, 0.5f);
  field.originals = field.samples;
  EXPECT_TRUE(resolved(0.04, 50));
  EXPECT_FALSE(resolved(0.06, 50));
}

TEST(StatisticsFineBins, HaveKeysInTheOrderOfTheValues) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  std::vector<double> values;
  for (const float value : {-kLargest, -1.0f, -kSmallest, 0.0f, kSmallest, 1.0f, kLargest})
    values.push_back(static_cast<double>(value));
  for (std::size_t i = 1; i < values.size(); ++i) {
    EXPECT_LT(KeyOf<float>(values[i - 1]), KeyOf<float>(values[i])) << values[i];
    EXPECT_LT(KeyOf<double>(values[i - 1]), KeyOf<double>(values[i])) << values[i];
  }
  EXPECT_EQ(KeyOf<float>(-0.0), KeyOf<float>(0.0));
  EXPECT_LT(KeyOf<std::int64_t>(-0x1p63), KeyOf<std::int64_t>(-1));
  EXPECT_LT(KeyOf<std::int64_t>(-1), KeyOf<std::int64_t>(0x1p63));
  EXPECT_LT(KeyOf<std::uint64_t>(0), KeyOf<std::uint64_t>(0x1p64));
}

TEST(StatisticsFineBins, AreNeverMoreThanTheirMemory) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 100; ++i) {
    ReadPlan plan;
    plan.type = i % 3 == 0 ? DataType::kFloat32 : i % 3 == 1 ? DataType::kFloat64 : DataType::kInt64;
    const auto any = [&] {
      const double value = std::bit_cast<double>(random());
      return i % 2 == 0 ? value : std::remainder(value, 1000);  // may be NaN: the table is damaged
    };
    for (int p = 0; p < 50; ++p) {
      PlannedPatch patch;
      patch.entry.patch.levels.resize(1);
      patch.entry.patch.levels[0].max_error = i % 5 == 0 ? std::abs(any()) : 0;
      patch.entry.patch.valid = random() % 1000;
      std::tie(patch.entry.patch.min, patch.entry.patch.max) = std::pair(any(), any());
      plan.patches.push_back(patch);
    }
    FineBins bins(plan);
    EXPECT_LE(bins.size(), FineBins::kMost);

    // Samples that a damaged patch may have stay in the bins.
    std::vector<float> samples(1000);
    for (float& sample : samples) sample = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (plan.type == DataType::kFloat32) bins.Add<float>(samples, {});
  }
}

StatisticsRequest Bins(int bins, HistogramScale scale, std::optional<std::pair<double, double>> range = {}) {
  StatisticsRequest request;
  request.bins = bins;
  request.scale = scale;
  request.range = range;
  return request;
}

/// As numpy.histogram counts: half-open bins, but for the last.
template <typename T>
std::vector<std::uint64_t> Counted(const std::vector<T>& values, const Histogram& histogram) {
  std::vector<std::uint64_t> counts;
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    const auto inside = [&](double v) {
      const bool closed = b + 1 == histogram.counts.size() && v == histogram.Edge(b + 1);
      return v >= histogram.Edge(b) && (v < histogram.Edge(b + 1) || closed);
    };
    counts.push_back(static_cast<std::uint64_t>(std::count_if(values.begin(), values.end(), inside)));
  }
  return counts;
}

template <typename T>
void ExpectCounted(const Field<T>& field, const Histogram& histogram) {
  EXPECT_EQ(histogram.counts, Counted(field.samples, histogram));
  const std::vector<std::uint64_t> originals = Counted(field.originals, histogram);
  for (std::size_t b = 0; b < originals.size(); ++b) {
    EXPECT_LE(histogram.low[b], originals[b]) << b;
    EXPECT_GE(histogram.high[b], originals[b]) << b;
  }
  EXPECT_EQ(
      std::accumulate(histogram.counts.begin(), histogram.counts.end(), histogram.below + histogram.above),
      field.samples.size());
}

TEST(StatisticsHistogram, OfEveryScaleCountsEverySampleOnce) {
  std::size_t number = 0;
  for (const std::vector<float>& samples : Distributions()) {
    SCOPED_TRACE(number++);
    Field<float> field{samples};
    for (const double error : {0.0, 0.5}) {
      field.errors.assign((samples.size() + field.patch - 1) / field.patch, error);
      ExpectCounted(field, field.Ask(Bins(37, HistogramScale::kLinear)).histogram);
      ExpectCounted(field, field.Ask(Bins(37, HistogramScale::kLinear, std::pair(-2.0, 1e3))).histogram);
      ExpectCounted(field, field.Ask(Bins(37, HistogramScale::kLog, std::pair(1e-3, 1e3))).histogram);
      ExpectCounted(field, field.Ask(Bins(37, HistogramScale::kQuantile)).histogram);
    }
  }
}

TEST(StatisticsHistogram, OfLogarithmicBinsHasEdgesOfEqualRatio) {
  const Histogram histogram = Field<float>{{1, 10, 100, 1000}}.Ask(Bins(3, HistogramScale::kLog)).histogram;

  ASSERT_EQ(histogram.edges.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(histogram.edges[i], std::pow(10, i), 1e-12 * std::pow(10, i)) << i;
  EXPECT_EQ(histogram.edges.front(), 1);
  EXPECT_EQ(histogram.edges.back(), 1000);
}

TEST(StatisticsHistogram, OfQuantileBinsHasAboutAsManySamplesInEach) {
  const Field<float> field{Decades(100'000)};
  const Histogram histogram = field.Ask(Bins(10, HistogramScale::kQuantile)).histogram;

  const std::vector<double> sorted = Sorted(field.samples);
  EXPECT_EQ(histogram.edges.front(), sorted.front());
  EXPECT_EQ(histogram.edges.back(), sorted.back());
  for (const std::uint64_t count : histogram.counts) EXPECT_NEAR(static_cast<double>(count), 10'000, 100);
  for (std::size_t i = 1; i < 10; ++i)  // to a bin of 2^14 keys
    EXPECT_NEAR(histogram.edges[i], sorted[10'000 * i], sorted[10'000 * i] / 256);
}

TEST(StatisticsHistogram, OfQuantileBinsOfManyTiesHasEmptyBins) {
  const Field<float> field{{0, 0, 0, 0, 0, 0, 1, 2}};
  const Histogram histogram = field.Ask(Bins(4, HistogramScale::kQuantile)).histogram;

  EXPECT_EQ(histogram.edges, (std::vector<double>{0, 0, 0, 1, 2}));
  EXPECT_EQ(histogram.counts, (std::vector<std::uint64_t>{0, 0, 6, 2}));
}

TEST(StatisticsHistogram, WithoutSamplesHasEmptyBins) {
  const Field<float> field{{}};
  for (const auto scale : {HistogramScale::kLinear, HistogramScale::kLog, HistogramScale::kQuantile}) {
    StatisticsRequest request = Bins(4, scale);
    request.percentiles = {50};
    const Statistics found = field.Ask(request);
    EXPECT_TRUE(std::isnan(found.percentiles.at(0).at.value));
    EXPECT_EQ(found.histogram.counts, std::vector<std::uint64_t>(4));
    EXPECT_EQ(found.histogram.edges.size(), scale == HistogramScale::kLinear ? 0u : 5u);
  }
}

TEST(StatisticsHistogram, ThatCannotBeIsRefused) {
  const auto message = [](const StatisticsRequest& request) {
    const Status status = CheckStatistics(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using enum HistogramScale;
  EXPECT_NE(message(Bins(0, kLog)).find("there are none"), std::string::npos);
  EXPECT_NE(message(Bins(4, kLog, std::pair(0.0, 1.0))).find("begin above 0, 0:1 does not"),
            std::string::npos);
  EXPECT_NE(message(Bins(4, kQuantile, std::pair(0.0, 1.0))).find("leave the range out"), std::string::npos);
  EXPECT_TRUE(CheckStatistics(Bins(4, kLog, std::pair(1e-9, 1.0))).ok());

  const ReadPlan reaches_zero = Field<float>{{0, 1, 2}}.Plan();
  const auto check = [](const ReadPlan& plan, const StatisticsRequest& request) {
    return CheckHistogram(plan, request, OnlyPart(plan));
  };
  const Status status = check(reaches_zero, Bins(4, kLog));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("\"density\" has values from 0 to 2"), std::string::npos);
  EXPECT_TRUE(check(reaches_zero, Bins(4, kLog, std::pair(1e-9, 1.0))).ok());
  EXPECT_TRUE(check(reaches_zero, Bins(4, kQuantile)).ok());
  EXPECT_TRUE(check(Field<float>{{1, 2}}.Plan(), Bins(4, kLog)).ok());
  EXPECT_EQ(ParseHistogramScale("cubic").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*ParseHistogramScale("quantile"), kQuantile);
}

TEST(StatisticsTogether, AreThoseOfAllSamples) {
  // 1 and 3 samples: the mean is (8 + 3 * 4) / 4 = 5, within (2 + 3 * 1) / 4 = 1.25.
  Statistics one;
  one.valid = 1;
  one.min = one.max = one.mean = {8, 6, 10};
  Statistics three;
  three.valid = 3;
  three.min = {1, 0, 2};
  three.max = {9, 8.5, 9.5};
  three.mean = {4, 3, 5};
  const Statistics none = {.min = {NAN, NAN, NAN}, .max = {NAN, NAN, NAN}, .mean = {NAN, NAN, NAN}};

  const Totals all = Together(std::vector{none, one, three, none});

  EXPECT_EQ(all.valid, 4);
  EXPECT_EQ(all.min, (Bounded{1, 0, 2}));
  EXPECT_EQ(all.max, (Bounded{9, 8.5, 10}));
  EXPECT_DOUBLE_EQ(all.mean.value, 5);
  EXPECT_DOUBLE_EQ(all.mean.low, 3.75);
  EXPECT_DOUBLE_EQ(all.mean.high, 6.25);
  EXPECT_TRUE(std::isnan(Together(std::vector{none}).mean.value));
}

}  // namespace
}  // namespace quarry::query
