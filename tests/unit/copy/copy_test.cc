// Copies that end at every moment, with readers meanwhile: to directories, and to a store in memory.
#include "writer/copy/copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/catalogue.h"
#include "quarry/storage/directory_writer.h"
#include "quarry/storage/posix_storage.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/faulty_writer.h"
#include "tests/testing/files_of.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_writer.h"
#include "writer/upkeep/pack.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;
using testing::DatasetRecipe;
using testing::FaultyWriter;
using testing::FilesOf;
using testing::MemoryStorage;
using testing::MemoryWriter;

/// Small, so that uploads have several parts.
constexpr std::uint64_t kPart = 4 << 10;

/// The files that a store and a directory have alike: a head says where the steps are listed.
std::map<std::string, Bytes> SameFilesOf(const Location& folder) {
  std::map<std::string, Bytes> files = FilesOf(folder);
  files.erase("head");
  return files;
}

/// A place that a test copies to.
class Place {
 public:
  virtual ~Place() = default;
  virtual CopyTarget target() = 0;
};

class Folder final : public Place {
 public:
  CopyTarget target() override {
    return {Location(folder_.path() / "copy.quarry"), std::make_shared<DirectoryWriter>(kPart)};
  }

 private:
  testing::TemporaryFolder folder_;
};

class Memory final : public Place {
 public:
  CopyTarget target() override {
    return {Location(storage_, "bucket/copy.quarry"), std::make_shared<MemoryWriter>(storage_, kPart)};
  }

 private:
  std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>(0, false);
};

std::unique_ptr<Place> MakePlace(bool in_memory) {
  if (in_memory) return std::make_unique<Memory>();
  return std::make_unique<Folder>();
}

/// A reader sees nothing of a dataset, or whole steps.
void ExpectWholeSteps(const Location& root, const std::set<std::uint64_t>& least) {
  const auto dataset = Dataset::Open(root);
  if (!dataset.ok()) {
    EXPECT_TRUE(least.empty()) << dataset.status().message();
    return;
  }
  const std::set<std::uint64_t> seen((*dataset)->steps().begin(), (*dataset)->steps().end());
  EXPECT_TRUE(std::ranges::includes(seen, least));
  const auto report = VerifyDataset(**dataset, [](std::uint64_t, std::uint64_t) {});
  ASSERT_TRUE(report.ok());
  for (const Status& damage : report->damage) ADD_FAILURE() << damage.message();
}

class CopyTest : public ::testing::TestWithParam<bool> {
 protected:
  CopyTest() : source_(folder_.path() / "source.quarry") {
    DatasetRecipe recipe;
    recipe.steps = {0, 1, 2};
    recipe.missing = true;
    recipe.files = 2;
    testing::MakeDataset(source_, recipe);
  }

