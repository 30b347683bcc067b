#include "quarry/format/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/format/mask.h"
#include "quarry/format/proto_convert.h"

namespace quarry::format {
namespace {

DatasetDescription ExampleDataset() {
  DatasetDescription dataset;
  dataset.created_by = "a test";
  dataset.grids[0].dims = {91, 45, 7};
  dataset.grids[0].spacing = {0.1, 1.0 / 3, 2};
  dataset.grids[0].axis_names = {"lon", "lat", "depth"};
  dataset.grids[0].axis_units = {"m", "m", "km"};
  dataset.grids[0].coordinates[2] = {0, -10.1, -20, -30, -50, -75, -100.0 / 3 * 4};
  dataset.grids[0].patch = {32, 32, 4};
  dataset.grids[0].levels = 3;
  dataset.order = PayloadOrder::kLevel;
  dataset.fields = {{"pressure", DataType::kFloat32, "Pa", CoderId::kWaveletZfp, AbsoluteBound{0.25}, -1e10},
                    {"velocity_x", DataType::kFloat64, "m/s", CoderId::kWaveletZfp, RelativeBound{1e-3}, {}},
                    {"count", DataType::kInt16, "", CoderId::kLossless, Lossless{}, -32768.0}};
  return dataset;
}

StepDescription ExampleStep() {
  StepDescription step;
  step.step = 12345678901;
  step.time = 0.125;
  FieldStepDescription field;
  field.name = "pressure";
  field.source = "dump \"quoted\" \xc3\xa9.raw";
  field.max_error = 0.1234567890123456789;
  field.psnr = std::numeric_limits<double>::infinity();
  field.stored_bytes = std::uint64_t{1} << 60;
  field.levels = {{0.1, 0.2, 3, 1}, {0.4, 0.5, 6, 0.99}, {0.7, 0.8, 9, 0.1}};
  field.subfiles = {{"0000.qsf", 100, 12, {{0, 0, 0}, {91, 45, 7}}, 0x0123456789abcdef}};
  field.valid = 1000;
  field.mask = MaskDescription{0xfedcba9876543210, {{"0000.qsf", 7, 12, {{0, 0, 0}, {91, 45, 7}}, 3}}};
  step.fields = {field};
  return step;
}

Result<StepDescription> Decode(const std::string& text) { return DecodeStepManifest(text, ExampleDataset()); }

TEST(DatasetManifest, RoundTripKeepsEveryValue) {
  const DatasetDescription dataset = ExampleDataset();
  const Result<DatasetDescription> read = DecodeDatasetManifest(EncodeManifest(dataset));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->grids[0].dims, dataset.grids[0].dims);
  EXPECT_EQ(read->grids[0].spacing, dataset.grids[0].spacing);
  EXPECT_EQ(read->grids[0].axis_names, dataset.grids[0].axis_names);
  EXPECT_EQ(read->grids[0].axis_units, dataset.grids[0].axis_units);
  EXPECT_EQ(read->grids[0].coordinates, dataset.grids[0].coordinates);
  EXPECT_EQ(read->grids[0].patch, dataset.grids[0].patch);
  EXPECT_EQ(read->grids[0].levels, 3);
  EXPECT_EQ(read->order, PayloadOrder::kLevel);
  ASSERT_EQ(read->fields.size(), 3u);
  EXPECT_EQ(read->fields[0].bound, Bound(AbsoluteBound{0.25}));
  EXPECT_EQ(read->fields[0].fill, -1e10);
  EXPECT_EQ(read->fields[1].bound, Bound(RelativeBound{1e-3}));
  EXPECT_EQ(read->fields[2].bound, Bound(Lossless{}));
  EXPECT_EQ(read->fields[2].fill_bits(), 0x8000u);
  EXPECT_EQ(EncodeManifest(*read), EncodeManifest(dataset));
}

TEST(DatasetManifest, NegativeZerosKeepTheirSign) {
  DatasetDescription dataset = ExampleDataset();
  dataset.fields[0].fill = -0.0;
  dataset.grids[0].origin = {-0.0, 0, -0.0};
  const Result<DatasetDescription> read = DecodeDatasetManifest(EncodeManifest(dataset));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->fields[0].fill_bits(), dataset.fields[0].fill_bits());
  EXPECT_NE(read->fields[0].fill_bits(), 0u);
  EXPECT_TRUE(std::signbit(read->grids[0].origin[0]));
  EXPECT_FALSE(std::signbit(read->grids[0].origin[1]));
  EXPECT_TRUE(std::signbit(read->grids[0].origin[2]));
}

