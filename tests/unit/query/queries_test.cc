// Questions other than for a level: what they select and cost, and that their answers equal those computed
// from all samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "quarry/dataset/points.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/statistics.h"
#include "quarry/query/question_rules.h"
#include "tests/testing/make_dataset.h"

namespace quarry::query {
namespace {

const auto kNever = [] { return false; };

struct QueryCase {
  CoderId coder;
  bool missing;
};
void PrintTo(const QueryCase& test, std::ostream* out) {
  *out << Name(test.coder) << (test.missing ? ", missing samples" : "");
}

class QueryTest : public ::testing::TestWithParam<QueryCase> {
 protected:
  void SetUp() override {
    recipe_.coder = GetParam().coder;
    recipe_.missing = GetParam().missing;
    recipe_.lossless = recipe_.coder == CoderId::kLossless;
    testing::MakeDataset(folder_.path() / "a.quarry", recipe_);
    dataset_ = *Dataset::Open(folder_.path() / "a.quarry");
    originals_ = testing::MakeSamples(recipe_.dims, 0, recipe_.missing);
  }

  Box RandomBox() {
    Box box;
    for (std::size_t a = 0; a < 3; ++a) {
      box.begin[a] = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(recipe_.dims[a]));
      box.end[a] =
          box.begin[a] + 1 +
          static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(recipe_.dims[a] - box.begin[a]));
    }
    return box;
  }

  float OriginalAt(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return originals_[static_cast<std::size_t>(x + recipe_.dims[0] * (y + recipe_.dims[1] * z))];
  }

  /// Originals at the places of an answer's samples, in the same order.
  std::vector<float> OriginalsAt(const LevelExtent& level) const {
    std::vector<float> samples;
    for (auto z = level.extent.begin[2]; z < level.extent.end[2]; ++z) {
      for (auto y = level.extent.begin[1]; y < level.extent.end[1]; ++y) {
        for (auto x = level.extent.begin[0]; x < level.extent.end[0]; ++x)
          samples.push_back(OriginalAt(x * level.spacing[0], y * level.spacing[1], z * level.spacing[2]));
      }
    }
    return samples;
  }

  Result<PointsPlan> PlanPoints(const PointsRequest& request) const {
    QUARRY_ASSIGN_OR_RETURN(Query query, dataset_->Resolve(request));
    return dataset_->PlanPoints(request, std::move(query));
  }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<float> originals_;
  ReadEngine engine_{std::uint64_t{64} << 20, 2};
  std::mt19937 random_{1};
};

std::vector<double> ValidOf(const std::vector<float>& samples) {
  std::vector<double> valid;
  for (const float sample : samples) {
    if (std::isfinite(sample)) valid.push_back(static_cast<double>(sample));
  }
  return valid;
}

double Mean(const std::vector<double>& values) {
  long double sum = 0;
  for (const double value : values) sum += value;
  return static_cast<double>(sum / static_cast<long double>(values.size()));
}

double Stddev(const std::vector<double>& values) {
  const double mean = Mean(values);
  long double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return static_cast<double>(std::sqrt(sum / static_cast<long double>(values.size())));
}

/// The smallest value that at least this share does not exceed.
double PercentileOf(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  std::size_t rank = 1;
  while (static_cast<double>(rank) * 100 < percent * static_cast<double>(values.size())) ++rank;
  return values[rank - 1];
}

