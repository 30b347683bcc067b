#include "quarry/attributes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/proto_convert.h"

namespace quarry {
namespace {

AttributeNumbers Numbers(DataType type, std::vector<SampleValue> values) {
  return {type, true, std::move(values)};
}

AttributeNumbers Number(DataType type, SampleValue value) { return {type, false, {value}}; }

/// One of each kind, with values at the ends of their types.
Attributes Examples() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {{"text", "\u00b0C \"quoted\"\n"},
          {"empty", ""},
          {"texts", std::vector<std::string>{"a", "", "c"}},
          {"no_texts", std::vector<std::string>{}},
          {"double", Number(DataType::kFloat64, 0.1)},
          {"float", Number(DataType::kFloat32, 0.1f)},
          {"infinite", Numbers(DataType::kFloat64, {kInfinity, -kInfinity})},
          {"byte", Number(DataType::kInt8, -128)},
          {"wide", Numbers(DataType::kInt64,
                           {std::numeric_limits<std::int64_t>::min(), std::int64_t{9007199254740993}})},
          {"natural", Number(DataType::kUint64, std::numeric_limits<std::uint64_t>::max())},
          {"none", Numbers(DataType::kInt32, {})},
          {"json", JsonText{R"({"a": [1, true, null, {"b": "\u00e9"}]})"}}};
}

DatasetDescription Example() {
  DatasetDescription dataset;
  FieldDescription field;
  field.name = "t";
  field.bound = AbsoluteBound{1};
  dataset.fields = {field};
  return dataset;
}

Status ErrorOf(const std::function<void(DatasetDescription*)>& change) {
  DatasetDescription dataset = Example();
  change(&dataset);
  return format::FromProto(format::ToProto(dataset)).status();
}

Status ErrorOf(const Attribute& attribute) {
  return ErrorOf([&](DatasetDescription* dataset) { dataset->attributes = {attribute}; });
}

void ExpectDamage(const Status& status, const std::string& mention) {
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << mention;
  EXPECT_NE(status.message().find(mention), std::string::npos) << status.message();
}

TEST(Attributes, AreKeptWithAllDigitsAndInOrder) {
  DatasetDescription dataset = Example();
  dataset.attributes = Examples();
  dataset.fields[0].attributes = Examples();
  dataset.fields[0].still = true;
  dataset.fields[0].coordinate = true;
  dataset.grids[0].axis_attributes[1] = Examples();
  dataset.grids[0].unplaced = {true, false, true};
  dataset.grids[0].position_types = {DataType::kFloat32, DataType::kInt64, DataType::kFloat64};
  dataset.time_attributes = Examples();
  dataset.time_name = "valid_time";
  const auto read = format::DecodeDatasetManifest(format::EncodeManifest(dataset));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->attributes, Examples());
  EXPECT_EQ(read->fields[0].attributes, Examples());
  EXPECT_TRUE(read->fields[0].still);
  EXPECT_TRUE(read->fields[0].coordinate);
  EXPECT_TRUE(read->grids[0].axis_attributes[0].empty());
  EXPECT_EQ(read->grids[0].axis_attributes[1], Examples());
  EXPECT_EQ(read->grids[0].unplaced, dataset.grids[0].unplaced);
  EXPECT_EQ(read->grids[0].position_types, dataset.grids[0].position_types);
  EXPECT_EQ(read->time_attributes, Examples());
  EXPECT_EQ(read->time_name, "valid_time");
}

TEST(Attributes, NanStaysNan) {
  DatasetDescription dataset = Example();
  dataset.attributes = {{"nan", Number(DataType::kFloat32, std::nanf(""))}};
  const auto read = format::DecodeDatasetManifest(format::EncodeManifest(dataset));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(ValueJson(read->attributes[0]), "\"NaN\"");
}

TEST(Attributes, OfOneOwnerHaveNamesThatDiffer) {
  const auto named = [](const std::string& name) { return ErrorOf({name, "value"}); };
  EXPECT_TRUE(named(std::string(kMaxAttributeName, 'n')).ok());
  ExpectDamage(named(std::string(kMaxAttributeName + 1, 'n')), "of 256 bytes");
  ExpectDamage(named(""), "of 0 bytes");
  ExpectDamage(ErrorOf([](DatasetDescription* d) {
                 d->attributes = {{"a", "1"}, {"a", "2"}};
               }),
               "two attributes \"a\"");
  ExpectDamage(ErrorOf([](DatasetDescription* d) {
                 d->fields[0].attributes = {{"a", "1"}, {"a", "2"}};
               }),
               "field \"t\"");
  ExpectDamage(ErrorOf([](DatasetDescription* d) {
                 d->grids[0].axis_attributes[1] = {{"a", "1"}, {"a", "2"}};
               }),
               "axis y");
}

