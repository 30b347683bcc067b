// How many times a read waits for a storage with late answers: the longest chain of calls of which each waits
// for the one before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "quarry/base/file.h"
#include "quarry/dataset/batch_under_way.h"
#include "quarry/dataset/discovery.h"
#include "quarry/dataset/read_payload.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "quarry/query/fetch.h"
#include "quarry/query/plan_memory.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/late_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"
#include "writer/upkeep/pack.h"

namespace quarry {
namespace {

using testing::DatasetRecipe;
using testing::Fault;
using testing::FaultyStorage;
using testing::LateStorage;
using testing::Operation;

const auto kNever = [] { return false; };
const auto kNothing = [](std::uint64_t, std::uint64_t) {};

constexpr query::AtLevel kCoarse{2};

/// 8 subfiles of a field, 450 patches.
DatasetRecipe SeveralSubfiles() {
  DatasetRecipe recipe;
  recipe.dims = {80, 72, 40};
  recipe.files = 8;
  return recipe;
}

/// A box that cuts patches on all sides, and meets all subfiles.
constexpr Box kBox{{3, 5, 2}, {75, 68, 37}};

class IgnoringSink final : public BlockSink {
 public:
  Status Deliver(const SampleBlock&) override { return Status::Ok(); }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
};

class RoundsTest : public ::testing::Test {
 protected:
  std::filesystem::path disk() const { return folder_.path() / "a.quarry"; }
  Location OnDisk() const { return Location(disk()); }

  struct Answer {
    std::shared_ptr<LateStorage> late;
    Result<std::vector<float>> samples = std::vector<float>();
    int planning = 0;  ///< waits before the payload
    int waits = 0;
    std::string told;
  };

  /// Opens the dataset on the storage and asks a question. No payload comes before all of it is asked for.
  static Answer Ask(const std::shared_ptr<LateStorage>& late, const std::string& path,
                    const query::ReadRequest& request) {
    Answer answer;
    answer.late = late;
    const auto dataset = Dataset::Open(Location(late, path));
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    if (!dataset.ok()) return answer;
    const auto plan = (*dataset)->Plan(request);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return answer;
    answer.planning = late->waits();
    // A coarse object has brought some of it.
    if ((*dataset)->coarse() == nullptr) late->HoldUntil(plan->cost.bytes_read);
    answer.samples = testing::TryReadAll(**dataset, request);
    answer.waits = late->waits();
    answer.told = late->Told();
    EXPECT_FALSE(late->gave_up()) << "the payload was not under way at once";
    return answer;
  }
  Answer Ask(const query::ReadRequest& request) const {
    return Ask(std::make_shared<LateStorage>(OnDisk().storage), OnDisk().path, request);
  }
  static query::ReadRequest FirstPicture() { return {.field = "pressure", .step = 0, .target = kCoarse}; }
  static query::ReadRequest FineBox() {
    return {.field = "pressure", .step = 0, .box = kBox, .target = query::AtLevel{0}};
  }

  /// The waits of both questions, and that their answers are those of files.
  void ExpectWaits(int picture, int box) const {
    for (const bool fine : {false, true}) {
      const query::ReadRequest request = fine ? FineBox() : FirstPicture();
      const Answer answer = Ask(request);
      EXPECT_EQ(answer.waits, fine ? box : picture) << answer.told;
      ASSERT_TRUE(answer.samples.ok()) << answer.samples.status().message();
      ExpectEqual(*answer.samples, testing::ReadAll(**Dataset::Open(disk()), request));
    }
  }
  static void ExpectEqual(const std::vector<float>& read, const std::vector<float>& expected) {
    ASSERT_EQ(read.size(), expected.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] == expected[i] || (std::isnan(read[i]) && std::isnan(expected[i]))) continue;
      ADD_FAILURE() << "sample " << i << ": " << read[i] << ", " << expected[i] << " in files";
      return;
    }
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RoundsTest, AFirstPictureTakesFourWaitsAndSoDoesABox) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  // {directory, dataset.json, list of steps}, step.json, tables, payload.
  ExpectWaits(4, 4);
}

TEST_F(RoundsTest, MasksAddNone) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.missing = true;
  testing::MakeDataset(disk(), recipe);
  ExpectWaits(4, 4);
}

TEST_F(RoundsTest, LayersAddNone) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.coder = CoderId::kInterpolate;
  recipe.rougher = {0.1, 0.01};
  testing::MakeDataset(disk(), recipe);
  ExpectWaits(4, 4);
}

