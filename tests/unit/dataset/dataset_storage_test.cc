// Datasets in storages other than the file system, and in storages that fail, lie and answer late.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <latch>
#include <numeric>

#include "quarry/dataset/discovery.h"
#include "quarry/dataset/read_payload.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "quarry/storage/posix_storage.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"

namespace quarry {
namespace {

using testing::DatasetRecipe;
using testing::Fault;
using testing::FaultyStorage;
using testing::MakeDataset;
using testing::Operation;
using testing::ReadAll;

const auto kNever = [] { return false; };
const auto kNoProgress = [](std::uint64_t, std::uint64_t) {};
constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

/// Bits, because NaN does not equal itself.
std::vector<std::uint32_t> Bits(const std::vector<float>& samples) {
  std::vector<std::uint32_t> bits;
  for (const float sample : samples) bits.push_back(std::bit_cast<std::uint32_t>(sample));
  return bits;
}

/// Whether readers can do without it.
bool IsOfCatalogue(const std::string& path) {
  return path.ends_with(format::kHeadFile) || path.find(format::kCatalogueFolder) != std::string::npos ||
         path.ends_with(format::kCurrentFile);
}

class IgnoringSink final : public BlockSink {
 public:
  Status Deliver(const SampleBlock&) override { return Status::Ok(); }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
};

class IgnoringPayloadSink final : public PayloadSink {
 public:
  Status Deliver(const StoredPayload&) override { return Status::Ok(); }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
};

class DatasetStorageTest : public ::testing::Test {
 protected:
  /// Makes a dataset and copies it into memory.
  /// @returns its location there
  Location Make(const DatasetRecipe& recipe, std::uint64_t read_gap = 0) {
    MakeDataset(disk(), recipe);
    return CopyOfDisk(read_gap);
  }
  Location CopyOfDisk(std::uint64_t read_gap = 0) {
    memory_ = std::make_shared<testing::MemoryStorage>(read_gap);
    const Status copied = memory_->CopyFolder(disk(), "data/a.quarry");
    EXPECT_TRUE(copied.ok()) << copied.message();
    return {memory_, "data/a.quarry"};
  }
  /// The same behind a storage that can fail.
  std::pair<std::shared_ptr<FaultyStorage>, Location> Faulty(const Location& location) {
    auto faulty = std::make_shared<FaultyStorage>(location.storage);
    return {faulty, Location(faulty, location.path)};
  }
  std::filesystem::path disk() const { return folder_.path() / "a.quarry"; }

  testing::TemporaryFolder folder_;
  std::shared_ptr<testing::MemoryStorage> memory_;
};

TEST_F(DatasetStorageTest, ADatasetInMemoryAnswersLikeTheOneOnDisk) {
  for (const auto& [order, missing] :
       {std::pair(format::PayloadOrder::kLevel, false), std::pair(format::PayloadOrder::kLevel, true),
        std::pair(format::PayloadOrder::kCoarse, true)}) {
    std::filesystem::remove_all(disk());
    const DatasetRecipe recipe{.order = order, .steps = {0, 7}, .missing = missing};
    const Location copy = Make(recipe);
    const auto on_disk = *Dataset::Open(disk());
    const auto in_memory = Dataset::Open(copy);
    ASSERT_TRUE(in_memory.ok()) << in_memory.status().message();

    EXPECT_EQ((*in_memory)->steps(), on_disk->steps());
    for (const std::uint64_t step : on_disk->steps()) {
      for (int level = 0; level < recipe.levels; ++level) {
        const query::ReadRequest request{.field = "pressure", .step = step, .target = query::AtLevel{level}};
        EXPECT_EQ(Bits(ReadAll(**in_memory, request)), Bits(ReadAll(*on_disk, request)));
      }
    }
    const VerifyReport report = *VerifyDataset(**in_memory, kNoProgress);
    const VerifyReport expected = *VerifyDataset(*on_disk, kNoProgress);
    EXPECT_TRUE(report.damage.empty());
    EXPECT_EQ(report.bytes, expected.bytes);
    EXPECT_EQ(report.patches, expected.patches);
    EXPECT_GT(report.bytes, 0u);
  }
}

TEST_F(DatasetStorageTest, DiscoveryWorksInMemory) {
  const Location copy = Make({});
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/runs/deep/b.quarry").ok());
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/runs/.c.quarry.partial").ok());
  ASSERT_TRUE(memory_->MakeFolder("data/empty.quarry").ok());
  const std::vector<FoundDataset> found = *FindDatasets(Location(memory_, "data"));

  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].name, "runs/deep/b");
  EXPECT_TRUE(Dataset::Open(found[1].location).ok());
  EXPECT_EQ(FindDatasets(copy)->at(0).name, "a");
  EXPECT_EQ(FindDatasets(Location(memory_, "none")).status().code(), StatusCode::kNotFound);
}

