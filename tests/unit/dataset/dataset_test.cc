#include "quarry/dataset/dataset.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <numeric>

#include "quarry/dataset/discovery.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "tests/testing/make_dataset.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using testing::DatasetRecipe;
using testing::MakeDataset;
using testing::MakeSamples;
using testing::ReadAll;

constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

class DatasetTest : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "a.quarry"; }
  std::shared_ptr<const Dataset> Open() const { return *Dataset::Open(path()); }
  testing::TemporaryFolder folder_;
};

/// Overwrites one byte of a file with its complement.
void DamageByte(const fs::path& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(~file.get());
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

class IgnoringSink : public BlockSink {
 public:
  Status Deliver(const SampleBlock&) override {
    ++blocks;
    return Status::Ok();
  }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
  int blocks = 0;
};

TEST_F(DatasetTest, ReadsBackWithinTheTolerance) {
  const DatasetRecipe recipe;
  MakeDataset(path(), recipe);
  const std::vector<float> decoded = ReadAll(*Open(), {.field = "pressure"});
  const std::vector<float> original = MakeSamples(recipe.dims, 0);

  ASSERT_EQ(decoded.size(), original.size());
  for (std::size_t i = 0; i < original.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(original[i]) - static_cast<double>(decoded[i])), recipe.tolerance);
  }
}

std::uint32_t Bits(float sample) { return std::bit_cast<std::uint32_t>(sample); }

/// Folders below masks/.
std::vector<fs::path> MasksOf(const fs::path& dataset) {
  std::vector<fs::path> masks;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(dataset / "masks", ignored))
    masks.push_back(entry.path());
  return masks;
}

TEST_F(DatasetTest, MissingSamplesComeBackBitByBitAtEveryLevel) {
  const DatasetRecipe recipe{.missing = true};
  MakeDataset(path(), recipe);
  const std::vector<float> original = MakeSamples(recipe.dims, 0, true);
  std::size_t missing = 0;
  for (int level = 0; level < recipe.levels; ++level) {
    const std::vector<float> decoded =
        ReadAll(*Open(), {.field = "pressure", .target = query::AtLevel{level}});
    const Index3 shape = LevelShape(recipe.dims, level);
    ASSERT_EQ(decoded.size(), static_cast<std::size_t>(Volume(shape)));
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const auto n = static_cast<std::int64_t>(i);
      const std::int64_t x = n % shape[0] << level;
      const std::int64_t y = n / shape[0] % shape[1] << level;
      const std::int64_t z = n / shape[0] / shape[1] << level;
      const float sample = original[static_cast<std::size_t>(x + recipe.dims[0] * (y + recipe.dims[1] * z))];
      if (std::isfinite(sample)) {
        ASSERT_TRUE(std::isfinite(decoded[i])) << "level " << level << " sample " << i;
        if (level == 0) {
          ASSERT_LE(std::abs(static_cast<double>(sample) - static_cast<double>(decoded[i])),
                    recipe.tolerance);
        }
      } else {
        ASSERT_EQ(Bits(decoded[i]), Bits(sample)) << "level " << level << " sample " << i;
        ++missing;
      }
    }
  }
  EXPECT_GT(missing, 1000u);
}

TEST_F(DatasetTest, CoarseToFineWithMissingSamplesEndsWithTheSameSamples) {
  for (const format::PayloadOrder order : {format::PayloadOrder::kLevel, format::PayloadOrder::kCoarse}) {
    const fs::path path = folder_.path() / fmt::format("{}.quarry", format::NameOf(order));
    MakeDataset(path, {.order = order, .missing = true});
    const auto dataset = *Dataset::Open(path);
    const std::vector<float> at_once = ReadAll(*dataset, {.field = "pressure"});
    const std::vector<float> progressive = ReadAll(*dataset, {.field = "pressure", .first_level = 3});
    ASSERT_EQ(at_once.size(), progressive.size());
    for (std::size_t i = 0; i < at_once.size(); ++i) ASSERT_EQ(Bits(at_once[i]), Bits(progressive[i]));
  }
}