TEST_F(RoundsTest, CoarserLevelsBeforeAddNone) {
  for (const bool missing : {false, true}) {
    std::filesystem::remove_all(disk());
    DatasetRecipe recipe = SeveralSubfiles();
    recipe.missing = missing;
    testing::MakeDataset(disk(), recipe);
    query::ReadRequest request = FineBox();
    request.first_level = 3;
    const Answer answer = Ask(request);
    EXPECT_EQ(answer.waits, 4) << answer.told;
    ASSERT_TRUE(answer.samples.ok()) << answer.samples.status().message();
    ExpectEqual(*answer.samples, testing::ReadAll(**Dataset::Open(disk()), FineBox()));
  }
}

TEST_F(RoundsTest, NoPayloadIsReadAheadThatFilesNeedNot) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  // After a question for level 1, what is stored lies between the levels of an answer.
  const auto payload_of_both = [](const Location& root) {
    const auto dataset = *Dataset::Open(root);
    ReadEngine engine(std::uint64_t{64} << 20, 2);
    ReadUsage usage;
    for (const int level : {1, 0}) {
      query::ReadRequest request = FineBox();
      request.target = query::AtLevel{level};
      if (level == 0) request.first_level = 3;
      IgnoringSink sink;
      EXPECT_TRUE(ExecuteRead(*dataset, *dataset->Plan(request), &engine, kNever, &sink, {}, &usage).ok());
    }
    return usage.payload_bytes;
  };
  EXPECT_EQ(payload_of_both(Location(std::make_shared<LateStorage>(OnDisk().storage), OnDisk().path)),
            payload_of_both(Location(disk())));
}

TEST_F(RoundsTest, OrdersWithACoarseObjectTakeTwoForAFirstPicture) {
  for (const format::PayloadOrder order : {format::PayloadOrder::kLevel, format::PayloadOrder::kCoarse}) {
    std::filesystem::remove_all(disk());
    DatasetRecipe recipe = SeveralSubfiles();
    recipe.order = order;
    testing::MakeDataset(disk(), recipe);
    // {directory, dataset.json, list of steps}, {step.json, object}; a box as ever.
    ExpectWaits(2, 4);
    std::filesystem::remove(disk() / format::StepFolder(0) / "coarse");
    ExpectWaits(4, 4);
  }
}

TEST_F(RoundsTest, OrderCoarseHasTheFewRequestsOfBothOthers) {
  DatasetRecipe recipe;
  recipe.dims = {128, 96, 64};
  recipe.patch = {32, 32, 32};
  recipe.levels = 6;
  recipe.files = 2;
  recipe.tolerance = 1e-5;  // a patch is longer than the gap through which ranges are joined
  const query::ReadRequest overview{.field = "pressure", .step = 0, .target = query::AtLevel{2}};
  const query::ReadRequest box{
      .field = "pressure", .step = 0, .box = Box{{40, 40, 10}, {128, 90, 60}}, .target = query::AtLevel{0}};
  std::map<format::PayloadOrder, std::pair<std::uint64_t, std::uint64_t>> requests;
  for (const format::PayloadOrder order : format::kPayloadOrders) {
    std::filesystem::remove_all(disk());
    recipe.order = order;
    testing::MakeDataset(disk(), recipe);
    std::filesystem::remove(disk() / format::StepFolder(0) / "coarse");  // it would answer the overview
    const auto requests_of = [&](const query::ReadRequest& request) {
      const auto late = std::make_shared<LateStorage>(
          OnDisk().storage, ReadCosts{.latency = 0.001, .bandwidth = 8e6, .side_by_side = 16});
      const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
      EXPECT_TRUE(dataset->Plan(request).ok());
      const std::uint64_t planning = late->ranges();
      EXPECT_TRUE(testing::TryReadAll(*dataset, request).ok());
      return late->ranges() - planning;
    };
    requests[order] = {requests_of(overview), requests_of(box)};
  }
  const auto [patch_overview, patch_box] = requests[format::PayloadOrder::kPatch];
  const auto [level_overview, level_box] = requests[format::PayloadOrder::kLevel];
  const auto [coarse_overview, coarse_box] = requests[format::PayloadOrder::kCoarse];
  EXPECT_EQ(patch_overview, 24u) << "one a patch";
  EXPECT_EQ(level_overview, 2u) << "one a subfile";
  EXPECT_EQ(coarse_overview, 2u);
  // One more a subfile than patch by patch, for the coarse levels.
  EXPECT_LE(coarse_box, patch_box + 2);
  EXPECT_GT(level_box, patch_box + 2);
}

