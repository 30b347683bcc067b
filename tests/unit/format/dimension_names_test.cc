#include "quarry/format/dimension_names.h"

#include <gtest/gtest.h>

#include "quarry/base/status.h"

namespace quarry {
namespace {

using Names = std::array<std::string, 3>;

/// @param axes  x, y, z
DatasetDescription With(Names axes, std::vector<std::string> fields) {
  DatasetDescription dataset;
  dataset.grids[0].axis_names = std::move(axes);
  for (std::string& name : fields) dataset.fields.push_back({.name = std::move(name)});
  return dataset;
}

std::optional<std::size_t> Find(const DatasetDescription& dataset, const std::string& name) {
  return FindAxis(dataset.grids[0], NamesOfDimensions(dataset).axes[0], name);
}

TEST(DimensionNames, AreThoseOfTheDataset) {
  const DimensionNames names = NamesOfDimensions(With({"lon", "lat", "depth"}, {"p"}));

  EXPECT_EQ(names.axes[0], (Names{"lon", "lat", "depth"}));
  EXPECT_EQ(names.steps.dimension, "step");
  EXPECT_EQ(names.steps.times, "time");
}

TEST(DimensionNames, GiveWayToFieldsAndToEachOther) {
  EXPECT_EQ(NamesOfDimensions(With({"lon", "lat", ""}, {"lat"})).axes[0], (Names{"lon", "y", "z"}));
  EXPECT_EQ(NamesOfDimensions(With({"x", "x", "x"}, {"p"})).axes[0], (Names{"x_axis", "y", "x"}));
  EXPECT_EQ(NamesOfDimensions(With({"a", "a", "a"}, {"x", "x_axis"})).axes[0],
            (Names{"x_axis_axis", "y", "a"}));
  EXPECT_EQ(NamesOfDimensions(With({"r", "z", ""}, {"p"})).axes[0], (Names{"r", "z", "z_axis"}));
  EXPECT_EQ(NamesOfDimensions(With({"step", "time", "z"}, {})).axes[0], (Names{"x", "time", "z"}));
  EXPECT_EQ(NamesOfDimensions(With({"step", "time", "z"}, {})).steps.times, "time_axis");
  EXPECT_EQ(NamesOfDimensions(With({"x", "y", "z"}, {"step"})).steps.dimension, "step_axis");
}

TEST(DimensionNames, OfGridsAreOneWhereTheAxesAre) {
  DatasetDescription dataset = With({"lon", "lat", "depth"}, {"temp"});
  dataset.grids[0].dims = {8, 6, 4};
  dataset.grids.push_back(dataset.grids[0]);
  dataset.grids[1].dims = {9, 6, 1};
  dataset.grids[1].axis_names = {"", "lat", ""};
  dataset.grids[1].has_axis[2] = false;
  dataset.grids.push_back(dataset.grids[1]);
  dataset.grids[2].dims = {10, 6, 1};
  dataset.fields.push_back({.name = "z"});

  const std::vector<Names> axes = NamesOfDimensions(dataset).axes;

  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[0], (Names{"lon", "lat", "depth"}));
  EXPECT_EQ(axes[1], (Names{"x", "lat", "z_axis"})) << "an axis that it lacks gives way to the field";
  EXPECT_EQ(axes[2], (Names{"x_axis", "lat", "z_axis"})) << "10 samples are no axis of 9";
  dataset.grids[2].dims[0] = 9;
  dataset.grids[2].origin[0] = 0.5;
  EXPECT_EQ(NamesOfDimensions(dataset).axes[2][0], "x_axis") << "of other positions";
  dataset.grids[2].origin[0] = 0;
  EXPECT_EQ(NamesOfDimensions(dataset).axes[2][0], "x");
}

TEST(DimensionNames, OfAxesThatAGridLacksTakeNoName) {
  DatasetDescription dataset = With({"z", "y", "x"}, {"p"});
  dataset.grids[0].has_axis = {true, true, false};

  EXPECT_EQ(NamesOfDimensions(dataset).axes[0], (Names{"z", "y", "z_axis"}));
}

TEST(DimensionNames, FindTheirAxes) {
  const DatasetDescription dataset = With({"lon", "p", ""}, {"p"});  // the dimensions: lon, y, z

  EXPECT_EQ(Find(dataset, "lon"), 0);
  EXPECT_EQ(Find(dataset, "p"), 1) << "the dataset calls it so";
  EXPECT_EQ(Find(dataset, "x"), 0);
  EXPECT_EQ(Find(dataset, "z"), 2);
  EXPECT_EQ(Find(dataset, "lat"), std::nullopt);
  EXPECT_EQ(Find(With({"z", "y", "x"}, {}), "z"), 0) << "names come before letters";
  EXPECT_EQ(Find(With({"x", "x", "x"}, {}), "x"), 2) << "the dimension";
}

TEST(DimensionNames, AreSuchThatFilesCanHaveThem) {
  for (const std::string name :
       {"zarr.json", "a/b", " a", "a ", "__a", ".", "..", "-a", "a\nb", "\xff", "(m)"})
    EXPECT_EQ(NamesOfDimensions(With({"x", name, "z"}, {})).axes[0][1], "y") << name;
  for (const std::string name : {"Breite", "along track", "\u03b8", "_a", "2nd", "a.b-c", "Longitude (deg)"})
    EXPECT_EQ(NamesOfDimensions(With({"x", name, "z"}, {})).axes[0][1], name);
  EXPECT_EQ(NamesOfDimensions(With({std::string(256, 'a'), "y", "z"}, {})).axes[0][0], "x");
}

TEST(DimensionNames, StepsLieAlongTheirTimesWhereTheseHaveAName) {
  DatasetDescription dataset = With({"x", "time", "z"}, {"p"});
  dataset.time_name = "valid_time";
  const StepNames steps = NamesOfDimensions(dataset).steps;
  EXPECT_EQ(steps.dimension, "valid_time");
  EXPECT_EQ(steps.numbers, "step");
  EXPECT_EQ(steps.times, "valid_time");
  EXPECT_EQ(NamesOfSteps(dataset, "p").dimension, "time_p");
  EXPECT_EQ(NamesOfSteps(dataset, "p").numbers, "step_p");

  dataset.time_name = "time";
  EXPECT_EQ(NamesOfDimensions(dataset).steps.dimension, "time");
  EXPECT_EQ(NamesOfDimensions(dataset).axes[0][1], "y") << "steps come first";
  dataset.time_name = "p";
  EXPECT_EQ(NamesOfDimensions(dataset).steps.dimension, "time") << "a field has the name";
}

TEST(DimensionNames, OfAFieldsOwnStepsAreFree) {
  const DatasetDescription dataset = With({"step_p", "y", "z"}, {"p", "time_p"});

  EXPECT_EQ(NamesOfSteps(dataset, "p").dimension, "step_p_axis");
  EXPECT_EQ(NamesOfSteps(dataset, "p").times, "time_p_axis");
  EXPECT_EQ(NamesOfSteps(dataset, "time_p").dimension, "step_time_p");
}

TEST(WithAxes, AddsNamesThatTheLettersDoNotSay) {
  const Status status = InvalidArgument("outside along z");

  EXPECT_EQ(WithAxes(status, With({"x", "lat", "depth"}, {}).grids[0]).message(),
            "outside along z; z is depth, y is lat");
  EXPECT_EQ(WithAxes(status, With({"x", "", "z"}, {}).grids[0]).message(), "outside along z");
  EXPECT_EQ(WithAxes(status, With({"x", "y", "a\nb"}, {}).grids[0]).message(),
            "outside along z; z is a\\x0ab");
  EXPECT_TRUE(WithAxes(Status::Ok(), With({"lon", "lat", ""}, {}).grids[0]).ok());
}

}  // namespace
}  // namespace quarry