TEST(StepManifest, RoundTripKeepsEveryValue) {
  const Result<StepDescription> read = Decode(EncodeManifest(ExampleStep()));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->step, 12345678901u);
  EXPECT_EQ(read->time, 0.125);
  EXPECT_EQ(read->fields[0].source, ExampleStep().fields[0].source);
  EXPECT_EQ(read->fields[0].max_error, ExampleStep().fields[0].max_error);
  EXPECT_EQ(read->fields[0].psnr, std::numeric_limits<double>::infinity());
  EXPECT_EQ(read->fields[0].stored_bytes, std::uint64_t{1} << 60);
  EXPECT_EQ(read->fields[0].subfiles[0].table_checksum, 0x0123456789abcdefu);
  EXPECT_EQ(read->fields[0].levels[1].coverage, 0.99);
  EXPECT_EQ(read->fields[0].valid, 1000u);
  EXPECT_EQ(read->fields[0].mask, ExampleStep().fields[0].mask);
}

TEST(StepManifest, ValidSamplesAndMaskMustFitEachOther) {
  StepDescription step = ExampleStep();
  step.fields[0].valid = 91 * 45 * 7;
  EXPECT_EQ(Decode(EncodeManifest(step)).status().code(), StatusCode::kDataLoss)
      << "a mask that masks nothing";
  step.fields[0].mask.reset();
  EXPECT_TRUE(Decode(EncodeManifest(step)).ok());
  step.fields[0].valid -= 1;
  EXPECT_EQ(Decode(EncodeManifest(step)).status().code(), StatusCode::kDataLoss) << "no mask";
  step = ExampleStep();
  step.fields[0].mask->subfiles[0].name = "../0000.qsf";
  EXPECT_EQ(Decode(EncodeManifest(step)).status().code(), StatusCode::kDataLoss);
}

/// Puts the right checksum into a text that was changed.
std::string Resealed(std::string text) {
  const std::size_t digits = text.rfind("\"checksum\": \"") + 13;
  text.replace(digits, 16, std::string(16, '0'));
  return text.replace(digits, 16, ChecksumText(Checksum(std::as_bytes(std::span(text)))));
}

TEST(StepManifest, VersionOneHasEverySampleValid) {
  const std::string text = R"({
 "format_version": 1,
 "step": "4",
 "fields": [
  {
   "name": "pressure",
   "levels": [ {"level": 0, "max_error": 0.5, "rmse": 0.25, "bytes": "10"}, {"level": 1}, {"level": 2} ],
   "subfiles": [ {"name": "0000.qsf", "bytes": "100", "patches": "12", "bounds": {"begin": [0, 0, 0],
                  "end": [91, 45, 7]}, "table_checksum": "0123456789abcdef"} ]
  }
 ],
 "checksum": "0000000000000000"
}
)";
  const Result<StepDescription> read = Decode(Resealed(text));

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->fields[0].valid, 91u * 45 * 7);
  EXPECT_EQ(read->fields[0].levels[0].coverage, 1);
  EXPECT_FALSE(read->fields[0].mask);
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const std::string text = EncodeManifest(ExampleDataset());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_EQ(DecodeDatasetManifest(damaged).status().code(), StatusCode::kDataLoss)
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(Manifest, EveryTruncationIsFound) {
  const std::string text = EncodeManifest(ExampleStep());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(Decode(text.substr(0, length)).status().code(), StatusCode::kDataLoss) << length;
  }
}