TEST_F(RoundsTest, SectionsOfAStepAddOne) {
  DatasetRecipe recipe = SeveralSubfiles();
  testing::MakeDataset(disk(), recipe);
  recipe.field = "other";
  testing::MakeDataset(disk(), recipe);
  const StepDescription step = *(*Dataset::Open(disk()))->LoadStep(0);
  const std::string text = format::EncodeManifest(step, {.whole = 0, .section = 1});
  ASSERT_TRUE(ReplaceFile(disk() / format::StepFolder(0) / "step.json", std::as_bytes(std::span(text))).ok());
  ExpectWaits(5, 5);
}

TEST_F(RoundsTest, TablesInBlocksAddOne) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.patch = {4, 4, 4};  // 3,600 patches
  recipe.levels = 3;
  recipe.files = 2;
  recipe.missing = true;
  testing::MakeDataset(disk(), recipe);
  ASSERT_GT((*Dataset::Open(disk()))->tables().Walk(0, 0, 0)->blocks(), 1u);
  ExpectWaits(5, 5);
}

TEST_F(RoundsTest, PacksAddOne) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.dims = {9, 8, 7};
  recipe.files = 2;
  recipe.missing = true;
  recipe.steps = {0, 1, 2, 3, 10};
  testing::MakeDataset(disk(), recipe);
  ASSERT_TRUE(writer::Pack(disk(), {}, kNothing).ok());
  for (const std::uint64_t step : {0, 2}) {
    auto late = std::make_shared<LateStorage>(OnDisk().storage);
    query::ReadRequest request = FirstPicture();
    request.step = step;
    const Answer answer = Ask(late, OnDisk().path, request);
    // {directory, dataset.json, list of steps}, pack, step.json, tables, payload.
    EXPECT_EQ(answer.waits, 5) << answer.told;
    ASSERT_TRUE(answer.samples.ok());
    ExpectEqual(*answer.samples, testing::ReadAll(**Dataset::Open(disk()), request));
  }
}

TEST_F(RoundsTest, QuestionsAfterTheFirstWaitForTheirPayloadAlone) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  for (const bool trusts : {true, false}) {
    auto late = std::make_shared<LateStorage>(OnDisk().storage);
    const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
    ASSERT_TRUE(dataset->Plan(FineBox()).ok());
    if (!trusts) late->Trust(std::chrono::milliseconds(0));
    late->ForgetWaits();
    ASSERT_TRUE(testing::TryReadAll(*dataset, FineBox()).ok());
    EXPECT_EQ(late->waits(), trusts ? 1 : 2) << late->Told();
  }
}

TEST_F(RoundsTest, AReplacedStepShowsWhenItsStampIsNotTrustedAnyMore) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  auto late = std::make_shared<LateStorage>(OnDisk().storage);
  const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
  ASSERT_TRUE(dataset->Plan(FineBox()).ok());
  const std::filesystem::path manifest = disk() / format::StepFolder(0) / "step.json";
  const Bytes text = *ReadWholeFile(manifest, format::kManifestLimit);
  ASSERT_TRUE(ReplaceFile(manifest, text).ok());

  ASSERT_TRUE(dataset->Plan(FineBox()).ok());
  EXPECT_FALSE(dataset->outdated());
  late->Trust(std::chrono::milliseconds(0));
  ASSERT_TRUE(dataset->Plan(FineBox()).ok());
  EXPECT_TRUE(dataset->outdated());
}

/// 16,384 patches, four batches.
DatasetRecipe SeveralBatches() {
  DatasetRecipe recipe;
  recipe.dims = {128, 128, 64};
  recipe.patch = {4, 4, 4};
  recipe.levels = 2;
  return recipe;
}