TEST(Attributes, HaveABoundedSize) {
  const auto with = [](std::size_t count) {
    return ErrorOf([&](DatasetDescription* dataset) {
      for (std::size_t i = 0; i < count; ++i) dataset->attributes.push_back({std::to_string(i), ""});
    });
  };
  EXPECT_TRUE(with(kMaxAttributes).ok());
  ExpectDamage(with(kMaxAttributes + 1), "4097 attributes");
  EXPECT_TRUE(ErrorOf({"a", std::string(kMaxAttributeBytes - 1, 'x')}).ok());
  ExpectDamage(ErrorOf({"a", std::string(kMaxAttributeBytes, 'x')}), "1048577 bytes");
  ExpectDamage(ErrorOf({"a", std::string(std::size_t{100} << 20, 'x')}), "104857601 bytes");
  ExpectDamage(ErrorOf([](DatasetDescription* dataset) {
                 for (std::size_t i = 0; i < 17; ++i) {
                   dataset->fields.push_back(dataset->fields[0]);
                   dataset->fields.back().name = fmt::format("f{}", i);
                   dataset->fields.back().attributes = {{"a", std::string(1000000, 'x')}};
                 }
               }),
               "all attributes have 17000017 bytes");
}

TEST(Attributes, OfJsonAreShallowAndJson) {
  const auto nested = [](std::size_t depth) {
    return ErrorOf({"a", JsonText{std::string(depth, '[') + std::string(depth, ']')}});
  };
  EXPECT_TRUE(nested(kMaxJsonDepth).ok());
  ExpectDamage(nested(kMaxJsonDepth + 1), "nested 33 deep");
  ExpectDamage(nested(100000), "nested 100000 deep");
  EXPECT_TRUE(ErrorOf({"a", JsonText{R"("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[[[[[[")"}}).ok())
      << "brackets of a text nest nothing";
  for (const char* text : {"", "{", "[1,]", "NaN", "1 2", "\"\xff\""})
    EXPECT_EQ(ErrorOf({"a", JsonText{text}}).code(), StatusCode::kDataLoss) << text;
}

TEST(Attributes, HaveNumbersOfTheirType) {
  ExpectDamage(ErrorOf({"a", Number(DataType::kUint8, 256)}), "256, which is not a uint8");
  ExpectDamage(ErrorOf({"a", Number(DataType::kFloat32, 1e300)}), "1e+300, which is not a float32");
  ExpectDamage(ErrorOf({"a", Number(static_cast<DataType>(77), 1)}), "unknown type 77");
  ExpectDamage(ErrorOf({"a", AttributeNumbers{DataType::kInt32, false, {}}}), "one number and has 0");
  ExpectDamage(
      ErrorOf([](DatasetDescription* d) { d->grids[0].position_types[2] = static_cast<DataType>(77); }),
      "unknown type 77");
}

TEST(Attributes, WithoutAKnownValueNeedANewerProgram) {
  auto message = format::ToProto(Example());
  message.add_attributes()->set_name("a");
  ExpectDamage(format::FromProto(message).status(), "use a newer Quarry");
}

TEST(Attributes, AreAddedUpToTheBounds) {
  Attributes attributes;
  EXPECT_TRUE(AddAttribute({"a", std::string(kMaxAttributeBytes / 2, 'x')}, &attributes).ok());
  EXPECT_FALSE(AddAttribute({"a", "again"}, &attributes).ok());
  EXPECT_FALSE(AddAttribute({"b", std::string(kMaxAttributeBytes / 2, 'x')}, &attributes).ok());
  EXPECT_FALSE(AddAttribute({"c", "\xff"}, &attributes).ok());
  ASSERT_EQ(attributes.size(), 1u);
  EXPECT_NE(FindAttribute(attributes, "a"), nullptr);
  EXPECT_EQ(FindAttribute(attributes, "b"), nullptr);
}

TEST(Attributes, OfTimeAreThoseOfTheSourceWithItsUnit) {
  DatasetDescription dataset = Example();
  dataset.time_unit = {"days since 2001-01-01", "noleap"};
  EXPECT_NE(FindAttribute(TimeAttributesOf(dataset), "standard_name"), nullptr) << "what CF asks for";
  dataset.time_attributes = {{"bounds", "time_bnds"}};
  const Attributes expected = {
      {"bounds", "time_bnds"}, {"units", "days since 2001-01-01"}, {"calendar", "noleap"}};
  EXPECT_EQ(TimeAttributesOf(dataset), expected);
}

TEST(Attributes, AreTextsForPeopleAndJsonForPrograms) {
  const auto text = [](const Attribute& attribute) { return ValueText(attribute); };
  EXPECT_EQ(text({"a", "two\nlines"}), "two\\x0alines");
  EXPECT_EQ(text({"a", std::vector<std::string>{"x", "y"}}), "x, y");
  EXPECT_EQ(text({"a", Numbers(DataType::kInt32, {1, 2})}), "1, 2");
  EXPECT_EQ(ValueJson({"a", Numbers(DataType::kFloat32, {0.5, std::nan("")})}), R"([0.5,"NaN"])");
  EXPECT_EQ(ValueJson({"a", Number(DataType::kUint64, ~std::uint64_t{0})}), "18446744073709551615");
  EXPECT_EQ(ValueJson({"a", "\u00e9"}), "\"\u00e9\"");
}

}  // namespace
}  // namespace quarry