  /// Copies with an end at each call, and completes each of them. The copy is what an uninterrupted one is.
  void KillAtEachCall(const CopyOptions& first, const CopyOptions& options) {
    std::map<std::string, Bytes> wanted;
    std::size_t moments = 0;
    for (std::size_t killed_at = 0; killed_at == 0 || killed_at <= moments; ++killed_at) {
      const auto place = MakePlace(GetParam());
      const CopyTarget target = place->target();
      std::set<std::uint64_t> least;
      if (first.steps) {
        ASSERT_TRUE(Copy(Location(source_), target, first).ok());
        least = {0};
      }
      std::size_t calls = 0;
      std::mutex mutex;
      const auto before = [&](const std::string& call) -> Status {
        const std::lock_guard lock(mutex);
        ++calls;
        if (killed_at > 0 && calls >= killed_at) return InternalError("killed before {}", call);
        return Status::Ok();
      };
      const CopyTarget faulty{target.root, std::make_shared<FaultyWriter>(target.storage, before)};
      const auto copied = Copy(Location(source_), faulty, options);
      ASSERT_EQ(copied.ok(), killed_at == 0) << copied.status().message();
      ExpectWholeSteps(target.root, least);
      if (killed_at > 0) {
        const auto resumed = Copy(Location(source_), target, options);
        ASSERT_TRUE(resumed.ok()) << resumed.status().message();
        ExpectWholeSteps(target.root, {0, 1, 2});
        EXPECT_TRUE(FilesOf(target.root) == wanted) << "killed at call " << killed_at;
      } else {
        moments = calls;
        wanted = FilesOf(target.root);
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(moments, 10U);
  }

  testing::TemporaryFolder folder_;
  const fs::path source_;
};

INSTANTIATE_TEST_SUITE_P(Places, CopyTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Store" : "Directory"; });

TEST_P(CopyTest, IsTheSameFiles) {
  const auto place = MakePlace(GetParam());
  const auto report = Copy(Location(source_), place->target(), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->steps, 3U);
  EXPECT_TRUE(SameFilesOf(place->target().root) == SameFilesOf(Location(source_)));
  const auto again = Copy(Location(source_), place->target(), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->there, 3U);
  EXPECT_EQ(again->objects, 0U);
}

TEST_P(CopyTest, AReaderAtEachMomentSeesWholeSteps) {
  const auto place = MakePlace(GetParam());
  const CopyTarget target = place->target();
  std::mutex mutex;
  std::size_t calls = 0;
  const auto before = [&](const std::string&) {
    const std::lock_guard lock(mutex);
    ++calls;
    ExpectWholeSteps(target.root, {});
    return Status::Ok();
  };
  CopyOptions options;
  const CopyTarget watched{target.root, std::make_shared<FaultyWriter>(target.storage, before)};
  options.steps = query::StepRange{0, 1, 1};
  ASSERT_TRUE(Copy(Location(source_), watched, options).ok());
  options.steps.reset();
  ASSERT_TRUE(Copy(Location(source_), watched, options).ok());
  EXPECT_GT(calls, 10U);
}

TEST_P(CopyTest, ResumesWhereverItWasKilled) { KillAtEachCall({}, {}); }

TEST_P(CopyTest, ResumesStepsOfADatasetThatIsThere) {
  CopyOptions first;
  first.steps = query::StepRange{0, 1, 1};
  KillAtEachCall(first, {});
}

TEST_P(CopyTest, ResumesPacks) {
  ASSERT_TRUE(Pack(source_, {.smaller_than = 1 << 20}, [](std::uint64_t, std::uint64_t) {}).ok());
  KillAtEachCall({}, {});
}

TEST_P(CopyTest, ADamagedPayloadIsRefusedByName) {
  const fs::path file = source_ / "steps/000001/pressure/0001.qsf";
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(200);
    damaged.put('\x7f');
  }
  const auto place = MakePlace(GetParam());
  const auto refused = Copy(Location(source_), place->target(), {});
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(refused.status().message().find("000001/pressure/0001.qsf"), std::string::npos)
      << refused.status().message();
  EXPECT_FALSE(Dataset::Open(place->target().root).ok());
  CopyOptions options;
  options.allow_damage = true;
  const auto copied = Copy(Location(source_), place->target(), options);
  ASSERT_TRUE(copied.ok()) << copied.status().message();
  ASSERT_EQ(copied->damage.size(), 1U);
  EXPECT_TRUE(SameFilesOf(place->target().root) == SameFilesOf(Location(source_)));
}

TEST_P(CopyTest, ADamagedPackIsRefusedByName) {
  ASSERT_TRUE(Pack(source_, {.smaller_than = 1 << 20}, [](std::uint64_t, std::uint64_t) {}).ok());
  const fs::path file = source_ / "steps/pack-0_1x2.qsp";
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    damaged.put('\x7f');
    damaged.put('\x7e');
  }
  const auto place = MakePlace(GetParam());
  const auto refused = Copy(Location(source_), place->target(), {});
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(refused.status().message().find("pressure/000"), std::string::npos) << refused.status().message();
  EXPECT_FALSE(Dataset::Open(place->target().root).ok());
}

TEST_P(CopyTest, AnotherDatasetIsRefused) {
  const auto place = MakePlace(GetParam());
  ASSERT_TRUE(Copy(Location(source_), place->target(), {}).ok());
  const auto before = FilesOf(place->target().root);
  const fs::path other = folder_.path() / "other.quarry";
  DatasetRecipe recipe;
  recipe.dims = {37, 22, 14};
  testing::MakeDataset(other, recipe);
  const auto refused = Copy(Location(other), place->target(), {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("grids differ"), std::string::npos);
  const fs::path finer = folder_.path() / "finer.quarry";
  recipe = {};
  recipe.tolerance = 1e-4;
  testing::MakeDataset(finer, recipe);
  EXPECT_NE(Copy(Location(finer), place->target(), {}).status().message().find("\"pressure\" differs"),
            std::string::npos);
  EXPECT_TRUE(FilesOf(place->target().root) == before);
}

TEST_P(CopyTest, AStepWithOtherContentsIsRefused) {
  const auto place = MakePlace(GetParam());
  ASSERT_TRUE(Copy(Location(source_), place->target(), {}).ok());
  const fs::path other = folder_.path() / "other.quarry";
  DatasetRecipe recipe;
  recipe.files = 3;
  recipe.missing = true;
  testing::MakeDataset(other, recipe);
  const auto refused = Copy(Location(other), place->target(), {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("step 0"), std::string::npos) << refused.status().message();
}

TEST_P(CopyTest, LittleMemoryIsRefusedAndEnoughIsTaken) {
  const auto place = MakePlace(GetParam());
  CopyOptions options;
  options.memory = kPart;
  EXPECT_EQ(Copy(Location(source_), place->target(), options).status().code(), StatusCode::kInvalidArgument);
  options.memory = 3 * kPart;
  EXPECT_TRUE(Copy(Location(source_), place->target(), options).ok());
}

TEST_P(CopyTest, ADryRunWritesNothing) {
  const auto place = MakePlace(GetParam());
  CopyOptions options;
  options.dry_run = true;
  const auto report = Copy(Location(source_), place->target(), options);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(place->target().root.Stat().ok());
  const auto copied = Copy(Location(source_), place->target(), {});
  ASSERT_TRUE(copied.ok());
  EXPECT_EQ(copied->bytes, report->bytes);
  EXPECT_EQ(copied->objects, report->objects);
}

TEST_P(CopyTest, LeftoversAreCleaned) {
  const auto place = MakePlace(GetParam());
  const CopyTarget target = place->target();
  std::size_t calls = 0;
  const auto before = [&](const std::string&) {
    return ++calls > 8 ? InternalError("killed") : Status::Ok();
  };
  CopyOptions options;
  options.memory = 3 * kPart;  // one file at a time
  const CopyTarget faulty{target.root, std::make_shared<FaultyWriter>(target.storage, before)};
  ASSERT_FALSE(Copy(Location(source_), faulty, options).ok());
  const auto removed = CleanCopy(target, {});
  ASSERT_TRUE(removed.ok());
  EXPECT_GT(*removed, 0U);
  const Location parent(target.root.storage, target.root.path.substr(0, target.root.path.rfind('/')));
  EXPECT_TRUE(FilesOf(parent).empty());
}

TEST(CopyToStore, TwoWritersAreToldApart) {
  const testing::TemporaryFolder folder;
  const fs::path one = folder.path() / "one.quarry", two = folder.path() / "two.quarry";
  DatasetRecipe recipe;
  testing::MakeDataset(one, recipe);
  recipe.tolerance = 1e-4;
  testing::MakeDataset(two, recipe);
  Memory place;
  const CopyTarget target = place.target();
  // The second copy begins and ends when the first one has written its first file.
  bool done = false;
  Status second;
  const auto before = [&](const std::string& call) {
    if (!done && call.ends_with("step.json")) {
      done = true;
      second = Copy(Location(two), target, {}).status();
    }
    return Status::Ok();
  };
  const CopyTarget watched{target.root, std::make_shared<FaultyWriter>(target.storage, before)};
  const auto first = Copy(Location(one), watched, {});
  EXPECT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition) << second.message();
  EXPECT_TRUE(SameFilesOf(target.root) == SameFilesOf(Location(one)));
}

/// Steps of a store, as its readers see them.
std::vector<std::uint64_t> StepsSeen(const CopyTarget& target) {
  const auto dataset = Dataset::Open(target.root);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  return dataset.ok() ? (*dataset)->steps() : std::vector<std::uint64_t>();
}

class AddToStore : public ::testing::Test {
 protected:
  AddToStore() : source_(folder_.path() / "source.quarry"), target_(place_.target()) {
    DatasetRecipe recipe{.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1};
    recipe.steps = {0, 10, 20, 30, 40, 50};
    testing::MakeDataset(source_, recipe);
  }

  Status Add(std::uint64_t first, std::uint64_t last, const CopyTarget& target) {
    CopyOptions options;
    options.steps = query::StepRange{first, last, 1};
    return Copy(Location(source_), target, options).status();
  }
  /// A target that calls a function before a file of this name is put.
  CopyTarget Before(const std::string& name, std::function<Status()> call) {
    auto before = [name, call = std::move(call)](const std::string& what) {
      return what.ends_with(name) ? call() : Status::Ok();
    };
    return {target_.root, std::make_shared<FaultyWriter>(target_.storage, std::move(before))};
  }

  testing::TemporaryFolder folder_;
  const fs::path source_;
  Memory place_;
  const CopyTarget target_;
};

TEST_F(AddToStore, StepsAreSeenWithTheHead) {
  ASSERT_TRUE(Add(0, 10, target_).ok());
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0}));
  std::vector<std::uint64_t> seen;
  const Status added = Add(0, 30, Before("/head", [&] {
                             seen = StepsSeen(target_);
                             return Status::Ok();
                           }));
  ASSERT_TRUE(added.ok()) << added.message();
  EXPECT_TRUE((target_.root / "steps/000010/step.json").Stat().ok());
  EXPECT_EQ(seen, std::vector<std::uint64_t>({0}));
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0, 10, 20}));
}

