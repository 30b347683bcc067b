// Checks between a request and the data: the permission for the dataset in every call, the limit on the
// cost, and stored patches of data that have been replaced.

#include <fstream>

#include "server/tokens.h"
#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

class GuardsTest : public ServingTest {
 protected:
  /// The status of each kind of call that asks for a dataset with a token.
  std::map<std::string, grpc::StatusCode> CodesOfAllCalls(const std::string& dataset,
                                                          const std::string& token) {
    std::map<std::string, grpc::StatusCode> codes;
    const auto call = [&](const std::string& name, auto ask) {
      grpc::ClientContext context;
      if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
      codes[name] = ask(&context).error_code();
    };
    const auto stream = [](auto* context, auto* reader, auto* message) {
      const bool answered = reader->Read(message);
      if (answered) context->TryCancel();
      while (reader->Read(message)) {
      }
      const grpc::Status status = reader->Finish();
      return answered ? grpc::Status::OK : status;
    };
    pb::ReadQuery query;
    query.set_dataset(dataset);
    query.set_field("pressure");
    call("GetDataset", [&](auto* context) {
      pb::GetDatasetRequest request;
      request.set_dataset(dataset);
      pb::GetDatasetResponse response;
      return stub_->GetDataset(context, request, &response);
    });
    call("PlanRead", [&](auto* context) {
      pb::PlanReadRequest request;
      *request.mutable_query() = query;
      pb::PlanReadResponse response;
      return stub_->PlanRead(context, request, &response);
    });
    call("Read", [&](auto* context) {
      pb::ReadRequest request;
      *request.mutable_query() = query;
      pb::ReadResponse message;
      return stream(context, stub_->Read(context, request).get(), &message);
    });
    call("GetStatistics", [&](auto* context) {
      pb::GetStatisticsRequest request;
      *request.mutable_query() = query;
      pb::GetStatisticsResponse response;
      return stub_->GetStatistics(context, request, &response);
    });
    call("ReadPoints", [&](auto* context) {
      pb::ReadPointsRequest request;
      request.set_dataset(dataset);
      request.set_field("pressure");
      for (int i = 0; i < 3; ++i) request.add_coordinates(1);
      pb::ReadPointsResponse response;
      return stub_->ReadPoints(context, request, &response);
    });
    call("WatchSteps", [&](auto* context) {
      pb::WatchStepsRequest request;
      request.set_dataset(dataset);
      pb::WatchStepsResponse message;
      return stream(context, stub_->WatchSteps(context, request).get(), &message);
    });
    return codes;
  }

  static std::map<std::string, grpc::StatusCode> All(grpc::StatusCode code) {
    std::map<std::string, grpc::StatusCode> codes;
    for (const char* name : {"GetDataset", "PlanRead", "Read", "GetStatistics", "ReadPoints", "WatchSteps"})
      codes[name] = code;
    return codes;
  }
};

TEST_F(GuardsTest, EveryCallNeedsATokenForItsDataset) {
  std::ofstream(folder_.path() / "tokens") << "alice sha256:" << Sha256Hex("token-a") << " a\n"
                                           << "carol sha256:" << Sha256Hex("token-c") << " a.quarry\n";
  operations_.tokens = *TokenStore::Load(folder_.path() / "tokens");

  EXPECT_EQ(CodesOfAllCalls("a", "token-a"), All(grpc::StatusCode::OK));
  EXPECT_EQ(CodesOfAllCalls("a.quarry", "token-c"), All(grpc::StatusCode::PERMISSION_DENIED))
      << "another spelling of the name of a dataset that the token is not for";
  EXPECT_EQ(CodesOfAllCalls("b", "token-a"), All(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_EQ(CodesOfAllCalls("not-there", "token-a"), All(grpc::StatusCode::PERMISSION_DENIED));
  EXPECT_EQ(CodesOfAllCalls("a", "guess"), All(grpc::StatusCode::UNAUTHENTICATED));
  EXPECT_EQ(CodesOfAllCalls("a", ""), All(grpc::StatusCode::UNAUTHENTICATED));
}

TEST_F(GuardsTest, AWatcherEndsWhenItsTokenIsTakenAway) {
  std::ofstream(folder_.path() / "tokens") << "alice sha256:" << Sha256Hex("token-a") << " a\n";
  const auto tokens = *TokenStore::Load(folder_.path() / "tokens");
  operations_.tokens = tokens;
  pb::WatchStepsRequest request;
  request.set_dataset("a");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer token-a");
  const auto reader = stub_->WatchSteps(&context, request);
  pb::WatchStepsResponse message;
  ASSERT_TRUE(reader->Read(&message));

  std::ofstream(folder_.path() / "tokens") << "bob sha256:" << Sha256Hex("token-b") << " *\n";
  ASSERT_TRUE(tokens->Reload().ok());
  // Only steps that were on their way may still arrive.
  for (int steps = 1; reader->Read(&message); ++steps) {
    if (steps < 100) testing::MakeDataset(Path("a"), {.steps = {2u + static_cast<std::uint64_t>(steps)}});
    if (steps == 100) context.TryCancel();
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(GuardsTest, TheLimitOnACostIsAllowedAndAByteMoreIsNot) {
  const auto dataset = Remote("a");
  const query::ReadRequest request{.field = "pressure"};
  const auto plan = *dataset->PlanRead(request);
  const std::uint64_t cost = std::max(plan.cost.bytes, plan.cost.reply_bytes);
  ASSERT_EQ(cost, 37u * 22 * 13 * 4);

  operations_.limits.request_bytes = cost;
  EXPECT_TRUE(dataset->Read(request).ok()) << "the limit itself is allowed";
  operations_.limits.request_bytes = cost - 1;
  EXPECT_EQ(dataset->Read(request).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(GuardsTest, PatchesOfReplacedDataAreNotShown) {
  ASSERT_EQ(Remote("a")->Read({.field = "pressure"})->data, Local("a")->Read({.field = "pressure"})->data);
  // The same grid, field, step and layout, but other samples.
  std::filesystem::remove_all(Path("a"));
  testing::MakeDataset(Path("a"), {.tolerance = 0.25, .steps = {0, 2}});

  const auto before = service_->store().state().misses;
  const auto answer = Remote("a")->Read({.field = "pressure"});
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->data, Local("a")->Read({.field = "pressure"})->data);
  EXPECT_GT(service_->store().state().misses, before) << "nothing of the old data is of use";
}

TEST_F(GuardsTest, AnAnswerDoesNotGoOnWithReplacedData) {
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("a");
  request.mutable_query()->set_field("pressure");
  const auto read = [&] {
    grpc::ClientContext context;
    const auto reader = stub_->Read(&context, request);
    pb::ReadResponse message;
    while (reader->Read(&message)) {
      if (!message.position().empty()) request.set_resume_after(message.position());
    }
    return reader->Finish().error_code();
  };
  ASSERT_EQ(read(), grpc::StatusCode::OK);
  ASSERT_FALSE(request.resume_after().empty());
  ASSERT_EQ(read(), grpc::StatusCode::OK) << "the end of an answer is a place to go on from";
  std::filesystem::remove_all(Path("a"));
  testing::MakeDataset(Path("a"), {.tolerance = 0.25, .steps = {0, 2}});
  EXPECT_EQ(read(), grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace quarry::server
