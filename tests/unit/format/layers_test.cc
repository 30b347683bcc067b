// The layer of accuracy of a call for several fields.
#include <gtest/gtest.h>

#include "quarry/description.h"
#include "quarry/format/description_rules.h"

namespace quarry {
namespace {

FieldDescription InLayers(std::string name, std::vector<double> rougher) {
  FieldDescription field;
  field.name = std::move(name);
  field.rougher = std::move(rougher);
  return field;
}

const FieldDescription kThree = InLayers("p", {1e-2, 1e-4});
const FieldDescription kTwo = InLayers("q", {1e-2});
const FieldDescription kOne = InLayers("area", {});

TEST(ShownLayer, IsTheLastOfAFieldWithFewer) {
  EXPECT_EQ(ShownLayer(kThree, 1), 1);
  EXPECT_EQ(ShownLayer(kTwo, 2), 1);
  EXPECT_EQ(ShownLayer(kOne, 2), 0);
  EXPECT_EQ(ShownLayer(kThree, std::nullopt), 2);
}

TEST(CheckLayer, TakesALayerOfAnyOfTheFields) {
  for (const std::optional<int> layer : {std::optional(0), std::optional(2), std::optional<int>()})
    EXPECT_TRUE(CheckLayer(std::vector{&kOne, &kThree, &kTwo}, layer).ok());
  EXPECT_TRUE(CheckLayer({}, 0).ok());
}

TEST(CheckLayer, RefusesALayerThatNoneHas) {
  const auto check = [](std::vector<const FieldDescription*> fields, int layer, const char* message) {
    const Status status = CheckLayer(fields, layer);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };

  check({&kTwo, &kThree}, 3, "there is no layer 3; q, p have layers of accuracy 0, the roughest, to 2");
  check({&kTwo, &kThree}, -1, "there is no layer -1; q, p have layers of accuracy 0, the roughest, to 2");
  check({&kOne}, 1, "there is no layer 1; area has layers of accuracy 0, the roughest, to 0");
  check({}, 1, "there is no layer 1; a dataset without fields has layers of accuracy 0, the roughest, to 0");
}

}  // namespace
}  // namespace quarry