TEST_F(DatasetTest, StepsAndFieldsWithTheSameMissingSamplesShareOneMask) {
  MakeDataset(path(), {.steps = {0, 1}, .missing = true});
  MakeDataset(path(), {.files = 1, .field = "temperature", .missing = true});
  MakeDataset(path(), {.field = "speed"});
  ASSERT_EQ(MasksOf(path()).size(), 1u);
  const auto dataset = Open();
  const auto first = *dataset->Step(0);
  EXPECT_EQ(first->FindField("pressure")->mask, first->FindField("temperature")->mask);
  EXPECT_EQ(first->FindField("pressure")->mask, (*dataset->Step(1))->FindField("pressure")->mask);
  EXPECT_FALSE(first->FindField("speed")->mask);
  EXPECT_EQ(VerifyDataset(*dataset, [](std::uint64_t, std::uint64_t) {})->masks, 1u);
}

TEST_F(DatasetTest, ADamagedMaskIsReportedWithItsPlace) {
  MakeDataset(path(), {.files = 1, .missing = true});
  const fs::path mask = MasksOf(path()).at(0);
  DamageByte(mask / "0000.qsf", format::SubfileHeader::kEncodedSize + 1);
  const auto dataset = Open();
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure"});
  ReadEngine engine(kMemory, 2);
  IgnoringSink sink;
  const Status status = ExecuteRead(
      *dataset, plan, &engine, [] { return false; }, &sink);

  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(mask.filename().string() + "/0000.qsf"), std::string::npos)
      << status.message();
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  EXPECT_EQ(VerifyDataset(*dataset, nothing)->damage.size(), 1u);

  fs::remove(mask / "0000.qsf");
  EXPECT_EQ(Open()->Plan({.field = "pressure"}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(VerifyDataset(*Open(), nothing)->damage.size(), 1u);
}

TEST_F(DatasetTest, TheMaskOfAnotherStepIsNoticed) {
  MakeDataset(path(), {.files = 1, .missing = true});
  MakeDataset(folder_.path() / "b.quarry", {.dims = {37, 22, 12}, .files = 1, .missing = true});
  fs::copy_file(MasksOf(folder_.path() / "b.quarry").at(0) / "0000.qsf", MasksOf(path()).at(0) / "0000.qsf",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(Open()->Plan({.field = "pressure"}).status().code(), StatusCode::kDataLoss);
}

TEST_F(DatasetTest, AMaskThatNoStepNeedsIsNoDamage) {
  MakeDataset(path(), {.missing = true});
  const fs::path mask = MasksOf(path()).at(0);
  fs::copy(mask, mask.parent_path() / "0123456789abcdef", fs::copy_options::recursive);
  fs::create_directories(mask.parent_path() / ".0000000000000001.partial");
  EXPECT_TRUE(VerifyDataset(*Open(), [](std::uint64_t, std::uint64_t) {})->damage.empty());
}

TEST_F(DatasetTest, CoarseToFineEndsWithTheSameSamples) {
  MakeDataset(path(), {});
  const auto dataset = Open();
  EXPECT_EQ(ReadAll(*dataset, {.field = "pressure", .first_level = 3}),
            ReadAll(*dataset, {.field = "pressure"}));
}

TEST_F(DatasetTest, AllPayloadOrdersAndAnyNumberOfFilesGiveTheSameSamples) {
  MakeDataset(path(), {});
  const std::vector<float> expected = ReadAll(*Open(), {.field = "pressure", .target = query::AtLevel{1}});
  for (const format::PayloadOrder order : {format::PayloadOrder::kLevel, format::PayloadOrder::kCoarse}) {
    const fs::path other = folder_.path() / fmt::format("{}.quarry", format::NameOf(order));
    MakeDataset(other, {.order = order, .files = 1});
    EXPECT_EQ(ReadAll(**Dataset::Open(other), {.field = "pressure", .target = query::AtLevel{1}}), expected);
  }
}

TEST_F(DatasetTest, QuestionsThatCannotBeAnsweredSayWhy) {
  MakeDataset(path(), {.steps = {3, 5}});
  const auto dataset = Open();
  const auto status = [&](query::ReadRequest request) { return dataset->Plan(request).status(); };
  EXPECT_EQ(dataset->Plan({.field = "pressure"})->query.step, 3u) << "the first step that has the field";
  EXPECT_EQ(status({.field = "speed"}).code(), StatusCode::kNotFound);
  EXPECT_NE(status({.field = "speed"}).message().find("pressure"), std::string::npos)
      << "names the fields that there are";
  EXPECT_EQ(status({.field = "pressure", .step = 4}).code(), StatusCode::kNotFound);
  EXPECT_EQ(status({.field = "pressure", .target = query::AtLevel{4}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status({.field = "pressure", .target = query::AtLevel{-1}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status({.field = "pressure", .target = query::AtLevel{2}, .first_level = 1}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(status({.field = "pressure", .box = Box{{0, 0, 0}, {38, 1, 1}}}).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DatasetTest, AQuestionIsCompletedByTheDataset) {
  MakeDataset(path(), {});
  const auto dataset = Open();
  const query::Query named = dataset
                                 ->Plan({.field = "pressure",
                                         .box = Box{{1, 2, 3}, {37, 20, 13}},
                                         .target = query::AtLevel{1},
                                         .first_level = 3})
                                 ->query;
  const query::ReadRequest open{.box = Box{{1, 2, 3}, {query::kGridEnd, 20, query::kGridEnd}},
                                .target = query::AtLevel{1},
                                .first_level = query::kCoarsestLevel};
  const query::Query completed = dataset->Plan(open)->query;
  EXPECT_EQ(completed.field_number, named.field_number);
  EXPECT_EQ(completed.box, named.box);
  EXPECT_EQ(completed.first_level, named.first_level);
  query::ReadRequest beyond = open;
  beyond.box->begin[2] = 13;
  EXPECT_EQ(dataset->Plan(beyond).status().code(), StatusCode::kInvalidArgument);
  query::ReadRequest too_deep = open;
  too_deep.target = query::AtLevel{4};
  EXPECT_EQ(dataset->Plan(too_deep).status().code(), StatusCode::kInvalidArgument);

  MakeDataset(path(), {.steps = {1}, .field = "speed"});
  const Status unclear = Open()->Plan(open).status();
  EXPECT_EQ(unclear.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unclear.message().find("pressure, speed"), std::string::npos) << unclear.message();
}

TEST_F(DatasetTest, DamagedPayloadIsReportedWithItsPlace) {
  MakeDataset(path(), {.files = 1});
  const fs::path subfile = path() / "steps/000000/pressure/0000.qsf";
  DamageByte(subfile, format::SubfileHeader::kEncodedSize + 20);
  const auto dataset = Open();
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure"});
  ReadEngine engine(kMemory, 2);
  IgnoringSink sink;
  const Status status = ExecuteRead(
      *dataset, plan, &engine, [] { return false; }, &sink);

  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("0000.qsf"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("patch 0"), std::string::npos) << status.message();
}

TEST_F(DatasetTest, ASubfileOfAnotherStepIsNoticed) {
  MakeDataset(path(), {.files = 1, .steps = {0, 1}});
  fs::copy_file(path() / "steps/000000/pressure/0000.qsf", path() / "steps/000001/pressure/0000.qsf",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(Open()->Plan({.field = "pressure", .step = 1}).status().code(), StatusCode::kDataLoss);
}

TEST_F(DatasetTest, CancellationStopsTheRead) {
  MakeDataset(path(), {});
  const auto dataset = Open();
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure"});
  ReadEngine engine(kMemory, 1);
  IgnoringSink sink;
  const Status status = ExecuteRead(
      *dataset, plan, &engine, [&] { return sink.blocks >= 2; }, &sink);

  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(sink.blocks, 2);
}

TEST_F(DatasetTest, AFieldCanBeAddedToAPublishedStep) {
  MakeDataset(path(), {});
  MakeDataset(path(), {.tolerance = 0.5, .field = "temperature"});
  const auto dataset = Open();

  EXPECT_EQ(dataset->steps(), (std::vector<std::uint64_t>{0}));
  EXPECT_TRUE(dataset->Plan({.field = "pressure"}).ok());
  EXPECT_TRUE(dataset->Plan({.field = "temperature"}).ok());
}

TEST_F(DatasetTest, StagingFoldersAreNoSteps) {
  MakeDataset(path(), {});
  fs::create_directories(path() / "steps/.partial-7/pressure");
  EXPECT_EQ(Open()->steps(), (std::vector<std::uint64_t>{0}));
}

TEST_F(DatasetTest, VerifyFindsEveryDamagedFile) {
  MakeDataset(path(), {.files = 2, .steps = {0, 1}});
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  EXPECT_TRUE(VerifyDataset(*Open(), nothing)->damage.empty());

  DamageByte(path() / "steps/000000/pressure/0001.qsf", format::SubfileHeader::kEncodedSize + 5);
  DamageByte(path() / "steps/000001/step.json", 30);
  const VerifyReport report = *VerifyDataset(*Open(), nothing);
  EXPECT_EQ(report.damage.size(), 2u);
}

TEST_F(DatasetTest, DiscoveryFindsNestedDatasetsAndSkipsStaging) {
  MakeDataset(path(), {});
  fs::create_directories(folder_.path() / "runs/deep");
  MakeDataset(folder_.path() / "runs/deep/b.quarry", {});
  fs::copy(path(), folder_.path() / ".c.quarry.partial", fs::copy_options::recursive);
  const std::vector<FoundDataset> found = *FindDatasets(folder_.path());

  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].name, "runs/deep/b");
}

std::vector<std::uint64_t> Numbers(StepFollower* follower) {
  const auto steps = follower->Poll();
  EXPECT_TRUE(steps.ok()) << steps.status().message();
  std::vector<std::uint64_t> numbers;
  for (const auto& step : *steps) numbers.push_back(step->step);
  return numbers;
}

TEST_F(DatasetTest, AFollowerGetsEveryStepOnce) {
  using Steps = std::vector<std::uint64_t>;
  MakeDataset(path(), {.steps = {3, 7}});
  StepFollower all(path());
  StepFollower later(path(), 7);
  EXPECT_EQ(Numbers(&all), (Steps{3, 7}));
  EXPECT_EQ(Numbers(&later), Steps{});
  // Steps within one tick of the file system's clock, and one with a smaller number than the previous ones.
  for (const std::uint64_t step : {8, 9, 5, 10}) {
    MakeDataset(path(), {.steps = {step}});
    EXPECT_EQ(Numbers(&all), Steps{step});
    EXPECT_EQ(Numbers(&later), step > 7 ? Steps{step} : Steps{});
  }
  EXPECT_EQ(Numbers(&all), Steps{});
}

TEST_F(DatasetTest, AFollowerGetsManyStepsAFewAtATime) {
  std::vector<std::uint64_t> steps(40);
  std::iota(steps.begin(), steps.end(), 0);
  MakeDataset(path(), {.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1, .steps = steps});
  StepFollower follower(path());
  std::vector<std::uint64_t> all;
  std::size_t calls = 0;
  for (auto some = Numbers(&follower); !some.empty(); some = Numbers(&follower), ++calls)
    all.insert(all.end(), some.begin(), some.end());
  EXPECT_EQ(all, steps);
  EXPECT_GT(calls, 1u);
}

TEST_F(DatasetTest, AFollowerSeesNoHalfWrittenStepAndTriesADamagedOneAgain) {
  MakeDataset(path(), {.steps = {0}});
  StepFollower follower(path());
  EXPECT_EQ(Numbers(&follower).size(), 1U);
  fs::create_directories(path() / "steps" / ".staging-1");
  EXPECT_TRUE(Numbers(&follower).empty());
  MakeDataset(path(), {.steps = {1, 2}});
  fs::remove(path() / format::kHeadFile);  // so that steps are read from step.json
  const fs::path manifest = path() / format::StepFolder(2) / "step.json";
  fs::rename(manifest, path() / "kept");
  EXPECT_EQ(Numbers(&follower), std::vector<std::uint64_t>{1});
  EXPECT_EQ(follower.Poll().status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(follower.Poll().status().code(), StatusCode::kDataLoss);
  fs::rename(path() / "kept", manifest);
  EXPECT_EQ(Numbers(&follower), std::vector<std::uint64_t>{2});
}

TEST_F(DatasetTest, AFollowerTellsAnotherDatasetInTheSamePlace) {
  MakeDataset(path(), {.steps = {0}});
  StepFollower follower(path());
  EXPECT_EQ(Numbers(&follower).size(), 1U);
  const fs::path old = path().string() + ".old";
  fs::rename(path(), old);
  EXPECT_EQ(follower.Poll().status().code(), StatusCode::kNotFound);
  MakeDataset(path(), {.steps = {0, 1}});
  const auto replaced = follower.Poll();
  EXPECT_EQ(replaced.status().code(), StatusCode::kNotFound);
  EXPECT_NE(replaced.status().message().find("another is in its place"), std::string::npos);
  fs::remove_all(path());
  fs::rename(old, path());
  EXPECT_TRUE(Numbers(&follower).empty());
}

}  // namespace
}  // namespace quarry
