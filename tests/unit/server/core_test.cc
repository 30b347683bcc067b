// The service behind a transport other than gRPC.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <sstream>
#include <thread>

#include "quarry/answer/answer_stream.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
#include "quarry/query/read_plan.h"
#include "quarry/storage/posix_storage.h"
#include "quarry/wire/convert.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"
#include "tests/unit/server/fake_peer.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

class CoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(folder_.path() / "a.quarry", {});
    testing::MakeDataset(folder_.path() / "b.quarry", {});
  }

  void SetTokens(const std::string& lines) {
    std::ofstream(folder_.path() / "tokens") << lines;
    operations_.tokens = *TokenStore::Load(folder_.path() / "tokens");
  }

  static pb::ReadRequest ReadOf(const std::string& dataset) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(dataset);
    request.mutable_query()->set_field("pressure");
    return request;
  }

  testing::TemporaryFolder folder_;
  Operations operations_;
  Service service_{DatasetCatalogOptions{folder_.path(), {}, folder_.path()}, EngineOptions{64 << 20, 2},
                   &operations_};
};

TEST_F(CoreTest, AReadIsTheSamplesOfTheDirectory) {
  FakePeer peer(ReadOf("a").SerializeAsString());

  const Status status = Ask(&service_, "Read", &peer);

  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(peer.answer_headers["quarry-request-id"], peer.request_id);
  const auto dataset = *Dataset::Open(folder_.path() / "a.quarry");
  const std::vector<float> expected = testing::ReadAll(*dataset, {.field = "pressure"});
  const Index3 dims = dataset->description().grids[0].dims;
  std::vector<float> samples(expected.size(), -1);
  for (const std::string& bytes : peer.messages) {
    pb::ReadResponse message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    std::size_t offset = 0;
    for (const pb::BlockExtent& block : message.samples().blocks()) {
      for (std::uint32_t z = 0; z < block.shape(2); ++z) {
        for (std::uint32_t y = 0; y < block.shape(1); ++y) {
          const std::size_t row =
              ((block.begin(2) + z) * static_cast<std::size_t>(dims[1]) + block.begin(1) + y) *
                  static_cast<std::size_t>(dims[0]) +
              block.begin(0);
          const std::size_t size = block.shape(0) * sizeof(float);
          ASSERT_LE(offset + size, message.samples().data().size());
          std::memcpy(samples.data() + row, message.samples().data().data() + offset, size);
          offset += size;
        }
      }
    }
  }
  EXPECT_EQ(samples, expected);
}

TEST_F(CoreTest, AReadReadsWhatItsCostSaysAndNothingTheSecondTime) {
  const auto counted = std::make_shared<testing::FaultyStorage>(PosixStorage::Instance());
  Service service(DatasetCatalogOptions{Location(counted, folder_.path().string()), {}, folder_.path()},
                  EngineOptions{64 << 20, 2}, &operations_);
  FakePeer plan(ReadOf("a").SerializeAsString());  // both requests have the query in field 1
  ASSERT_TRUE(Ask(&service, "PlanRead", &plan).ok());
  pb::PlanReadResponse planned;
  ASSERT_TRUE(planned.ParseFromString(plan.messages.at(0)));
  const query::Cost cost = wire::FromProto(planned.header().price());

  for (const bool first : {true, false}) {
    counted->ForgetCalls();
    FakePeer peer(ReadOf("a").SerializeAsString());
    ASSERT_TRUE(Ask(&service, "Read", &peer).ok());
    const std::vector<testing::StorageCall> reads = counted->Calls(testing::Operation::kRead);
    std::uint64_t bytes = 0;
    for (const testing::StorageCall& read : reads) bytes += read.size;
    EXPECT_EQ(reads.size(), first ? cost.reads : 0);
    EXPECT_EQ(bytes, first ? cost.bytes_read : 0);
  }
}