TEST_F(AddToStore, TwoProcessesAreToldApart) {
  ASSERT_TRUE(Add(0, 10, target_).ok());
  bool begun = false;
  const Status refused = Add(0, 20, Before("/head", [&] {
                               if (std::exchange(begun, true)) return Status::Ok();
                               return Add(0, 40, target_);
                             }));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused.message();
  EXPECT_NE(refused.message().find("run the command again"), std::string::npos);
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0, 10, 20, 30}));
  EXPECT_TRUE(Add(0, 60, target_).ok());
  ExpectWholeSteps(target_.root, {0, 10, 20, 30, 40, 50});
}

TEST_F(AddToStore, AnAnswerThatWasLostIsNoOtherProcess) {
  ASSERT_TRUE(Add(0, 10, target_).ok());
  // The request reaches the store, and is made again.
  const Status added = Add(0, 20, Before("/head", [&] { return Add(0, 20, target_); }));
  EXPECT_TRUE(added.ok()) << added.message();
}

TEST_F(AddToStore, WhatAKilledCopyHasLeftIsCleanedAndNeverSeen) {
  ASSERT_TRUE(Add(0, 20, target_).ok());
  ASSERT_FALSE(Add(0, 40, Before("/head", [] { return InternalError("killed"); })).ok());
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0, 10}));
  EXPECT_TRUE((target_.root / "steps/000030/step.json").Stat().ok());
  const auto removed = CleanCopy(target_, {});
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 4U) << "two files of each of two steps";
  EXPECT_FALSE((target_.root / "steps/000030/step.json").Stat().ok());
  ExpectWholeSteps(target_.root, {0, 10});
}