TEST_F(DatasetStorageTest, DiscoveryPassesByFoldersThatMustNotBeListed) {
  const auto [faulty, copy] = Faulty(Make({}));
  ASSERT_TRUE(memory_->MakeFolder("data/locked/deep").ok());
  ASSERT_TRUE(memory_->MakeFolder("data/secret.quarry").ok());
  const Status denied(StatusCode::kPermissionDenied, "not for you");
  faulty->Add(Operation::kList, "data/locked", 1, 1, Fault::Fail(denied));
  faulty->Add(Operation::kStat, "data/secret.quarry/*", 1, 1, Fault::Fail(InternalError("not for you")));
  const Location root(faulty, "data");
  const auto found = FindDatasets(root);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).name, "a");
  EXPECT_EQ(found->at(1).name, "secret") << "asking for it says what is wrong";

  faulty->Add(Operation::kList, "data/locked", 1, 1, Fault::Fail(InternalError("the disk is gone")));
  EXPECT_EQ(FindDatasets(root).status().message(), "the disk is gone");
  faulty->Add(Operation::kList, "data", 1, 1, Fault::Fail(denied));
  EXPECT_EQ(FindDatasets(root).status().code(), StatusCode::kInternal);
}

TEST_F(DatasetStorageTest, DiscoveryGoesOnWithoutFoldersThatHang) {
  Make({});
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/hangs.quarry").ok());
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/runs/b.quarry").ok());
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/z.quarry").ok());
  const auto faulty = std::make_shared<FaultyStorage>(memory_);
  std::latch may_answer(1);
  std::latch answered(2);
  for (const char* path : {"data/hangs.quarry/dataset.json", "data/runs/dataset.json"}) {
    faulty->Add({Operation::kStat, path, 1, UINT64_MAX, [&](const testing::StorageCall&) {
                   may_answer.wait();
                   answered.count_down();
                   return Fault{};
                 }});
  }
  DiscoveryOptions options;
  options.patience = std::chrono::seconds(1);
  const auto found = Discover(Location(faulty, "data"), options);
  may_answer.count_down();
  answered.wait();

  ASSERT_TRUE(found.ok()) << found.status().message();
  std::vector<std::string> names;
  for (const FoundDataset& dataset : found->datasets) names.push_back(dataset.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "hangs", "z"}));
  EXPECT_NE(found->incomplete.message().find("\"data/runs\" does not answer"), std::string::npos)
      << found->incomplete.message();
}

TEST_F(DatasetStorageTest, DiscoveryGoesOnWithoutALinkThatHangs) {
  MakeDataset(disk(), {});
  std::filesystem::create_directory_symlink(disk(), folder_.path() / "good");
  std::filesystem::create_directory_symlink(disk(), folder_.path() / "hangs");
  const auto faulty = std::make_shared<FaultyStorage>(PosixStorage::Instance());
  std::latch may_answer(1);
  std::latch answered(1);
  const std::string link = (folder_.path() / "hangs").string();
  faulty->Add({Operation::kStat, link, 1, UINT64_MAX, [&](const testing::StorageCall&) {
                 may_answer.wait();
                 answered.count_down();
                 return Fault{};
               }});
  DiscoveryOptions options;
  options.patience = std::chrono::seconds(1);
  const auto found = Discover(Location(faulty, folder_.path().string()), options);
  may_answer.count_down();
  answered.wait();

  ASSERT_TRUE(found.ok()) << found.status().message();
  std::vector<std::string> names;
  for (const FoundDataset& dataset : found->datasets) names.push_back(dataset.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "good"}));
  EXPECT_NE(found->incomplete.message().find(link), std::string::npos) << found->incomplete.message();
}

