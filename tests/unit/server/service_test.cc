#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "google/rpc/status_details.pb.h"
#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

using client::LevelSamples;

class ServiceTest : public ServingTest {};

TEST_F(ServiceTest, AnswersAreThoseOfTheDirectory) {
  std::mt19937 random(1);
  for (const std::string name : {"a", "b", "c"}) {
    const auto remote = Remote(name);
    const auto local = Local(name);
    const DatasetDescription& dataset = local->description();
    for (int i = 0; i < 100; ++i) {
      query::ReadRequest request{
          .field = "pressure",
          .box = testing::RandomBox(dataset.grids[0].dims, &random),
          .target =
              query::AtLevel{static_cast<int>(random() % static_cast<unsigned>(dataset.grids[0].levels))}};
      if (random() % 2 == 0) request.first_level = dataset.grids[0].levels - 1;
      const auto expected = local->Read(request);
      const auto answer = remote->Read(request);

      ASSERT_TRUE(expected.ok() && answer.ok()) << answer.status().message();
      EXPECT_EQ(answer->extent, expected->extent);
      EXPECT_EQ(answer->data, expected->data);
      EXPECT_EQ(answer->max_error, expected->max_error);
      EXPECT_EQ(answer->coverage, expected->coverage);
    }
  }
}

TEST_F(ServiceTest, LargestErrorsAreKeptAsTheDirectoryKeepsThem) {
  for (const std::string name : {"a", "b", "c"}) {
    const auto remote = Remote(name);
    const auto local = Local(name);
    for (double error = 1e-6; error < 100; error *= 2) {
      const query::ReadRequest request{.field = "pressure",
                                       .target = query::WithinError{error},
                                       .first_level = local->description().grids[0].levels - 1};
      const auto expected = local->Read(request);
      const auto answer = remote->Read(request);

      ASSERT_EQ(answer.status().code(), expected.status().code());
      if (!expected.ok()) {
        EXPECT_EQ(expected.status().code(), StatusCode::kNotFound);
        EXPECT_EQ(answer.status().message(), expected.status().message());
        continue;
      }
      EXPECT_LE(answer->max_error, error);
      EXPECT_EQ(answer->level, expected->level);
      EXPECT_EQ(answer->finest_level, answer->level);
      EXPECT_EQ(answer->data, expected->data);
      EXPECT_EQ(remote->PlanRead(request)->levels.back().level, expected->level);
    }
  }
}

TEST_F(ServiceTest, EveryKindOfQuestionIsAnsweredAsTheDirectoryAnswersIt) {
  std::mt19937 random(3);
  for (const std::string name : {"a", "b", "c"}) {
    const auto remote = Remote(name);
    const auto local = Local(name);
    const Index3 dims = local->description().grids[0].dims;
    for (int i = 0; i < 60; ++i) {
      query::ReadRequest request{.field = "pressure"};
      request.box = testing::RandomBox(dims, &random);
      if (i % 3 == 0) request.target = query::WithinBytes{std::uint64_t{1} << (random() % 18)};
      if (i % 3 == 1) request.target = query::AtStride{{1 + i % 4, 1 + i % 3, 2}};
      if (i % 2 == 0) request.focus = {1.5, 20, -3};
      const auto expected = local->Read(request);
      const auto answer = remote->Read(request);
      ASSERT_EQ(answer.status().code(), expected.status().code());
      EXPECT_EQ(answer.status().message(), expected.status().message());
      if (!expected.ok()) continue;
      EXPECT_EQ(answer->level, expected->level);
      EXPECT_EQ(answer->extent, expected->extent);
      EXPECT_EQ(answer->spacing, expected->spacing);
      EXPECT_EQ(answer->data, expected->data);
      EXPECT_EQ(remote->PlanRead(request)->cost, local->PlanRead(request)->cost);

      query::StatisticsRequest statistics{request, {0, 25, 50, 100}, 7, std::pair(-1.0, 3.0)};
      statistics.scale = static_cast<query::HistogramScale>(i % 3);
      if (statistics.scale == query::HistogramScale::kLog) statistics.range = {0.25, 3};
      if (statistics.scale == query::HistogramScale::kQuantile) statistics.range.reset();
      const auto expected_statistics = local->Statistics(statistics);
      const auto found = remote->Statistics(statistics);
      ASSERT_TRUE(found.ok() && expected_statistics.ok()) << found.status().message();
      EXPECT_EQ(found->header.cost, expected_statistics->header.cost);
      EXPECT_EQ(found->header.cost.reply_bytes, 0u);
      EXPECT_EQ(found->statistics.valid, expected_statistics->statistics.valid);
      EXPECT_EQ(found->statistics.missing, expected_statistics->statistics.missing);
      EXPECT_EQ(found->statistics.histogram, expected_statistics->statistics.histogram);
      EXPECT_EQ(found->statistics.box_min, expected_statistics->statistics.box_min);
      EXPECT_EQ(found->statistics.box_max, expected_statistics->statistics.box_max);
      if (found->statistics.valid == 0) continue;  // no number equals NaN
      EXPECT_EQ(found->statistics.min, expected_statistics->statistics.min);
      EXPECT_EQ(found->statistics.max, expected_statistics->statistics.max);
      EXPECT_EQ(found->statistics.mean, expected_statistics->statistics.mean);
      EXPECT_EQ(found->statistics.stddev, expected_statistics->statistics.stddev);
      EXPECT_EQ(found->statistics.percentiles, expected_statistics->statistics.percentiles);
    }
  }
}