TEST_F(RoundsTest, BatchesAreUnderWayUpToWhatFillsTheWay) {
  testing::MakeDataset(disk(), SeveralBatches());
  const query::ReadRequest request{.field = "pressure", .step = 0, .target = query::AtLevel{0}};
  const query::ReadPlan on_disk = *(*Dataset::Open(disk()))->Plan(request);
  const std::uint64_t bytes = on_disk.cost.bytes_read;
  ASSERT_EQ(query::MakePasses(on_disk).front().batches.size(), 4u);
  for (const bool wide : {false, true}) {
    const double bandwidth = static_cast<double>(bytes) / 0.02 * (wide ? 1 : 0.01);
    auto late = std::make_shared<LateStorage>(
        OnDisk().storage, ReadCosts{.latency = 0.02, .bandwidth = bandwidth, .side_by_side = 16});
    const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
    const query::ReadPlan plan = *dataset->Plan(request);
    // All of them where they fit, otherwise two.
    late->HoldUntil(wide ? plan.cost.bytes_read : 0);
    ReadEngine engine(std::uint64_t{1} << 30, 2);
    IgnoringSink sink;
    ASSERT_TRUE(ExecuteRead(*dataset, plan, &engine, kNever, &sink).ok());
    EXPECT_FALSE(late->gave_up());
    EXPECT_TRUE(wide || late->most_under_way() < bytes * 3 / 4) << late->most_under_way();
  }
}

TEST_F(RoundsTest, BytesUnderWayKeepToAFairShareOfTheMemory) {
  testing::MakeDataset(disk(), SeveralBatches());
  auto late = std::make_shared<LateStorage>(OnDisk().storage,
                                            ReadCosts{.latency = 1, .bandwidth = 1e12, .side_by_side = 16});
  const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure", .step = 0, .target = query::AtLevel{0}});
  ReadEngine engine(std::uint64_t{32} << 20, 2);
  // More than a share takes, with what decoding needs.
  const auto memory_of = [&](std::size_t patch) {
    return query::DecodeMemory(plan, query::Piece{patch, plan.dataset_levels - 1, 0});
  };
  ASSERT_GT(plan.patches.size() * memory_of(0), 2 * engine.store->FairShare());
  IgnoringSink sink;
  ASSERT_TRUE(ExecuteRead(*dataset, plan, &engine, kNever, &sink).ok());
  EXPECT_LT(late->most_under_way(), plan.cost.bytes_read / 2);
}

TEST_F(RoundsTest, LongRangesAreCut) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  auto late = std::make_shared<LateStorage>(
      OnDisk().storage,
      ReadCosts{.latency = 0.02, .bandwidth = 125e6, .side_by_side = 16, .most_bytes = 10'000});
  const Answer answer = Ask(late, OnDisk().path, FineBox());
  EXPECT_EQ(answer.waits, 4) << answer.told;
  EXPECT_GT(late->ranges(), 8 * 4u);
  ExpectEqual(*answer.samples, testing::ReadAll(**Dataset::Open(disk()), FineBox()));
}

TEST_F(RoundsTest, APayloadStreamWaitsOnceForAllItsLevels) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.missing = true;
  testing::MakeDataset(disk(), recipe);
  // Memory for all of it; for some of the 450 patches of a level.
  for (const std::uint64_t memory : {std::uint64_t{4} << 30, std::uint64_t{64} << 20}) {
    auto late = std::make_shared<LateStorage>(OnDisk().storage);
    const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
    const query::ReadPlan plan =
        *dataset->Plan({.field = "pressure", .step = 0, .target = query::AtLevel{0}, .first_level = 3});
    const bool all = memory > std::uint64_t{1} << 30;
    if (all) late->HoldUntil(plan.cost.bytes_read);
    const int planning = late->waits();
    ReadEngine engine(memory, 2);
    struct Counting final : PayloadSink {
      Status Deliver(const StoredPayload& payload) override {
        patches += 1;
        EXPECT_FALSE(payload.damaged);
        return Status::Ok();
      }
      Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
      std::size_t patches = 0;
    } sink;
    PayloadDamages damages;
    ASSERT_TRUE(ExecutePayloads(*dataset, plan, &engine, kNever, &sink, {}, &damages, nullptr).ok());
    EXPECT_EQ(sink.patches, plan.levels.size() * plan.patches.size());
    EXPECT_FALSE(late->gave_up());
    EXPECT_EQ(late->waits() - planning == 1, all) << late->Told();
  }
}

TEST_F(RoundsTest, VerificationReadsTablesAndPayloadsTogether) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.missing = true;
  recipe.steps = {0, 1, 2, 3};
  testing::MakeDataset(disk(), recipe);
  auto late = std::make_shared<LateStorage>(OnDisk().storage);
  const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
  late->ForgetWaits();
  const VerifyReport report = *VerifyDataset(*dataset, kNothing);
  const VerifyReport expected = *VerifyDataset(**Dataset::Open(disk()), kNothing);

  EXPECT_TRUE(report.damage.empty());
  EXPECT_EQ(report.bytes, expected.bytes);
  EXPECT_EQ(report.patches, expected.patches);
  // Head; records; step.json files; then for each of 4 steps and a mask the tables and the payload.
  EXPECT_LE(late->waits(), 3 + 5 * 2) << late->Told();
}