/// The attack: three links to the folder that they are in make 3^15 paths.
TEST_F(DatasetStorageTest, DiscoveryDoesNotFollowLinksInCircles) {
  namespace fs = std::filesystem;
  const fs::path root = folder_.path() / "root";
  fs::create_directories(root / "runs");
  MakeDataset(root / "runs/a.quarry", {});
  for (const char* name : {"1", "2", "3"}) {
    fs::create_directory_symlink(".", root / name);
    fs::create_directory_symlink("..", root / "runs" / name);
  }
  fs::create_directory_symlink("runs", root / "alias");
  const auto faulty = std::make_shared<FaultyStorage>(PosixStorage::Instance());
  const auto found = Discover({faulty, root.string()});

  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->datasets.size(), 2u);
  EXPECT_EQ(found->datasets[0].name, "alias/a");
  EXPECT_EQ(found->datasets[1].name, "runs/a");
  EXPECT_EQ(found->left_out, "");
  EXPECT_EQ(faulty->Calls(Operation::kList).size(), 3u) << "the root, runs, and runs by its other name";
}

/// The attack: links that lead in no circle, but make 3^9 paths.
TEST_F(DatasetStorageTest, DiscoveryLeavesOutFoldersBehindVeryManyLinks) {
  namespace fs = std::filesystem;
  const fs::path root = folder_.path() / "root";
  constexpr int kStairs = 9;
  for (int stair = 0; stair < kStairs; ++stair) {
    fs::create_directories(root / fmt::format("a{}", stair));
    for (const char* name : {"1", "2", "3"})
      fs::create_directory_symlink(fmt::format("../a{}", stair + 1),
                                   root / fmt::format("a{}/{}", stair, name));
  }
  fs::create_directories(root / fmt::format("a{}", kStairs));
  MakeDataset(root / "z.quarry", {});
  const auto faulty = std::make_shared<FaultyStorage>(PosixStorage::Instance());
  DiscoveryOptions options{.most_behind_links = 50};
  auto found = Discover({faulty, root.string()}, options);

  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->datasets.size(), 1u);
  EXPECT_EQ(found->datasets[0].name, "z") << "folders come before links";
  EXPECT_NE(found->left_out.find("50 names were looked at behind symbolic links"), std::string::npos)
      << found->left_out;
  EXPECT_LE(faulty->Calls(Operation::kList).size(), 1u + kStairs + 1u + 51u);

  options = {.most_entries = 3};
  found = Discover({faulty, root.string()}, options);
  EXPECT_NE(found->left_out.find("3 names were looked at,"), std::string::npos) << found->left_out;
}

TEST_F(DatasetStorageTest, DiscoveryCanBeCancelled) {
  Make({});
  int asked = 0;
  const DiscoveryOptions options{.cancelled = [&] { return ++asked == 2; }};
  EXPECT_EQ(Discover(Location(memory_, "data"), options).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 2);
}

TEST_F(DatasetStorageTest, DiscoveryGoesOnWhereAFolderFails) {
  const auto [faulty, copy] = Faulty(Make({}));
  ASSERT_TRUE(memory_->MakeFolder("data/Broken/deep").ok());
  faulty->Add(Operation::kList, "data/Broken", 1, 1, Fault::Fail(InternalError("the disk is gone")));
  const auto found = Discover(Location(faulty, "data"));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->datasets.at(0).name, "a");
  EXPECT_EQ(found->incomplete.message(), "the disk is gone");
}