TEST_F(AddToStore, PacksAreSeenWithTheHead) {
  ASSERT_TRUE(Add(0, 20, target_).ok());
  PackOptions small{.smaller_than = 1 << 20};
  small.only = std::set<std::uint64_t>{20, 30, 40};
  ASSERT_TRUE(Pack(source_, small, [](std::uint64_t, std::uint64_t) {}).ok());
  ASSERT_FALSE(Add(0, 60, Before("/head", [] { return InternalError("killed"); })).ok());
  const std::string pack = "steps/pack-20_10x2.qsp";
  EXPECT_TRUE((target_.root / pack).Stat().ok());
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0, 10}));
  ASSERT_TRUE(CleanCopy(target_, {}).ok());
  EXPECT_FALSE((target_.root / pack).Stat().ok());
  const Status added = Add(0, 60, target_);
  ASSERT_TRUE(added.ok()) << added.message();
  EXPECT_TRUE((target_.root / pack).Stat().ok());
  ExpectWholeSteps(target_.root, {0, 10, 20, 30, 40, 50});
  EXPECT_TRUE(SameFilesOf(target_.root) == SameFilesOf(Location(source_)));
}

TEST_F(AddToStore, ADatasetThatIsNotCompleteIsNotCalledDamaged) {
  ASSERT_FALSE(Add(0, 10, Before("/dataset.json", [] { return InternalError("killed"); })).ok());
  const Status opened = Dataset::Open(target_.root).status();
  EXPECT_EQ(opened.code(), StatusCode::kNotFound) << opened.message();
  EXPECT_NE(opened.message().find("interrupted"), std::string::npos) << opened.message();
}