TEST_P(QueryTest, TheFinestLevelThatFitsIsChosenAndCostsWhatItSays) {
  std::set<int> chosen;
  for (int i = 0; i < 300; ++i) {
    ReadRequest request{.field = "pressure", .box = RandomBox()};
    if (random_() % 2 == 0) request.first_level = recipe_.levels - 1;
    // The cost of each level alone.
    std::vector<std::uint64_t> costs;
    for (int level = 0; level < recipe_.levels; ++level) {
      ReadRequest at = request;
      at.target = AtLevel{level};
      const ReadPlan plan = *dataset_->Plan(at);
      costs.push_back(plan.levels.back().extent.empty() ? UINT64_MAX
                                                        : std::max(plan.cost.bytes, plan.cost.reply_bytes));
    }
    const std::uint64_t budget =
        static_cast<std::uint64_t>(std::pow(2.0, static_cast<double>(random_() % 180) / 10));
    request.target = WithinBytes{budget};
    const auto fits =
        std::find_if(costs.begin(), costs.end(), [&](std::uint64_t cost) { return cost <= budget; });
    const auto plan = dataset_->Plan(request);
    if (fits == costs.end()) {
      ASSERT_EQ(plan.status().code(), StatusCode::kNotFound);
      const std::uint64_t least = *std::min_element(costs.begin(), costs.end());
      EXPECT_NE(plan.status().message().find(fmt::format("is {};", least)), std::string::npos)
          << plan.status().message();
      ReadRequest again = request;
      again.target = WithinBytes{least};
      EXPECT_TRUE(dataset_->Plan(again).ok()) << "the least that was named is enough";
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->query.level, fits - costs.begin());
    EXPECT_EQ(std::max(plan->cost.bytes, plan->cost.reply_bytes), *fits);
    chosen.insert(plan->query.level);
  }
  EXPECT_GE(chosen.size(), 3u);
}

TEST_P(QueryTest, AStrideGivesTheSamplesAtItsMultiples) {
  const std::vector<float> whole = testing::ReadAll(*dataset_, {.field = "pressure"});
  for (int i = 0; i < 100; ++i) {
    AtStride at;
    for (std::int64_t& part : at.stride) part = 1 + static_cast<std::int64_t>(random_() % 9);
    if (i % 3 == 0) at.stride = {4, 8, 4};
    const ReadRequest request{.field = "pressure", .box = RandomBox(), .target = at};
    const ReadPlan plan = *dataset_->Plan(request);
    const LevelExtent& level = plan.levels.at(0);

    EXPECT_EQ(level.spacing, at.stride);
    std::vector<float> expected;
    for (auto z = request.box->begin[2]; z < request.box->end[2]; ++z) {
      for (auto y = request.box->begin[1]; y < request.box->end[1]; ++y) {
        for (auto x = request.box->begin[0]; x < request.box->end[0]; ++x) {
          if (x % level.spacing[0] == 0 && y % level.spacing[1] == 0 && z % level.spacing[2] == 0)
            expected.push_back(
                whole[static_cast<std::size_t>(x + recipe_.dims[0] * (y + recipe_.dims[1] * z))]);
        }
      }
    }
    const std::vector<float> answer = testing::ReadAll(*dataset_, request);
    EXPECT_EQ(plan.cost.reply_bytes, expected.size() * sizeof(float));
    ASSERT_EQ(answer.size(), expected.size());
    // Compared by bits: missing samples are NaN.
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(answer)), std::as_bytes(std::span(expected))))
        << ToString(at.stride) << " " << ToString(*request.box);
  }
}

