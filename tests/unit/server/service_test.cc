#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "clients/cpp/client.h"
#include "google/rpc/status_details.pb.h"
#include "server/grpc_service.h"
#include "server/memory_budget.h"
#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;
using client::LevelSamples;

/// A real server on a free port, over datasets that the test makes.
class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(Path("a"), {.steps = {0, 2}});
    testing::MakeDataset(
        Path("b"),
        {.dims = {50, 1, 1}, .patch = {16, 1, 1}, .levels = 5, .order = format::PayloadOrder::kLevel});
    testing::MakeDataset(Path("c"), {.missing = true});
    Start(std::uint64_t{1} << 30);
  }
  void TearDown() override { server_->Shutdown(); }

  void Start(std::uint64_t memory) {
    service_ =
        std::make_unique<QueryService>(CatalogueOptions{folder_.path(), {}, folder_.path()}, memory, 2);
    grpc_service_ = std::make_unique<GrpcService>(service_.get(), std::chrono::milliseconds(5));
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(grpc_service_.get());
    server_ = builder.BuildAndStart();
    stub_ = pb::QuarryService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials()));
  }

  std::filesystem::path Path(const std::string& name) const { return folder_.path() / (name + ".quarry"); }
  std::string Target(const std::string& name) const {
    return "grpc://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }
  std::unique_ptr<client::Dataset> Remote(const std::string& name) const {
    return *client::Dataset::Open(Target(name));
  }
  std::unique_ptr<client::Dataset> Local(const std::string& name) const {
    return *client::Dataset::Open(Path(name).string());
  }

  testing::TemporaryFolder folder_;
  int port_ = 0;
  std::unique_ptr<QueryService> service_;
  std::unique_ptr<GrpcService> grpc_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<pb::QuarryService::Stub> stub_;
};

