#include "quarry/format/dimension_names.h"

#include <gtest/gtest.h>

namespace quarry {
namespace {

using Names = std::array<std::string, 3>;

/// @param axes  x, y, z
DatasetDescription With(Names axes, std::vector<std::string> fields) {
  DatasetDescription dataset;
  dataset.grid.axis_names = std::move(axes);
  for (std::string& name : fields) dataset.fields.push_back({.name = std::move(name)});
  return dataset;
}

TEST(DimensionNames, AreThoseOfTheDataset) {
  const DimensionNames names = NamesOfDimensions(With({"lon", "lat", "depth"}, {"p"}));

  EXPECT_EQ(names.axes, (Names{"lon", "lat", "depth"}));
  EXPECT_EQ(names.step, "step");
  EXPECT_EQ(names.time, "time");
}

TEST(DimensionNames, GiveWayToFieldsAndToEachOther) {
  EXPECT_EQ(NamesOfDimensions(With({"lon", "lat", ""}, {"lat"})).axes, (Names{"lon", "y", "z"}));
  EXPECT_EQ(NamesOfDimensions(With({"x", "x", "x"}, {"p"})).axes, (Names{"x_axis", "y", "x"}));
  EXPECT_EQ(NamesOfDimensions(With({"a", "a", "a"}, {"x", "x_axis"})).axes, (Names{"x_axis_axis", "y", "a"}));
  EXPECT_EQ(NamesOfDimensions(With({"r", "z", ""}, {"p"})).axes, (Names{"r", "z", "z_axis"}));
  EXPECT_EQ(NamesOfDimensions(With({"step", "time", "z"}, {})).axes, (Names{"x", "time", "z"}));
  EXPECT_EQ(NamesOfDimensions(With({"step", "time", "z"}, {})).time, "time_axis");
  EXPECT_EQ(NamesOfDimensions(With({"x", "y", "z"}, {"step"})).step, "step_axis");
}

TEST(DimensionNames, FindTheirAxes) {
  const DatasetDescription dataset = With({"lon", "p", ""}, {"p"});  // the dimensions: lon, y, z

  EXPECT_EQ(FindAxis(dataset, "lon"), 0);
  EXPECT_EQ(FindAxis(dataset, "p"), 1) << "the dataset calls it so";
  EXPECT_EQ(FindAxis(dataset, "x"), 0);
  EXPECT_EQ(FindAxis(dataset, "z"), 2);
  EXPECT_EQ(FindAxis(dataset, "lat"), std::nullopt);
  EXPECT_EQ(FindAxis(With({"z", "y", "x"}, {}), "z"), 0) << "names come before letters";
  EXPECT_EQ(FindAxis(With({"x", "x", "x"}, {}), "x"), 2) << "the dimension";
}

TEST(DimensionNames, AreSuchThatFilesCanHaveThem) {
  for (const std::string name :
       {"zarr.json", "a/b", " a", "a ", "__a", ".", "..", "-a", "a\nb", "\xff", "(m)"})
    EXPECT_EQ(NamesOfDimensions(With({"x", name, "z"}, {})).axes[1], "y") << name;
  for (const std::string name : {"Breite", "along track", "\u03b8", "_a", "2nd", "a.b-c", "Longitude (deg)"})
    EXPECT_EQ(NamesOfDimensions(With({"x", name, "z"}, {})).axes[1], name);
  EXPECT_EQ(NamesOfDimensions(With({std::string(256, 'a'), "y", "z"}, {})).axes[0], "x");
}

TEST(DimensionNames, OfAFieldsOwnStepsAreFree) {
  const DatasetDescription dataset = With({"step_p", "y", "z"}, {"p", "time_p"});

  EXPECT_EQ(NamesOfSteps(dataset, "p").step, "step_p_axis");
  EXPECT_EQ(NamesOfSteps(dataset, "p").time, "time_p_axis");
  EXPECT_EQ(NamesOfSteps(dataset, "time_p").step, "step_time_p");
}

TEST(WithAxes, AddsNamesThatTheLettersDoNotSay) {
  const Status status = InvalidArgument("outside along z");

  EXPECT_EQ(WithAxes(status, With({"x", "lat", "depth"}, {}).grid).message(),
            "outside along z; z is depth, y is lat");
  EXPECT_EQ(WithAxes(status, With({"x", "", "z"}, {}).grid).message(), "outside along z");
  EXPECT_EQ(WithAxes(status, With({"x", "y", "a\nb"}, {}).grid).message(), "outside along z; z is a\\x0ab");
  EXPECT_TRUE(WithAxes(Status::Ok(), With({"lon", "lat", ""}, {}).grid).ok());
}

}  // namespace
}  // namespace quarry