/// A file system that does not answer for one step.
TEST_F(DatasetStorageTest, AStepThatHangsHoldsUpNoOtherStep) {
  const auto [faulty, copy] = Faulty(Make({.steps = {0, 1}}));
  std::latch asked(1);
  std::latch answer(1);
  faulty->Add({Operation::kOpen, "*/steps/000000/step.json", 1, 1, [&](const testing::StorageCall&) {
                 asked.count_down();
                 answer.wait();
                 return Fault{};
               }});
  const auto dataset = *Dataset::Open(copy);
  auto hanging = std::async(std::launch::async, [&] { return dataset->Step(0).ok(); });
  asked.wait();
  EXPECT_TRUE(dataset->Step(1).ok());
  answer.count_down();
  EXPECT_TRUE(hanging.get());
}

/// The attack: whoever opens a FIFO waits for its other end.
TEST_F(DatasetStorageTest, AFifoInAFilesPlaceIsDamage) {
  namespace fs = std::filesystem;
  const auto replace = [&](const fs::path& path) {
    fs::remove_all(disk());
    MakeDataset(disk(), {.missing = true});
    fs::remove(disk() / path);
    ASSERT_EQ(::mkfifo((disk() / path).c_str(), 0600), 0);
  };
  std::vector<fs::path> files;
  MakeDataset(disk(), {.missing = true});
  for (const auto& entry : fs::recursive_directory_iterator(disk())) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), disk()));
  }
  for (const fs::path& path : files) {
    replace(path);
    const auto dataset = Dataset::Open(disk());
    if (IsOfCatalogue(path.string())) {
      EXPECT_TRUE(testing::TryReadAll(**dataset, {.field = "pressure"}).ok()) << path;
      continue;
    }
    const Status status =
        dataset.ok() ? testing::TryReadAll(**dataset, {.field = "pressure"}).status() : dataset.status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << path << status.message();
    EXPECT_NE(status.message().find((disk() / path).string()), std::string::npos) << status.message();
  }
}

