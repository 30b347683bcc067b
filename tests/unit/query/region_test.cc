#include "quarry/query/region.h"

#include <gtest/gtest.h>

#include "quarry/format/dimension_names.h"

namespace quarry::query {
namespace {

/// x: lon 0, 2.5, ..., 25. y: lat 60, 50, 40, 30. z: 0, 1, 10.
DatasetDescription Placed() {
  DatasetDescription dataset;
  dataset.grids[0].dims = {11, 4, 3};
  dataset.grids[0].origin = {0, 60, 0};
  dataset.grids[0].spacing = {2.5, -10, 1};
  dataset.grids[0].coordinates[2] = {0, 1, 10};
  dataset.grids[0].axis_names = {"lon", "lat", ""};
  dataset.grids[0].axis_units = {"", "degrees_north", ""};
  return dataset;
}

Result<Box> BoxOf(const DatasetDescription& dataset, const std::vector<AxisInterval>& intervals) {
  return BoxOfRegion(dataset.grids[0], NamesOfDimensions(dataset).axes[0], intervals);
}

Box At(const std::vector<AxisInterval>& intervals) { return *BoxOf(Placed(), intervals); }

std::string ErrorOf(const std::vector<AxisInterval>& intervals) {
  const Status status = BoxOf(Placed(), intervals).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(Region, HoldsTheSamplesBetweenPositionsWithBothEnds) {
  EXPECT_EQ(At({}), (Box{{0, 0, 0}, {11, 4, 3}}));
  EXPECT_EQ(At({{"lon", 2.5, 7.5}}), (Box{{1, 0, 0}, {4, 4, 3}}));
  EXPECT_EQ(At({{"lon", 2.6, 7.4}}), (Box{{2, 0, 0}, {3, 4, 3}}));
  EXPECT_EQ(At({{"lat", 40, 55}}), (Box{{0, 1, 0}, {11, 3, 3}})) << "descending";
  EXPECT_EQ(At({{"lat", 40, {}}}), (Box{{0, 0, 0}, {11, 3, 3}}));
  EXPECT_EQ(At({{"lat", {}, 40}, {"z", 0.5, 100}}), (Box{{0, 2, 1}, {11, 4, 3}}));
  EXPECT_EQ(At({{"x", 25, 25}, {"y", 60, 60}}), (Box{{10, 0, 0}, {11, 1, 3}})) << "letters find the axes";
}

TEST(Region, EndsLieWherePositionsAreSaidToLie) {
  DatasetDescription dataset = Placed();
  dataset.grids[0].origin[0] = 0.1;
  dataset.grids[0].spacing[0] = 0.1;
  for (std::int64_t i = 0; i < 11; ++i) {
    const double at = PositionOf(dataset.grids[0], 0, i);
    const std::vector<AxisInterval> one = {{"lon", at, at}};
    EXPECT_EQ(BoxOf(dataset, one)->begin[0], i);
  }
}

TEST(Region, ErrorsNameWhatThereIs) {
  EXPECT_EQ(ErrorOf({{"depth", 0, 1}}), "there is no axis \"depth\"; the axes are z, lat and lon");
  EXPECT_EQ(
      ErrorOf({{"lat", 41, 49}}),
      "no sample lies from 41 to 49 along lat; samples lie from 60 to 30 degrees_north, the nearest at 50 "
      "and 40; give an interval that holds one");
  EXPECT_EQ(
      ErrorOf({{"lon", 26, {}}}),
      "no sample lies from 26 on along lon; samples lie from 0 to 25, the nearest at 25; give an interval "
      "that holds one");
  EXPECT_EQ(
      ErrorOf({{"lat", {}, 29}}),
      "no sample lies up to 29 along lat; samples lie from 60 to 30 degrees_north, the nearest at 30; give "
      "an interval that holds one");
  EXPECT_NE(ErrorOf({{"lat", 50, 40}}).find("give that first"), std::string::npos);
  EXPECT_NE(ErrorOf({{"lat", NAN, {}}}).find("give that first"), std::string::npos);
  EXPECT_EQ(ErrorOf({{"lat", 30, 40}, {"y", 30, 40}}), "\"lat\" and \"y\" are the same axis; give it once");
}

TEST(Region, IsParsed) {
  const auto intervals = *ParseRegion("lat=40:50,Height (m)=-1e3:,a=b=:2");
  ASSERT_EQ(intervals.size(), 3);
  EXPECT_EQ(intervals[0].axis, "lat");
  EXPECT_EQ(std::pair(intervals[0].low, intervals[0].high),
            std::pair(std::optional(40.0), std::optional(50.0)));
  EXPECT_EQ(intervals[1].axis, "Height (m)");
  EXPECT_EQ(intervals[1].low, -1000);
  EXPECT_FALSE(intervals[1].high);
  EXPECT_EQ(intervals[2].axis, "a=b");
  for (const std::string wrong :
       {"", "lat", "lat=", "lat=4", "=1:2", "lat=1:2,", "lat=a:2", "lat=1:2:3", "1:2"})
    EXPECT_EQ(ParseRegion(wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace quarry::query
