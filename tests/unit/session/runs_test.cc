#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "quarry/session/session.h"
#include "tests/testing/make_dataset.h"

// Answers that are planned run by run are those that are planned at once.
namespace quarry {
namespace {

class OnlyOne final : public DatasetSource {
 public:
  explicit OnlyOne(const std::filesystem::path& path) : opened_(std::make_shared<OpenedDataset>()) {
    opened_->dataset = *Dataset::Open(path);
  }
  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string&) override {
    return std::shared_ptr<const OpenedDataset>(opened_);
  }

 private:
  const std::shared_ptr<OpenedDataset> opened_;
};

class Control final : public RequestControl {
 public:
  bool Cancelled() override { return false; }
  void Damaged(const Status&) override { ++damages; }
  int damages = 0;
};

/// One delivery: level, patch, its number in the grid, extent, what is shown, and the bytes. The end of a
/// level has no bytes.
using Event = std::tuple<int, std::size_t, std::uint64_t, Box, std::pair<int, int>, Bytes>;

Event LevelEndOf(const query::LevelExtent& level) {
  return {level.level, 0, 0, level.extent, {level.layer, -1}, Bytes()};
}

/// Keeps all that an answer has.
class Recorder final : public AnswerSink, public BlockSink, public PayloadSink {
 public:
  enum class Taking { kBlocks, kArrays, kPayload };
  explicit Recorder(Taking taking) : taking_(taking) {}

  Result<Taker> Begin(const AnswerStart& start) override {
    header = start.header;
    from = start.from;
    if (takes_payload()) return Taker(static_cast<PayloadSink*>(this));
    return Taker(static_cast<BlockSink*>(this));
  }
  bool takes_payload() const override { return taking_ == Taking::kPayload; }

  Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& level) override {
    if (taking_ != Taking::kArrays) return std::optional<SampleArray>();
    array_.assign(static_cast<std::size_t>(level.extent.volume()) * sizeof(float), std::byte{0});
    return std::optional(SampleArray{array_.data(), level.extent, sizeof(float)});
  }
  Status Deliver(const SampleBlock& block) override {
    events.push_back({block.level,
                      block.patch,
                      block.planned->entry.patch.patch_index,
                      block.extent,
                      {block.shown.level, block.shown.layer},
                      Bytes(block.samples.begin(), block.samples.end())});
    return Status::Ok();
  }
  Status Filled(int, const Box&, const query::LevelChoice&) override { return Status::Ok(); }
  Status Deliver(const StoredPayload& payload) override {
    Bytes bytes;
    for (const LevelPayload& level : payload.levels) {
      bytes.insert(bytes.end(), level.mask.begin(), level.mask.end());
      for (const ByteSpan part : level.payloads()) bytes.insert(bytes.end(), part.begin(), part.end());
    }
    events.push_back({payload.level,
                      payload.patch,
                      payload.planned->entry.patch.patch_index,
                      payload.planned->samples,
                      {payload.first_layer, payload.damaged ? 1 : 0},
                      std::move(bytes)});
    return Status::Ok();
  }
  Status LevelEnd(const query::LevelExtent& level) override {
    events.push_back(LevelEndOf(level));
    std::get<Bytes>(events.back()) = std::exchange(array_, {});
    return Status::Ok();
  }
  void Damaged(const Status&) override {}
  Status End() override { return Status::Ok(); }

  std::optional<query::AnswerHeader> header;
  ResumePoint from;
  std::vector<Event> events;

 private:
  const Taking taking_;
  Bytes array_;
};

struct RunsCase {
  Recorder::Taking taking;
  bool missing;
};

class RunsTest : public ::testing::TestWithParam<RunsCase> {
 protected:
  RunsTest() {
    recipe_.missing = GetParam().missing;
    if (!recipe_.missing) recipe_.coder = CoderId::kInterpolate;
    if (!recipe_.missing) recipe_.rougher = {1e-1};
    testing::MakeDataset(path(), recipe_);
    source_.emplace(path());
  }

  std::filesystem::path path() const { return folder_.path() / "a.quarry"; }

  Recorder Read(const query::ReadRequest& question, std::size_t run_patches, const ResumePoint& from = {},
                int* damages = nullptr) {
    ReadSession session(&*source_, std::make_shared<PatchStore>(std::uint64_t{64} << 20), 2, run_patches);
    Control control;
    Recorder recorder(GetParam().taking);
    const Status status = session.Read("", {.read = question}, from, &control, &recorder);
    EXPECT_TRUE(status.ok()) << status.message();
    if (damages != nullptr) *damages = control.damages;
    return recorder;
  }

