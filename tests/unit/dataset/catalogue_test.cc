// Lists of steps from the catalogue: the same as from step.json, in few files, whatever has happened to
// either.
#include "quarry/dataset/catalogue.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "quarry/base/file.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "writer/upkeep/upgrade.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

using testing::DatasetRecipe;
using testing::FaultyStorage;
using testing::MakeDataset;
using testing::Operation;

DatasetRecipe SmallSteps(std::size_t count, std::uint64_t first = 0) {
  DatasetRecipe recipe{.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1};
  recipe.steps.resize(count);
  std::iota(recipe.steps.begin(), recipe.steps.end(), first);
  return recipe;
}

std::vector<StepSummary> SummariesOf(const Dataset& dataset) {
  std::vector<StepSummary> steps;
  Catalogue::Hold hold;
  for (const std::uint64_t number : dataset.steps()) {
    Result<StepSummary> step = dataset.Summary(number, &hold);
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (step.ok()) steps.push_back(*std::move(step));
  }
  return steps;
}

class CatalogueTest : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path current() const { return path() / "steps" / format::kCurrentFile; }
  fs::path page() const { return fs::directory_iterator(path() / format::kCatalogueFolder)->path(); }

  /// The same from a copy that has no catalogue.
  std::vector<StepSummary> Expected() const {
    const fs::path copy = folder_.path() / "copy.quarry";
    fs::remove_all(copy);
    fs::copy(path(), copy, fs::copy_options::recursive);
    fs::remove(copy / format::kHeadFile);
    return SummariesOf(**Dataset::Open(copy));
  }

  void ExpectTheSame(const std::string& when) const {
    EXPECT_TRUE(SummariesOf(**Dataset::Open(path())) == Expected()) << when;
  }

  /// Opened files of a list of all steps.
  std::size_t OpensOfAList() const {
    const Location on_disk(path());
    const auto counted = std::make_shared<FaultyStorage>(on_disk.storage);
    SummariesOf(**Dataset::Open(Location(counted, on_disk.path)));
    return counted->Calls(Operation::kOpen).size();
  }

  VerifyReport Verify() const {
    return *VerifyDataset(**Dataset::Open(path()), [](std::uint64_t, std::uint64_t) {});
  }

  /// As a program of before the catalogue does: takes the lock, clears what a crash has left, and changes.
  void AsOlderWriter(const std::function<void()>& change) {
    for (const auto& entry : fs::directory_iterator(path() / "steps")) {
      if (entry.path().filename().string().starts_with(".partial-")) fs::remove_all(entry.path());
    }
    change();
  }

  void ReplaceManifest(std::uint64_t number, const std::function<void(StepDescription*)>& change) {
    const auto dataset = *Dataset::Open(path());
    StepDescription step = *dataset->LoadStep(number);
    change(&step);
    const std::string text = format::EncodeManifest(step);
    const fs::path file = path() / format::StepFolder(number) / "step.json";
    ASSERT_TRUE(ReplaceFile(file, std::as_bytes(std::span(text))).ok());
  }

  void FlipLastBit(const fs::path& file) {
    std::string text = *ReadTextFile(file, 1 << 20);
    text.back() = static_cast<char>(text.back() ^ 1);
    ASSERT_TRUE(ReplaceFile(file, std::as_bytes(std::span(text))).ok());
  }

  /// The records that a catalogue written now would have, in one page.
  format::EncodedPage PageOfAll() const {
    const auto dataset = *Dataset::Open(path());
    std::vector<format::StepRecord> records;
    for (const std::uint64_t step : dataset->steps()) records.push_back(*dataset->LoadRecord(step));
    return format::EncodePage(records);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CatalogueTest, AListOfStepsOpensAFewFilesForAnyNumber) {
  MakeDataset(path(), SmallSteps(20));
  ExpectTheSame("20 steps");
  EXPECT_EQ(OpensOfAList(), 2u) << "dataset.json and the head";
  MakeDataset(path(), SmallSteps(280, 20));
  ExpectTheSame("300 steps");
  EXPECT_EQ(OpensOfAList(), 3u) << "and a page";
  EXPECT_EQ(Verify().records, 300u);
}