TEST_F(RoundsTest, AFollowerReadsNewStepsTogether) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.dims = {9, 8, 7};
  recipe.files = 1;
  for (std::uint64_t step = 0; step < 40; ++step) recipe.steps.push_back(step + 1);
  testing::MakeDataset(disk(), recipe);
  std::filesystem::remove(disk() / "head");
  auto late = std::make_shared<LateStorage>(OnDisk().storage);
  StepFollower follower(Location(late, OnDisk().path));
  EXPECT_EQ(follower.Poll()->size(), 16u);
  // Stamp; the dataset; no head; 16 step.json files.
  EXPECT_EQ(late->waits(), 4) << late->Told();
  EXPECT_EQ(follower.Poll()->size(), 16u);
  EXPECT_EQ(late->waits(), 6) << late->Told();
}

TEST_F(RoundsTest, DatasetsAreFoundLevelByLevel) {
  const auto memory = std::make_shared<testing::MemoryStorage>();
  for (const char* folder : {"a", "b/c", "b/d", "b/d/e", "b/d/f", "g/h"}) {
    ASSERT_TRUE(memory->Put(fmt::format("root/{}/x.quarry/dataset.json", folder), {}).ok());
  }
  auto late = std::make_shared<LateStorage>(memory);
  const auto found = FindDatasets(Location(late, "root"));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 6u);
  const std::vector<FoundDataset> expected = *FindDatasets(Location(memory, "root"));
  ASSERT_EQ(expected.size(), found->size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*found)[i].name, expected[i].name);
  // The root; then four levels, each listed together and then looked at together.
  EXPECT_EQ(late->waits(), 1 + 4 * 2) << late->Told();
}

/// Readings end out of order on other threads, and calls fail behind them.
class LateFaultsTest : public RoundsTest {
 protected:
  struct Storages {
    std::shared_ptr<FaultyStorage> faulty;
    std::shared_ptr<LateStorage> late;
  };
  Storages Make() const {
    auto faulty = std::make_shared<FaultyStorage>(OnDisk().storage);
    return {faulty, std::make_shared<LateStorage>(faulty)};
  }
  Result<std::vector<float>> Attempt(const Storages& storages) const {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(Location(storages.late, OnDisk().path)));
    return testing::TryReadAll(*dataset, FineBox());
  }
};

TEST_F(LateFaultsTest, EveryCallThatFailsForGoodEndsTheReadWithItsError) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.files = 3;
  recipe.missing = true;
  testing::MakeDataset(disk(), recipe);
  const Storages clean = Make();
  const std::vector<float> expected = *Attempt(clean);
  for (const Operation operation : {Operation::kList, Operation::kOpen, Operation::kRead}) {
    std::set<std::string> paths;
    for (const testing::StorageCall& call : clean.faulty->Calls(operation)) paths.insert(call.path);
    ASSERT_FALSE(paths.empty());
    for (const std::string& path : paths) {
      const Storages storages = Make();
      storages.faulty->Add(operation, path, 1, UINT64_MAX, Fault::Fail(InternalError("the disk is gone")));
      const auto read = Attempt(storages);
      EXPECT_EQ(read.status().code(), StatusCode::kInternal) << path << ": " << read.status().message();
      EXPECT_NE(read.status().message().find("the disk is gone"), std::string::npos) << path;
    }
  }
}

TEST_F(LateFaultsTest, EveryReadThatFailsOnceOrEndsEarlyOrLiesGivesTheAnswerOrItsError) {
  DatasetRecipe recipe = SeveralSubfiles();
  recipe.files = 3;
  recipe.missing = true;
  testing::MakeDataset(disk(), recipe);
  const Storages clean = Make();
  const std::vector<float> expected = *Attempt(clean);
  const std::size_t reads = clean.faulty->Calls(Operation::kRead).size();
  for (std::size_t n = 1; n <= reads; ++n) {
    for (const Fault& fault :
         {Fault::Fail(InternalError("the disk is gone")), Fault::Truncate(), Fault::Lie()}) {
      const Storages storages = Make();
      storages.faulty->Add(Operation::kRead, "*", n, 1, fault);
      const auto read = Attempt(storages);
      if (read.ok()) {
        ExpectEqual(*read, expected);
      } else {
        EXPECT_EQ(read.status().code(),
                  fault.kind == Fault::Kind::kFail ? StatusCode::kInternal : StatusCode::kDataLoss)
            << n << ": " << read.status().message();
      }
    }
  }
}