/// Opens dataset.json and the head, however many steps there are.
TEST_F(AddToStore, OpensWithoutAListAndWithoutPages) {
  DatasetRecipe recipe{.dims = {2, 2, 2}, .patch = {2, 2, 2}, .levels = 1, .files = 1};
  recipe.steps.resize(300);
  std::iota(recipe.steps.begin(), recipe.steps.end(), std::uint64_t{0});
  const fs::path many = folder_.path() / "many.quarry";
  testing::MakeDataset(many, recipe);
  ASSERT_TRUE(Copy(Location(many), target_, {}).ok());
  const auto calls = std::make_shared<testing::FaultyStorage>(target_.root.storage);
  const auto dataset = Dataset::Open(Location(calls, target_.root.path));

  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->steps().size(), 300U);
  EXPECT_TRUE(calls->Calls(testing::Operation::kList).empty());
  EXPECT_EQ(calls->Calls(testing::Operation::kOpen).size(), 3U) << "whether the head is current, too";
}

/// Steps that both catalogues say the same of are not looked at.
TEST_F(AddToStore, OneStepMoreIsOneStepJson) {
  ASSERT_TRUE(Add(0, 50, target_).ok());
  const auto calls = std::make_shared<testing::FaultyStorage>(target_.root.storage);
  const CopyTarget counted{Location(calls, target_.root.path), target_.storage};
  const auto added = Copy(Location(source_), counted, {});
  ASSERT_TRUE(added.ok()) << added.status().message();
  EXPECT_EQ(added->there, 5U);
  std::size_t manifests = 0;
  for (const testing::StorageCall& call : calls->Calls(testing::Operation::kOpen))
    manifests += call.path.ends_with("step.json") ? 1 : 0;
  EXPECT_EQ(manifests, 0U);
}

TEST_F(AddToStore, NamesAreListedWhereTheHeadDoesNotPublish) {
  const auto storage = std::make_shared<MemoryStorage>(0, false);
  ASSERT_TRUE(storage->CopyFolder(Location(source_), "tool/copy.quarry").ok());
  const CopyTarget target{Location(storage, "tool/copy.quarry"), std::make_shared<MemoryWriter>(storage)};
  EXPECT_EQ(StepsSeen(target).size(), 6U);
  // A program that does not know of heads has added a step, and removed the file.
  ASSERT_TRUE(Add(0, 20, target_).ok());
  ASSERT_TRUE(target_.storage->Remove((target_.root / "steps" / format::kCurrentFile).path).ok());
  ASSERT_TRUE(
      target_.storage->Put((target_.root / "steps/000099/step.json").path, {}, PutCondition::Always()).ok());
  EXPECT_EQ(StepsSeen(target_), std::vector<std::uint64_t>({0, 10, 99}));
  const Status refused = Add(0, 60, target_);
  EXPECT_NE(refused.message().find("no steps can be added"), std::string::npos) << refused.message();
}

TEST(CopyToStore, AStoreThatIgnoresConditionsIsSaid) {
  const testing::TemporaryFolder folder;
  testing::MakeDataset(folder.path() / "source.quarry", {});
  const auto storage = std::make_shared<MemoryStorage>();
  const CopyTarget target{Location(storage, "copy.quarry"),
                          std::make_shared<MemoryWriter>(storage, kPart, false)};
  const auto report = Copy(Location(folder.path() / "source.quarry"), target, {});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->keeps_conditions);
}

}  // namespace
}  // namespace quarry::writer