TEST_F(CatalogueTest, OneStepOfManyOpensItsFilesAlone) {
  MakeDataset(path(), SmallSteps(300));
  const Location on_disk(path());
  const auto counted = std::make_shared<FaultyStorage>(on_disk.storage);
  const auto dataset = *Dataset::Open(Location(counted, on_disk.path));
  testing::ReadAll(*dataset, {.field = "pressure", .step = 150});

  EXPECT_EQ(counted->Calls(Operation::kOpen).size(), 4u) << "dataset.json, step.json, subfile twice";
}

TEST_F(CatalogueTest, SummariesHaveMasksLayersAndTimes) {
  MakeDataset(path(), {.steps = {3, 7, 1'000'000},
                       .coder = CoderId::kInterpolate,
                       .missing = true,
                       .rougher = {0.1},
                       .time_unit = {"days since 2001-01-01", ""}});
  const std::vector<StepSummary> steps = SummariesOf(**Dataset::Open(path()));

  ExpectTheSame("with a mask");
  EXPECT_EQ(OpensOfAList(), 2u);
  EXPECT_EQ(steps[1].time, 3.5);
  EXPECT_TRUE(steps[2].fields[0].mask);
  EXPECT_EQ(steps[2].fields[0].rougher.size(), 1u);
  EXPECT_NE(steps[2].checksum, 0u);
}

TEST_F(CatalogueTest, AFieldThatIsAddedToAStepIsInItsRecord) {
  MakeDataset(path(), SmallSteps(4));
  DatasetRecipe more = SmallSteps(2, 1);
  more.field = "other";
  MakeDataset(path(), more);

  ExpectTheSame("with another field");
  EXPECT_EQ(OpensOfAList(), 2u);
  EXPECT_TRUE(fs::exists(current()));
}

TEST_F(CatalogueTest, WhatAnOlderWriterAppendsOrChangesIsRead) {
  MakeDataset(path(), SmallSteps(4));
  fs::copy(path() / "steps/000003", folder_.path() / "new", fs::copy_options::recursive);
  AsOlderWriter([&] { fs::remove_all(path() / "steps/000003"); });
  ExpectTheSame("after a removal");
  // A number that was removed is used again, for something else of the same size.
  AsOlderWriter([&] {
    fs::rename(folder_.path() / "new", path() / "steps/000003");
    ReplaceManifest(3, [](StepDescription* step) { step->fields[0].min += 0.25; });
  });
  ExpectTheSame("after it was used again");
  AsOlderWriter([&] { ReplaceManifest(1, [](StepDescription* step) { step->time = 0.5; }); });
  ExpectTheSame("after a change");
  EXPECT_EQ(SummariesOf(**Dataset::Open(path()))[1].time, 0.5);
  EXPECT_EQ(Verify().damage.size(), 0u) << "no reader trusts the records";
}

TEST_F(CatalogueTest, TheNextWriterTrustsWhatItHasComparedAgain) {
  MakeDataset(path(), SmallSteps(4));
  AsOlderWriter([&] { ReplaceManifest(1, [](StepDescription* step) { step->time = 0.5; }); });
  EXPECT_EQ(OpensOfAList(), 7u)
      << "dataset.json, head, the end of each step.json, and the one that is another";
  MakeDataset(path(), SmallSteps(1, 4));

  ExpectTheSame("after a newer writer");
  EXPECT_EQ(OpensOfAList(), 2u);
}

TEST_F(CatalogueTest, StepsThatAreCopiedInOrRemovedByHandAreSeen) {
  MakeDataset(path(), SmallSteps(4));
  fs::rename(path() / "steps/000002", folder_.path() / "kept");
  ExpectTheSame("after a removal");
  EXPECT_EQ(SummariesOf(**Dataset::Open(path())).size(), 3u);
  fs::rename(folder_.path() / "kept", path() / "steps/000009");
  const auto dataset = *Dataset::Open(path());
  Catalogue::Hold hold;
  EXPECT_EQ(dataset->steps().size(), 4u);
  EXPECT_EQ(dataset->Summary(9, &hold).status().code(), StatusCode::kDataLoss) << "it says that it is step 2";
}

TEST_F(CatalogueTest, AStepWithoutARecordIsReadFromItsManifest) {
  MakeDataset(path(), SmallSteps(4));
  fs::copy(path() / format::kHeadFile, folder_.path() / "head");
  MakeDataset(path(), SmallSteps(2, 4));
  // As after a crash between the rename of a step and that of the head.
  fs::copy(folder_.path() / "head", path() / format::kHeadFile, fs::copy_options::overwrite_existing);

  ExpectTheSame("with an older head");
  EXPECT_EQ(OpensOfAList(), 4u) << "and two step.json";
}