TEST_F(DatasetStorageTest, AFollowerInMemoryGetsEveryStepOnce) {
  MakeDataset(disk(), {.steps = {0, 1}});
  const Location copy = CopyOfDisk();
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000001", "data/kept").ok());
  StepFollower follower(copy);
  const auto numbers = [&] {
    std::vector<std::uint64_t> found;
    const auto steps = follower.Poll();
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    for (const auto& step : *steps) found.push_back(step->step);
    return found;
  };
  EXPECT_EQ(numbers(), std::vector<std::uint64_t>{0});
  EXPECT_EQ(numbers(), std::vector<std::uint64_t>{});
  ASSERT_TRUE(memory_->MakeFolder("data/a.quarry/steps/.staging").ok());
  EXPECT_EQ(numbers(), std::vector<std::uint64_t>{});
  ASSERT_TRUE(memory_->Rename("data/kept", "data/a.quarry/steps/000001").ok());
  EXPECT_EQ(numbers(), std::vector<std::uint64_t>{1});

  ASSERT_TRUE(memory_->Rename("data/a.quarry", "data/old.quarry").ok());
  EXPECT_EQ(follower.Poll().status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/a.quarry").ok());
  EXPECT_EQ(follower.Poll().status().code(), StatusCode::kNotFound) << "another dataset";
}

TEST_F(DatasetStorageTest, AFollowerAsksNoMoreThanTheStampWhileNothingChanges) {
  const auto [faulty, copy] = Faulty(Make({}));
  StepFollower follower(copy);
  ASSERT_EQ(follower.Poll()->size(), 1u);
  faulty->ForgetCalls();
  ASSERT_TRUE(follower.Poll()->empty());
  EXPECT_EQ(faulty->Calls(Operation::kStat).size(), 1u);
  EXPECT_EQ(faulty->Calls(Operation::kList).size() + faulty->Calls(Operation::kOpen).size(), 0u);
}

/// Numbers from 0, for datasets of very small steps.
std::vector<std::uint64_t> FirstSteps(std::size_t count) {
  std::vector<std::uint64_t> steps(count);
  std::iota(steps.begin(), steps.end(), 0);
  return steps;
}
DatasetRecipe SmallSteps(std::size_t count) {
  return {.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1, .steps = FirstSteps(count)};
}

/// All steps until there are no more for now.
std::vector<std::uint64_t> PollAll(StepFollower* follower) {
  std::vector<std::uint64_t> numbers;
  while (true) {
    const auto steps = follower->Poll();
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    if (!steps.ok() || steps->empty()) return numbers;
    for (const auto& step : *steps) numbers.push_back(step->step);
  }
}

TEST_F(DatasetStorageTest, AFollowerListsTheFolderOnceForAnyNumberOfSteps) {
  std::vector<std::size_t> looks;
  for (const std::size_t count : {std::size_t{20}, std::size_t{80}}) {
    std::filesystem::remove_all(disk());
    const auto [faulty, copy] = Faulty(Make(SmallSteps(count)));
    ASSERT_TRUE(memory_->Remove("data/a.quarry/head").ok());
    StepFollower follower(copy);
    EXPECT_EQ(PollAll(&follower), FirstSteps(count));
    EXPECT_EQ(faulty->Calls(Operation::kList).size(), 1u);
    EXPECT_EQ(faulty->Calls(Operation::kOpen).size(), 2 + count) << "dataset.json, no head, each step once";
    looks.push_back(faulty->Calls(Operation::kStat).size());
  }
  // One for each step, one for each call of Poll with some of them, and a few for the dataset.
  EXPECT_LE(looks[1] - looks[0], 60 + 60 / 16 + 2);
}

TEST_F(DatasetStorageTest, AFollowerThatHasSeenManyStepsReadsOnlyTheNewOne) {
  MakeDataset(disk(), SmallSteps(41));
  const auto [faulty, copy] = Faulty(CopyOfDisk());
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000040", "data/kept").ok());
  StepFollower follower(copy);
  EXPECT_EQ(PollAll(&follower), FirstSteps(40));
  ASSERT_TRUE(memory_->Rename("data/kept", "data/a.quarry/steps/000040").ok());
  faulty->ForgetCalls();
  EXPECT_EQ(PollAll(&follower), std::vector<std::uint64_t>{40});
  EXPECT_EQ(faulty->Calls(Operation::kList).size(), 1u);
  EXPECT_EQ(faulty->Calls(Operation::kOpen).size(), 2u) << "dataset.json and the head";
}

TEST_F(DatasetStorageTest, AStepThatComesBetweenTheCallsOfAListingIsReturnedAfterIt) {
  MakeDataset(disk(), SmallSteps(40));
  const Location copy = CopyOfDisk();
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000005", "data/kept").ok());
  StepFollower follower(copy);
  std::vector<std::uint64_t> expected = FirstSteps(40);
  std::rotate(expected.begin() + 5, expected.begin() + 6, expected.end());

  std::vector<std::uint64_t> found;
  const auto some = follower.Poll();
  for (const auto& step : *some) found.push_back(step->step);
  ASSERT_LT(found.size(), 39u);
  ASSERT_TRUE(memory_->Rename("data/kept", "data/a.quarry/steps/000005").ok());
  EXPECT_TRUE(follower.Changed());
  const std::vector<std::uint64_t> rest = PollAll(&follower);
  found.insert(found.end(), rest.begin(), rest.end());

  EXPECT_EQ(found, expected);
  EXPECT_FALSE(follower.Changed());
}

TEST_F(DatasetStorageTest, AFollowerReturnsTheLastStepsAgainWhenAsked) {
  const Location copy = Make(SmallSteps(40));
  StepFollower follower(copy);
  std::vector<std::uint64_t> found;
  for (std::size_t calls = 0; found.size() < 40; ++calls) {
    const std::size_t first = follower.Poll()->front()->step;
    EXPECT_EQ(first, found.size());
    follower.Repeat();
    const auto again = follower.Poll();
    EXPECT_EQ(again->front()->step, first);
    for (const auto& step : *again) found.push_back(step->step);
    ASSERT_LT(calls, 40u);
  }
  EXPECT_EQ(found, FirstSteps(40));
  EXPECT_TRUE(follower.Poll()->empty());
}

TEST_F(DatasetStorageTest, AStepThatIsDeletedBetweenTheCallsOfAListingIsLeftOut) {
  const Location copy = Make(SmallSteps(40));
  ASSERT_TRUE(memory_->Remove("data/a.quarry/head").ok());
  StepFollower follower(copy);
  ASSERT_EQ(follower.Poll()->size(), 16u);
  ASSERT_TRUE(memory_->Remove("data/a.quarry/steps/000016").ok());
  std::vector<std::uint64_t> expected = FirstSteps(40);
  expected.erase(expected.begin(), expected.begin() + 17);

  EXPECT_EQ(PollAll(&follower), expected);
}

TEST_F(DatasetStorageTest, AStorageThatFailsForAWhileIsNoDatasetThatHasGone) {
  const auto [faulty, copy] = Faulty(Make({}));
  StepFollower follower(copy);
  ASSERT_EQ(follower.Poll()->size(), 1u);
  // The stamps of the folder of steps, and the look at the dataset.
  faulty->Add(Operation::kStat, "*", 1, 5, Fault::Fail(InternalError("no answer")));
  EXPECT_EQ(follower.Poll().status().message(), "no answer");
  EXPECT_EQ(follower.Poll()->size(), 0u);
}

/// Opens, plans and reads everything; damage is an error.
Result<std::vector<float>> Attempt(const Location& location) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(location));
  return testing::TryReadAll(*dataset, {.field = "pressure"});
}

