// Questions as messages: everything that a client sends arrives, and invalid questions are refused.
#include "quarry/wire/convert.h"

#include <gtest/gtest.h>

#include <limits>

#include "quarry/format/proto_convert.h"

namespace quarry::wire {
namespace {

/// Everything that can be combined.
pb::ReadQuery WholeQuery() {
  pb::ReadQuery query;
  query.set_dataset("run42");
  query.set_field("pressure");
  query.set_step(7);
  for (const std::uint64_t value : {1, 2, 3}) query.mutable_box()->add_begin(value);
  for (const std::uint64_t value : {11, 22, 33}) query.mutable_box()->add_end(value);
  query.set_level(2);
  query.set_first_level(4);
  for (const double value : {0.5, -1.5, 2.5}) query.add_focus(value);
  query.set_strict(true);
  query.mutable_values()->set_low(-0.25);
  query.mutable_values()->set_high(0.75);
  query.add_fields("speed");
  query.add_fields("heat");
  query.mutable_steps()->set_begin(3);
  query.mutable_steps()->set_end(30);
  query.mutable_steps()->set_stride(5);
  return query;
}

TEST(ReadQuery, ComesBackWithEverythingThatWasSaid) {
  std::vector<pb::ReadQuery> queries(6, WholeQuery());
  queries[1].set_max_error(0.125);
  queries[2].set_max_bytes(1 << 20);
  for (const std::uint32_t value : {4, 2, 1}) queries[3].mutable_stride()->add_samples(value);
  queries[4].mutable_steps()->clear_end();
  queries[5].set_first_level(std::numeric_limits<std::uint32_t>::max());
  for (const pb::ReadQuery& query : queries) {
    const auto request = FromProto(query);
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_EQ(ToProto("run42", *request).SerializeAsString(), query.SerializeAsString())
        << query.DebugString();
  }
}

TEST(Recode, ComesBackAsItWasSaid) {
  for (const query::Recode& recode :
       {query::Recode{}, query::Recode{.factor = 2.5}, query::Recode{.error = 1e-3}}) {
    pb::ReadRequest request;
    SetRecode(recode, &request);
    pb::ReadRequest received;
    ASSERT_TRUE(received.ParseFromString(request.SerializeAsString()));
    EXPECT_EQ(RecodeOf(received), recode);
  }
}

TEST(Path, ComesBackAndHasAThread) {
  const query::Path path = *FromProto(ToProto(query::Path{0.02, 1e6, 8}));
  EXPECT_EQ(path.round_trip, 0.02);
  EXPECT_EQ(path.rate, 1e6);
  EXPECT_EQ(path.threads, 8);
  EXPECT_EQ(FromProto(pb::Path())->threads, 1);
  for (const double wrong : {-1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(FromProto(ToProto(query::Path{wrong, 1, 1})).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(FromProto(ToProto(query::Path{1, wrong, 1})).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(EncodingChoice, ComesBackAsItWasMade) {
  const query::EncodingChoice choice{
      query::AnswerEncoding::kCoded,
      {0.02, 1e6, 8},
      {{query::AnswerEncoding::kSamples, 2, 0.5}, {query::AnswerEncoding::kCoded, 1, 0.25}}};
  const query::EncodingChoice back = *FromProto(ToProto(choice));
  EXPECT_EQ(back.encoding, choice.encoding);
  EXPECT_EQ(back.path.rate, 1e6);
  ASSERT_EQ(back.prices.size(), 2u);
  EXPECT_EQ(back.prices[1].encoding, query::AnswerEncoding::kCoded);
  EXPECT_EQ(back.prices[1].seconds, 1);
  EXPECT_EQ(back.prices[1].work, 0.25);
}

TEST(ReadQuery, WithoutAnythingAsksForEverythingAtLevelZero) {
  const auto request = FromProto(pb::ReadQuery());
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->read.step || request->read.box || request->read.first_level || request->read.focus ||
               request->read.values || request->steps);
  EXPECT_TRUE(request->read.allow_damage) << "unless the message is strict";
  EXPECT_EQ(request->read.target, query::Target(query::AtLevel{0}));
}

TEST(ReadQuery, IsRefusedWithoutThreeAxes) {
  pb::ReadQuery query = WholeQuery();
  query.mutable_box()->mutable_end()->RemoveLast();
  EXPECT_EQ(FromProto(query).status().code(), StatusCode::kInvalidArgument);
  query = WholeQuery();
  query.mutable_focus()->RemoveLast();
  EXPECT_EQ(FromProto(query).status().code(), StatusCode::kInvalidArgument);
  query = WholeQuery();
  query.mutable_stride()->add_samples(2);
  EXPECT_EQ(FromProto(query).status().code(), StatusCode::kInvalidArgument);
}

DatasetDescription TwoFields() {
  DatasetDescription dataset;
  dataset.created_by = "a test";
  dataset.order = format::PayloadOrder::kLevel;
  dataset.grids.resize(2);
  dataset.grids[1] = {
      .dims = {40, 30, 1}, .axis_names = {"lon", "lat", "z"}, .patch = {16, 8, 1}, .levels = 3};
  dataset.grids[1].coordinates[1].resize(30);
  for (std::size_t i = 0; i < 30; ++i) dataset.grids[1].coordinates[1][i] = static_cast<double>(i * i);
  dataset.grids[1].has_axis = {true, true, false};
  dataset.attributes.push_back({"title", std::string("a run")});
  dataset.fields = {
      {.name = "half", .coder = CoderId::kLossless, .bound = Lossless{}, .given = GivenType::kFloat16},
      {.name = "psi.real", .coder = CoderId::kLossless, .bound = Lossless{}},
      {.name = "psi.imag", .coder = CoderId::kLossless, .bound = Lossless{}},
      {.name = "heat",
       .type = DataType::kInt16,
       .units = "K",
       .coder = CoderId::kInterpolate,
       .bound = AbsoluteBound{2},
       .fill = -999.0,
       .rougher = {8},
       .keyframe = 4,
       .grid = 1,
       .attributes = {{"long_name", std::string("temperature")}},
       .still = true}};
  dataset.fields[1].complex = ComplexPart{"psi", false};
  dataset.fields[2].complex = ComplexPart{"psi", true};
  return dataset;
}

TEST(DescribedField, HasTheFieldAndTheSizesOfItsGridAlone) {
  const DatasetDescription dataset = TwoFields();
  for (const FieldDescription& field : dataset.fields) {
    pb::DatasetManifest message;
    ASSERT_TRUE(message.ParseFromString(DescribeField(dataset, field).SerializeAsString()));
    EXPECT_LT(message.ByteSizeLong(), 200u);
    const Result<DatasetDescription> described = DescribedField(message);
    ASSERT_TRUE(described.ok()) << described.status().message();
    ASSERT_EQ(described->fields.size(), 1u);
    const FieldDescription& same = described->fields[0];
    EXPECT_EQ(same.name, field.name);
    EXPECT_EQ(same.type, field.type);
    EXPECT_EQ(same.units, field.units);
    EXPECT_EQ(same.coder, field.coder);
    EXPECT_EQ(same.bound, field.bound);
    EXPECT_EQ(same.fill_bits(), field.fill_bits());
    EXPECT_EQ(same.rougher, field.rougher);
    EXPECT_EQ(same.keyframe, field.keyframe);
    EXPECT_EQ(same.still, field.still);
    EXPECT_EQ(same.given, field.given);
    EXPECT_TRUE(same.attributes.empty());
    const GridDescription& grid = dataset.GridOf(field);
    EXPECT_EQ(described->grids[0].dims, grid.dims);
    EXPECT_EQ(described->grids[0].patch, grid.patch);
    EXPECT_EQ(described->grids[0].levels, grid.levels);
    EXPECT_EQ(described->grids[0].has_axis, grid.has_axis);
    EXPECT_TRUE(described->grids[0].coordinates[1].empty());
    EXPECT_EQ(described->order, dataset.order);
    EXPECT_TRUE(described->attributes.empty());
  }
}

TEST(DescribedField, IsRefusedWhenItIsLargeOrOfSeveralFields) {
  const DatasetDescription dataset = TwoFields();
  EXPECT_EQ(DescribedField(format::ToProto(dataset)).status().code(), StatusCode::kInternal);
  pb::DatasetManifest large = DescribeField(dataset, dataset.fields[3]);
  large.mutable_fields(0)->set_units(std::string(kLargestDescribed, 'K'));
  EXPECT_EQ(DescribedField(large).status().code(), StatusCode::kInternal);
}

TEST(GoesAsPatches, UnlessAPatchRefersToOthersOrIsLarge) {
  FieldDescription field;
  GridDescription grid{.dims = {4096, 4096, 4096}, .patch = {256, 256, 64}};
  EXPECT_TRUE(GoesAsPatches(field, grid)) << "2^22 samples of 8 bytes are 32 MiB";
  grid.patch[2] = 128;
  EXPECT_FALSE(GoesAsPatches(field, grid));
  grid.dims[2] = 60;
  EXPECT_TRUE(GoesAsPatches(field, grid)) << "the grid ends before the patch does";
  field.keyframe = 1;
  EXPECT_FALSE(GoesAsPatches(field, grid));
}

TEST(GetStatisticsRequest, ComesBackWithEverythingThatWasSaid) {
  pb::GetStatisticsRequest message;
  *message.mutable_query() = WholeQuery();
  message.mutable_query()->clear_fields();
  message.mutable_query()->clear_steps();
  for (const double percent : {5.0, 50.0}) message.add_percentiles(percent);
  message.set_bins(17);
  message.set_range_begin(-2);
  message.set_range_end(3);
  for (const auto scale :
       {pb::HISTOGRAM_SCALE_LINEAR, pb::HISTOGRAM_SCALE_LOG, pb::HISTOGRAM_SCALE_QUANTILE}) {
    message.set_scale(scale);
    const auto request = FromProto(message);
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_EQ(ToProto("run42", *request).SerializeAsString(), message.SerializeAsString());
  }

  message.set_scale(static_cast<pb::HistogramScale>(3));
  EXPECT_NE(FromProto(message).status().message().find("3 is no scale"), std::string::npos);
  message.clear_scale();
  message.clear_range_end();
  EXPECT_EQ(FromProto(message).status().code(), StatusCode::kInvalidArgument);
}

TEST(GetStatisticsResponse, KeepsWhatIsNotResolvedAndTheEdgesOfItsBins) {
  query::StatisticsAnswer answer;
  answer.header.levels.push_back({});
  answer.statistics.percentiles = {{50, {1, 0, 2, false}}, {99, {3, 2.5, 3.5, true}}};
  answer.statistics.histogram = {1, 100, {4, 5}, {3, 4}, {5, 6}, 7, 8, {1, 10, 100}};

  const auto back = FromProto(ToProto(answer));

  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->statistics.percentiles, answer.statistics.percentiles);
  EXPECT_EQ(back->statistics.histogram, answer.statistics.histogram);
}

TEST(GetStatisticsResponse, WithFewerEdgesThanItsBinsHaveIsRefused) {
  query::StatisticsAnswer answer;
  answer.header.levels.push_back({});
  answer.statistics.histogram = {1, 100, {4, 5}, {3, 4}, {5, 6}, 7, 8, {1, 100}};

  EXPECT_EQ(FromProto(ToProto(answer)).status().message(),
            "the server sends a histogram with 2 counts and 2 edges");
}

TEST(ReadPointsRequest, ComesBackAndHasThreeCoordinatesAPoint) {
  pb::ReadPointsRequest message;
  message.set_dataset("run42");
  message.set_field("pressure");
  message.set_step(9);
  for (int i = 0; i < 6; ++i) message.add_coordinates(0.5 * i);
  message.set_price_only(true);
  const auto request = FromProto(message);
  ASSERT_TRUE(request.ok()) << request.status().message();
  ASSERT_EQ(request->points.size(), 2u);
  EXPECT_EQ(request->points[1], (query::Point{1.5, 2, 2.5}));
  EXPECT_EQ(ToProto("run42", *request).SerializeAsString(), message.SerializeAsString());

  message.mutable_coordinates()->RemoveLast();
  EXPECT_EQ(FromProto(message).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quarry::wire
