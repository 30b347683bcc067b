#include "quarry/places.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "quarry/base/status.h"

namespace quarry::client {
namespace {

/// temp and salt, on axes without positions, and coordinates of integers, in tenths of a degree. It counts
/// what is read.
class Sea : public Dataset {
 public:
  Sea() {
    description_.grids.resize(2);
    for (GridDescription& grid : description_.grids) {
      grid.dims = {4, 3, 1};
      grid.axis_names = {"i", "j", "z"};
      grid.unplaced = {true, true, false};
      grid.has_axis = {true, true, false};
    }
    description_.grids[0].dims[2] = 2;
    description_.grids[0].has_axis[2] = true;
    description_.fields.push_back({.name = "temp"});
    description_.fields.push_back({.name = "salt"});
    for (const char* name : {"lon", "lat"})
      description_.fields.push_back({.name = name,
                                     .type = DataType::kInt16,
                                     .fill = SampleValue(-1),
                                     .grid = 1,
                                     .still = true,
                                     .coordinate = true});
  }

  const DatasetDescription& description() const override { return description_; }
  Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest&,
                                                      const CallOptions&) const override {
    return std::vector<query::AnswerHeader>{{.field = "temp", .step = 7}};
  }
  /// Longitudes are 10 i + step, latitudes 20 j; the last sample is missing.
  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                    const CallOptions&) const override {
    const std::string& name = request.read.field;
    steps_[name].push_back(request.read.step);
    if (damaged_ == name) return DataLoss("damaged");
    LevelSamples samples;
    samples.type = DataType::kInt16;
    for (std::int16_t j = 0; j < 3; ++j) {
      for (std::int16_t i = 0; i < 4; ++i) {
        const int lon = 10 * i + static_cast<int>(request.read.step.value_or(0));
        const auto sample = static_cast<std::int16_t>(i == 3 && j == 2 ? -1 : name == "lon" ? lon : 20 * j);
        const auto bytes = std::as_bytes(std::span(&sample, 1));
        samples.data.insert(samples.data.end(), bytes.begin(), bytes.end());
      }
    }
    return on_level(&samples, {});
  }
  Result<std::vector<std::uint64_t>> StepNumbers(const CallOptions&) const override {
    return InternalError("no");
  }
  Result<StepDescription> Step(std::uint64_t, const CallOptions&) const override {
    return InternalError("no");
  }
  Result<std::vector<StepSummary>> Steps(const CallOptions&) const override { return InternalError("no"); }
  Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest&,
                                             const CallOptions&) const override {
    return InternalError("no");
  }
  Status WatchSteps(const WatchRequest&, const StepCallback&, const CallOptions&) const override {
    return InternalError("no");
  }

  DatasetDescription description_;
  std::string damaged_;
  mutable std::map<std::string, std::vector<std::optional<std::uint64_t>>> steps_;

 protected:
  Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest&, const CallOptions&) const override {
    return InternalError("no");
  }
};

using Points = std::vector<query::Point>;
using Steps = std::vector<std::optional<std::uint64_t>>;

TEST(Places, AreThoseOfTheCoordinates) {
  const Sea sea;
  const Places places = *Places::Of(sea, "temp");

  EXPECT_EQ(*places.SampleCoordinatesOf(Points{{15, 20, 1}, {0, 0, 0}}), (Points{{1.5, 1, 1}, {0, 0, 0}}));
  EXPECT_GT(places.bytes(), 0U);
  EXPECT_EQ(places.SampleCoordinatesOf(Points{{15, 20, 1}, {25, 30, 0}}).status().message(),
            "point 1 (25, 30, 0) is outside the grid of \"temp\": no four samples with positions enclose "
            "it; \"lon\" runs from 0 to 30, and \"lat\" runs from 0 to 40");
  EXPECT_EQ(places.SampleCoordinatesOf(Points{{15, 20, 1.5}}).status().message(),
            "point 0 (15, 20, 1.5) is outside the grid of \"temp\": \"z\" runs from 0 to 1");
}

TEST(Places, AreReadOnceForSeveralFields) {
  const Sea sea;
  const Places temp = *Places::Of(sea, "temp");
  const Places salt = *Places::Of(sea, "salt", 3, {}, temp);

  EXPECT_EQ(*salt.SampleCoordinatesOf(Points{{15, 20, 1}}), (Points{{1.5, 1, 1}}));
  EXPECT_EQ(sea.steps_["lon"], (Steps{std::nullopt}));
  EXPECT_EQ(sea.steps_["lat"], (Steps{std::nullopt}));
}

TEST(Places, ThatChangeWithTimeAreThoseOfTheStep) {
  Sea sea;
  sea.description_.fields[2].still = false;
  const Places first = *Places::Of(sea, "temp");  // positions of step 7, the first that has temp
  const Places fourth = *Places::Of(sea, "temp", 4, {}, first);
  const Places again = *Places::Of(sea, "salt", 4, {}, fourth);

  EXPECT_EQ(sea.steps_["lon"], (Steps{7, 4}));
  EXPECT_EQ(*first.SampleCoordinatesOf(Points{{22, 20, 1}}), (Points{{1.5, 1, 1}}));
  EXPECT_EQ(*again.SampleCoordinatesOf(Points{{19, 20, 1}}), (Points{{1.5, 1, 1}}));
}

TEST(Places, ThatAreTooManyAreRefusedUnread) {
  Sea sea;
  for (GridDescription& grid : sea.description_.grids) grid.dims = {1 << 14, (1 << 12) + 1, 1};

  const Status status = Places::Of(sea, "temp").status();

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the coordinates \"lon\" and \"lat\" have 67125248 samples each, and at most 67108864 are kept "
            "in memory; give sample coordinates, without --physical");
  EXPECT_TRUE(sea.steps_.empty());
}

TEST(Places, ErrorsOfReadingPass) {
  Sea sea;
  sea.damaged_ = "lat";
  EXPECT_EQ(Places::Of(sea, "temp").status().code(), StatusCode::kDataLoss);
}

TEST(Places, CancelledCallsEnd) {
  const Sea sea;
  const CancelToken cancel = CancelToken::Create();
  cancel.Cancel();
  EXPECT_EQ(Places::Of(sea, "temp")->SampleCoordinatesOf(Points{{15, 20, 1}}, cancel).status().code(),
            StatusCode::kCancelled);
}

TEST(Places, OfNoFieldAreSamples) {
  const Sea sea;
  EXPECT_EQ(*Places::Of(sea, "none")->SampleCoordinatesOf(Points{{15, 20, 1}}), (Points{{15, 20, 1}}));
}

}  // namespace
}  // namespace quarry::client