TEST_F(DatasetStorageTest, EveryCallThatFailsEndsTheReadWithItsError) {
  const Location copy = Make({.missing = true});
  const auto [clean, counted] = Faulty(copy);
  const std::vector<float> expected = *Attempt(counted);
  for (const Operation operation : {Operation::kList, Operation::kOpen, Operation::kRead}) {
    const std::size_t calls = clean->Calls(operation).size();
    EXPECT_GT(calls, 0u);
    for (std::size_t n = 1; n <= calls; ++n) {
      const auto [faulty, location] = Faulty(copy);
      faulty->Add(operation, "*", n, 1, Fault::Fail(InternalError("the disk is gone")));
      const auto read = Attempt(location);
      if (IsOfCatalogue(clean->Calls(operation)[n - 1].path)) {
        EXPECT_TRUE(read.ok()) << read.status().message();
        continue;
      }
      EXPECT_EQ(read.status().code(), StatusCode::kInternal)
          << "call " << n << " of kind " << static_cast<int>(operation) << ": " << read.status().message();
      EXPECT_NE(read.status().message().find("the disk is gone"), std::string::npos);
      EXPECT_EQ(Bits(*Attempt(location)), Bits(expected)) << "the call after it is answered";
    }
  }
}

TEST_F(DatasetStorageTest, WhatCannotBeLookedAtIsNotMissing) {
  const Location copy = Make({});
  const Fault no_answer = Fault::Fail(InternalError("no answer"));
  {
    const auto [faulty, location] = Faulty(copy);
    faulty->Add(Operation::kStat, location.path, 1, 1, no_answer);
    faulty->Add(Operation::kOpen, "*/dataset.json", 1, 1, Fault::Fail(NotFound("gone")));
    EXPECT_EQ(Attempt(location).status().message(), "no answer");
  }
  const auto [faulty, location] = Faulty(copy);
  faulty->Add(Operation::kStat, "*/dataset.json", 1, 2, no_answer);
  EXPECT_TRUE(Attempt(location).ok()) << "reading it decides";
  faulty->Add(Operation::kOpen, "*/dataset.json", 1, 1, no_answer);
  EXPECT_EQ(Attempt(location).status().message(), "no answer");
}

