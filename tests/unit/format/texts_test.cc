#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"

/// Metadata of a dataset: coordinates of text, complex samples, and numbers of fields.
namespace quarry::format {
namespace {

FieldDescription Field(const std::string& name) {
  FieldDescription field;
  field.name = name;
  field.coder = CoderId::kLossless;
  field.bound = Lossless{};
  return field;
}

/// Stations along x, and a complex field on them.
DatasetDescription Example() {
  DatasetDescription dataset;
  GridDescription& grid = dataset.grids[0];
  grid.dims = {3, 1, 1};
  grid.patch = {4, 1, 1};
  grid.axis_names = {"station", "", ""};
  grid.has_axis = {true, false, false};
  grid.unplaced = {true, false, false};
  dataset.fields = {Field("rain"), Field("psi.real"), Field("psi.imag")};
  dataset.fields[1].complex = ComplexPart{"psi", false};
  dataset.fields[2].complex = ComplexPart{"psi", true};
  dataset.texts = {{"station", 0, 0, {"Oslo", "", "Málaga"}, {{"cf_role", "timeseries_id"}}},
                   {"region", 0, {}, {"Europe"}, {}}};
  return dataset;
}

std::string Refusal(const std::function<void(DatasetDescription&)>& change) {
  DatasetDescription dataset = Example();
  change(dataset);
  const Status status = CheckDataset(dataset);
  EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(),
            status.ok() ? StatusCode::kOk : StatusCode::kDataLoss);
  return status.message();
}

TEST(Texts, AndPartsAndNumbersComeBack) {
  DatasetDescription dataset = Example();
  dataset.fields[1].number = 4;
  dataset.fields[2].number = 7;
  const Result<DatasetDescription> read = DecodeDatasetManifest(EncodeManifest(dataset));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->texts, dataset.texts);
  EXPECT_EQ(read->fields[0].complex, std::nullopt);
  EXPECT_EQ(read->fields[2].complex, dataset.fields[2].complex);
  EXPECT_EQ(read->NumberOf(0), 0u);
  EXPECT_EQ(read->NumberOf(2), 7u);
  EXPECT_EQ(read->NextNumber(), 8u);
  EXPECT_EQ(EncodeManifest(*read), EncodeManifest(dataset));
}

TEST(Texts, AreRefusedWhereTheyFitNoGrid) {
  const auto text = [](std::size_t i) {
    return [i](DatasetDescription& d) -> TextCoordinate& { return d.texts[i]; };
  };
  EXPECT_EQ(Refusal([](DatasetDescription&) {}), "");
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).texts.pop_back(); }).find("2 texts for 3 samples"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(1)(d).texts.clear(); }).find("0 texts for 1 samples"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).axis = 1; }).find("no such axis"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).axis = 3; }).find("axis 3"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).grid = 1; }).find("grid 1"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).name.clear(); }).find("name of 0 bytes"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(1)(d).name = "c/d"; }).find("Zarr cannot have"), std::string::npos);
  EXPECT_EQ(Refusal([](auto& d) { d.texts[0].name = d.grids[0].axis_names[0] = "c/d"; }), "");
  EXPECT_NE(Refusal([&](auto& d) { text(0)(d).name = "rain"; }).find("the name of a field"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(1)(d).name = "psi"; }).find("the name of a field"),
            std::string::npos);
  EXPECT_NE(Refusal([](auto& d) { d.texts.resize(kMaxTextCoordinates + 1); }).find("the maximum is"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { text(1)(d).name = "station"; }).find("another text"), std::string::npos);
}

TEST(Texts, HaveABoundedSize) {
  const std::string large(kMaxTextBytes, 'a');
  EXPECT_EQ(Refusal([&](auto& d) { d.texts[1].texts[0] = large.substr(16); }), "");
  EXPECT_NE(Refusal([&](auto& d) { d.texts[1].texts[0] = large; }).find("the maximum is"), std::string::npos);
}

TEST(Texts, ThatAreNotUtf8AreRefused) {
  DatasetDescription dataset = Example();
  dataset.texts[1].texts[0] = "\xff";
  EXPECT_NE(CheckDataset(dataset).message().find("not UTF-8"), std::string::npos);
}

TEST(Texts, LeaveTheirNamesToNoAxisButTheirOwn) {
  DatasetDescription dataset = Example();
  EXPECT_EQ(NamesOfDimensions(dataset).axes[0][0], "station");
  dataset.grids[0].axis_names[0] = "region";
  EXPECT_EQ(NamesOfDimensions(dataset).axes[0][0], "x");
}

TEST(Complex, HasBothPartsAlike) {
  const auto part = [](DatasetDescription& d) -> FieldDescription& { return d.fields[2]; };
  EXPECT_NE(Refusal([&](auto& d) { part(d).complex.reset(); }).find("one of two parts"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { part(d).complex->imaginary = false; }).find("the same part"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { part(d).type = DataType::kFloat64; }).find("differ"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { part(d).still = true; }).find("differ"), std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { d.fields[0].name = "psi"; }).find("the name of a field"),
            std::string::npos);
  EXPECT_NE(Refusal([&](auto& d) { part(d).complex->of = "a/b"; }), "");
}

TEST(Numbers, OfFieldsAscend) {
  EXPECT_EQ(Refusal([](auto& d) { d.fields[2].number = 9; }), "");
  EXPECT_NE(Refusal([](auto& d) { d.fields[1].number = 5; }).find("numbers of fields ascend"),
            std::string::npos);
  EXPECT_NE(Refusal([](auto& d) { d.fields[2].number = 0xffffffff; }).find("the maximum is"),
            std::string::npos);
  EXPECT_NE(Refusal([](auto& d) { d.fields[1].number = 0; }).find("numbers of fields ascend"),
            std::string::npos);
}

}  // namespace
}  // namespace quarry::format