/// So many that opening all takes longer than the pause between two looks at whether the client is there.
TEST_F(CoreTest, AListThatNobodyWaitsForOpensNoMoreDatasets) {
  constexpr std::size_t kDatasets = 300;
  const auto memory = std::make_shared<testing::MemoryStorage>();
  for (std::size_t i = 0; i < kDatasets; ++i)
    ASSERT_TRUE(memory->CopyFolder(folder_.path() / "a.quarry", fmt::format("data/{}.quarry", i)).ok());
  const auto counted = std::make_shared<testing::FaultyStorage>(memory);
  Service service(DatasetCatalogOptions{Location(counted, "data"), {}, folder_.path()},
                  EngineOptions{64 << 20, 2}, &operations_);
  const auto opened = [&] { return counted->Calls(testing::Operation::kOpen).size(); };
  pb::ListDatasetsRequest request;
  request.set_page_size(1000);
  FakePeer stays(request.SerializeAsString());
  ASSERT_TRUE(Ask(&service, "ListDatasets", &stays).ok());
  ASSERT_EQ(opened(), kDatasets);

  counted->ForgetCalls();
  FakePeer leaves(request.SerializeAsString());
  leaves.leaves = [&] { return opened() > 0; };
  EXPECT_EQ(Ask(&service, "ListDatasets", &leaves).code(), StatusCode::kCancelled);
  EXPECT_LT(opened(), kDatasets);
}

/// Steps that needed more memory than was free were left out without a word.
TEST_F(CoreTest, AWatcherMissesNoStepHoweverLittleMemoryThereIs) {
  std::vector<std::uint64_t> steps(40);
  std::iota(steps.begin(), steps.end(), 0);
  testing::MakeDataset(folder_.path() / "many.quarry",
                       {.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1, .steps = steps});
  pb::WatchStepsRequest request;
  request.set_dataset("many");
  std::size_t most = 0;
  for (std::uint64_t memory = 8 << 10; memory < (64 << 10); memory += memory / 20) {
    Service service(DatasetCatalogOptions{folder_.path(), {}, folder_.path()}, EngineOptions{memory, 1},
                    &operations_, std::chrono::milliseconds(1));
    FakePeer peer(request.SerializeAsString());
    peer.most_asks = 20;
    peer.most_messages = steps.size();
    (void)Ask(&service, "WatchSteps", &peer);
    most = std::max(most, peer.messages.size());
    for (std::size_t i = 0; i < peer.messages.size(); ++i) {
      pb::WatchStepsResponse message;
      ASSERT_TRUE(message.ParseFromString(peer.messages[i]));
      ASSERT_EQ(message.step().step(), i) << FormatBytes(memory);
    }
  }
  EXPECT_GT(most, 0u);
}

/// The messages of a read that have samples.
std::vector<pb::ReadResponse> SampleMessages(Service* service, const pb::ReadRequest& request) {
  FakePeer peer(request.SerializeAsString());
  const Status status = Ask(service, "Read", &peer);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<pb::ReadResponse> messages;
  for (const std::string& bytes : peer.messages) {
    pb::ReadResponse message;
    EXPECT_TRUE(message.ParseFromString(bytes));
    if (message.has_samples()) messages.push_back(std::move(message));
  }
  return messages;
}

/// Blocks with their samples, each a text.
std::vector<std::string> Blocks(std::span<const pb::ReadResponse> messages) {
  std::vector<std::string> blocks;
  for (const pb::ReadResponse& message : messages) {
    std::size_t offset = 0;
    for (const pb::BlockExtent& block : message.samples().blocks()) {
      const std::size_t size = std::size_t{block.shape(0)} * block.shape(1) * block.shape(2) * sizeof(float);
      blocks.push_back(block.SerializeAsString() + message.samples().data().substr(offset, size));
      offset += size;
    }
  }
  return blocks;
}

TEST_F(CoreTest, OnlyAMessageThatSharesNoMemoryWaitsForTheStatus) {
  pb::ReadRequest request = ReadOf("a");
  request.mutable_query()->set_level(2);
  for (const pb::Encoding encoding : {pb::ENCODING_SAMPLES, pb::ENCODING_PATCHES}) {
    request.set_encoding(encoding);
    FakePeer peer(request.SerializeAsString());
    ASSERT_TRUE(Ask(&service_, "Read", &peer).ok());
    pb::ReadResponse message;
    ASSERT_TRUE(message.ParseFromString(peer.messages.back()));
    ASSERT_TRUE(message.has_read_end());
    // Samples so few are copied. Payload never is: it lies in the buffer of its read.
    const bool samples = encoding == pb::ENCODING_SAMPLES;
    EXPECT_GT(samples ? message.samples().data().size() : message.patches().data().size(), 0u);
    EXPECT_EQ(peer.last, samples);
  }
}

TEST_F(CoreTest, AReadThatDoesNotFitBeginsWhereTheOneBeforeEndedAndGoesOnAnywhere) {
  testing::MakeDataset(folder_.path() / "large.quarry", {.dims = {128, 64, 64}, .patch = {16, 16, 16}});
  Service little(DatasetCatalogOptions{folder_.path(), {}, folder_.path()}, EngineOptions{2 << 20, 2},
                 &operations_);
  pb::ReadRequest request = ReadOf("large");
  const std::vector<pb::ReadResponse> first = SampleMessages(&little, request);
  const std::uint64_t before = little.store().state().misses;

  const std::vector<pb::ReadResponse> second = SampleMessages(&little, request);

  std::vector<std::string> blocks = Blocks(first);
  std::vector<std::string> blocks_again = Blocks(second);
  EXPECT_NE(blocks.front(), blocks_again.front());
  ASSERT_EQ(blocks.size(), 128u);
  EXPECT_LT(little.store().state().misses - before, blocks.size() * 3 / 4);
  ASSERT_GT(second.size(), 2u);
  request.set_resume_after(second[1].position());
  const std::vector<pb::ReadResponse> rest = SampleMessages(&service_, request);
  std::vector<std::string> resumed = Blocks(std::span(second).first(2));
  std::ranges::move(Blocks(rest), std::back_inserter(resumed));
  EXPECT_EQ(resumed, blocks_again) << "a server with much memory goes on in the same order";
  std::ranges::sort(blocks);
  std::ranges::sort(blocks_again);
  EXPECT_EQ(blocks, blocks_again);
}

TEST_F(CoreTest, APositionBehindTheLastPatchIsRefused) {
  for (const std::uint64_t start : {std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    pb::ReadPosition position;
    position.set_fingerprint(1);
    position.set_start(start);
    pb::ReadRequest request = ReadOf("a");
    request.set_resume_after(position.SerializeAsString());
    FakePeer peer(request.SerializeAsString());
    EXPECT_EQ(Ask(&service_, "Read", &peer).code(), StatusCode::kFailedPrecondition);
  }
}

TEST_F(CoreTest, AReadOfADatasetThatTheTokenIsNotForIsRefused) {
  SetTokens("alice sha256:" + Sha256Hex("t") + " a\n");
  for (const char* method : {"Read", "PlanRead"}) {
    for (const auto& [dataset, allowed] : {std::pair("a", true), std::pair("b", false)}) {
      // Both requests have the query in field 1.
      FakePeer peer(ReadOf(dataset).SerializeAsString());
      peer.headers["authorization"] = "Bearer t";

      const Status status = Ask(&service_, method, &peer);

      EXPECT_EQ(status.code(), allowed ? StatusCode::kOk : StatusCode::kPermissionDenied)
          << method << " " << dataset << ": " << status.message();
      EXPECT_EQ(peer.messages.empty(), !allowed);
    }
  }
}

TEST(NextMessageBytes, AreWhatTheClientTakesIn50Milliseconds) {
  using std::chrono::milliseconds;
  constexpr std::size_t kMost = 1 << 20;
  EXPECT_EQ(answer::NextMessageBytes(1 << 20, milliseconds(100), kMost), 512u << 10);
  EXPECT_EQ(answer::NextMessageBytes(300 << 10, milliseconds(100), kMost), 150u << 10);
  EXPECT_EQ(answer::NextMessageBytes(100 << 10, milliseconds(10), kMost), 500u << 10) << "it grows again";
  EXPECT_EQ(answer::NextMessageBytes(1 << 20, milliseconds(10), kMost), kMost);
  EXPECT_EQ(answer::NextMessageBytes(1 << 20, milliseconds(0), kMost), kMost);
  EXPECT_EQ(answer::NextMessageBytes(1 << 20, milliseconds(10'000), kMost), 64u << 10) << "the least";
}

/// 64 patches of 16 KiB, and messages of 256 KiB for clients that take them at once. Noise at every level:
/// the payload is nearly as large as the samples.
TEST_F(CoreTest, ASlowClientGetsSmallMessages) {
  testing::MakeDataset(
      folder_.path() / "s.quarry",
      {.dims = {64, 64, 64}, .patch = {16, 16, 16}, .tolerance = 1e-9, .coder = CoderId::kInterpolate});
  for (const pb::Encoding encoding : {pb::ENCODING_SAMPLES, pb::ENCODING_PATCHES}) {
    pb::ReadRequest request = ReadOf("s");
    request.set_encoding(encoding);
    FakePeer peer(request.SerializeAsString());
    peer.on_message = [&peer] {
      // The client takes its first samples in a quarter of a second.
      if (peer.messages.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    };

    ASSERT_TRUE(Ask(&service_, "Read", &peer).ok());

    ASSERT_GT(peer.messages.size(), 3u);
    EXPECT_GT(peer.messages[1].size(), 128u << 10);
    EXPECT_LT(peer.messages[2].size(), 80u << 10);
  }
}

TEST_F(CoreTest, PathsOfAnswersBeginAtTheServedFolder) {
  std::ostringstream log;
  operations_.log = std::make_shared<ServerLog>(std::make_shared<spdlog::sinks::ostream_sink_mt>(log),
                                                LogFormat::kText, spdlog::level::info);
  const std::filesystem::path manifest = folder_.path() / "a.quarry/steps/000000/step.json";
  ASSERT_TRUE(std::filesystem::exists(manifest));
  std::filesystem::resize_file(manifest, 10);
  FakePeer peer(ReadOf("a").SerializeAsString());

  const Status status = Ask(&service_, "Read", &peer);

  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(status.message().starts_with("\"a.quarry/steps/000000/step.json\"")) << status.message();
  EXPECT_EQ(status.message().find(folder_.path().string()), std::string::npos) << status.message();
  EXPECT_NE(log.str().find(manifest.string()), std::string::npos) << log.str();
}

TEST_F(CoreTest, LongNamesAreCutBetweenCharacters) {
  for (const std::string& before : {std::string(99, 'x'), std::string(98, 'x'), std::string(97, 'x')}) {
    FakePeer peer(ReadOf(before + "\U0001f600 and more").SerializeAsString());

    const Status status = Ask(&service_, "Read", &peer);

    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_TRUE(IsUtf8(status.message())) << status.message();
  }
}

TEST_F(CoreTest, NobodyIsHeardBeforeHeIsLetIn) {
  SetTokens("alice sha256:" + Sha256Hex("t") + " *\n");
  for (const char* method :
       {"ListDatasets", "GetDataset", "PlanRead", "Read", "GetStatistics", "ReadPoints", "WatchSteps"}) {
    FakePeer peer(ReadOf("a").SerializeAsString());
    peer.headers["authorization"] = "Bearer guess";

    EXPECT_EQ(Ask(&service_, method, &peer).code(), StatusCode::kUnauthenticated) << method;
    EXPECT_FALSE(peer.received) << method << " reads the question of a stranger";
  }
}

TEST_F(CoreTest, ADemandIsAdmittedUpToTheLimitAndNoFurther) {
  const auto dataset = *Dataset::Open(folder_.path() / "a.quarry");
  const query::Cost cost = dataset->Plan({.field = "pressure"})->cost;
  const std::uint64_t most = std::max(cost.bytes, cost.reply_bytes);
  for (const auto& [limit, code] :
       {std::pair(most, StatusCode::kOk), std::pair(most - 1, StatusCode::kResourceExhausted)}) {
    operations_.limits.request_bytes = limit;
    FakePeer peer(ReadOf("a").SerializeAsString());
    EXPECT_EQ(Ask(&service_, "Read", &peer).code(), code) << limit;
  }
}

/// The number after "for level " in a refusal; -1 if none is named.
int AdvisedLevel(const std::string& message) {
  const std::string words = "for level ";
  const std::size_t at = message.find(words);
  return at == std::string::npos ? -1 : std::stoi(message.substr(at + words.size()));
}

TEST_F(CoreTest, TheAdviceOfARefusalIsNotRefused) {
  // Noise at every level: the payload of coarse levels is larger than their samples.
  testing::MakeDataset(
      folder_.path() / "n.quarry",
      {.dims = {64, 32, 32}, .patch = {8, 8, 8}, .tolerance = 1e-9, .coder = CoderId::kInterpolate});
  const auto dataset = *Dataset::Open(folder_.path() / "n.quarry");
  int advised = 0;
  for (std::uint64_t limit = 64; limit < 1 << 20; limit += limit / 4) {
    operations_.limits.request_bytes = limit;
    FakePeer peer(ReadOf("n").SerializeAsString());
    const Status refused = Ask(&service_, "Read", &peer);
    if (refused.ok()) break;
    const int level = AdvisedLevel(refused.message());
    if (level < 0) continue;
    ++advised;
    pb::ReadRequest request = ReadOf("n");
    request.mutable_query()->set_level(static_cast<std::uint32_t>(level));
    FakePeer again(request.SerializeAsString());
    EXPECT_TRUE(Ask(&service_, "Read", &again).ok()) << limit << ": " << refused.message();
  }
  EXPECT_GT(advised, 3);
}

TEST_F(CoreTest, AClientThatLeavesEndsItsCallAndNothingStaysBehind) {
  for (std::size_t most = 0; most < 2; ++most) {  // its header is taken, its samples are not
    FakePeer peer(ReadOf("a").SerializeAsString());
    peer.most_messages = most;
    EXPECT_EQ(Ask(&service_, "Read", &peer).code(), StatusCode::kCancelled);
  }
  FakePeer peer(ReadOf("a").SerializeAsString());
  peer.gone = true;
  EXPECT_EQ(Ask(&service_, "Read", &peer).code(), StatusCode::kCancelled);
  EXPECT_EQ(operations_.running, 0);
  EXPECT_EQ(service_.store().state().pinned, 0u);
}

/// One client begins reads, and takes no more of any before the next has begun, until one has to wait for
/// memory.
TEST_F(CoreTest, WhatAStreamKeepsCountsForTheRead) {
  for (const std::uint64_t keeps : {0, 64 << 20}) {
    FakePeer peer(ReadOf("a").SerializeAsString());
    peer.keeps = keeps;
    EXPECT_EQ(Ask(&service_, "Read", &peer).code(),
              keeps == 0 ? StatusCode::kOk : StatusCode::kResourceExhausted);
  }
}

TEST_F(CoreTest, AWatcherThatHasGoneEndsItsCall) {
  Service service({folder_.path(), {}, folder_.path()}, {64 << 20, 2}, &operations_,
                  std::chrono::milliseconds(300));  // it asks whether the client is there once in between
  pb::WatchStepsRequest request;
  request.set_dataset("a");
  FakePeer peer(request.SerializeAsString());
  peer.leaves = [&peer] { return !peer.messages.empty(); };

  EXPECT_EQ(Ask(&service, "WatchSteps", &peer).code(), StatusCode::kCancelled);

  EXPECT_EQ(operations_.running, 0);
}

TEST_F(CoreTest, AClientThatTakesNothingLeavesMemoryToOthers) {
  Service service(DatasetCatalogOptions{folder_.path(), {}, folder_.path()}, EngineOptions{16 << 20, 2},
                  &operations_);
  const auto read = [&](const std::string& client, const std::function<void()>& on_message) {
    FakePeer peer(ReadOf("a").SerializeAsString());
    peer.client_address = "ipv4:" + client + ":1000";
    peer.leaves = [&service] { return service.store().state().waiting > 0; };
    peer.on_message = on_message;
    return Ask(&service, "Read", &peer);
  };
  int reads = 0;
  bool waited = false;
  const std::function<void()> one_more = [&] {
    if (waited || ++reads > 1000) return;
    if (read("10.0.0.1", one_more).code() != StatusCode::kCancelled) return;
    waited = true;
    EXPECT_TRUE(read("10.0.0.2", nullptr).ok()) << "another client";
  };

  EXPECT_TRUE(read("10.0.0.1", one_more).ok());

  EXPECT_TRUE(waited) << reads << " reads at a time";
  EXPECT_GT(reads, 1);
}

TEST_F(CoreTest, UnknownMethodsAndQuestionsThatAreNoneAreErrors) {
  FakePeer peer("\xff\xff");
  EXPECT_EQ(Ask(&service_, "Read", &peer).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask(&service_, "Write", &peer).code(), StatusCode::kUnimplemented);
}

TEST_F(CoreTest, InventedMethodsAreOneNameInTheMetrics) {
  for (int i = 0; i < 100; ++i) {
    FakePeer peer("");
    EXPECT_EQ(Ask(&service_, fmt::format("Method{}\nforged", i), &peer).code(), StatusCode::kUnimplemented);
  }

  const std::string text = operations_.metrics.Text();
  EXPECT_NE(text.find("quarry_requests_total{code=\"UNIMPLEMENTED\",method=\"unknown\"} 100\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("forged"), std::string::npos);
}

}  // namespace
}  // namespace quarry::server
