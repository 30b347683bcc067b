// Coded answers: what they keep, what they cost, and how they go on.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "quarry/codec/tile.h"
#include "tests/unit/server/fake_peer.h"
#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

using client::Encoding;
using client::LevelSamples;

constexpr Index3 kDims{37, 22, 13};

class CodedTest : public ServingTest {
 protected:
  std::unique_ptr<client::Dataset> Coded(const std::string& name, query::Recode recode = {}) const {
    return *client::Dataset::Open(Target(name), {.encoding = Encoding::kCoded, .recode = recode});
  }

  static pb::ReadRequest Request(const std::string& name) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(name);
    request.mutable_query()->set_field("pressure");
    request.set_encoding(pb::ENCODING_CODED);
    return request;
  }
  std::vector<pb::ReadResponse> Answer(const pb::ReadRequest& request, grpc::StatusCode code = grpc::OK) {
    grpc::ClientContext context;
    const auto stream = stub_->Read(&context, request);
    std::vector<pb::ReadResponse> messages;
    for (pb::ReadResponse message; stream->Read(&message);) messages.push_back(message);
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return messages;
  }

  std::uint64_t TilesCoded() {
    const std::string text = operations_.metrics.Text();
    const std::string name = "\nquarry_coded_tiles_total ";
    return std::stoull(text.substr(text.find(name) + name.size()));
  }
};

std::vector<LevelSamples> AllLevels(const client::Dataset& dataset, const query::ReadRequest& request) {
  std::vector<LevelSamples> levels;
  const Status status = dataset.ReadLevels(request, [&](LevelSamples* level, const client::ReadCost&) {
    levels.push_back(std::move(*level));
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return levels;
}

double LargestDifference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(b[i])) {
      EXPECT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0) << "missing sample " << i;
    } else {
      largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
  }
  return largest;
}

std::vector<pb::CodedTile> TilesOf(const std::vector<pb::ReadResponse>& messages) {
  std::vector<pb::CodedTile> tiles;
  for (const pb::ReadResponse& message : messages)
    tiles.insert(tiles.end(), message.coded().tiles().begin(), message.coded().tiles().end());
  return tiles;
}

/// Any question that can be combined.
query::ReadRequest RandomQuestion(std::mt19937* random, int layers) {
  const auto below = [&](unsigned n) { return static_cast<int>((*random)() % n); };
  query::ReadRequest request{.field = "pressure", .box = testing::RandomBox(kDims, random)};
  const int level = below(4);
  if (below(4) == 0) {
    request.target = query::AtStride{{1 + below(5), 1 + below(5), 1 + below(5)}};
  } else {
    request.target = query::AtLevel{level};
    if (below(2) == 0) request.first_level = level + below(static_cast<unsigned>(4 - level));
  }
  request.layer = below(static_cast<unsigned>(layers));
  if (below(2) == 0 && !std::holds_alternative<query::AtStride>(request.target))
    request.first_layer = below(static_cast<unsigned>(*request.layer + 1));
  if (below(3) == 0) request.focus = {{1.0 * below(40), 1.0 * below(20), 1.0 * below(10)}};
  if (below(4) == 0) request.values = query::Bounds{0.2, 0.7};
  return request;
}

TEST_F(CodedTest, AreTheSamplesUnlessAnErrorIsAllowed) {
  testing::MakeDataset(Path("d"), {.coder = CoderId::kInterpolate, .missing = true, .rougher = {1e-1, 1e-2}});
  std::mt19937 random(3);
  for (const char* name : {"a", "c", "d"}) {
    const auto local = Local(name);
    const auto coded = Coded(name);
    for (int i = 0; i < 60; ++i) {
      const query::ReadRequest request = RandomQuestion(&random, *name == 'd' ? 3 : 1);
      const std::vector<LevelSamples> expected = AllLevels(*local, request);
      const std::vector<LevelSamples> levels = AllLevels(*coded, request);
      ASSERT_EQ(levels.size(), expected.size());
      for (std::size_t l = 0; l < levels.size(); ++l) {
        EXPECT_EQ(levels[l].extent, expected[l].extent);
        EXPECT_EQ(levels[l].data, expected[l].data) << name << " " << i;
        EXPECT_EQ(levels[l].max_error, expected[l].max_error);
        EXPECT_EQ(levels[l].left_out, expected[l].left_out);
      }
    }
  }
}