TEST(Manifest, GridsThatPlaceNoSamplesAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto decoded = [](std::size_t axis, double origin, double spacing) {
    DatasetDescription dataset = ExampleDataset();
    dataset.grids[0].origin[axis] = origin;
    dataset.grids[0].spacing[axis] = spacing;
    return DecodeDatasetManifest(EncodeManifest(dataset)).status();
  };

  // Axis 0 has 91 samples, axis 2 coordinates.
  for (const std::size_t axis : {0, 2}) {
    for (const double spacing : {0.0, kNan, kInfinity, -kInfinity, 1e307}) {
      if (axis == 2 && spacing == 1e307) continue;
      const Status status = decoded(axis, 0, spacing);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << spacing;
      EXPECT_NE(status.message().find(fmt::format("spacing {} along {}", spacing, axis == 0 ? "x" : "z")),
                std::string::npos)
          << status.message();
    }
    EXPECT_EQ(decoded(axis, kNan, 1).code(), StatusCode::kDataLoss);
    EXPECT_EQ(decoded(axis, kInfinity, 1).code(), StatusCode::kDataLoss);
    EXPECT_TRUE(decoded(axis, -5, -0.25).ok()) << "positions may descend";
  }
}

TEST(Manifest, TimesThatAreNotFiniteAreRefused) {
  for (const double time : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity()}) {
    StepDescription step = ExampleStep();
    step.time = time;

    const Status status = Decode(EncodeManifest(step)).status();

    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << time;
    EXPECT_NE(status.message().find(fmt::format("step 12345678901: the time {}", time)), std::string::npos)
        << status.message();
  }
}

TEST(Manifest, ImpossibleValuesAreRefusedEvenWithAGoodChecksum) {
  DatasetDescription dataset = ExampleDataset();
  dataset.grids[0].levels = 30;
  EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(), StatusCode::kDataLoss);
  dataset = ExampleDataset();
  dataset.grids[0].patch = {32, 33, 4};
  EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(), StatusCode::kDataLoss);
  dataset = ExampleDataset();
  dataset.fields[0].name = "../../etc/passwd";
  EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(), StatusCode::kDataLoss);
  dataset = ExampleDataset();
  dataset.fields[1].name = dataset.fields[0].name;
  EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(), StatusCode::kDataLoss);
  for (const double fill : {1e10, 0.5, std::numeric_limits<double>::quiet_NaN(), 32768.0}) {
    dataset = ExampleDataset();
    dataset.fields[2].fill = fill;  // fill value of int16
    EXPECT_EQ(DecodeDatasetManifest(EncodeManifest(dataset)).status().code(), StatusCode::kDataLoss) << fill;
  }
}

/// With a flat grid beside the first, and a field on it.
DatasetDescription WithTwoGrids() {
  DatasetDescription dataset = ExampleDataset();
  GridDescription flat = dataset.grids[0];
  flat.dims[2] = 1;
  flat.axis_names[2].clear();
  flat.coordinates[2].clear();
  flat.has_axis[2] = false;
  flat.patch = {64, 16, 1};
  flat.levels = 5;
  dataset.grids.push_back(flat);
  dataset.fields[1].grid = 1;
  return dataset;
}

TEST(DatasetManifest, EachFieldHasAGridOfItsOwnSizeAndPatch) {
  const std::string text = EncodeManifest(WithTwoGrids());
  const Result<DatasetDescription> read = DecodeDatasetManifest(text);

  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->grids.size(), 2u);
  EXPECT_EQ(read->GridOf(0).dims, (Index3{91, 45, 7}));
  EXPECT_EQ(read->GridOf(1).dims, (Index3{91, 45, 1}));
  EXPECT_EQ(read->GridOf(1).patch, (Index3{64, 16, 1}));
  EXPECT_EQ(read->GridOf(1).levels, 5);
  EXPECT_EQ(read->GridOf(1).has_axis, (std::array{true, true, false}));
  EXPECT_EQ(read->GridOf(2).levels, 3);
  // Nothing of a grid stands beside the list.
  for (const std::string_view key : {"\n \"grid\":", "\n \"patch\":", "\n \"levels\":"})
    EXPECT_EQ(text.find(key), std::string::npos) << key;
}

