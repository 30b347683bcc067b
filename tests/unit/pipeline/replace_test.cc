#include "writer/pipeline/replace.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "quarry/format/manifest.h"
#include "tests/testing/make_dataset.h"

namespace {
bool can_exchange = true;
}

/// Takes the place of the system's: some file systems cannot exchange two folders.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (can_exchange)
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = EINVAL;
  return -1;
}

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

class ReplaceTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    can_exchange = GetParam();
    testing::MakeDataset(path(), {.steps = {0}});
  }
  void TearDown() override { can_exchange = true; }
  fs::path path() const { return folder_.path() / "a.quarry"; }

  std::vector<std::uint64_t> Steps() const {
    std::vector<std::uint64_t> steps;
    for (const auto& entry : fs::directory_iterator(path() / "steps"))
      if (const auto step = format::StepOfFolder(entry.path().filename())) steps.push_back(*step);
    return steps;
  }
  std::size_t Entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  testing::TemporaryFolder folder_;
};

TEST_P(ReplaceTest, AnIndexGoesWithItsDataset) {
  fs::create_directory(path() / "index");
  std::ofstream(path() / "index" / "seal.json") << "{}";
  auto replacement = Replacement::Begin(path());
  ASSERT_TRUE(replacement.ok()) << replacement.status().message();
  testing::MakeDataset(replacement->staged(), {.steps = {7}});

  ASSERT_TRUE(replacement->Publish().ok());

  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{7});
  EXPECT_FALSE(fs::exists(path() / "index"));
  EXPECT_EQ(Entries(), 1u);
}

TEST_P(ReplaceTest, TheNewOneTakesThePlaceAndNothingElseIsLeft) {
  auto replacement = Replacement::Begin(path());
  ASSERT_TRUE(replacement.ok()) << replacement.status().message();
  testing::MakeDataset(replacement->staged(), {.steps = {7}});
  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{0});

  ASSERT_TRUE(replacement->Publish().ok());

  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{7});
  EXPECT_EQ(Entries(), 1);
}

TEST_P(ReplaceTest, TheOldOneStaysWithoutPublish) {
  {
    auto replacement = Replacement::Begin(path());
    testing::MakeDataset(replacement->staged(), {.steps = {7}});
  }

  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{0});
  EXPECT_EQ(Entries(), 1);
}

TEST_P(ReplaceTest, TheOldOneStaysIfThereIsNoNewOne) {
  auto replacement = Replacement::Begin(path());

  EXPECT_FALSE(replacement->Publish().ok());

  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{0});
  EXPECT_EQ(Entries(), 1);
}

TEST_P(ReplaceTest, WhatIsNoDatasetIsNotReplaced) {
  std::ofstream(path() / "notes.txt") << "mine";
  const Status with_notes = Replacement::Begin(path()).status();
  fs::remove(path() / "notes.txt");
  fs::remove(path() / "dataset.json");
  const Status without_manifest = Replacement::Begin(path()).status();

  EXPECT_EQ(with_notes.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(with_notes.message().find("holds \"notes.txt\""), std::string::npos) << with_notes.message();
  EXPECT_EQ(without_manifest.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Steps(), std::vector<std::uint64_t>{0});
}

TEST_P(ReplaceTest, NobodyElseWritesMeanwhile) {
  const auto replacement = Replacement::Begin(path());

  EXPECT_EQ(Replacement::Begin(path(), {.timeout_seconds = 0}).status().code(), StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, ReplaceTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "exchange" : "rename"; });

}  // namespace
}  // namespace quarry::writer