TEST_F(ServiceTest, PointsAreThoseOfTheDirectoryHoweverMany) {
  const auto remote = Remote("c");
  const auto local = Local("c");
  query::PointsRequest request{"pressure", {}, {}, false};
  std::mt19937 random(4);
  std::uniform_real_distribution<double> unit(0, 1);
  // More than one message may contain.
  while (request.points.size() < query::kMaxPoints + 1000)
    request.points.push_back({36 * unit(random), 21 * unit(random), 12 * unit(random)});
  const auto expected = local->ReadPoints(request);
  const auto answer = remote->ReadPoints(request);
  ASSERT_TRUE(expected.ok() && answer.ok()) << answer.status().message();
  ASSERT_EQ(answer->values.size(), request.points.size());
  EXPECT_EQ(std::memcmp(answer->values.data(), expected->values.data(), 8 * answer->values.size()), 0);
  EXPECT_EQ(answer->cost, expected->cost);
  EXPECT_EQ(answer->max_error, expected->max_error);
  request.cost_only = true;
  EXPECT_EQ(remote->ReadPoints(request)->cost, answer->cost);
  EXPECT_TRUE(remote->ReadPoints(request)->values.empty());

  pb::ReadPointsRequest message;
  message.set_dataset("c");
  message.set_field("pressure");
  message.add_coordinates(1);
  pb::ReadPointsResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(stub_->ReadPoints(&context, message, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, StepsSayWhatIsMissing) {
  const std::vector<StepSummary> remote = *Remote("c")->Steps();
  const std::vector<StepSummary> local = *Local("c")->Steps();
  ASSERT_TRUE(remote.at(0).fields.at(0).mask);
  EXPECT_EQ(remote[0].fields[0].mask, local.at(0).fields.at(0).mask);
  EXPECT_EQ(remote[0].fields[0].valid, local[0].fields[0].valid);
  EXPECT_LT(Remote("c")->Read({.field = "pressure", .target = query::AtLevel{2}})->coverage, 1);
}

TEST_F(ServiceTest, LevelsComeCoarseToFineAndTheCostIsKept) {
  const auto remote = Remote("a");
  const query::ReadRequest request{.field = "pressure", .target = query::AtLevel{0}, .first_level = 3};
  const query::AnswerHeader plan = *remote->PlanRead(request);
  std::vector<int> levels;
  std::uint64_t received = 0;
  ASSERT_TRUE(remote
                  ->ReadLevels(request,
                               [&](LevelSamples* samples, const client::ReadCost& cost) {
                                 levels.push_back(samples->level);
                                 received = cost.bytes_received;
                                 EXPECT_EQ(cost.planned.patches, plan.cost.patches);
                                 return Status::Ok();
                               })
                  .ok());
  EXPECT_EQ(levels, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(received, plan.cost.reply_bytes);
}

/// Everything that answers report, level by level.
struct HeardLevel {
  std::string field;
  std::uint64_t step;
  int level;
  Box extent;
  std::vector<Box> left_out;
  Bytes data;

  friend bool operator==(const HeardLevel&, const HeardLevel&) = default;
};

std::vector<HeardLevel> Hear(const client::Dataset& dataset, const query::SeriesRequest& request) {
  std::vector<HeardLevel> heard;
  const Status status = dataset.ReadSeries(request, [&](LevelSamples* level, const client::ReadCost&) {
    heard.push_back(
        {level->field, level->step, level->level, level->extent, level->left_out, std::move(level->data)});
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return heard;
}

/// Coarse to fine in the first layer, then rough to exact; each as it is read alone, and nothing read twice.
TEST_F(ServiceTest, LayersComeOneAfterTheOther) {
  testing::MakeDataset(Path("d"), {.coder = CoderId::kInterpolate, .missing = true, .rougher = {1e-1, 1e-2}});
  const auto local = Local("d");
  const auto remote = Remote("d");
  const auto patches = *client::Dataset::Open(Target("d"), {.encoding = client::Encoding::kPatches});
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    query::ReadRequest request{.field = "pressure", .box = testing::RandomBox({37, 22, 13}, &random)};
    const int first_layer = static_cast<int>(random() % 3);
    const int layer = first_layer + static_cast<int>(random() % static_cast<unsigned>(3 - first_layer));
    const int finest = static_cast<int>(random() % 3);
    request.target = query::AtLevel{finest};
    request.layer = layer;
    std::vector<query::LevelChoice> expected;
    for (int level = finest + 1; level >= finest; --level) expected.push_back({level, first_layer});
    for (int k = first_layer + 1; k <= layer; ++k) expected.push_back({finest, k});
    const std::uint64_t alone = local->PlanRead(request)->cost.bytes;
    request.first_level = finest + 1;
    request.first_layer = first_layer;
    for (const auto* dataset : {local.get(), remote.get(), patches.get()}) {
      const query::AnswerHeader plan = *dataset->PlanRead(request);
      EXPECT_EQ(plan.cost.bytes, alone);
      std::vector<query::LevelChoice> came;
      const Status status = dataset->ReadLevels(request, [&](LevelSamples* got, const client::ReadCost&) {
        query::ReadRequest one{.field = "pressure",
                               .box = request.box,
                               .target = query::AtLevel{got->level},
                               .layer = got->layer};
        const auto promised = local->Read(one);
        EXPECT_EQ(got->data, promised->data);
        EXPECT_GE(got->max_error, promised->max_error);  // error of all patches of the answer
        EXPECT_EQ(got->last(), came.size() + 1 == expected.size());
        came.push_back({got->level, got->layer});
        return Status::Ok();
      });
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(came, expected);
      EXPECT_EQ(plan.levels.size(), expected.size());
    }
  }
  for (const auto* dataset : {local.get(), remote.get()}) {
    const Status status = dataset->Read({.field = "pressure", .layer = 1, .first_layer = 2}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("from the roughest on"), std::string::npos) << status.message();
    // max_error chooses a rougher layer: it comes alone.
    const auto rough =
        dataset->Read({.field = "pressure", .target = query::WithinError{0.5}, .first_layer = 2});
    ASSERT_TRUE(rough.ok()) << rough.status().message();
    EXPECT_EQ(rough->layer, 0);
  }
}

TEST_F(ServiceTest, SeveralFieldsAndStepsAreThoseThatAreReadOneByOne) {
  testing::MakeDataset(Path("a"), {.steps = {5, 6}});
  testing::MakeDataset(Path("a"), {.tolerance = 1e-2, .steps = {7, 8}, .field = "speed"});
  testing::MakeDataset(Path("a"), {.steps = {9}});
  const auto remote = Remote("a");
  const auto patches = *client::Dataset::Open(Target("a"), {.encoding = client::Encoding::kPatches});
  const auto local = Local("a");
  query::SeriesRequest request;
  request.read.box = Box{{3, 2, 1}, {30, 20, 9}};
  request.read.first_level = 2;
  request.fields = {"speed", "pressure"};
  request.steps = query::StepRange{2, 9, 3};  // 2, 5, 8
  std::vector<HeardLevel> expected;
  for (const auto& [field, step] : {std::pair("pressure", 2), {"pressure", 5}, {"speed", 8}}) {
    query::ReadRequest one = request.read;
    one.field = field;
    one.step = static_cast<std::uint64_t>(step);
    const std::vector<HeardLevel> levels = Hear(*local, {one, {}, {}});
    expected.insert(expected.end(), levels.begin(), levels.end());
  }
  EXPECT_EQ(expected.size(), 9u);
  EXPECT_EQ(Hear(*local, request), expected);
  EXPECT_EQ(Hear(*remote, request), expected);
  EXPECT_EQ(Hear(*patches, request), expected);

  const auto plans = *remote->PlanSeries(request);
  const auto local_plans = *local->PlanSeries(request);
  ASSERT_EQ(plans.size(), 3u);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(plans[i].number, i);
    EXPECT_EQ(plans[i].count, 3u);
    EXPECT_EQ(plans[i].cost, local_plans[i].cost);
    EXPECT_EQ(plans[i].field, expected[3 * i].field);
    EXPECT_EQ(plans[i].step, expected[3 * i].step);
  }
  // Without steps: the first of each field. Without an end: all from step one on.
  request.steps.reset();
  EXPECT_EQ(Hear(*remote, request).at(0).step, 7u);
  EXPECT_EQ(Hear(*remote, request).at(3).step, 0u);
  request.steps = query::StepRange{3, {}, 1};
  EXPECT_EQ(Hear(*remote, request).size(), 5u * 3);
}

TEST_F(ServiceTest, SeriesThatCannotBeAreRefused) {
  for (const auto& dataset : {Remote("a"), Local("a")}) {
    using Fields = std::vector<std::string>;
    using Steps = std::optional<query::StepRange>;
    const auto code = [&](const std::string& field, Fields fields, Steps steps) {
      query::SeriesRequest request;
      request.read.field = field;
      request.fields = std::move(fields);
      request.steps = steps;
      const Status read = dataset->ReadSeries(request, [](auto*, auto&) { return Status::Ok(); });
      EXPECT_EQ(dataset->PlanSeries(request).status().code(), read.code());
      return read.code();
    };
    EXPECT_EQ(code("pressure", {"pressure"}, {}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code("", {"pressure", "pressure"}, {}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code("", {"pressure", "speed"}, {}), StatusCode::kNotFound);
    EXPECT_EQ(code("pressure", {}, query::StepRange{3, 3, 1}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code("pressure", {}, query::StepRange{3, 9, 1}), StatusCode::kNotFound);
  }
}

TEST_F(ServiceTest, APlanOfTooManyAnswersIsRefusedWithHowFarItCame) {
  const auto remote = Remote("a");
  query::SeriesRequest request;
  request.read.field = "pressure";
  request.steps = query::StepRange{0, 3, 1};
  const auto whole = remote->PlanSeries(request);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_EQ(whole->size(), 2u);

  operations_.limits.plan_bytes = 1;
  const Status refused = remote->PlanSeries(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("1 of 2 answers"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("fewer steps or fields"), std::string::npos) << refused.message();
}

TEST_F(ServiceTest, ARangeOfValuesIsAnsweredAlikeEverywhere) {
  for (const std::string name : {"a", "c"}) {
    const auto local = Local(name);
    const auto remote = Remote(name);
    const auto patches = *client::Dataset::Open(Target(name), {.encoding = client::Encoding::kPatches});
    const query::ReadRequest all{.field = "pressure", .box = Box{{1, 0, 2}, {33, 22, 13}}, .first_level = 3};
    query::ReadRequest some = all;
    some.values = {0.6, 0.7};
    const auto whole = Hear(*local, {all, {}, {}});
    const auto expected = Hear(*local, {some, {}, {}});
    EXPECT_EQ(Hear(*remote, {some, {}, {}}), expected);
    EXPECT_EQ(Hear(*patches, {some, {}, {}}), expected);
    EXPECT_EQ(remote->PlanRead(some)->left_out, local->PlanRead(some)->left_out);
    ASSERT_EQ(expected.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const HeardLevel& level = expected[i];
      std::int64_t place = 0;
      std::int64_t left_out = 0;
      for (auto z = level.extent.begin[2]; z < level.extent.end[2]; ++z) {
        for (auto y = level.extent.begin[1]; y < level.extent.end[1]; ++y) {
          for (auto x = level.extent.begin[0]; x < level.extent.end[0]; ++x, ++place) {
            const bool out = std::ranges::any_of(level.left_out, [&](const Box& box) {
              return box.Contains({{x, y, z}, {x + 1, y + 1, z + 1}});
            });
            float found = 0;
            std::memcpy(&found, level.data.data() + place * 4, 4);
            left_out += out;
            if (out) {
              EXPECT_TRUE(std::isnan(found));
            } else {
              EXPECT_EQ(std::memcmp(&found, whole[i].data.data() + place * 4, 4), 0);
            }
          }
        }
      }
      EXPECT_TRUE(left_out > 0 || level.level > 0);
      EXPECT_LT(left_out, place);
    }
  }
}

TEST_F(ServiceTest, PatchesAsStoredGiveTheSameSamplesForThePayloadOfTheCost) {
  client::Options options;
  options.encoding = client::Encoding::kPatches;
  std::mt19937 random(5);
  for (const std::string name : {"a", "b", "c"}) {
    const auto patches = *client::Dataset::Open(Target(name), options);
    const auto samples = Remote(name);
    const Index3 dims = samples->description().grids[0].dims;
    for (int i = 0; i < 40; ++i) {
      query::ReadRequest request{.field = "pressure"};
      request.box = testing::RandomBox(dims, &random);
      if (i % 3 == 0) request.target = query::AtStride{{1 + i % 4, 1 + i % 3, 2}};
      if (i % 3 == 1) request.first_level = 3;
      if (i % 3 == 2) request.target = query::AtLevel{i % 4};
      if (i % 2 == 0) request.focus = {1.5, 20, -3};
      std::vector<Bytes> expected;
      ASSERT_TRUE(samples
                      ->ReadLevels(request,
                                   [&](LevelSamples* level, const client::ReadCost&) {
                                     expected.push_back(std::move(level->data));
                                     return Status::Ok();
                                   })
                      .ok());
      std::vector<Bytes> found;
      client::ReadCost cost;
      const Status status =
          patches->ReadLevels(request, [&](LevelSamples* level, const client::ReadCost& so_far) {
            EXPECT_TRUE(level->damaged.empty());
            found.push_back(std::move(level->data));
            cost = so_far;
            return Status::Ok();
          });
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(found, expected);
      EXPECT_EQ(cost.bytes_received, cost.planned.bytes);
    }
  }
}

/// Reads until a number of messages or the end, and collects the messages.
struct PartOfAnAnswer {
  std::string position;
  std::vector<pb::ReadResponse> messages;  ///< without headers
  std::uint64_t answer = 0;                ///< number of the last header
  bool complete = false;

  void Read(pb::QuarryService::Stub* stub, pb::ReadRequest request, std::size_t count) {
    request.set_resume_after(position);
    grpc::ClientContext context;
    const auto reader = stub->Read(&context, request);
    pb::ReadResponse message;
    for (std::size_t i = 0; i <= count && !complete && reader->Read(&message); ++i) {
      complete = message.has_read_end();
      EXPECT_EQ(message.position().empty(), complete);
      position = message.position();
      const bool header = message.has_header();
      EXPECT_TRUE(header || i > 0);
      if (header) {
        if (i > 0) ++answer;
        EXPECT_EQ(message.header().number(), answer);
        continue;
      }
      messages.push_back(message);
    }
    if (complete) {
      EXPECT_FALSE(reader->Read(&message)) << "nothing comes after the end";
    } else {
      context.TryCancel();
    }
    (void)reader->Finish();
  }
};

TEST_F(ServiceTest, AStreamThatWasCutGoesOnWithWhatIsMissing) {
  // Patches of several messages, and messages of many patches.
  testing::MakeDataset(folder_.path() / "long.quarry", {.dims = {150, 100, 70}, .patch = {128, 128, 64}});
  std::mt19937 random(9);
  for (const auto& [name, encoding] : {std::pair("long", pb::ENCODING_SAMPLES),
                                       {"long", pb::ENCODING_PATCHES},
                                       {"a", pb::ENCODING_SAMPLES},
                                       {"c", pb::ENCODING_PATCHES}}) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(name);
    request.mutable_query()->set_field("pressure");
    request.mutable_query()->set_first_level(2);
    request.set_encoding(encoding);
    if (name == std::string("a")) request.mutable_query()->mutable_steps();  // all of them
    PartOfAnAnswer whole;
    whole.Read(stub_.get(), request, SIZE_MAX - 1);
    ASSERT_TRUE(whole.complete);
    PartOfAnAnswer parts;
    int streams = 0;
    while (!parts.complete && streams < 300) {
      parts.Read(stub_.get(), request, 1 + random() % 3);
      ++streams;
    }
    EXPECT_GT(streams, 1);
    // Messages may be split elsewhere; their contents, in order, are the same.
    const auto carried = [](const PartOfAnAnswer& part) {
      std::string all;
      for (const pb::ReadResponse& message : part.messages) {
        for (const auto& block : message.samples().blocks()) all += block.SerializeAsString();
        for (const auto& patch : message.patches().patches()) all += patch.SerializeAsString();
        all += message.level_end().SerializeAsString();
      }
      for (const pb::ReadResponse& message : part.messages)
        all += message.samples().data() + message.patches().data();
      return all;
    };
    EXPECT_EQ(carried(parts), carried(whole));
  }
}

TEST_F(ServiceTest, EndsComeWithTheLastSamples) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("a");
  request.mutable_query()->set_field("pressure");
  request.mutable_query()->set_first_level(2);
  for (const pb::Encoding encoding : {pb::ENCODING_SAMPLES, pb::ENCODING_PATCHES}) {
    request.set_encoding(encoding);
    PartOfAnAnswer whole;
    whole.Read(stub_.get(), request, SIZE_MAX - 1);
    ASSERT_TRUE(whole.complete);
    // One message for each level: all are small.
    ASSERT_EQ(whole.messages.size(), 3u);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const pb::ReadResponse& message = whole.messages[i];
      EXPECT_TRUE(encoding == pb::ENCODING_SAMPLES ? message.has_samples() : message.has_patches());
      ASSERT_TRUE(message.has_level_end());
      EXPECT_EQ(message.level_end().level(), 2 - i);
      EXPECT_EQ(message.has_read_end(), i == 2);
    }
    EXPECT_GT(whole.messages[2].read_end().price().bytes(), 0u);
  }
}

TEST_F(ServiceTest, APositionOfOtherDataIsRefused) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("a");
  request.mutable_query()->set_field("pressure");
  request.mutable_query()->set_first_level(2);
  PartOfAnAnswer part;
  part.Read(stub_.get(), request, 1);
  ASSERT_FALSE(part.position.empty());
  const auto resume = [&](const std::string& dataset, const std::string& position) {
    request.mutable_query()->set_dataset(dataset);
    request.set_resume_after(position);
    grpc::ClientContext context;
    const auto reader = stub_->Read(&context, request);
    pb::ReadResponse message;
    while (reader->Read(&message)) {
    }
    return reader->Finish().error_code();
  };
  EXPECT_EQ(resume("a", part.position), grpc::StatusCode::OK);
  EXPECT_EQ(resume("b", part.position), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(resume("a", "no position"), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, ErrorsKeepTheirCodeAndCarryOneErrorInfo) {
  pb::PlanReadRequest request;
  request.mutable_query()->set_dataset("a");
  request.mutable_query()->set_field("nothing");
  pb::PlanReadResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->PlanRead(&context, request, &response);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "quarry");
  EXPECT_EQ(info.reason(), "NOT_FOUND");
}

TEST_F(ServiceTest, BadQuestionsAreRefusedAsTheDirectoryRefusesThem) {
  const auto remote = Remote("a");
  const auto local = Local("a");
  for (const query::ReadRequest& request :
       {query::ReadRequest{.field = "speed"}, query::ReadRequest{.field = "pressure", .step = 9},
        query::ReadRequest{.field = "pressure", .target = query::AtLevel{9}},
        query::ReadRequest{.field = "pressure", .box = Box{{0, 0, 0}, {1000, 1, 1}}},
        query::ReadRequest{.field = "pressure", .target = query::AtLevel{2}, .first_level = 0},
        query::ReadRequest{.field = "pressure", .target = query::WithinError{-1}},
        query::ReadRequest{.field = "pressure", .target = query::WithinError{std::nan("")}},
        query::ReadRequest{.field = "pressure", .target = query::WithinError{0}},
        query::ReadRequest{.field = "pressure", .target = query::WithinBytes{0}},
        query::ReadRequest{.field = "pressure", .target = query::AtStride{{0, 1, 1}}},
        query::ReadRequest{.field = "pressure", .focus = query::Point{0, 0, std::nan("")}}}) {
    EXPECT_FALSE(remote->Read(request).ok());
    EXPECT_EQ(remote->Read(request).status().code(), local->Read(request).status().code());
  }
  EXPECT_EQ(client::Dataset::Open(Target("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client::Dataset::Open(Target("../a")).status().code(), StatusCode::kNotFound)
      << "names are looked up, never paths";
}

TEST_F(ServiceTest, ListsArePaginated) {
  pb::ListDatasetsRequest request;
  request.set_page_size(1);
  std::vector<std::string> names;
  do {
    grpc::ClientContext context;
    pb::ListDatasetsResponse response;
    ASSERT_TRUE(stub_->ListDatasets(&context, request, &response).ok());
    ASSERT_LE(response.datasets_size(), 1);
    for (const auto& dataset : response.datasets()) names.push_back(dataset.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(ServiceTest, StepsArePaginated) {
  pb::GetDatasetRequest request;
  request.set_dataset("a");
  request.set_page_size(1);
  grpc::ClientContext first_context;
  pb::GetDatasetResponse response;
  ASSERT_TRUE(stub_->GetDataset(&first_context, request, &response).ok());
  EXPECT_EQ(response.steps(0).step(), 0u);
  request.set_page_token(response.next_page_token());
  grpc::ClientContext second_context;
  pb::GetDatasetResponse second;
  ASSERT_TRUE(stub_->GetDataset(&second_context, request, &second).ok());
  EXPECT_EQ(second.steps(0).step(), 2u);
  EXPECT_TRUE(second.next_page_token().empty());
}

TEST_F(ServiceTest, StepsComeWithTheDatesOfTheirTimes) {
  const TimeUnit unit = {"days since 2001-02-28", "noleap"};
  testing::MakeDataset(Path("dated"), {.steps = {0}});
  testing::MakeDataset(Path("dated"), {.steps = {2, 3}, .time_unit = unit});
  pb::GetDatasetRequest request;
  request.set_dataset("dated");
  grpc::ClientContext context;
  pb::GetDatasetResponse response;
  ASSERT_TRUE(stub_->GetDataset(&context, request, &response).ok());
  EXPECT_EQ(response.manifest().time().units(), unit.units);
  EXPECT_EQ(std::vector<std::string>(response.dates().begin(), response.dates().end()),
            (std::vector<std::string>{"", "2001-03-01 00:00:00", "2001-03-01 12:00:00"}));
  EXPECT_EQ(Remote("dated")->description().time_unit, unit);
  EXPECT_EQ(Remote("dated")->Steps()->back().time, 1.5);

  pb::WatchStepsRequest watched;
  watched.set_dataset("dated");
  watched.set_after(2);
  grpc::ClientContext watching;
  const auto stream = stub_->WatchSteps(&watching, watched);
  pb::WatchStepsResponse step;
  ASSERT_TRUE(stream->Read(&step));
  EXPECT_EQ(step.date(), "2001-03-01 12:00:00");
  watching.TryCancel();

  request.set_dataset("a");
  grpc::ClientContext without;
  ASSERT_TRUE(stub_->GetDataset(&without, request, &response).ok());
  EXPECT_EQ(response.dates_size(), 0);
  EXPECT_FALSE(response.manifest().has_time());
}

TEST_F(ServiceTest, NumbersOfStepsComeWithoutTheirRecords) {
  testing::MakeDataset(Path("many"),
                       {.dims = {3, 2, 2}, .patch = {2, 2, 2}, .levels = 1, .steps = {1, 4, 7}});
  const std::vector<std::uint64_t> numbers = {1, 4, 7};
  const auto remote = Remote("many");
  std::ofstream(Path("many") / "steps" / "000004" / "step.json") << "{}";

  EXPECT_EQ(*remote->StepNumbers(), numbers);
  EXPECT_EQ(*Local("many")->StepNumbers(), numbers);
  for (const auto& dataset : {Remote("many"), Local("many")}) {
    EXPECT_EQ(dataset->Step(7)->step, 7u);
    EXPECT_EQ(dataset->Step(1)->fields.size(), 1u);
    EXPECT_TRUE(*dataset->HasField(7, "pressure"));
    EXPECT_FALSE(*dataset->HasField(7, "none"));
    EXPECT_EQ(dataset->HasField(5, "pressure").status().code(), StatusCode::kNotFound);
    EXPECT_EQ(dataset->Step(5).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(dataset->Step(8).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(dataset->Step(4).status().code(), StatusCode::kDataLoss);
  }

  pb::GetDatasetRequest request;
  request.set_dataset("many");
  request.set_numbers_only(true);
  request.set_page_token("1");
  grpc::ClientContext context;
  pb::GetDatasetResponse response;
  ASSERT_TRUE(stub_->GetDataset(&context, request, &response).ok());
  EXPECT_EQ(std::vector<std::uint64_t>(response.step_numbers().begin(), response.step_numbers().end()),
            (std::vector<std::uint64_t>{4, 7}));
  EXPECT_FALSE(response.has_manifest());
  EXPECT_EQ(response.steps_size(), 0);
  EXPECT_TRUE(response.next_page_token().empty());
}

TEST_F(ServiceTest, APlanSaysWhetherSamplesMayBeMissing) {
  testing::MakeDataset(Path("holes"), {.missing = true});
  for (const auto& [name, missing] : {std::pair("a", false), {"holes", true}}) {
    for (const auto& dataset : {Remote(name), Local(name)}) {
      EXPECT_EQ(dataset->PlanRead({.field = "pressure"})->may_miss, missing);
      EXPECT_EQ(dataset->Read({.field = "pressure"})->may_miss, missing);
    }
  }
}

TEST_F(ServiceTest, StepsThatAppearWhileTheServerRunsAreSeen) {
  ASSERT_EQ(Remote("a")->Steps()->size(), 2u);
  testing::MakeDataset(Path("a"), {.steps = {5}});
  EXPECT_EQ(Remote("a")->Steps()->size(), 3u);
  testing::MakeDataset(Path("new"), {});
  EXPECT_EQ(Remote("new")->Steps()->size(), 1u);
}

TEST_F(ServiceTest, ACancelledReadEndsAndTheServerGoesOn) {
  // More than the buffers between server and client hold: without a reader, the answer cannot have ended.
  testing::MakeDataset(Path("long"), {.dims = {150, 100, 70}, .patch = {64, 64, 64}});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  const auto stub = pb::QuarryService::NewStub(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials(), arguments));
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("long");
  request.mutable_query()->set_field("pressure");
  grpc::ClientContext context;
  const auto reader = stub->Read(&context, request);
  pb::ReadResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Remote("a")->Read({.field = "pressure"}).ok());
}

/// gRPC would decompress before it looks at the length.
TEST_F(ServiceTest, TakesNoCompressedMessages) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    pb::PlanReadRequest request;
    request.mutable_query()->set_dataset(std::string(10'000, 'a'));  // short messages are not compressed
    pb::PlanReadResponse response;
    const grpc::Status status = stub_->PlanRead(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_NE(status.error_message().find("ompression algorithm"), std::string::npos)
        << status.error_message();
  }
}

TEST_F(ServiceTest, APassedDeadlineEndsTheCall) {
  client::Options options;
  const auto dataset = *client::Dataset::Open(Target("a"), options);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  pb::PlanReadRequest request;
  pb::PlanReadResponse response;
  EXPECT_EQ(stub_->PlanRead(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(ServiceTest, AReadThatCannotFitIntoMemoryIsRefusedWithTheNumbers) {
  listener_.reset();
  Start(128 << 10);
  const Status status = Remote("a")->Read({.field = "pressure"}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("128 KiB"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quarry::server