TEST(DatasetManifest, GridsThatDoNotGoTogetherAreRefused) {
  const std::vector<std::pair<std::string, std::function<void(DatasetDescription*)>>> cases = {
      {"there are 0 grids", [](auto* dataset) { dataset->grids.clear(); }},
      {"there are 4097 grids", [](auto* dataset) { dataset->grids.resize(4097, dataset->grids[0]); }},
      {"is on grid 2; there are 2", [](auto* dataset) { dataset->fields[2].grid = 2; }},
      {"axes of one name are one axis", [](auto* dataset) { dataset->grids[1].origin[0] = 1; }},
      {"axes of one name are one axis", [](auto* dataset) { dataset->grids[1].dims[0] = 90; }},
      {"axes of one name are one axis", [](auto* dataset) { dataset->grids[1].axis_units[1] = "km"; }},
      {"grid 1", [](auto* dataset) { dataset->grids[1].levels = 6; }},
      {"grid 1", [](auto* dataset) { dataset->grids[1].patch[0] = 48; }},
      {"grid 1", [](auto* dataset) { dataset->grids[1].dims[2] = 2; }},  // along the axis that it lacks
  };
  for (const auto& [words, change] : cases) {
    DatasetDescription dataset = WithTwoGrids();
    change(&dataset);
    // A list without grids would be the form of earlier versions.
    const Status status = dataset.grids.empty() ? Status(CheckDataset(dataset))
                                                : DecodeDatasetManifest(EncodeManifest(dataset)).status();

    EXPECT_FALSE(status.ok()) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
}

TEST(MaskName, CountsTheGridButTheFirst) {
  const std::vector<std::uint64_t> digests = {1, 2, 3};

  // docs/format.md, test vectors.
  EXPECT_EQ(MaskText(MaskName(digests, 0)), "7c68b4906e7ea780");
  EXPECT_EQ(MaskText(MaskName(digests, 1)), "caa0a06d4c905408");
  EXPECT_EQ(MaskText(MaskName(digests, 4095)), "4a4bf345e440ef5f");
}

/// The error of a dataset after a change to it.
Status ErrorOf(const std::function<void(DatasetDescription*)>& change) {
  DatasetDescription dataset = ExampleDataset();
  change(&dataset);
  return DecodeDatasetManifest(EncodeManifest(dataset)).status();
}

Status ErrorOf(const std::function<void(StepDescription*)>& change) {
  StepDescription step = ExampleStep();
  change(&step);
  return Decode(EncodeManifest(step)).status();
}

void ExpectDamage(const Status& status, const std::string& mention) {
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << mention;
  EXPECT_NE(status.message().find(mention), std::string::npos) << status.message();
}

FieldDescription LosslessField(DataType type) {
  FieldDescription field;
  field.name = "label";
  field.type = type;
  field.coder = CoderId::kLossless;
  field.bound = Lossless{};
  return field;
}

TEST(DatasetManifest, FillValuesOfLargeIntegersKeepAllDigits) {
  for (const std::uint64_t fill : {std::uint64_t{255}, std::uint64_t{9007199254740993}, ~std::uint64_t{0}}) {
    DatasetDescription dataset = ExampleDataset();
    dataset.fields = {LosslessField(DataType::kUint64)};
    dataset.fields[0].fill = fill;
    const std::string text = EncodeManifest(dataset);
    const Result<DatasetDescription> read = DecodeDatasetManifest(text);

    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->fields[0].fill_bits(), fill);
    const bool is_exact = fill == 255;
    EXPECT_EQ(text.find("fill_integer") == std::string::npos, is_exact) << text;
  }
  ExpectDamage(ErrorOf([](DatasetDescription* dataset) {
                 dataset->fields = {LosslessField(DataType::kInt64)};
                 dataset->fields[0].fill = ~std::uint64_t{0};
               }),
               "18446744073709551615 cannot be the fill value of int64");
}

TEST(DatasetManifest, WhatSamplesStandForIsKeptAndAgreesWithTheirType) {
  for (const GivenType given : {GivenType::kBool, GivenType::kFloat16}) {
    DatasetDescription dataset = ExampleDataset();
    dataset.fields = {LosslessField(StoredTypeOf(given))};
    dataset.fields[0].given = given;
    const Result<DatasetDescription> read = DecodeDatasetManifest(EncodeManifest(dataset));

    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->fields[0].given, given);
  }
  const auto with = [](GivenType given, const std::function<void(FieldDescription*)>& change) {
    return ErrorOf([&](DatasetDescription* dataset) {
      dataset->fields = {LosslessField(StoredTypeOf(given))};
      dataset->fields[0].given = given;
      change(&dataset->fields[0]);
    });
  };
  ExpectDamage(with(GivenType::kBool, [](auto* field) { field->type = DataType::kInt8; }),
               "gives bool back, which needs uint8 without loss");
  ExpectDamage(with(GivenType::kBool, [](auto* field) { field->fill = 1; }), "bool has none");
  ExpectDamage(with(GivenType::kFloat16,
                    [](auto* field) {
                      field->bound = AbsoluteBound{0.1};
                      field->coder = CoderId::kInterpolate;
                    }),
               "gives float16 back, which needs float32 without loss");
  ExpectDamage(with(GivenType::kBool, [](auto* field) { field->given = static_cast<GivenType>(9); }),
               "unknown given type 9");
}