TEST_F(CatalogueTest, DamageCostsTimeAndNoAnswers) {
  MakeDataset(path(), SmallSteps(300));
  const fs::path page_file = page();
  const fs::path head_file = path() / format::kHeadFile;
  for (const fs::path& file : {page_file, head_file}) {
    FlipLastBit(file);
    ExpectTheSame(file.string());
    const VerifyReport report = Verify();
    ASSERT_EQ(report.damage.size(), 1u);
    EXPECT_NE(report.damage[0].message().find(file.string()), std::string::npos)
        << report.damage[0].message();
    EXPECT_NE(report.damage[0].message().find("quarry upgrade"), std::string::npos);
    FlipLastBit(file);
  }
  fs::remove(page_file);
  ExpectTheSame("without a page");
  EXPECT_EQ(Verify().damage.size(), 1u);
}

TEST_F(CatalogueTest, ADamagedPageDoesNotUncoverOlderRecords) {
  MakeDataset(path(), SmallSteps(4));
  const format::EncodedPage older = PageOfAll();
  DatasetRecipe more = SmallSteps(4);
  more.field = "other";
  MakeDataset(path(), more);
  const format::EncodedPage newer = PageOfAll();
  fs::create_directories(path() / format::kCatalogueFolder);
  for (const format::EncodedPage* page : {&older, &newer})
    ASSERT_TRUE(ReplaceFile(path() / format::PagePath(page->ref.name), page->bytes).ok());
  const Bytes head =
      format::EncodeHead({.steps = 4, .pages = {older.ref, newer.ref}}, format::RecordEncoder());
  ASSERT_TRUE(ReplaceFile(path() / format::kHeadFile, head).ok());
  ExpectTheSame("with two pages");
  for (const format::EncodedPage* page : {&older, &newer}) {
    const fs::path file = path() / format::PagePath(page->ref.name);
    FlipLastBit(file);
    ExpectTheSame(file.string());
    FlipLastBit(file);
  }
}

TEST_F(CatalogueTest, VerifyFindsARecordThatIsWrongAndTrusted) {
  MakeDataset(path(), SmallSteps(4));
  ReplaceManifest(1, [](StepDescription* step) { step->time = 0.5; });
  const VerifyReport report = Verify();

  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_NE(report.damage[0].message().find("step 1"), std::string::npos) << report.damage[0].message();
}

TEST_F(CatalogueTest, AnUpgradeMakesTheCatalogueOfAnyDataset) {
  MakeDataset(path(), SmallSteps(300));
  const Bytes whole = *ReadWholeFile(path() / format::kHeadFile, 1 << 20);
  const auto none = [](std::uint64_t, std::uint64_t) {};
  fs::remove_all(path() / format::kCatalogueFolder);
  fs::remove(path() / format::kHeadFile);
  fs::remove(current());
  ASSERT_EQ(OpensOfAList(), 302u) << "dataset.json, the head that is not there, and every step";
  const writer::UpgradeReport first = *writer::Upgrade(path(), none);
  const writer::UpgradeReport second = *writer::Upgrade(path(), none);

  EXPECT_EQ(OpensOfAList(), 3u);
  EXPECT_EQ(*ReadWholeFile(path() / format::kHeadFile, 1 << 20), whole) << "as the writer makes it";
  EXPECT_TRUE(first.changed);
  EXPECT_FALSE(second.changed);
  EXPECT_EQ(first.records, 300u);
  EXPECT_EQ(first.pages, 1u);
}

TEST_F(CatalogueTest, AnUpgradeLeavesOutDamagedSteps) {
  MakeDataset(path(), SmallSteps(4));
  FlipLastBit(path() / "steps/000002/step.json");
  const auto report = writer::Upgrade(path(), [](std::uint64_t, std::uint64_t) {});

  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->damage.size(), 1u);
  EXPECT_EQ(report->records, 3u);
  Catalogue::Hold hold;
  const auto dataset = *Dataset::Open(path());
  EXPECT_TRUE(dataset->Summary(3, &hold).ok());
  EXPECT_EQ(dataset->Summary(2, &hold).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry
