// A program that reads directories through the public interface, linked with quarry::client alone.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "quarry/client.h"
#include "quarry/dataset/dataset.h"
#include "tests/testing/make_dataset.h"

namespace quarry::client {
namespace {

class LocalClientTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::MakeDataset(Path(), {}); }
  std::string Path() const { return (folder_.path() / "a.quarry").string(); }
  std::unique_ptr<Dataset> Open() const { return *Dataset::Open(Path(), {.threads = 2}); }

  /// Flips a byte of the payload of some patch at level 0.
  void Damage() const {
    const auto dataset = *quarry::Dataset::Open(Path());
    const auto rows = *dataset->tables().Find(0, 0, Box{{0, 0, 0}, {1, 1, 1}});
    const std::filesystem::path path = SubfileLocation(Path(), 0, "pressure", rows[0].subfile).path;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto offset = static_cast<std::streamoff>(rows[0].patch.levels[0].offset);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(LocalClientTest, AServerNeedsTheOtherLibrary) {
  const Status status = Dataset::Open("grpc://127.0.0.1:1/a").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("quarry::client_grpc"), std::string::npos) << status.message();
}

TEST_F(LocalClientTest, SamplesGoToTheCallersMemory) {
  const query::ReadRequest request{
      .field = "pressure", .box = Box{{1, 2, 3}, {30, 20, 12}}, .target = query::AtLevel{1}};
  const auto dataset = Open();
  const LevelSamples own = *dataset->Read(request);
  std::vector<std::byte> memory;
  const BufferCallback buffer = [&](const LevelSamples& level, std::size_t bytes) {
    EXPECT_EQ(level.extent, own.extent);
    memory.resize(bytes);
    return std::span(memory);
  };

  const LevelSamples samples = *dataset->Read(request, {.buffer = buffer});

  EXPECT_TRUE(samples.data.empty()) << "no second copy";
  EXPECT_EQ(samples.bytes().data(), memory.data());
  EXPECT_TRUE(std::ranges::equal(memory, own.data));
}

TEST_F(LocalClientTest, AQuestionNeedsNeitherTheNameOfTheOnlyFieldNorTheSizeOfItsGrid) {
  const auto reader = *Reader::At(Path());
  const LevelSamples open = *reader->Read(
      {.box = Box{{1, 2, 3}, {query::kGridEnd, 20, query::kGridEnd}}, .target = query::AtLevel{1}});
  const auto dataset = *reader->Open();
  const Index3 dims = dataset->description().grids[0].dims;
  const LevelSamples named = *dataset->Read(
      {.field = "pressure", .box = Box{{1, 2, 3}, {dims[0], 20, dims[2]}}, .target = query::AtLevel{1}});
  EXPECT_EQ(open.field, "pressure");
  EXPECT_EQ(open.extent, named.extent);
  EXPECT_EQ(open.data, named.data);
  EXPECT_EQ(open.description->name, "pressure");
  const Status outside = reader->Read({.box = Box{{dims[0], 0, 0}, {query::kGridEnd, 1, 1}}}).status();
  EXPECT_EQ(outside.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(outside.message().find("37x22x13"), std::string::npos) << outside.message();

  testing::MakeDataset(folder_.path() / "b.quarry", {});
  testing::MakeDataset(folder_.path() / "b.quarry", {.steps = {1}, .field = "speed"});
  const Status unclear = (*Reader::At((folder_.path() / "b.quarry").string()))->Read({}).status();
  EXPECT_EQ(unclear.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unclear.message().find("pressure, speed"), std::string::npos) << unclear.message();
}

TEST_F(LocalClientTest, MemoryOfAnotherSizeIsRefused) {
  std::vector<std::byte> memory(5);
  const BufferCallback buffer = [&](const LevelSamples&, std::size_t) { return std::span(memory); };
  EXPECT_EQ(Open()->Read({.field = "pressure"}, {.buffer = buffer}).status().code(),
            StatusCode::kInvalidArgument);
}

CancelToken* signalled = nullptr;

TEST_F(LocalClientTest, ASignalHandlerEndsAReadAndOthersGoOn) {
  CancelToken cancel = CancelToken::Create();
  signalled = &cancel;
  std::signal(SIGUSR1, [](int) { signalled->Cancel(); });
  const auto dataset = Open();
  int levels = 0;
  const auto on_level = [&](LevelSamples*, const ReadCost&) {
    ++levels;
    std::raise(SIGUSR1);
    return Status::Ok();
  };

  const Status status =
      dataset->ReadLevels({.field = "pressure", .first_level = 3}, on_level, {.cancel = cancel});

  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(levels, 1);
  EXPECT_TRUE(dataset->Read({.field = "pressure"}).ok()) << "a token is for its own call";
}

TEST_F(LocalClientTest, DamageIsAnErrorUnlessItIsAllowed) {
  Damage();
  const auto dataset = Open();

  const Status status = dataset->Read({.field = "pressure"}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("level 0 of patch 0"), std::string::npos) << status.message();

  const LevelSamples shown = *dataset->Read({.field = "pressure", .allow_damage = true});
  ASSERT_EQ(shown.damaged.size(), 1u);
  EXPECT_EQ(shown.damaged[0].extent, (Box{{0, 0, 0}, {8, 8, 8}}));
  EXPECT_TRUE(std::isinf(shown.max_error)) << "no bound is known";
}

TEST_F(LocalClientTest, StepsAreThoseThatArePublishedByNow) {
  const auto dataset = Open();
  ASSERT_EQ(dataset->Steps()->size(), 1U);
  testing::MakeDataset(Path(), {.steps = {7}});
  const Result<std::vector<StepSummary>> steps = dataset->Steps();
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  ASSERT_EQ(steps->size(), 2U);
  EXPECT_EQ((*steps)[1].step, 7U);
  EXPECT_EQ(dataset->Read({.field = "pressure", .step = 7})->step, 7U);
}

TEST_F(LocalClientTest, AnAnswerKeepsTheDescriptionOfItsField) {
  std::vector<LevelSamples> answers;
  {
    const auto dataset = Open();
    testing::MakeDataset(Path(), {.tolerance = 0.5, .steps = {7}, .field = "speed"});
    ASSERT_EQ(dataset->StepNumbers()->size(), 2U) << "which looks for the new step";
    for (const char* field : {"pressure", "speed"}) answers.push_back(*dataset->Read({.field = field}));
  }
  EXPECT_EQ(answers[0].description->name, "pressure");
  EXPECT_EQ(answers[1].description->name, "speed");
  EXPECT_EQ(answers[1].description->bound, Bound(AbsoluteBound{0.5}));
}

TEST_F(LocalClientTest, AnotherDatasetInItsPlaceIsNotMistakenForIt) {
  const auto dataset = Open();
  std::filesystem::rename(Path(), folder_.path() / "old.quarry");
  testing::MakeDataset(Path(), {.steps = {0, 1}});
  EXPECT_EQ(dataset->Steps().status().code(), StatusCode::kNotFound);
}

TEST_F(LocalClientTest, BytesReceivedAreThoseThatWereRead) {
  const auto dataset = Open();
  const query::Cost planned = dataset->PlanRead({.field = "pressure"})->cost;
  std::vector<std::uint64_t> received;
  const auto on_level = [&](LevelSamples*, const ReadCost& cost) {
    received.push_back(cost.bytes_received);
    return Status::Ok();
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(dataset->ReadLevels({.field = "pressure"}, on_level).ok());

  EXPECT_EQ(received, (std::vector<std::uint64_t>{planned.bytes, 0})) << "the second time from memory";
}

}  // namespace
}  // namespace quarry::client
