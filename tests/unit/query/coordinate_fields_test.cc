#include "quarry/query/coordinate_fields.h"

#include <gtest/gtest.h>

namespace quarry::query {
namespace {

constexpr std::size_t kTemp = 0;

/// Attributes of a coordinate.
struct Said {
  std::string name;
  std::string standard_name;
  std::string units;
  std::string axis;
};

/// temp(deptht, j, i) and coordinates along j and i, or along other axes of these sizes.
DatasetDescription Ocean(const std::vector<Said>& coordinates) {
  DatasetDescription dataset;
  dataset.grids.resize(2);
  for (GridDescription& grid : dataset.grids) {
    grid.dims = {7, 5, 1};
    grid.axis_names = {"i", "j", "z"};
    grid.unplaced = {true, true, false};
    grid.has_axis = {true, true, false};
  }
  dataset.grids[0].dims[2] = 3;
  dataset.grids[0].has_axis[2] = true;
  dataset.grids[0].axis_names[2] = "deptht";
  dataset.grids[0].axis_units[2] = "m";
  dataset.fields.push_back({.name = "temp", .units = "degC"});
  for (const auto& [name, standard_name, units, axis] : coordinates) {
    FieldDescription field{.name = name, .units = units, .grid = 1, .still = true, .coordinate = true};
    if (!standard_name.empty()) field.attributes.push_back({"standard_name", standard_name});
    if (!axis.empty()) field.attributes.push_back({"axis", axis});
    dataset.fields.push_back(field);
  }
  return dataset;
}

/// Names of the coordinates of temp; empty: it has none.
std::pair<std::string, std::string> CoordinatesOf(const DatasetDescription& dataset) {
  const auto found = FindCoordinateFields(dataset, kTemp);
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok() || !*found) return {};
  return {dataset.fields[(*found)->x].name, dataset.fields[(*found)->y].name};
}

std::string ErrorOf(const DatasetDescription& dataset) {
  const Status status = FindCoordinateFields(dataset, kTemp).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(CoordinateFields, AreKnownByWhatTheySay) {
  const std::vector<std::pair<Said, Said>> pairs = {
      {{"a", "longitude", "", ""}, {"b", "latitude", "", ""}},
      {{"a", "", "degrees_east", ""}, {"b", "", "degree_N", ""}},
      {{"a", "", "degree", "X"}, {"b", "", "degree", "Y"}},
      {{"nav_lon", "", "", ""}, {"nav_lat", "", "", ""}},
      {{"glamt", "", "degrees", ""}, {"gphit", "", "degrees", ""}},
      {{"XLONG", "", "", ""}, {"XLAT", "", "", ""}},
      // The first attribute counts: names and axes are wrong here.
      {{"lat", "longitude", "degrees_north", "Y"}, {"lon", "latitude", "degrees_east", "X"}},
      {{"lat", "", "degrees_east", "Y"}, {"lon", "", "degrees_north", "X"}},
      {{"lat", "", "degrees", "X"}, {"lon", "", "degrees", "Y"}},
  };
  for (const auto& [x, y] : pairs) {
    for (const bool turned : {false, true}) {
      const DatasetDescription dataset = turned ? Ocean({y, x}) : Ocean({x, y});
      EXPECT_EQ(CoordinatesOf(dataset), std::pair(x.name, y.name));
      EXPECT_EQ((*FindCoordinateFields(dataset, kTemp))->kind, CoordinateKind::kDegrees);
    }
  }
}

TEST(CoordinateFields, HaveAKind) {
  const auto kind_of = [](const Said& x, const Said& y) {
    return (*FindCoordinateFields(Ocean({x, y}), kTemp))->kind;
  };
  EXPECT_EQ(kind_of({"lon", "", "radian", ""}, {"lat", "", "radians", ""}), CoordinateKind::kRadians);
  EXPECT_EQ(kind_of({"a", "projection_x_coordinate", "km", ""}, {"b", "projection_y_coordinate", "km", ""}),
            CoordinateKind::kPlane);
  EXPECT_EQ(kind_of({"a", "", "m", "X"}, {"b", "", "m", "Y"}), CoordinateKind::kPlane);
}

TEST(CoordinateFields, LongitudesComeBeforePlanes) {
  const DatasetDescription dataset = Ocean({{"x", "projection_x_coordinate", "m", ""},
                                            {"y", "projection_y_coordinate", "m", ""},
                                            {"lat", "latitude", "", ""},
                                            {"lon", "longitude", "", ""},
                                            {"bottom", "sea_floor_depth", "m", ""}});
  EXPECT_EQ(CoordinatesOf(dataset), std::pair(std::string("lon"), std::string("lat")));
}

TEST(CoordinateFields, AreOneOfEach) {
  EXPECT_EQ(
      ErrorOf(Ocean({})),
      "the axes \"j\" and \"i\" of \"temp\" have no positions, and the coordinates along both are not one "
      "longitude and one latitude (longitude: none; latitude: none); give sample coordinates, without "
      "--physical");
  EXPECT_NE(ErrorOf(Ocean({{"glamt", "", "degrees_east", ""},
                           {"gphit", "", "degrees_north", ""},
                           {"glamu", "", "degrees_east", ""}}))
                .find("(longitude: \"glamt\", \"glamu\"; latitude: \"gphit\")"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Ocean({{"a", "", "m", "X"}})).find("one x and one y (x: \"a\"; y: none)"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf(Ocean({{"lon", "", "degrees_east", ""}, {"lat", "", "radian", ""}})).find("latitude: none"),
      std::string::npos);
}

TEST(CoordinateFields, LieAlongBothAxesAndNoOther) {
  const std::vector<Said> both = {{"lon", "longitude", "", ""}, {"lat", "latitude", "", ""}};
  const auto changed = [&](const auto& change) {
    DatasetDescription dataset = Ocean(both);
    change(&dataset);
    return dataset;
  };
  EXPECT_EQ(CoordinatesOf(Ocean(both)), std::pair(std::string("lon"), std::string("lat")));
  EXPECT_NE(ErrorOf(changed([](auto* dataset) { dataset->grids[1].axis_names[0] = "i_u"; })), "");
  EXPECT_NE(ErrorOf(changed([](auto* dataset) { dataset->grids[1].dims[1] = 6; })), "");
  EXPECT_NE(ErrorOf(changed([](auto* dataset) { dataset->fields[1].grid = 0; })), "");
  EXPECT_NE(ErrorOf(changed([](auto* dataset) { dataset->fields[2].coordinate = false; })), "");
}

TEST(CoordinateFields, AreNotAskedForWhereAxesHavePositions) {
  DatasetDescription dataset = Ocean({{"lon", "longitude", "", ""}, {"lat", "latitude", "", ""}});
  for (GridDescription& grid : dataset.grids) grid.unplaced[1] = false;
  EXPECT_EQ(CoordinatesOf(dataset), std::pair(std::string(), std::string()));
}

TEST(CoordinateFields, ArraysThatNobodyDescribed) {
  // A simulation declares boxes of samples, and the longitude and latitude of each column.
  DatasetDescription dataset = Ocean({{"lon", "longitude", "", ""}, {"lat", "latitude", "", ""}});
  for (GridDescription& grid : dataset.grids) {
    grid.unplaced = {false, false, false};
    grid.axis_names = {"x", "y", "z"};
  }
  EXPECT_EQ(CoordinatesOf(dataset), std::pair(std::string("lon"), std::string("lat")));
  for (GridDescription& grid : dataset.grids) grid.spacing[0] = 2;
  EXPECT_EQ(CoordinatesOf(dataset), std::pair(std::string(), std::string())) << "somebody has placed them";
  for (GridDescription& grid : dataset.grids) grid.spacing[0] = 1;
  dataset.fields.resize(1);
  EXPECT_EQ(CoordinatesOf(dataset), std::pair(std::string(), std::string())) << "samples lie at 0, 1, 2, ...";
}

TEST(CoordinateFields, NameThePositions) {
  const DatasetDescription dataset =
      Ocean({{"nav_lat", "", "degrees_north", ""}, {"nav_lon", "", "degrees_east", ""}});
  const PositionTitles titles = TitlesOfPositions(dataset, kTemp, true);
  EXPECT_EQ(titles.names, (std::array<std::string, 3>{"nav_lon", "nav_lat", "deptht"}));
  EXPECT_EQ(titles.units, (std::array<std::string, 3>{"degrees_east", "degrees_north", "m"}));
  const PositionTitles samples = TitlesOfPositions(dataset, kTemp, false);
  EXPECT_EQ(samples.names, (std::array<std::string, 3>{"i", "j", "deptht"}));
  EXPECT_EQ(samples.units, (std::array<std::string, 3>{"", "", ""}));
}

}  // namespace
}  // namespace quarry::query