TEST_P(QueryTest, ARangeOfValuesLeavesOutWhatHoldsNoneOfThem) {
  const std::vector<float> whole = testing::ReadAll(*dataset_, {.field = "pressure"});
  const std::vector<double> valid = ValidOf(originals_);
  int narrowed = 0;
  for (int i = 0; i < 200; ++i) {
    ReadRequest request{.field = "pressure", .box = RandomBox()};
    if (i % 3 == 0) request.first_level = recipe_.levels - 1;
    if (i % 3 == 1) request.target = AtLevel{i % recipe_.levels};
    const ReadPlan all = *dataset_->Plan(request);
    const double low = valid[random_() % valid.size()];
    request.values = {low, low + (i % 2 == 0 ? 0 : 0.05)};
    const ReadPlan plan = *dataset_->Plan(request);

    const auto is_left_out = [&](const Index3& at) {
      return std::ranges::any_of(plan.left_out, [&](const Box& box) {
        return box.Contains({at, {at[0] + 1, at[1] + 1, at[2] + 1}});
      });
    };
    std::uint64_t left_out = 0;
    for (auto z = request.box->begin[2]; z < request.box->end[2]; ++z) {
      for (auto y = request.box->begin[1]; y < request.box->end[1]; ++y) {
        for (auto x = request.box->begin[0]; x < request.box->end[0]; ++x) {
          if (!is_left_out({x, y, z})) continue;
          ++left_out;
          for (const float sample :
               {OriginalAt(x, y, z),
                whole[static_cast<std::size_t>(x + recipe_.dims[0] * (y + recipe_.dims[1] * z))]})
            ASSERT_FALSE(sample >= request.values->low && sample <= request.values->high) << x << "," << y;
        }
      }
    }
    std::int64_t boxes = 0;
    for (const Box& box : plan.left_out) {
      EXPECT_TRUE(request.box->Contains(box));
      boxes += box.volume();
    }
    EXPECT_EQ(static_cast<std::uint64_t>(boxes), left_out) << "no two boxes overlap";
    EXPECT_LE(plan.cost.patches, all.cost.patches);
    EXPECT_LE(plan.cost.reply_bytes, all.cost.reply_bytes);
    narrowed += !plan.left_out.empty() && plan.cost.patches > 0;
    std::uint64_t samples = 0;
    for (const LevelExtent& level : plan.levels) {
      for (auto z = level.extent.begin[2]; z < level.extent.end[2]; ++z) {
        for (auto y = level.extent.begin[1]; y < level.extent.end[1]; ++y) {
          for (auto x = level.extent.begin[0]; x < level.extent.end[0]; ++x)
            samples += !is_left_out({x * level.spacing[0], y * level.spacing[1], z * level.spacing[2]});
        }
      }
    }
    EXPECT_EQ(plan.cost.reply_bytes, samples * sizeof(float));
  }
  EXPECT_GT(narrowed, 20);
  const ReadPlan none = *dataset_->Plan({.field = "pressure", .values = Bounds{1e30, 1e31}});
  EXPECT_EQ(none.left_out, (std::vector<Box>{{{0, 0, 0}, recipe_.dims}}));
  EXPECT_EQ(none.cost, Cost{});
  EXPECT_EQ(dataset_->Plan({.field = "pressure", .values = Bounds{2, 1}}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(dataset_->Plan({.field = "pressure", .values = Bounds{0, NAN}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(QueryTest, AStrideIsReadFromTheCoarsestLevelThatHoldsIt) {
  const auto level_of = [&](const Index3& stride) {
    return dataset_->Plan({.field = "pressure", .target = AtStride{stride}})->query.level;
  };
  const bool filtered = recipe_.coder == CoderId::kWaveletZfp;
  EXPECT_EQ(level_of({1, 1, 1}), 0);
  EXPECT_EQ(level_of({3, 4, 4}), 0);
  EXPECT_EQ(level_of({2, 4, 6}), filtered ? 0 : 1);
  EXPECT_EQ(level_of({4, 8, 12}), filtered ? 0 : 2);
  EXPECT_EQ(level_of({64, 64, 64}), filtered ? 0 : 3) << "there is no coarser level";
}

TEST_P(QueryTest, StatisticsAreThoseOfTheSamplesAndTheirIntervalsHoldTheOriginals) {
  const std::vector<double> percentiles = {0, 1, 10, 50, 90, 99.5, 100, 7, 14, 28, 55};
  for (int i = 0; i < 150; ++i) {
    StatisticsRequest request;
    request.read.field = "pressure";
    request.read.box = RandomBox();
    request.percentiles = percentiles;
    request.bins = 10;
    if (i % 5 == 0) {
      request.read.target = AtStride{{2, 3, 1}};
    } else {
      request.read.target = AtLevel{static_cast<int>(random_() % 4)};
    }
    if (i % 2 == 0) request.range = {-0.5, 2.5};
    const ReadPlan plan = *dataset_->Plan(SamplesOf(request));
    const Statistics found = *ComputeStatistics(*dataset_, plan, request, &engine_, kNever);
    const std::vector<double> samples = ValidOf(testing::ReadAll(*dataset_, request.read));
    const std::vector<double> originals = ValidOf(OriginalsAt(plan.levels[0]));

    ASSERT_EQ(samples.size(), originals.size());
    ASSERT_EQ(found.valid, samples.size());
    EXPECT_EQ(found.missing, static_cast<std::uint64_t>(plan.levels[0].extent.volume()) - samples.size());
    if (samples.empty()) {
      EXPECT_TRUE(std::isnan(found.mean.value) && std::isnan(found.percentiles.at(3).at.value));
      continue;
    }
    const auto check = [&](const char* name, const Bounded& bounded, double of_samples, double of_originals) {
      SCOPED_TRACE(name);
      EXPECT_NEAR(bounded.value, of_samples, 1e-12 * std::max(1.0, std::abs(of_samples)));
      EXPECT_LE(bounded.low, of_originals + 1e-12);
      EXPECT_GE(bounded.high, of_originals - 1e-12);
    };
    check("min", found.min, *std::min_element(samples.begin(), samples.end()),
          *std::min_element(originals.begin(), originals.end()));
    check("max", found.max, *std::max_element(samples.begin(), samples.end()),
          *std::max_element(originals.begin(), originals.end()));
    check("mean", found.mean, Mean(samples), Mean(originals));
    check("stddev", found.stddev, Stddev(samples), Stddev(originals));
    for (std::size_t p = 0; p < percentiles.size(); ++p) {
      SCOPED_TRACE(percentiles[p]);
      const Bounded& at = found.percentiles.at(p).at;
      EXPECT_LE(at.low, PercentileOf(originals, percentiles[p]));
      EXPECT_GE(at.high, PercentileOf(originals, percentiles[p]));
      // The range with the error of the coarsest level is at least 40, and a bin is a 65536th of it.
      EXPECT_NEAR(at.value, PercentileOf(samples, percentiles[p]), 1e-3);
    }

    const Histogram& histogram = found.histogram;
    ASSERT_EQ(histogram.counts.size(), 10u);
    const auto count = [&](const std::vector<double>& values, double begin, double end, bool closed) {
      return static_cast<std::uint64_t>(std::count_if(values.begin(), values.end(), [&](double v) {
        return v >= begin && (v < end || (closed && v == end));
      }));
    };
    std::uint64_t sum = histogram.below + histogram.above;
    for (std::size_t b = 0; b < 10; ++b) {
      const double width = histogram.end / 10 - histogram.begin / 10;
      const double begin = histogram.begin + width * static_cast<double>(b);
      const double end = b == 9 ? histogram.end : histogram.begin + width * static_cast<double>(b + 1);
      EXPECT_EQ(histogram.counts[b], count(samples, begin, end, b == 9));
      EXPECT_LE(histogram.low[b], count(originals, begin, end, b == 9));
      EXPECT_GE(histogram.high[b], count(originals, begin, end, b == 9));
      sum += histogram.counts[b];
    }
    EXPECT_EQ(sum, found.valid);
  }
}

TEST_P(QueryTest, TheRangeOfTheWholeBoxIsBoundedFromCoarseSamples) {
  for (int i = 0; i < 150; ++i) {
    const Box box = i == 0 ? Box{{0, 0, 0}, recipe_.dims} : RandomBox();
    const StatisticsRequest request{
        {.field = "pressure", .box = box, .target = AtLevel{static_cast<int>(random_() % 4)}}, {}, 0, {}};
    const ReadPlan plan = *dataset_->Plan(SamplesOf(request));
    const Statistics found = *ComputeStatistics(*dataset_, plan, request, &engine_, kNever);
    const std::vector<double> originals = ValidOf(OriginalsAt({0, 0, box, {1, 1, 1}, 0, 0, 1}));
    if (originals.empty()) continue;
    const double low = *std::min_element(originals.begin(), originals.end());
    const double high = *std::max_element(originals.begin(), originals.end());
    EXPECT_LE(found.box_min.low, low);
    EXPECT_GE(found.box_min.high, low);
    EXPECT_LE(found.box_max.low, high);
    EXPECT_GE(found.box_max.high, high);
    if (i == 0) {
      EXPECT_EQ(found.box_min, (Bounds{low, low})) << "whole patches are recorded exactly";
    }
  }
}

TEST_P(QueryTest, StatisticsThatCannotBeAreRefused) {
  const ReadRequest read{.field = "pressure"};
  for (const StatisticsRequest& request :
       {StatisticsRequest{read, {101}, 0, {}}, StatisticsRequest{read, {-1}, 0, {}},
        StatisticsRequest{read, {std::nan("")}, 0, {}}, StatisticsRequest{read, {}, -1, {}},
        StatisticsRequest{read, {}, kMaxBins + 1, {}},
        StatisticsRequest{read, std::vector<double>(101), 0, {}}, StatisticsRequest{read, {}, 4, {{1, 1}}},
        StatisticsRequest{read, {}, 4, {{0, INFINITY}}}}) {
    EXPECT_EQ(CheckStatistics(request).code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(QueryTest, PointsAreInterpolatedBetweenTheirEightSamples) {
  const std::vector<float> whole = testing::ReadAll(*dataset_, {.field = "pressure"});
  const auto sample = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<double>(
        whole[static_cast<std::size_t>(x + recipe_.dims[0] * (y + recipe_.dims[1] * z))]);
  };
  PointsRequest request{"pressure", {}, {}, false};
  std::uniform_real_distribution<double> unit(0, 1);
  for (int i = 0; i < 500; ++i) {
    Point point{};
    for (std::size_t a = 0; a < 3; ++a) {
      const auto last = static_cast<double>(recipe_.dims[a] - 1);
      point[a] = unit(random_) * last;
      if (random_() % 3 == 0) point[a] = std::round(point[a]);  // on a sample
      if (random_() % 20 == 0) point[a] = last;
    }
    request.points.push_back(point);
  }
  PointsPlan plan = *PlanPoints(request);
  const Cost cost = plan.read.cost;
  const PointsAnswer answer = *ReadPoints(*dataset_, std::move(plan), &engine_, kNever);
  EXPECT_EQ(answer.cost, cost);
  ASSERT_EQ(answer.values.size(), request.points.size());

  std::set<Index3> patches;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < request.points.size(); ++i) {
    // Along x, then y, then z: unlike the library.
    Index3 low{};
    Index3 high{};
    std::array<double, 3> t{};
    for (std::size_t a = 0; a < 3; ++a) {
      low[a] = static_cast<std::int64_t>(request.points[i][a]);
      t[a] = request.points[i][a] - static_cast<double>(low[a]);
      high[a] = t[a] > 0 ? low[a] + 1 : low[a];
    }
    bool gone = false;
    const auto take = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
      patches.insert({x / recipe_.patch[0], y / recipe_.patch[1], z / recipe_.patch[2]});
      gone = gone || !std::isfinite(sample(x, y, z));
      return sample(x, y, z);
    };
    const auto mix = [](double a, double b, double u) { return u > 0 ? a + (b - a) * u : a; };
    const auto along_x = [&](std::int64_t y, std::int64_t z) {
      return mix(take(low[0], y, z), take(high[0], y, z), t[0]);
    };
    const auto along_y = [&](std::int64_t z) { return mix(along_x(low[1], z), along_x(high[1], z), t[1]); };
    const double expected = mix(along_y(low[2]), along_y(high[2]), t[2]);
    if (gone) {
      ++missing;
      EXPECT_TRUE(std::isnan(answer.values[i]));
    } else {
      EXPECT_NEAR(answer.values[i], expected, 1e-12);
    }
  }
  EXPECT_EQ(missing > 0, recipe_.missing);
  EXPECT_EQ(cost.patches, patches.size()) << "patches without a sample that takes part are not read";
  EXPECT_EQ(cost.reply_bytes, 500 * sizeof(double));
}

TEST_P(QueryTest, ManyPointsAreWorkedOnInParts) {
  constexpr std::size_t kPoints = 20'000;
  std::uniform_real_distribution<double> unit(0, 1);
  PointsRequest request{"pressure", {}, {}, false};
  for (std::size_t i = 0; i < kPoints; ++i) {
    Point point{};
    for (std::size_t a = 0; a < 3; ++a) point[a] = unit(random_) * static_cast<double>(recipe_.dims[a] - 1);
    request.points.push_back(point);
  }
  std::size_t parts = 0;
  std::uint64_t work = 0;
  const auto in_turn = [&](std::uint64_t bytes, const std::function<void()>& compute) {
    ++parts;
    work += bytes;
    compute();
  };
  PointsPlan plan = *dataset_->PlanPoints(request, *dataset_->Resolve(request), nullptr, in_turn);
  EXPECT_EQ(parts, 3u);
  EXPECT_EQ(work, kPoints * kBytesPerPoint);
  const std::vector<double> values = ReadPoints(*dataset_, std::move(plan), &engine_, kNever)->values;
  ASSERT_EQ(values.size(), kPoints);
  // A few points are answered at once.
  constexpr std::size_t kFew = 1000;
  for (std::size_t first = 0; first < kPoints; first += kFew) {
    PointsRequest few{"pressure", {}, {}, false};
    few.points.assign(request.points.begin() + static_cast<std::ptrdiff_t>(first),
                      request.points.begin() + static_cast<std::ptrdiff_t>(first + kFew));
    const PointsAnswer answer = *ReadPoints(*dataset_, *PlanPoints(few), &engine_, kNever);
    for (std::size_t i = 0; i < kFew; ++i) {
      const bool missing = std::isnan(values[first + i]);
      ASSERT_TRUE(missing ? std::isnan(answer.values[i]) : answer.values[i] == values[first + i])
          << first + i;
    }
  }
}

TEST_P(QueryTest, OnlyPatchesAroundThePointsAreRead) {
  const auto patches = [&](std::vector<Point> points) {
    return PlanPoints({"pressure", {}, std::move(points), true})->read.cost.patches;
  };
  EXPECT_EQ(patches({{0, 0, 0}}), 1u);
  EXPECT_EQ(patches({{0, 0, 0}, {36, 21, 12}}), 2u) << "opposite corners, nothing between";
  EXPECT_EQ(patches({{7, 7, 7}}), 1u) << "on a sample";
  EXPECT_EQ(patches({{7.5, 7, 7}}), 2u);
  EXPECT_EQ(patches({{7.5, 7.5, 7.5}}), 8u);
  for (const Point& outside :
       {Point{-0.001, 0, 0}, Point{36.001, 0, 0}, Point{0, NAN, 0}, Point{0, 0, INFINITY}})
    EXPECT_EQ(PlanPoints({"pressure", {}, {outside}, true}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanPoints({"pressure", {}, {}, true}).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(QueryTest, AFocusBringsTheNearestPatchesFirstInsideEachLevel) {
  class Recorder final : public PatchSink {
   public:
    Recorder(const ReadPlan& plan, const Point& focus) : plan_(plan), focus_(focus) {}
    Status Patch(int, std::size_t index, const StoredPatch&) override {
      const PlannedPatch& patch = plan_.patches[index];
      double sum = 0;
      for (std::size_t a = 0; a < 3; ++a) {
        const double low = static_cast<double>(patch.samples.begin[a]) - focus_[a];
        const double high = focus_[a] - static_cast<double>(patch.samples.end[a] - 1);
        const double apart = std::max({0.0, low, high});
        sum += apart * apart;
      }
      EXPECT_GE(sum, last_);
      last_ = sum;
      ++patches;
      return Status::Ok();
    }
    Status LevelEnd(const LevelExtent&) override {
      last_ = 0;
      ++levels;
      return Status::Ok();
    }
    std::uint64_t patches = 0;
    int levels = 0;

   private:
    const ReadPlan& plan_;
    Point focus_;
    double last_ = 0;
  };

  for (const Point& focus : {Point{30, 20, 12}, Point{-100, 5, 5}, Point{18, 11, 6.5}}) {
    const ReadRequest plain{.field = "pressure", .first_level = 3};
    ReadRequest request = plain;
    request.focus = focus;
    const ReadPlan plan = *dataset_->Plan(request);
    Recorder recorder(plan, focus);
    ASSERT_TRUE(ExecutePatches(*dataset_, plan, &engine_, kNever, &recorder).ok());
    EXPECT_EQ(recorder.levels, 4);
    EXPECT_EQ(recorder.patches, 4 * plan.cost.patches);
    EXPECT_EQ(plan.cost.bytes, dataset_->Plan(plain)->cost.bytes) << "another order of the same bytes";
    const auto in_order = testing::ReadAll(*dataset_, {.field = "pressure"});
    const auto by_distance = testing::ReadAll(*dataset_, {.field = "pressure", .focus = focus});
    EXPECT_EQ(std::memcmp(in_order.data(), by_distance.data(), in_order.size() * sizeof(float)), 0);
  }
}

TEST_P(QueryTest, ImpossibleQuestionsAreRefused) {
  for (const ReadRequest& request :
       {ReadRequest{.field = "pressure", .target = AtLevel{-1}},
        ReadRequest{.field = "pressure", .target = WithinError{-1}},
        ReadRequest{.field = "pressure", .target = WithinError{NAN}},
        ReadRequest{.field = "pressure", .target = AtStride{{2, 0, 2}}},
        ReadRequest{.field = "pressure", .target = AtStride{{2, 2, 2}}, .first_level = 3},
        ReadRequest{.field = "pressure", .focus = Point{0, NAN, 0}}}) {
    EXPECT_EQ(dataset_->Plan(request).status().code(), StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Coders, QueryTest,
                         ::testing::Values(QueryCase{CoderId::kWaveletZfp, false},
                                           QueryCase{CoderId::kInterpolate, false},
                                           QueryCase{CoderId::kInterpolate, true},
                                           QueryCase{CoderId::kLossless, true}),
                         [](const auto& test) {
                           std::string name(Name(test.param.coder));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (test.param.missing ? "_missing" : "");
                         });

TEST(MakeTarget, TakesTheOneThatIsGiven) {
  const TargetNames names{"--level", "--max-error", "--max-bytes", "--stride"};
  EXPECT_EQ(*MakeTarget({}, names), Target(AtLevel{0}));
  EXPECT_EQ(*MakeTarget({.level = 3}, names), Target(AtLevel{3}));
  EXPECT_EQ(*MakeTarget({.max_error = 0.5}, names), Target(WithinError{0.5}));
  EXPECT_EQ(*MakeTarget({.max_bytes = 100}, names), Target(WithinBytes{100}));
  EXPECT_EQ(*MakeTarget({.stride = Index3{2, 1, 4}}, names), Target(AtStride{{2, 1, 4}}));
}

TEST(MakeTarget, RefusesTwoInTheWordsOfTheCaller) {
  const auto refusal = [](const GivenTargets& given) {
    const Status status = MakeTarget(given, {"level", "max_error", "max_bytes", "--stride"}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal({.level = 0, .max_error = 1}), "only one of level and max_error can be given");
  EXPECT_EQ(refusal({.level = 1, .max_bytes = 1 << 20}), "only one of level and max_bytes can be given");
  EXPECT_EQ(refusal({.max_error = 1, .max_bytes = 1}), "only one of max_error and max_bytes can be given");
  EXPECT_EQ(refusal({.max_bytes = 1, .stride = Index3{2, 2, 2}}),
            "only one of max_bytes and --stride can be given");
}

TEST(SampleCoordinates, FollowOriginSpacingAndCoordinates) {
  GridDescription grid;
  grid.dims = {11, 4, 3};
  grid.origin = {100, 0, 0};
  grid.spacing = {2.5, 1, 1};
  grid.coordinates[1] = {0, 1, 10, 100};
  grid.coordinates[2] = {5, 0, -5};
  EXPECT_EQ(ToSampleCoordinates(grid, {110, 5.5, 2.5}), (Point{4, 1.5, 0.5}));
  EXPECT_EQ(ToSampleCoordinates(grid, {100, 0, 5}), (Point{0, 0, 0}));
  EXPECT_EQ(ToSampleCoordinates(grid, {125, 100, -5}), (Point{10, 3, 2}));
  EXPECT_LT(ToSampleCoordinates(grid, {99, -1, 6})[1], 0);
  EXPECT_GT(ToSampleCoordinates(grid, {99, 101, -6})[2], 2);
}

}  // namespace
}  // namespace quarry::query