TEST_F(ServiceTest, AnswersAreThoseOfTheDirectory) {
  std::mt19937 random(1);
  for (const std::string name : {"a", "b", "c"}) {
    const auto remote = Remote(name);
    const auto local = Local(name);
    const DatasetDescription& dataset = local->description();
    for (int i = 0; i < 100; ++i) {
      Box box;
      for (std::size_t a = 0; a < 3; ++a) {
        box.begin[a] = static_cast<std::int64_t>(random()) % dataset.grid.dims[a];
        box.end[a] =
            box.begin[a] + 1 + static_cast<std::int64_t>(random()) % (dataset.grid.dims[a] - box.begin[a]);
      }
      query::ReadRequest request{
          .field = "pressure", .box = box, .level = static_cast<int>(random()) % dataset.levels};
      request.level = std::abs(request.level);
      if (random() % 2 == 0) request.first_level = dataset.levels - 1;
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
      const query::ReadRequest request{
          .field = "pressure", .max_error = error, .first_level = local->description().levels - 1};
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

TEST_F(ServiceTest, StepsSayWhatIsMissing) {
  const std::vector<StepDescription> remote = *Remote("c")->Steps();
  const std::vector<StepDescription> local = *Local("c")->Steps();
  ASSERT_TRUE(remote.at(0).fields.at(0).mask);
  EXPECT_EQ(remote[0].fields[0].mask, local.at(0).fields.at(0).mask);
  EXPECT_EQ(remote[0].fields[0].valid, local[0].fields[0].valid);
  EXPECT_LT(Remote("c")->Read({.field = "pressure", .level = 2})->coverage, 1);
}

TEST_F(ServiceTest, LevelsComeCoarseToFineAndThePriceIsKept) {
  const auto remote = Remote("a");
  const query::ReadRequest request{.field = "pressure", .level = 0, .first_level = 3};
  const query::AnswerHeader plan = *remote->PlanRead(request);
  std::vector<int> levels;
  std::uint64_t received = 0;
  ASSERT_TRUE(remote
                  ->ReadLevels(request,
                               [&](LevelSamples* samples, const client::ReadCost& cost) {
                                 levels.push_back(samples->level);
                                 received = cost.bytes_received;
                                 EXPECT_EQ(cost.price.patches, plan.price.patches);
                                 return Status::Ok();
                               })
                  .ok());
  EXPECT_EQ(levels, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(received, plan.price.reply_bytes);
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
        query::ReadRequest{.field = "pressure", .level = 9},
        query::ReadRequest{.field = "pressure", .box = Box{{0, 0, 0}, {1000, 1, 1}}},
        query::ReadRequest{.field = "pressure", .level = 2, .first_level = 0},
        query::ReadRequest{.field = "pressure", .max_error = -1},
        query::ReadRequest{.field = "pressure", .max_error = std::nan("")},
        query::ReadRequest{.field = "pressure", .max_error = 0}}) {
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

TEST_F(ServiceTest, StepsThatAppearWhileTheServerRunsAreSeen) {
  ASSERT_EQ(Remote("a")->Steps()->size(), 2u);
  testing::MakeDataset(Path("a"), {.steps = {5}});
  EXPECT_EQ(Remote("a")->Steps()->size(), 3u);
  testing::MakeDataset(Path("new"), {});
  EXPECT_EQ(Remote("new")->Steps()->size(), 1u);
}

TEST_F(ServiceTest, WatchersGetEveryStepOnceInOrderAndReadable) {
  constexpr std::uint64_t kLast = 9;
  const auto watch = [&](const std::string& target, std::optional<std::uint64_t> after) {
    const auto dataset = *client::Dataset::Open(target);
    std::vector<std::uint64_t> steps;
    const Status status = dataset->WatchSteps(after, [&](const StepDescription& step) {
      steps.push_back(step.step);
      // Opened anew, as by another program that was told.
      const auto told = client::Dataset::Open(target);
      EXPECT_TRUE(told.ok() && (*told)->Read({.field = "pressure", .step = step.step, .level = 2}).ok());
      return step.step != kLast;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return steps;
  };
  auto first = std::async(std::launch::async, watch, Target("a"), std::nullopt);
  auto second = std::async(std::launch::async, watch, Target("a"), 2);
  auto local = std::async(std::launch::async, watch, Path("a").string(), std::nullopt);
  for (std::uint64_t step = 3; step <= kLast; ++step) testing::MakeDataset(Path("a"), {.steps = {step}});
  const std::vector<std::uint64_t> all = {0, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(first.get(), all);
  EXPECT_EQ(second.get(), std::vector<std::uint64_t>(all.begin() + 2, all.end()));
  EXPECT_EQ(local.get(), all);
}

TEST_F(ServiceTest, WatchingEndsWithTheServerAndWhenTheClientHasEnough) {
  std::atomic<bool> enough = false;
  const auto impatient = *client::Dataset::Open(Target("a"), {.cancelled = [&] { return enough.load(); }});
  const auto watch = [&](const client::Dataset* dataset) {
    return dataset->WatchSteps({}, [&](const StepDescription& step) {
      if (step.step == 2) enough = true;
      return true;
    });
  };
  EXPECT_EQ(watch(impatient.get()).code(), StatusCode::kCancelled);
  const auto patient = Remote("a");
  auto result = std::async(std::launch::async, watch, patient.get());
  grpc_service_->EndWatching();
  EXPECT_EQ(result.get().code(), StatusCode::kUnavailable);
  const auto none = Remote("a")->WatchSteps({}, [](const StepDescription&) { return true; });
  EXPECT_EQ(none.code(), StatusCode::kUnavailable);
}

TEST_F(ServiceTest, ACancelledReadEndsAndTheServerGoesOn) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("a");
  request.mutable_query()->set_field("pressure");
  grpc::ClientContext context;
  const auto reader = stub_->Read(&context, request);
  pb::ReadResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context.TryCancel();
  while (reader->Read(&message)) {
  }
  const grpc::StatusCode code = reader->Finish().error_code();
  EXPECT_TRUE(code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK) << code;
  EXPECT_TRUE(Remote("a")->Read({.field = "pressure"}).ok());
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
  server_->Shutdown();
  Start(1000);
  const Status status = Remote("a")->Read({.field = "pressure"}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1000 B"), std::string::npos) << status.message();
}

TEST(MemoryBudget, WaitsForMemoryAndGivesUpWhenCancelled) {
  MemoryBudget budget(100);
  const auto never = [] { return false; };
  auto first = budget.Reserve(80, never);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(budget.Reserve(30, [] { return true; }).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(budget.Reserve(20, never).ok());
  EXPECT_EQ(budget.Reserve(101, never).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quarry::server