/// The patches of two tiles would come in turns: 128 x 120 x 16 samples, and the rest.
TEST_F(CodedTest, KeepTheOrderOfTheGridNearAFocus) {
  testing::MakeDataset(Path("d"), {.dims = {160, 120, 16}, .patch = {8, 8, 8}});
  const query::ReadRequest request{.field = "pressure", .focus = {{128, 60, 8}}};
  const std::vector<LevelSamples> expected = AllLevels(*Local("d"), request);
  const std::vector<LevelSamples> levels = AllLevels(*Coded("d"), request);
  ASSERT_EQ(levels.size(), expected.size());
  for (std::size_t l = 0; l < levels.size(); ++l) EXPECT_EQ(levels[l].data, expected[l].data);
}

TEST_F(CodedTest, SeveralStepsComeOneAfterTheOther) {
  const query::SeriesRequest request{
      {.field = "pressure", .box = Box{{3, 2, 1}, {30, 20, 9}}, .first_level = 2},
      {},
      query::StepRange{0, 9, 1}};
  std::vector<std::vector<LevelSamples>> heard;
  for (const auto& dataset : {Local("a"), Coded("a")}) {
    heard.emplace_back();
    const Status status = dataset->ReadSeries(request, [&](LevelSamples* level, const client::ReadCost&) {
      heard.back().push_back(std::move(*level));
      return Status::Ok();
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  ASSERT_EQ(heard[0].size(), 6u);
  ASSERT_EQ(heard[1].size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(heard[1][i].step, heard[0][i].step);
    EXPECT_EQ(heard[1][i].data, heard[0][i].data);
  }
}

/// A tile of 64^3 and its coding are 17 MiB, which a request may pin of 64 MiB, and not of 32 MiB.
TEST_F(CodedTest, PinTheMemoryOfTheirTiles) {
  testing::MakeDataset(Path("d"), {.dims = {64, 64, 64}, .patch = {64, 64, 64}});
  const query::ReadRequest whole{.field = "pressure"};
  const query::ReadRequest plane{.field = "pressure", .box = Box{{0, 0, 9}, {64, 64, 10}}};
  for (const std::uint64_t mebibytes : {64, 32}) {
    Start(mebibytes << 20);
    const Result<LevelSamples> samples = Coded("d")->Read(whole);
    EXPECT_EQ(samples.ok(), mebibytes == 64) << samples.status().message();
    if (!samples.ok()) {
      EXPECT_EQ(samples.status().code(), StatusCode::kResourceExhausted) << samples.status().message();
    }
    EXPECT_TRUE(Coded("d")->Read(plane).ok());
    // The last tile is sent before its memory is given back.
    while (service_->store().state().pinned > 0) std::this_thread::yield();
  }
}

TEST_F(CodedTest, KeepTheErrorThatTheyState) {
  testing::MakeDataset(Path("d"), {.coder = CoderId::kInterpolate, .missing = true, .rougher = {1e-1, 1e-2}});
  const std::vector<float> original = testing::MakeSamples(kDims, 0, true);
  const auto local = Local("d");
  for (const double factor : {1.5, 2.0, 10.0}) {
    const auto coded = Coded("d", {.factor = factor});
    for (int layer = 0; layer < 3; ++layer) {
      const LevelSamples stored = *local->Read({.field = "pressure", .layer = layer});
      const LevelSamples samples = *coded->Read({.field = "pressure", .layer = layer});
      EXPECT_LE(samples.max_error, factor * stored.max_error * (1 + 1e-12));
      EXPECT_GT(samples.max_error, stored.max_error);
      EXPECT_LE(LargestDifference(samples.SamplesAs<float>(), original), samples.max_error);
      EXPECT_GT(LargestDifference(samples.SamplesAs<float>(), stored.SamplesAs<float>()), 0)
          << "nothing is saved";
    }
  }
  const auto coded = Coded("d", {.error = 0.25});
  const LevelSamples samples = *coded->Read({.field = "pressure"});
  EXPECT_LE(LargestDifference(samples.SamplesAs<float>(), original), samples.max_error);
  EXPECT_NEAR(samples.max_error, 0.25, 2e-3);
}

TEST_F(CodedTest, KeepTheErrorThatIsAskedFor) {
  testing::MakeDataset(Path("d"), {.coder = CoderId::kInterpolate, .rougher = {1e-1, 1e-2}});
  const std::vector<float> original = testing::MakeSamples(kDims, 0);
  const auto local = Local("d");
  const auto coded = Coded("d");
  for (const double error : {1.001e-3, 2e-3, 5e-3, 1e-2, 3e-2, 1e-1, 0.3}) {
    const query::ReadRequest request{.field = "pressure", .target = query::WithinError{error}};
    const LevelSamples samples = *coded->Read(request);
    const LevelSamples stored = *local->Read(request);
    EXPECT_EQ(samples.level, stored.level);
    EXPECT_EQ(samples.layer, stored.layer);
    EXPECT_LE(samples.max_error, error);
    EXPECT_GE(samples.max_error, stored.max_error);
    EXPECT_GT(samples.max_error, error * (1 - 1e-12)) << "room is left";
    if (samples.level > 0) continue;
    EXPECT_LE(LargestDifference(samples.SamplesAs<float>(), original), error);
  }
}

TEST_F(CodedTest, RefuseAnErrorThatIsNoneOrAskedForTwice) {
  const auto refused = [&](const auto& change) {
    pb::ReadRequest request = Request("a");
    change(&request);
    EXPECT_TRUE(Answer(request, grpc::StatusCode::INVALID_ARGUMENT).empty());
  };
  refused([](auto* request) { request->set_recode_factor(0.5); });
  refused([](auto* request) { request->set_recode_factor(INFINITY); });
  refused([](auto* request) { request->set_recode_error(-1); });
  refused([](auto* request) { request->set_recode_error(NAN); });
  refused([](auto* request) {
    request->set_recode_factor(2);
    request->mutable_query()->set_max_error(1);
  });
  refused([](auto* request) {
    request->set_recode_factor(2);
    request->set_encoding(pb::ENCODING_SAMPLES);
  });
}

TEST_F(CodedTest, APlaneIsOneTileThatIsCodedOnce) {
  pb::ReadRequest request = Request("a");
  for (const std::uint64_t value : {0, 0, 6}) request.mutable_query()->mutable_box()->add_begin(value);
  for (const std::uint64_t value : {37, 22, 7}) request.mutable_query()->mutable_box()->add_end(value);

  const auto first = Answer(request);
  const auto second = Answer(request);

  ASSERT_EQ(TilesOf(first).size(), 1u);
  EXPECT_EQ(TilesOf(first)[0].shape(0), 37u);
  EXPECT_EQ(TilesOf(first)[0].shape(1), 22u);
  EXPECT_EQ(TilesOf(second).size(), 1u);
  EXPECT_EQ(first.back().SerializeAsString(), second.back().SerializeAsString());
  EXPECT_EQ(TilesCoded(), 1u);
  request.set_recode_factor(2);
  EXPECT_EQ(TilesOf(Answer(request)).size(), 1u);
  EXPECT_EQ(TilesCoded(), 2u) << "another error is another tile";
}

/// Four patches of 64^3 are four tiles; one patch of more samples than a tile may have is cut.
TEST_F(CodedTest, GoOnAfterEachMessage) {
  const Index3 dims{100, 100, 64};
  testing::MakeDataset(Path("d"), {.dims = dims, .patch = {64, 64, 64}, .levels = 2, .tolerance = 1e-6});
  testing::MakeDataset(Path("e"), {.dims = dims, .patch = {128, 128, 64}, .levels = 2, .tolerance = 1e-6});
  for (const char* name : {"d", "e"}) {
    pb::ReadRequest request = Request(name);
    request.mutable_query()->set_first_level(1);
    const auto whole = Answer(request);
    const std::vector<pb::CodedTile> tiles = TilesOf(whole);
    EXPECT_GE(tiles.size(), 4u);
    for (const pb::CodedTile& tile : tiles)
      EXPECT_LE(std::int64_t{tile.shape(0)} * tile.shape(1) * tile.shape(2), kMaxTileSamples);
    std::size_t before = 0;
    std::size_t positions = 0;
    for (const pb::ReadResponse& message : whole) {
      before += static_cast<std::size_t>(message.coded().tiles_size());
      if (message.position().empty()) continue;
      ++positions;
      request.set_resume_after(message.position());
      const std::vector<pb::CodedTile> rest = TilesOf(Answer(request));
      ASSERT_EQ(rest.size(), tiles.size() - before) << name;
      for (std::size_t i = 0; i < rest.size(); ++i)
        EXPECT_EQ(rest[i].SerializeAsString(), tiles[before + i].SerializeAsString());
    }
    EXPECT_GE(positions, 3u) << "the answer has several messages";
  }
}

TEST_F(CodedTest, RefuseAPositionInsideATile) {
  pb::ReadRequest request = Request("a");
  pb::ReadPosition position;
  ASSERT_TRUE(position.ParseFromString(Answer(request).front().position()));
  position.set_patches(1);
  request.set_resume_after(position.SerializeAsString());
  Answer(request, grpc::StatusCode::INVALID_ARGUMENT);
}

/// Four tiles, each larger than a message: the first is sent when the second is coded.
TEST_F(CodedTest, AreCodedNoFurtherForAClientThatLeaves) {
  const Index3 dims{128, 128, 64};
  testing::MakeDataset(Path("d"), {.dims = dims, .patch = {64, 64, 64}, .levels = 2, .tolerance = 1e-6});
  FakePeer stays(Request("d").SerializeAsString());
  EXPECT_TRUE(Ask(service_.get(), "Read", &stays).ok());
  ASSERT_EQ(TilesCoded(), 4u);

  Start(std::uint64_t{1} << 30);  // nothing is in its memory
  const std::uint64_t before = TilesCoded();
  FakePeer leaves(Request("d").SerializeAsString());
  leaves.most_messages = 1;
  EXPECT_EQ(Ask(service_.get(), "Read", &leaves).code(), StatusCode::kCancelled);
  EXPECT_EQ(TilesCoded(), before + 2);
  EXPECT_EQ(service_->store().state().pinned, 0u);
}

/// Everything that an answer says of damage, in any order.
std::set<std::string> DamageOf(const LevelSamples& samples) {
  std::set<std::string> damage;
  for (const client::DamagedBox& box : samples.damaged)
    damage.insert(fmt::format("{} {} {}", ToString(box.extent), box.shown_level, box.shown_layer));
  return damage;
}

TEST_F(CodedTest, ShowDamageAsSamplesDoAndKeepNoneOfIt) {
  testing::MakeDataset(Path("d"), {.files = 1, .coder = CoderId::kInterpolate, .rougher = {1e-1}});
  const std::filesystem::path file = Path("d") / "steps" / "000000" / "pressure" / "0000.qsf";
  std::mt19937 random(4);
  int damaged = 0;
  for (int i = 0; i < 30; ++i) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(bytes.is_open()) << file;
    const auto place = static_cast<std::streamoff>(64 + random() % (std::filesystem::file_size(file) / 2));
    bytes.seekg(place);
    const int was = bytes.get();
    const auto put = [&](int byte) {
      bytes.seekp(place);
      bytes.put(static_cast<char>(byte));
      bytes.flush();
    };
    put(was ^ 0x20);
    Start(std::uint64_t{1} << 30);  // nothing is in its memory
    for (const bool allow : {true, false}) {
      const query::ReadRequest request{.field = "pressure", .allow_damage = allow};
      const Result<LevelSamples> local = Local("d")->Read(request);
      const std::uint64_t before = TilesCoded();
      const Result<LevelSamples> coded = Coded("d")->Read(request);
      ASSERT_EQ(coded.status().code(), local.status().code()) << coded.status().message();
      if (!local.ok()) continue;
      EXPECT_EQ(coded->data, local->data);
      EXPECT_EQ(DamageOf(*coded), DamageOf(*local));
      EXPECT_EQ(coded->max_error, local->max_error);
      if (local->damaged.empty()) continue;
      ++damaged;
      EXPECT_TRUE(Coded("d")->Read(request).ok());
      EXPECT_EQ(TilesCoded(), before + 2) << "a tile with damage is not for others";
    }
    put(was);
  }
  EXPECT_GT(damaged, 5);
}

TEST_F(CodedTest, ACallChoosesItsTransfer) {
  testing::MakeDataset(Path("d"), {.coder = CoderId::kInterpolate});
  const query::ReadRequest request{.field = "pressure"};
  const client::CallOptions twice{.transfer = client::Transfer{Encoding::kCoded, {.factor = 2}}};
  const client::CallOptions samples{.transfer = client::Transfer{Encoding::kSamples, {}}};
  const LevelSamples stored = *Local("d")->Read(request);

  EXPECT_GT(Remote("d")->Read(request, twice)->max_error, stored.max_error);
  const std::uint64_t coded = TilesCoded();
  EXPECT_EQ(Coded("d", {.error = 0.5})->Read(request, samples)->data, stored.data);
  EXPECT_EQ(TilesCoded(), coded);
}

TEST(ParseTransfer, TakesNamesAndErrors) {
  const auto parsed = [](const std::string& encoding, const std::string& recode) {
    const client::Transfer transfer = *client::ParseTransfer(encoding, recode);
    return std::tuple(transfer.encoding, transfer.recode.factor, transfer.recode.error);
  };
  EXPECT_EQ(parsed("auto", ""), std::tuple(Encoding::kAuto, 1.0, 0.0));
  EXPECT_EQ(parsed("samples", ""), std::tuple(Encoding::kSamples, 1.0, 0.0));
  EXPECT_EQ(parsed("patches", ""), std::tuple(Encoding::kPatches, 1.0, 0.0));
  EXPECT_EQ(parsed("coded", "1.5x"), std::tuple(Encoding::kCoded, 1.5, 0.0));
  EXPECT_EQ(parsed("coded", "1e-3"), std::tuple(Encoding::kCoded, 1.0, 1e-3));
  EXPECT_EQ(parsed("coded", "0"), std::tuple(Encoding::kCoded, 1.0, 0.0));
  for (const char* none : {"x", "0.9x", "-1", "nan", "inf", "2y", "2 x"})
    EXPECT_EQ(client::ParseTransfer("coded", none).status().code(), StatusCode::kInvalidArgument) << none;
  EXPECT_FALSE(client::ParseTransfer("zip", "").ok());
  EXPECT_FALSE(client::ParseTransfer("samples", "2x").ok());
}

TEST_F(CodedTest, CostLittleWhereTheyAreThin) {
  const Index3 dims{128, 128, 64};
  testing::MakeDataset(Path("d"), {.dims = dims, .patch = {32, 32, 32}, .coder = CoderId::kInterpolate});
  const query::ReadRequest plane{.field = "pressure", .box = Box{{0, 0, 31}, {128, 128, 32}}};
  const auto received = [&](const client::Dataset& dataset) {
    std::uint64_t bytes = 0;
    const Status status = dataset.ReadLevels(plane, [&](LevelSamples*, const client::ReadCost& cost) {
      bytes = cost.bytes_received;
      return Status::Ok();
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  };
  const std::uint64_t samples = received(*Remote("d"));
  EXPECT_EQ(samples, 128u * 128 * sizeof(float));
  EXPECT_LT(received(*Coded("d")), samples);
  EXPECT_LT(received(*Coded("d", {.factor = 2})), samples / 3);
}

}  // namespace
}  // namespace quarry::server
