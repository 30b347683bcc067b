// Levels and layers of a series from hand-made records; python/costs compares them with plans.
#include "quarry/query/series_choice.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quarry::query {
namespace {

/// A field in two layers, the last exact, at three levels.
/// @param errors  of both layers, finest level first
FieldStepDescription Layered(const std::string& name, const std::vector<double>& rough,
                             const std::vector<double>& last) {
  FieldStepDescription step;
  step.name = name;
  step.rougher.resize(1);
  for (std::size_t l = 0; l < 3; ++l) {
    step.rougher[0].levels.push_back({rough[l], 0, 100u >> (3 * l), 1});
    step.levels.push_back({last[l], 0, 1000u >> (3 * l), 1});
  }
  return step;
}

DatasetDescription TwoFields() {
  DatasetDescription dataset;
  dataset.grids[0].dims = {64, 64, 64};
  dataset.grids[0].levels = 3;
  for (const char* name : {"a", "b"}) {
    FieldDescription field{.name = name};
    field.rougher = {0.5};
    dataset.fields.push_back(field);
  }
  return dataset;
}

StepDescription StepOf(std::uint64_t number, std::vector<FieldStepDescription> fields) {
  StepDescription step;
  step.step = number;
  step.fields = std::move(fields);
  return step;
}

BoundedField Bound(const std::string& name, double max_error, const std::vector<StepDescription>& steps) {
  BoundedField bound{name, max_error, {}};
  for (const StepDescription& step : steps) {
    if (const FieldStepDescription* said = step.FindField(name)) bound.steps.push_back(said);
  }
  return bound;
}

TEST(ChooseForSeries, HasOneLevelForAllFieldsAndALayerForEach) {
  const std::vector<StepDescription> steps = {
      StepOf(0, {Layered("a", {0.5, 1, 2}, {0, 1, 2}), Layered("b", {0.5, 0.6, 3}, {0, 0.1, 3})}),
      StepOf(1, {Layered("b", {0.4, 0.5, 3}, {0, 0.2, 3})})};
  const auto choose = [&](double a, double b) {
    const std::vector bounds = {Bound("a", a, steps), Bound("b", b, steps)};
    const auto choice = *ChooseForSeries(TwoFields(), bounds);
    return std::pair(choice.level, choice.layers);
  };

  EXPECT_EQ(choose(2, 3), std::pair(2, std::vector{0, 0}));
  EXPECT_EQ(choose(1, 0.6), std::pair(1, std::vector{0, 0}));
  EXPECT_EQ(choose(1, 0.5), std::pair(1, std::vector{0, 1}))
      << "the last layer of level 1 takes fewer bytes than the first of level 0";
  EXPECT_EQ(choose(0.5, 0.6), std::pair(0, std::vector{0, 0})) << "b follows a to a finer level";
  EXPECT_EQ(choose(0, 3), std::pair(0, std::vector{1, 0}));
}

TEST(ChooseForSeries, ALevelThatCannotShowAllSamplesIsNotChosen) {
  std::vector<StepDescription> steps = {StepOf(0, {Layered("a", {0.5, 0.5, 0.5}, {0, 1, 1})})};
  for (const std::size_t level : {1u, 2u}) steps[0].fields[0].rougher[0].levels[level].coverage = 0.99;
  const std::vector bounds = {Bound("a", 0.5, steps)};

  const auto choice = *ChooseForSeries(TwoFields(), bounds);

  EXPECT_EQ(choice.level, 0);
  EXPECT_EQ(choice.layers, std::vector{0});
}

TEST(ChooseForSeries, SaysWhichFieldKeepsNoError) {
  const std::vector<StepDescription> steps = {StepOf(0, {Layered("a", {0.5, 1, 2}, {0.25, 1, 2})})};
  const auto status = [&](const std::string& name, double error) {
    const std::vector bounds = {Bound("b", 0, steps), Bound(name, error, steps)};
    return ChooseForSeries(TwoFields(), bounds).status();
  };

  EXPECT_EQ(status("a", 0.1).code(), StatusCode::kNotFound);
  EXPECT_NE(status("a", 0.1).message().find(
                "no level of \"a\" keeps an error of 0.1: level 0, the finest, has 0.25"),
            std::string::npos);
  EXPECT_EQ(status("c", 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status("a", std::nan("")).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status("b", 0).ok()) << "no step holds it";
}

}  // namespace
}  // namespace quarry::query