TEST_F(DatasetStorageTest, TruncatedReadsAndBytesThatLieAreDamage) {
  const Location copy = Make({.missing = true});
  const auto [clean, counted] = Faulty(copy);
  const std::vector<float> expected = *Attempt(counted);
  const std::vector<testing::StorageCall> reads = clean->Calls(Operation::kRead);
  for (std::size_t n = 1; n <= reads.size(); ++n) {
    for (const Fault& fault : {Fault::Truncate(), Fault::Lie()}) {
      const std::string which = fmt::format("read {} of \"{}\"", n, reads[n - 1].path);
      const auto [once, once_location] = Faulty(copy);
      once->Add(Operation::kRead, "*", n, 1, fault);
      // The payload of a damaged batch is read again, patch by patch; correct payload gives an answer.
      const auto read = Attempt(once_location);
      if (read.ok()) {
        EXPECT_TRUE(reads[n - 1].path.ends_with(".qsf") || IsOfCatalogue(reads[n - 1].path)) << which;
        EXPECT_EQ(Bits(*read), Bits(expected)) << which;
      } else {
        const std::string& said = read.status().message();
        EXPECT_EQ(read.status().code(), StatusCode::kDataLoss) << which;
        EXPECT_NE(said.find(reads[n - 1].path), std::string::npos) << said;
      }
      const auto [always, always_location] = Faulty(copy);
      always->Add(Operation::kRead, "*", n, UINT64_MAX, fault);
      const Status status = Attempt(always_location).status();
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << which;
      EXPECT_NE(status.message().find(copy.path), std::string::npos) << status.message();
    }
  }
}

TEST_F(DatasetStorageTest, AFileThatIsCutShortIsDamage) {
  const Location copy = Make({.missing = true});
  for (const char* pattern : {"*/dataset.json", "*/step.json", "*/pressure/0001.qsf", "*/masks/*.qsf"}) {
    const auto [faulty, location] = Faulty(copy);
    faulty->Add(Operation::kOpen, pattern, 1, UINT64_MAX, Fault::Truncate());
    EXPECT_EQ(Attempt(location).status().code(), StatusCode::kDataLoss) << pattern;
  }
  // After its table was read.
  const auto [faulty, location] = Faulty(copy);
  faulty->Add(Operation::kOpen, "*/pressure/0001.qsf", 2, UINT64_MAX, Fault::Truncate());
  const Status status = Attempt(location).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("it is truncated"), std::string::npos) << status.message();
}

TEST_F(DatasetStorageTest, AReadWithSlowAnswersIsCancelledBetweenRanges) {
  const auto [faulty, location] = Faulty(Make({.files = 1}));
  const auto dataset = *Dataset::Open(location);
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure", .target = query::AtLevel{2}});
  ASSERT_GT(plan.cost.reads, 5u);
  faulty->ForgetCalls();
  bool cancelled = false;
  faulty->Add({Operation::kRead, "*", 3, 1, [&](const auto&) {
                 cancelled = true;  // while the storage is slow
                 return Fault{};
               }});
  ReadEngine engine(kMemory, 2);
  IgnoringSink sink;
  const Status status = ExecuteRead(
      *dataset, plan, &engine, [&] { return cancelled; }, &sink);

  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(faulty->Calls(Operation::kRead).size(), 3u);
  EXPECT_EQ(engine.store->state().pinned + engine.store->state().reads, 0u);
}

TEST_F(DatasetStorageTest, AnAnswerThatIsLateDelaysItsOwnReadOnly) {
  MakeDataset(disk(), {});
  const auto [faulty, location] = Faulty(Make({.field = "temperature"}));
  const auto dataset = *Dataset::Open(location);
  const query::ReadPlan slow = *dataset->Plan({.field = "temperature"});
  const query::ReadPlan quick = *dataset->Plan({.field = "pressure"});
  std::latch stalled(1), go(1);
  faulty->Add({Operation::kRead, "*/temperature/*", 1, 1, [&](const auto&) {
                 stalled.count_down();
                 go.wait();
                 return Fault{};
               }});
  ReadEngine engine(kMemory, 2);
  auto late = std::async(std::launch::async, [&] {
    IgnoringSink sink;
    return ExecuteRead(*dataset, slow, &engine, kNever, &sink);
  });
  stalled.wait();
  IgnoringSink sink;
  const Status status = ExecuteRead(*dataset, quick, &engine, kNever, &sink);
  go.count_down();

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(late.get().ok());
}

/// Number of reads from a storage, and their bytes.
struct Traffic {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
};
Traffic TrafficOf(const FaultyStorage& storage) {
  Traffic traffic;
  for (const testing::StorageCall& call : storage.Calls(Operation::kRead)) {
    ++traffic.reads;
    traffic.bytes += call.size;
  }
  return traffic;
}