TEST(DatasetManifest, FieldsAreOneToTheLimitWithNamesThatDiffer) {
  const auto with = [](std::size_t count) {
    return ErrorOf([count](DatasetDescription* dataset) {
      const FieldDescription field = dataset->fields[0];
      dataset->fields.clear();
      for (std::size_t i = 0; i < count; ++i) {
        dataset->fields.push_back(field);
        dataset->fields.back().name = fmt::format("f{}", i);
      }
    });
  };

  ExpectDamage(with(0), "no fields");
  EXPECT_TRUE(with(1).ok());
  EXPECT_TRUE(with(kMaxFields).ok());
  ExpectDamage(with(kMaxFields + 1), "4097 fields");
  ExpectDamage(ErrorOf([](DatasetDescription* d) { d->fields[2].name = d->fields[0].name; }),
               "appears twice");
}

TEST(DatasetManifest, TheCoderOfAFieldCodesIt) {
  using Dataset = DatasetDescription;
  ExpectDamage(ErrorOf([](Dataset* d) { d->fields[2].coder = CoderId::kWaveletZfp; }), "does not code");
  ExpectDamage(ErrorOf([](Dataset* d) { d->fields[0].rougher = {2, 1}; }), "3 layers");
  ExpectDamage(ErrorOf([](Dataset* d) { d->fields[0].keyframe = 8; }), "every 8 steps");
  ExpectDamage(ErrorOf([](Dataset* d) { d->fields[0].bound = AbsoluteBound{0}; }), "tolerance 0");
  ExpectDamage(ErrorOf([](Dataset* d) {
                 d->fields[0].bound = RelativeBound{std::numeric_limits<double>::quiet_NaN()};
               }),
               "tolerance nan");
  const auto layers = [](const std::vector<double>& tolerances) {
    return ErrorOf([&](Dataset* d) {
      d->fields[0].coder = CoderId::kInterpolate;
      d->fields[0].rougher = tolerances;
    });
  };
  EXPECT_TRUE(layers({2, 1}).ok());
  ExpectDamage(layers({1, 2}), "layer 1");
  ExpectDamage(layers({1, -1}), "layer 1");
}

TEST(DatasetManifest, AFieldHasABound) {
  auto message = ToProto(ExampleDataset());
  message.mutable_fields(1)->set_pointwise_relative_tolerance(1e-2);
  EXPECT_EQ(FromProto(message)->fields[1].bound, Bound(PointwiseBound{1e-2}));

  message.mutable_fields(1)->clear_bound();
  ExpectDamage(FromProto(message).status(), "\"velocity_x\" has no error bound");
  message.mutable_fields(1)->set_lossless(false);
  ExpectDamage(FromProto(message).status(), "\"velocity_x\" has no error bound");
}

TEST(DatasetManifest, ThePayloadOrderIsOneOfThose) {
  for (const PayloadOrder order : kPayloadOrders) {
    DatasetDescription dataset = ExampleDataset();
    dataset.order = order;
    const auto read = DecodeDatasetManifest(EncodeManifest(dataset));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->order, order);
  }
  for (const int number : {0, 4, 259}) {
    auto message = ToProto(ExampleDataset());
    message.set_order(static_cast<quarry::v1::PayloadOrder>(number));
    ExpectDamage(FromProto(message).status(), "payload order is not known; use a newer Quarry");
  }
}

TEST(DatasetManifest, TheOnlyGridOfAnOlderServerIsTaken) {
  auto message = ToProto(ExampleDataset());
  quarry::v1::OneGrid one;  // its fields once were in the message
  *one.mutable_grid() = message.grids(0);
  one.mutable_patch()->Swap(one.mutable_grid()->mutable_patch());
  one.set_levels(one.grid().levels());
  one.mutable_grid()->clear_levels();
  message.clear_grids();
  ExpectDamage(FromProto(message).status(), "there is no grid");
  ASSERT_TRUE(message.MergeFromString(one.SerializeAsString()));

  const Result<DatasetDescription> read = FromProto(message);

  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(EncodeManifest(*read), EncodeManifest(ExampleDataset()));
}