  /// Damages a level of the first patch that has payload of it.
  void FlipLevel(const query::ReadRequest& question, int level) const {
    const query::ReadPlan plan = *(*Dataset::Open(path()))->Plan(question);
    const auto part = plan.parts.Of(0, level);
    const auto found = std::ranges::find_if(plan.patches, [&](const query::PlannedPatch& patch) {
      return patch.entry.subfile == 0 && patch.entry.patch.levels[part].size > 0;
    });
    ASSERT_NE(found, plan.patches.end());
    std::fstream file(path() / "steps/000000/pressure/0000.qsf",
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(found->entry.patch.levels[part].offset);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  query::ReadRequest RandomQuestion(std::mt19937* random) const {
    query::ReadRequest question{.field = "pressure"};
    question.box = testing::RandomBox(recipe_.dims, random);
    switch ((*random)() % 4) {
      case 0:
        question.target = query::AtLevel{static_cast<int>((*random)() % 3)};
        question.first_level = 3;
        break;
      case 1:
        question.target = query::WithinError{0.3};
        break;
      case 2:
        question.target = query::WithinBytes{40'000};
        question.first_level = 3;
        break;
      default:
        break;
    }
    if ((*random)() % 3 == 0) question.focus = RandomPoint(random);
    if ((*random)() % 3 == 0) {
      const double low = std::uniform_real_distribution<double>(-2, 2)(*random);
      question.values = query::Bounds{low, low + 0.2};
    }
    return question;
  }

  query::Point RandomPoint(std::mt19937* random) const {
    query::Point point{};
    for (std::size_t a = 0; a < 3; ++a) {
      const auto last = static_cast<double>(recipe_.dims[a] - 1);
      point[a] = std::uniform_real_distribution<double>(0, last)(*random);
    }
    return point;
  }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
  std::optional<OnlyOne> source_;
};

TEST_P(RunsTest, AnswersAreThoseOfOneRun) {
  std::mt19937 random(5);
  int left_out = 0;
  for (int i = 0; i < 120; ++i) {
    const query::ReadRequest question = RandomQuestion(&random);
    const Recorder whole = Read(question, 0);
    const Recorder in_runs = Read(question, 1 + random() % 9);
    EXPECT_EQ(in_runs.events, whole.events) << ToString(*question.box);
    ASSERT_TRUE(in_runs.header && whole.header);
    EXPECT_EQ(in_runs.from.fingerprint, whole.from.fingerprint);
    EXPECT_EQ(in_runs.header->cost.bytes, whole.header->cost.bytes);
    EXPECT_EQ(in_runs.header->cost.reply_bytes, whole.header->cost.reply_bytes);
    EXPECT_EQ(in_runs.header->cost.patches, whole.header->cost.patches);
    EXPECT_GE(in_runs.header->cost.reads, whole.header->cost.reads);
    EXPECT_EQ(in_runs.header->may_miss, whole.header->may_miss);
    EXPECT_EQ(in_runs.header->left_out, whole.header->left_out);
    left_out += whole.header->left_out.empty() ? 0 : 1;
    for (std::size_t l = 0; l < whole.header->levels.size(); ++l) {
      EXPECT_EQ(in_runs.header->levels[l].max_error, whole.header->levels[l].max_error);
      EXPECT_EQ(in_runs.header->levels[l].bytes, whole.header->levels[l].bytes);
      EXPECT_NEAR(in_runs.header->levels[l].coverage, whole.header->levels[l].coverage, 1e-12);
    }
  }
  EXPECT_GT(left_out, 10);
}

/// A level in an array is whole or not there: its answer goes on at a level alone.
TEST_P(RunsTest, AnAnswerGoesOnAtEveryPatch) {
  if (GetParam().taking == Recorder::Taking::kArrays) return;
  std::mt19937 random(6);
  query::ReadRequest question{.field = "pressure", .target = query::AtLevel{1}, .first_level = 3};
  question.focus = RandomPoint(&random);
  question.values = query::Bounds{-1, 0.5};
  const Recorder whole = Read(question, 0);
  std::size_t pass = 0;
  std::size_t patch = 0;
  for (std::size_t done = 0; done < whole.events.size(); ++done) {
    const ResumePoint from{whole.from.fingerprint, 0, {pass, patch, 0}, 0};
    const Recorder rest = Read(question, 4, from);
    EXPECT_EQ(rest.events, std::vector<Event>(whole.events.begin() + static_cast<std::ptrdiff_t>(done),
                                              whole.events.end()));
    const bool ends_level = std::get<4>(whole.events[done]).second == -1;
    pass += ends_level ? 1 : 0;
    patch = ends_level ? 0 : patch + 1;
  }
}

/// Payload of a level is of no use without that of the coarser ones.
void ExpectNothingBehindDamage(const std::vector<Event>& events) {
  std::set<std::uint64_t> ended;
  for (const Event& event : events) {
    const auto [first_layer, damaged] = std::get<4>(event);
    if (damaged == -1 || first_layer > 0) continue;
    const std::uint64_t patch = std::get<2>(event);
    EXPECT_TRUE(!ended.contains(patch) || std::get<Bytes>(event).empty()) << patch;
    if (damaged == 1 && std::get<0>(event) > 0) ended.insert(patch);
  }
  EXPECT_FALSE(ended.empty());
}

TEST_P(RunsTest, PointsAreThoseOfOneRun) {
  if (GetParam().taking != Recorder::Taking::kBlocks) return;
  std::mt19937 random(9);
  const auto ask = [&](const query::PointsRequest& request, std::size_t run_patches) {
    ReadSession session(&*source_, std::make_shared<PatchStore>(std::uint64_t{64} << 20), 2, run_patches);
    Control control;
    auto answer = session.ReadPoints("", request, &control);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return *std::move(answer);
  };
  for (int i = 0; i < 30; ++i) {
    query::PointsRequest request{"pressure", {}, {}, false};
    for (int p = 0; p < 1 + i * i; ++p) request.points.push_back(RandomPoint(&random));
    const query::PointsAnswer whole = ask(request, 0);
    const query::PointsAnswer in_runs = ask(request, 1 + random() % 5);
    ASSERT_EQ(in_runs.values.size(), whole.values.size());
    EXPECT_EQ(0,
              std::memcmp(in_runs.values.data(), whole.values.data(), whole.values.size() * sizeof(double)));
    EXPECT_EQ(in_runs.cost.bytes, whole.cost.bytes);
    EXPECT_EQ(in_runs.cost.patches, whole.cost.patches);
    EXPECT_EQ(in_runs.max_error, whole.max_error);
  }
}

/// Damage of a coarse level is known in the runs of the finer ones.
TEST_P(RunsTest, DamageIsShownAsInOneRun) {
  std::fstream file(path() / "steps/000000/pressure/0001.qsf",
                    std::ios::in | std::ios::out | std::ios::binary);
  for (int at = 200; at < 4000; at += 300) {
    file.seekp(at);
    file.put('x');
  }
  file.close();
  const query::ReadRequest question{
      .field = "pressure", .target = query::AtLevel{0}, .first_level = 3, .allow_damage = true};
  FlipLevel(question, 2);
  query::ReadRequest around = question;
  around.focus = {20, 10, 5};
  EXPECT_EQ(Read(around, 3).events, Read(around, 0).events);
  int damages_whole = 0;
  int damages_in_runs = 0;
  const Recorder whole = Read(question, 0, {}, &damages_whole);
  const Recorder in_runs = Read(question, 3, {}, &damages_in_runs);
  EXPECT_GT(damages_whole, 0);
  EXPECT_EQ(damages_in_runs, damages_whole);
  EXPECT_EQ(in_runs.events, whole.events);
  if (GetParam().taking == Recorder::Taking::kPayload) ExpectNothingBehindDamage(in_runs.events);
}

/// All digits of all numbers, of which NaN equals NaN.
std::string TextOf(const query::Statistics& told) {
  const auto text = [](const query::Bounded& b) { return fmt::format(" {} {} {}", b.low, b.value, b.high); };
  std::string all = fmt::format("{} {}", told.valid, told.missing);
  all += text(told.min) + text(told.max) + text(told.mean) + text(told.stddev);
  for (const query::Percentile& percentile : told.percentiles) all += text(percentile.at);
  for (std::size_t bin = 0; bin < told.histogram.counts.size(); ++bin)
    all += fmt::format(" {}:{}", told.histogram.Edge(bin), told.histogram.counts[bin]);
  return all;
}

TEST_P(RunsTest, StatisticsAreThoseOfOneRun) {
  if (GetParam().taking != Recorder::Taking::kBlocks) return;
  std::mt19937 random(7);
  const auto ask = [&](const query::StatisticsRequest& request, std::size_t run_patches) {
    ReadSession session(&*source_, std::make_shared<PatchStore>(std::uint64_t{64} << 20), 2, run_patches);
    Control control;
    auto answer = session.Statistics("", request, &control);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return *std::move(answer);
  };
  for (int i = 0; i < 30; ++i) {
    query::StatisticsRequest request;
    request.read = {.field = "pressure",
                    .box = testing::RandomBox(recipe_.dims, &random),
                    .target = query::AtLevel{static_cast<int>(random() % 3)}};
    request.percentiles = {0, 1, 50, 99, 100};
    request.bins = 20;
    if (i % 3 == 0) request.scale = query::HistogramScale::kQuantile;
    const query::StatisticsAnswer whole = ask(request, 0);
    const query::StatisticsAnswer in_runs = ask(request, 1 + random() % 9);
    EXPECT_EQ(TextOf(in_runs.statistics), TextOf(whole.statistics));
    EXPECT_EQ(in_runs.header.cost.bytes, whole.header.cost.bytes);
    EXPECT_EQ(in_runs.header.cost.patches, whole.header.cost.patches);
  }
}

INSTANTIATE_TEST_SUITE_P(Takers, RunsTest,
                         ::testing::Values(RunsCase{Recorder::Taking::kBlocks, false},
                                           RunsCase{Recorder::Taking::kBlocks, true},
                                           RunsCase{Recorder::Taking::kArrays, false},
                                           RunsCase{Recorder::Taking::kArrays, true},
                                           RunsCase{Recorder::Taking::kPayload, false},
                                           RunsCase{Recorder::Taking::kPayload, true}));

}  // namespace
}  // namespace quarry