TEST_F(DatasetStorageTest, TheCostIsWhatIsReadWhereMemoryIsPlentiful) {
  MakeDataset(disk(), {.dims = {70, 60, 50}, .missing = true});
  for (const Location& where : {Location(disk()), CopyOfDisk()}) {
    const auto [faulty, location] = Faulty(where);
    const auto dataset = *Dataset::Open(location);
    for (const query::ReadRequest& request :
         {query::ReadRequest{.field = "pressure"},
          query::ReadRequest{.field = "pressure", .target = query::AtLevel{2}},
          query::ReadRequest{.field = "pressure", .target = query::AtLevel{0}, .first_level = 3},
          query::ReadRequest{
              .field = "pressure", .box = Box{{3, 20, 7}, {60, 31, 40}}, .target = query::AtLevel{1}}}) {
      const query::ReadPlan plan = *dataset->Plan(request);
      ASSERT_GT(plan.cost.reads, 1u);
      ReadEngine engine(std::uint64_t{1} << 30, 2);
      faulty->ForgetCalls();
      IgnoringSink sink;
      ASSERT_TRUE(ExecuteRead(*dataset, plan, &engine, kNever, &sink).ok());
      EXPECT_EQ(TrafficOf(*faulty).reads, plan.cost.reads);
      EXPECT_EQ(TrafficOf(*faulty).bytes, plan.cost.bytes_read);

      ReadEngine plentiful(std::uint64_t{64} << 30, 2);
      faulty->ForgetCalls();
      IgnoringPayloadSink payload_sink;
      PayloadDamages damages;
      ASSERT_TRUE(
          ExecutePayloads(*dataset, plan, &plentiful, kNever, &payload_sink, {}, &damages, nullptr).ok());
      EXPECT_EQ(TrafficOf(*faulty).reads, plan.cost.reads);
      EXPECT_EQ(TrafficOf(*faulty).bytes, plan.cost.bytes_read);
    }
  }
}

/// The cost is that of plentiful memory: a reader that decodes an answer in parts cannot join as many
/// ranges, and reads some of them again.
TEST_F(DatasetStorageTest, LittleMemoryReadsMoreOften) {
  MakeDataset(disk(), {.dims = {70, 60, 50}});
  const auto [faulty, location] = Faulty(Location(disk()));
  const auto dataset = *Dataset::Open(location);
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure", .first_level = 3});
  ReadEngine little(std::uint64_t{640} << 10, 2);
  faulty->ForgetCalls();
  IgnoringSink sink;
  ASSERT_TRUE(ExecuteRead(*dataset, plan, &little, kNever, &sink).ok());
  EXPECT_GT(TrafficOf(*faulty).reads, plan.cost.reads);
  EXPECT_GE(TrafficOf(*faulty).bytes, plan.cost.bytes);
}

TEST_F(DatasetStorageTest, PlansReadThroughGapsThatTheirStorageWouldRatherReadThanSkip) {
  MakeDataset(disk(), {.dims = {70, 60, 50}, .files = 1});
  const query::ReadRequest request{.field = "pressure", .target = query::AtLevel{1}};
  const auto cost = [&](const Location& location) { return (*Dataset::Open(location))->Plan(request)->cost; };
  const query::Cost each = cost(CopyOfDisk(0));
  const query::Cost disk_like = cost(CopyOfDisk(8 << 10));
  const query::Cost all = cost(CopyOfDisk(1 << 30));

  EXPECT_EQ(each.bytes_read, each.bytes) << "payload and nothing else";
  EXPECT_GT(each.reads, 100u);
  EXPECT_EQ(all.reads, 1u);
  EXPECT_GT(all.bytes_read, each.bytes_read);
  const query::Cost posix = cost(disk());
  EXPECT_EQ(posix.reads, disk_like.reads);
  EXPECT_EQ(posix.bytes_read, disk_like.bytes_read);
  EXPECT_EQ(Bits(ReadAll(**Dataset::Open(CopyOfDisk(1 << 30)), request)),
            Bits(ReadAll(**Dataset::Open(CopyOfDisk(0)), request)));
}

}  // namespace
}  // namespace quarry