TEST_F(LateFaultsTest, APatchWhoseRangeFailsIsNotDecoded) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  const Storages storages = Make();
  const auto dataset = *Dataset::Open(Location(storages.late, OnDisk().path));
  const query::ReadPlan plan = *dataset->Plan(FirstPicture());
  storages.faulty->Add(Operation::kRead, "*", 1, UINT64_MAX, Fault::Fail(InternalError("the disk is gone")));
  auto fetched = std::make_shared<FetchedPayload>();
  fetched->fetch = query::PlanFetch(plan, {{0, plan.dataset_levels - 1, kCoarse.level}}, 0);
  PatchStore store(std::uint64_t{64} << 20);
  const std::vector<PatchKey> keys = PatchKeys(*dataset, plan).Of(plan.patches[0], {kCoarse.level, 0});
  std::vector<PatchStore::Claim> claims;
  claims.push_back(store.TryClaim(keys.front(), std::span(keys).subspan(1)));
  DecodePool pool(1);
  PayloadSource source(*dataset, plan, nullptr);
  BatchUnderWay batch(fetched, &pool, DecodePriority{}, /*held=*/true);
  const auto abandoned = std::make_shared<std::atomic<bool>>(false);
  batch.Add(
      std::make_shared<DecodeTask>(plan, *FindCoder(plan.coder), fetched, 0, claims, nullptr, abandoned), 0,
      1);
  ASSERT_TRUE(batch.Begin(&source, kNever).ok());
  EXPECT_EQ(batch.Wait(kNever).code(), StatusCode::kInternal);
  EXPECT_TRUE(batch.TakeComplete().empty());
}

TEST_F(LateFaultsTest, MissingAndTruncatedSubfilesAreNamed) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  const std::filesystem::path file = disk() / format::StepFolder(0) / "pressure" / "0003.qsf";
  const auto late = std::make_shared<LateStorage>(OnDisk().storage);
  const auto dataset = *Dataset::Open(Location(late, OnDisk().path));
  const query::ReadPlan plan = *dataset->Plan(FineBox());  // with the tables
  ReadEngine engine(std::uint64_t{64} << 20, 2);
  IgnoringSink sink;
  std::filesystem::resize_file(file, 1000);
  const Status cut = ExecuteRead(*dataset, plan, &engine, kNever, &sink);
  EXPECT_EQ(cut.code(), StatusCode::kDataLoss);
  EXPECT_NE(cut.message().find("has 1000 bytes, but"), std::string::npos) << cut.message();
  EXPECT_NE(cut.message().find("it is truncated"), std::string::npos) << cut.message();
  EXPECT_EQ(Attempt({nullptr, late}).status().code(), StatusCode::kDataLoss);

  std::filesystem::remove(file);
  for (const Status& gone :
       {ExecuteRead(*dataset, plan, &engine, kNever, &sink), Attempt({nullptr, late}).status()}) {
    EXPECT_EQ(gone.code(), StatusCode::kDataLoss);
    EXPECT_NE(gone.message().find("0003.qsf\" is missing, though step.json lists it"), std::string::npos)
        << gone.message();
  }
}

TEST_F(LateFaultsTest, ACancelledReadEndsWhileItsPayloadIsUnderWay) {
  testing::MakeDataset(disk(), SeveralSubfiles());
  const Storages storages = Make();
  const auto dataset = *Dataset::Open(Location(storages.late, OnDisk().path));
  const query::ReadPlan plan = *dataset->Plan(FineBox());
  storages.late->HoldUntil(UINT64_MAX);
  ReadEngine engine(std::uint64_t{64} << 20, 2);
  IgnoringSink sink;
  int asked = 0;
  const auto cancelled = [&] { return ++asked > 3; };
  EXPECT_EQ(ExecuteRead(*dataset, plan, &engine, cancelled, &sink).code(), StatusCode::kCancelled);
  EXPECT_FALSE(storages.late->gave_up());
  EXPECT_EQ(engine.store->state().reserved, 0u) << "nothing is left of it";

  storages.late->HoldUntil(0);
  EXPECT_TRUE(ExecuteRead(*dataset, plan, &engine, kNever, &sink).ok()) << "nobody waits for its patches";
}

}  // namespace
}  // namespace quarry