TEST(DatasetManifest, TimesHaveAUnitAndACalendarOrNone) {
  DatasetDescription dataset = ExampleDataset();
  const std::string without = EncodeManifest(dataset);
  EXPECT_EQ(without.find("\"time\""), std::string::npos) << "as before there were units";
  EXPECT_EQ(DecodeDatasetManifest(without)->time_unit, TimeUnit{});
  for (const TimeUnit& unit : {TimeUnit{"days since 2001-01-01", "noleap"},
                               {"s", ""},
                               {"", "360_day"},
                               {"\u00b5s of Mars", "darian"}}) {
    dataset.time_unit = unit;
    const auto read = DecodeDatasetManifest(EncodeManifest(dataset));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->time_unit, unit);
    EXPECT_EQ(EncodeManifest(*read), EncodeManifest(dataset));
  }
}

TEST(DatasetManifest, UnitsOfTimesAreShortText) {
  const std::string longest(kMaxTimeUnit, 'x');
  EXPECT_TRUE(ErrorOf([&](DatasetDescription* d) { d->time_unit = {longest, longest}; }).ok());
  ExpectDamage(ErrorOf([&](DatasetDescription* d) { d->time_unit.units = longest + "x"; }), "1025 bytes");
  ExpectDamage(ErrorOf([&](DatasetDescription* d) { d->time_unit.calendar = longest + "x"; }), "1025 bytes");
  EXPECT_EQ(CheckTimeUnit({"\xff", ""}).code(), StatusCode::kInvalidArgument);
  std::string text = EncodeManifest(ExampleDataset());
  text.replace(text.find("\"checksum\""), 0, "\"time\": 5, ");
  EXPECT_EQ(DecodeDatasetManifest(Resealed(text)).status().code(), StatusCode::kDataLoss);
}

TEST(DatasetManifest, ReadingALargeOneEndsWhenItIsCancelled) {
  DatasetDescription dataset = ExampleDataset();
  dataset.created_by = std::string(std::size_t{3} << 20, ',');  // in pieces inside of a text
  const std::string text = EncodeManifest(dataset);
  int asked = 0;
  const auto never = [&] { return ++asked < 0; };
  ASSERT_EQ(DecodeDatasetManifest(text, never)->created_by, dataset.created_by);
  const int of_all = asked;
  ASSERT_GT(of_all, 40);

  asked = 0;
  const Status status = DecodeDatasetManifest(text, [&] { return ++asked > 5; }).status();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.message();
  EXPECT_LT(asked, 10) << "of " << of_all;
}

TEST(DatasetManifest, TextThatIsNotUtf8OrHasAVeryLongNumberIsRefused) {
  std::string text = EncodeManifest(ExampleDataset());
  const std::size_t at = text.find("a test");
  EXPECT_EQ(DecodeDatasetManifest(Resealed(text.replace(at, 1, "\xff"))).status().code(),
            StatusCode::kDataLoss);
  text = EncodeManifest(ExampleDataset());
  text.replace(text.find("\"levels\": 3"), 11, "\"levels\": " + std::string(std::size_t{4} << 20, '1'));
  EXPECT_EQ(DecodeDatasetManifest(Resealed(text)).status().code(), StatusCode::kDataLoss);
}

