#include "writer/pipeline/source_grid.h"

#include <gtest/gtest.h>

namespace quarry::writer {
namespace {

constexpr const char* kAdvice = "place it at {origin} by {spacing}";

/// lon, lat and depth, with 6, 4 and 3 samples, of which depth is uneven.
SourceGrid Volume() {
  SourceGrid grid{{6, 4, 3}, {}};
  grid.axes[0] = {"lon", "degrees_east", 0.0, 1.0, {}, true, false, DataType::kFloat32, {{"axis", "X"}}};
  grid.axes[1] = {"lat", "degrees_north", -30.0, 20.0, {}};
  grid.axes[2] = {"depth", "m", 5.0, 47.5, {5, 15, 100}};
  return grid;
}

/// The surface of the volume.
SourceGrid Map() {
  SourceGrid grid = Volume();
  grid.dims[2] = 1;
  grid.axes[2] = {};
  grid.axes[2].exists = false;
  return grid;
}

SourceGrid Nameless(const Index3& dims) { return {dims, {}}; }

/// A dataset with the field "t" on the grid of the volume.
DatasetDescription WithVolume() {
  DatasetDescription dataset = DescribeDataset({});
  FieldDescription field;
  field.name = "t";
  field.grid = *ChooseGrid(Volume(), {}, "t", kAdvice, &dataset);
  dataset.fields = {field};
  return dataset;
}

std::size_t GridOf(const SourceGrid& source, const LayoutRequest& layout = {}) {
  DatasetDescription dataset = WithVolume();
  const Result<std::size_t> grid = ChooseGrid(source, layout, "new", kAdvice, &dataset);
  EXPECT_TRUE(grid.ok()) << grid.status().message();
  EXPECT_EQ(dataset.grids.size(), *grid + 1) << "a new one comes last";
  return *grid;
}

Status ErrorOf(const SourceGrid& source, const LayoutRequest& layout = {}) {
  DatasetDescription dataset = WithVolume();
  return ChooseGrid(source, layout, "t", kAdvice, &dataset).status();
}

TEST(SourceGrid, BecomesAGridWithAllThatTheSourceSays) {
  const GridDescription grid = WithVolume().grids[0];
  EXPECT_EQ(grid.dims, (Index3{6, 4, 3}));
  EXPECT_EQ(grid.axis_names, (std::array<std::string, 3>{"lon", "lat", "depth"}));
  EXPECT_EQ(grid.origin, (std::array<double, 3>{0, -30, 5}));
  EXPECT_EQ(grid.coordinates[2], (std::vector<double>{5, 15, 100}));
  EXPECT_EQ(grid.position_types[0], DataType::kFloat32);
  EXPECT_EQ(grid.axis_attributes[0], (Attributes{{"axis", "X"}}));
  DatasetDescription dataset = WithVolume();
  const std::size_t map = *ChooseGrid(Map(), {}, "ssh", kAdvice, &dataset);
  EXPECT_EQ(dataset.grids[map].has_axis, (std::array<bool, 3>{true, true, false}));
}

TEST(SourceGrid, SamplesOfTheSamePlacesLieOnTheSameGrid) {
  EXPECT_EQ(GridOf(Volume()), 0u);
  EXPECT_EQ(GridOf(Nameless({6, 4, 3})), 0u) << "arrays that say nothing are taken at their size";
  SourceGrid near = Volume();
  near.axes[0].origin = 5e-7;
  near.axes[2].coordinates = {5.00001, 15, 100};
  near.axes[1].units = "";
  EXPECT_EQ(GridOf(near), 0u) << "as positions of float32 are rounded";
}

TEST(SourceGrid, OthersGetOneOfTheirOwn) {
  EXPECT_EQ(GridOf(Nameless({6, 4, 2})), 1u) << "another size";
  EXPECT_EQ(GridOf(Map()), 1u) << "an axis less";
  SourceGrid staggered = Volume();
  staggered.axes[0].name = "lon_u";
  staggered.axes[0].origin = 0.5;
  EXPECT_EQ(GridOf(staggered), 1u);
  SourceGrid renamed = Volume();
  renamed.axes[0].name = "longitude";
  EXPECT_EQ(GridOf(renamed), 1u) << "names are kept";
  EXPECT_EQ(GridOf(Nameless({6, 4, 3}), {.origin = {{1, 2, 3}}}), 1u) << "elsewhere";
}

TEST(SourceGrid, AnAxisOfOneSampleIsNotNone) {
  DatasetDescription dataset = DescribeDataset({});
  ASSERT_EQ(*ChooseGrid(Map(), {}, "ssh", kAdvice, &dataset), 0u);
  SourceGrid layer = Volume();
  layer.dims[2] = 1;
  layer.axes[2] = {"depth", "m", 5.0, 1.0, {}};
  EXPECT_EQ(*ChooseGrid(layer, {}, "t", kAdvice, &dataset), 1u);
  EXPECT_EQ(*ChooseGrid(Map(), {}, "area", kAdvice, &dataset), 0u);
}

TEST(SourceGrid, AFieldKeepsItsGrid) {
  EXPECT_TRUE(ErrorOf(Volume()).ok());
  EXPECT_TRUE(ErrorOf(Nameless({6, 4, 3})).ok());
  EXPECT_NE(ErrorOf(Map()).message().find("6x4x1 here, but 6x4x3 in the dataset"), std::string::npos);
  SourceGrid moved = Volume();
  moved.axes[1].origin = -29.0;
  EXPECT_EQ(
      ErrorOf(moved).message(),
      "the positions along y (origin -29, spacing 20) differ from those of the dataset (origin -30, spacing "
      "20); place it at 0,-30,5 by 1,20,47.5; z is depth, y is lat, x is lon");
  SourceGrid uneven = Volume();
  uneven.axes[2].coordinates = {5, 15, 101};
  EXPECT_NE(ErrorOf(uneven).message().find("the positions along z (uneven, from 5)"), std::string::npos);
}

TEST(SourceGrid, TheLayoutOverrulesTheSource) {
  const LayoutRequest layout{.origin = {{0, 0, 0}}, .spacing = {{1, 1, 1}}};
  DatasetDescription dataset = DescribeDataset({});
  const std::size_t number = *ChooseGrid(Volume(), layout, "t", kAdvice, &dataset);
  EXPECT_EQ(dataset.grids[number].origin, (std::array<double, 3>{0, 0, 0}));
  EXPECT_TRUE(dataset.grids[number].coordinates[2].empty());
  SourceGrid placeless = Volume();
  placeless.axes[0].spacing = 0;
  EXPECT_FALSE(ErrorOf(placeless).ok()) << "samples all in one place";
  placeless.dims[0] = 1;
  placeless.axes[0].name = "lon_of_the_mean";
  EXPECT_EQ(GridOf(placeless), 1u) << "one sample has no distance";
}

}  // namespace
}  // namespace quarry::writer