TEST(StepManifest, WhatReadersAssumeOfAStepIsChecked) {
  using Step = StepDescription;
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  ExpectDamage(ErrorOf([](Step* s) { s->fields.push_back(s->fields[0]); }), "appears twice");
  ExpectDamage(ErrorOf([](Step* s) { s->fields[0].levels.pop_back(); }), "2 levels instead of 3");
  ExpectDamage(ErrorOf([](Step* s) {
                 s->fields[0].rougher.push_back({1, s->fields[0].levels});
               }),
               "2 layers instead of 1");
  ExpectDamage(ErrorOf([](Step* s) { s->fields[0].subfiles[0].patches = 11; }), "11 patches");
  ExpectDamage(ErrorOf([](Step* s) { s->fields[0].subfiles.clear(); }), "0 subfiles");
  ExpectDamage(ErrorOf([](Step* s) { s->fields[0].mask->subfiles[0].patches = 13; }), "the mask");
  ExpectDamage(ErrorOf([](Step* s) { s->fields[0].subfiles[0].bounds.end[1] = 46; }), "outside the grid");
  // Numbers of patches, and of bytes, whose sums overflow to the right ones.
  ExpectDamage(ErrorOf([](Step* s) {
                 std::vector<SubfileDescription>& subfiles = s->fields[0].subfiles;
                 subfiles.push_back(subfiles[0]);
                 subfiles[1].name = "0001.qsf";
                 subfiles[1].patches = kLargest - 11;
                 subfiles.push_back(subfiles[0]);
                 subfiles[2].name = "0002.qsf";
               }),
               "and more");
  ExpectDamage(ErrorOf([](Step* s) {
                 std::vector<SubfileDescription>& subfiles = s->fields[0].mask->subfiles;
                 subfiles.push_back(subfiles[0]);
                 subfiles[1].name = "0001.qsf";
                 subfiles[1].patches = 0;
                 subfiles[1].bytes = kLargest;
               }),
               "and more");
  EXPECT_TRUE(ErrorOf([](Step* s) { s->fields[0].name = "newer_than_dataset_json"; }).ok());
}

TEST(StepManifest, EachLayerHasRecordsOfEveryLevel) {
  DatasetDescription dataset = ExampleDataset();
  dataset.fields[0].coder = CoderId::kInterpolate;
  dataset.fields[0].rougher = {1};
  StepDescription step = ExampleStep();
  step.fields[0].rougher = {{1, step.fields[0].levels}};
  EXPECT_TRUE(DecodeStepManifest(EncodeManifest(step), dataset).ok());

  step.fields[0].rougher[0].levels.pop_back();
  ExpectDamage(DecodeStepManifest(EncodeManifest(step), dataset).status(), "2 levels instead of 3");
}

TEST(DatasetManifest, CoordinatesAreLeftOutWhereAllAxesAreEven) {
  DatasetDescription dataset = ExampleDataset();
  EXPECT_NE(EncodeManifest(dataset).find("\"coordinates\""), std::string::npos);
  dataset.grids[0].coordinates = {};
  EXPECT_EQ(EncodeManifest(dataset).find("\"coordinates\""), std::string::npos);
}

TEST(DatasetManifest, ImpossibleCoordinatesAreRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> wrong = {
      {0, 1, 2, 3, 4, 5},
      {0, 1, 2, 3, 4, 5, 6, 7},
      {0, 1, 2, 3, 3, 5, 6},
      {0, 1, 2, 3, 2, 1, 0},
      {0, 1, 2, 3, 4, 5, kInfinity},
      {0, 1, 2, std::numeric_limits<double>::quiet_NaN(), 4, 5, 6}};
  for (const std::vector<double>& coordinates : wrong) {
    DatasetDescription dataset = ExampleDataset();
    dataset.grids[0].coordinates[2] = coordinates;
    const Status status = DecodeDatasetManifest(EncodeManifest(dataset)).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("along z"), std::string::npos) << status.message();
  }
}

TEST(CheckFieldName, AcceptsFolderNamesOnly) {
  for (const char* good : {"pressure", "velocity_x", "T2m", "a-b.c"})
    EXPECT_TRUE(CheckFieldName(good).ok()) << good;
  for (const char* bad : {"", ".", "..", ".hidden", "a/b", "a b", "a\n", "step.json"})
    EXPECT_FALSE(CheckFieldName(bad).ok()) << bad;
  EXPECT_FALSE(CheckFieldName(std::string(64, 'a')).ok());
}

TEST(Manifest, PositionsThatNoReaderAcceptsAreRefusedBeforeTheyAreWritten) {
  DatasetDescription dataset = ExampleDataset();
  std::vector<double>& positions = dataset.grids[0].coordinates[0];
  // "      0.3333333333333333," takes 26 bytes with the end of its line, so there is room for 10.3 million.
  for (const std::size_t count : {9'000'000, 11'000'000}) {
    positions.assign(count, 1.0 / 3);
    const Status status = CheckManifestSize(dataset);
    EXPECT_EQ(status.ok(), count == 9'000'000) << status.message();
    if (!status.ok()) {
      EXPECT_NE(status.message().find("positions"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace quarry::format
