// The writer on storages that a test watches, in directories and in a store in memory: readers at each call,
// and an end at each call. The whole pipeline on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/verify.h"
#include "quarry/storage/directory_writer.h"
#include "tests/testing/faulty_writer.h"
#include "tests/testing/files_of.h"
#include "tests/testing/memory_writer.h"
#include "tests/testing/temporary_folder.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/redistribute/copy_part.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

using testing::FaultyWriter;
using testing::FilesOf;
using testing::MemoryStorage;
using testing::MemoryWriter;

/// Small, so that uploads have several parts.
constexpr std::uint64_t kPart = 2 << 10;
constexpr Index3 kDims = {33, 20, 17};
constexpr std::size_t kSamples = 33 * 20 * 17;
const std::vector<std::uint64_t> kSteps = {0, 3, 4};

/// An array in memory.
class ArraySource final : public FieldSource {
 public:
  explicit ArraySource(std::vector<float> samples) : samples_(std::move(samples)) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::ListedBoxes>(distribution::Ownership{{region}});
  }
  bool in_pieces() const override { return false; }
  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override {
    const BoxView all = BoxView::Dense(samples_.data(), {{0, 0, 0}, kDims}, sizeof(float));
    std::vector<BoxView> views;
    for (const Box& box : boxes)
      views.push_back({redistribute::FirstSample(all, {{0, 0, 0}, kDims}, box), all.stride});
    return views;
  }

 private:
  const std::vector<float> samples_;
};

std::vector<float> SamplesOf(std::uint64_t step, std::size_t field) {
  std::vector<float> samples(kSamples);
  for (std::size_t i = 0; i < kSamples; ++i)
    samples[i] = std::sin(0.01f * static_cast<float>(i % 997) + static_cast<float>(step + 10 * field));
  // A mask for each step but the last, which has that of the first.
  if (field == 0) {
    for (std::size_t i = 0; i < 40 + 100 * (step % 4); ++i) samples[100 + 3 * i] = std::nanf("");
  }
  return samples;
}

DatasetDescription DescriptionOf(const std::vector<std::string>& fields) {
  DatasetDescription dataset;
  dataset.grids[0].dims = kDims;
  dataset.grids[0].patch = {16, 8, 8};
  dataset.grids[0].levels = 3;
  dataset.order = format::PayloadOrder::kCoarse;
  for (const std::string& name : fields) {
    FieldDescription field;
    field.name = name;
    field.type = DataType::kFloat32;
    field.coder = CoderId::kInterpolate;
    field.bound = AbsoluteBound{1e-4};
    dataset.fields.push_back(field);
  }
  return dataset;
}

/// The task of a run of the writer.
struct Plan {
  std::vector<std::uint64_t> steps = kSteps;
  std::vector<std::string> fields = {"a", "b"};
};

/// Writes what is missing of a plan, as "quarry-write --resume" does.
Status Write(const WritableLocation& place, const Plan& plan, bool break_lock = false) {
  PipelineOptions options;
  options.files = 2;
  options.break_lock = break_lock;
  QUARRY_ASSIGN_OR_RETURN(const auto writer,
                          DatasetWriter::Open(MPI_COMM_WORLD, place, OpenMode::kResume, options));
  DatasetDescription dataset = writer->existing().value_or(DescriptionOf({}));
  for (const FieldDescription& field : DescriptionOf(plan.fields).fields) {
    if (!dataset.FindField(field.name)) dataset.fields.push_back(field);
  }
  QUARRY_RETURN_IF_ERROR(writer->Declare(dataset));
  for (const std::uint64_t step : plan.steps) {
    QUARRY_ASSIGN_OR_RETURN(const PublishedStep published, writer->Published(step));
    bool any = false;
    for (const std::string& name : plan.fields) {
      if (published.has(name)) continue;
      const std::size_t field = *dataset.FindField(name);
      ArraySource source(SamplesOf(step, field));
      QUARRY_RETURN_IF_ERROR(writer->WriteField(step, field, name, &source).status());
      any = true;
    }
    if (any) QUARRY_RETURN_IF_ERROR(writer->PublishStep(step, std::nullopt));
  }
  return Status::Ok();
}

class Place {
 public:
  virtual ~Place() = default;
  virtual WritableLocation target() = 0;
};

class Folder final : public Place {
 public:
  WritableLocation target() override { return folder_.path() / "new.quarry"; }

 private:
  testing::TemporaryFolder folder_;
};

class Memory final : public Place {
 public:
  WritableLocation target() override { return {Location(storage_, "bucket/new.quarry"), writer_}; }

 private:
  std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>(0, /*whole=*/false);
  std::shared_ptr<MemoryWriter> writer_ = std::make_shared<MemoryWriter>(storage_, kPart);
};

std::unique_ptr<Place> MakePlace(bool in_memory) {
  if (in_memory) return std::make_unique<Memory>();
  return std::make_unique<Folder>();
}

/// Empty: a reader sees nothing of a dataset, or whole steps, the given ones among them.
std::string FaultSeen(const Location& root, const std::set<std::uint64_t>& least) {
  if (!(root / "dataset.json").Stat().ok()) return least.empty() ? "" : "the dataset is gone";
  const auto dataset = Dataset::Open(root);
  if (!dataset.ok()) return dataset.status().message();
  const std::set<std::uint64_t> seen((*dataset)->steps().begin(), (*dataset)->steps().end());
  if (seen.empty()) return "there is no step";
  if (!std::ranges::includes(seen, least)) return "a step is gone";
  const auto report = VerifyDataset(**dataset, [](std::uint64_t, std::uint64_t) {});
  if (!report.ok()) return report.status().message();
  return report->damage.empty() ? "" : report->damage[0].message();
}

class StoreWriting : public ::testing::TestWithParam<bool> {
 protected:
  /// Ends a run before each of its calls, goes on, and compares the files with those of a whole run.
  /// @param before  plans that were written before; their steps stay
  void KillAtEachCall(const std::vector<Plan>& before, const Plan& plan) {
    std::map<std::string, Bytes> wanted;
    std::size_t calls = 0;
    for (std::size_t killed_at = 0; killed_at <= calls; ++killed_at) {
      const auto place = MakePlace(GetParam());
      const WritableLocation target = place->target();
      std::set<std::uint64_t> least;
      for (const Plan& earlier : before) {
        ASSERT_TRUE(Write(target, earlier).ok());
        least.insert(earlier.steps.begin(), earlier.steps.end());
      }
      std::size_t count = 0;
      std::string last;
      std::mutex mutex;
      const auto die = [&](const std::string& call) -> Status {
        const std::lock_guard lock(mutex);
        if (++count == killed_at) last = call;
        return killed_at > 0 && count >= killed_at ? Unavailable("killed before {}", call) : Status::Ok();
      };
      const WritableLocation dying{target.root, std::make_shared<FaultyWriter>(target.storage, die)};
      const Status status = Write(dying, plan);
      std::string fault = FaultSeen(target.root, least);
      // The head of a store says later than step.json that a step has a new field.
      if (GetParam() && fault.starts_with("the catalogue of") && last.ends_with("/head")) fault.clear();
      EXPECT_EQ(fault, "") << killed_at << ": " << last;
      if (killed_at == 0) {
        ASSERT_TRUE(status.ok()) << status.message();
        calls = count;
        wanted = FilesOf(target.root);
        continue;
      }
      const Status resumed = Write(target, plan, /*break_lock=*/true);
      ASSERT_TRUE(resumed.ok()) << killed_at << ": " << last << ": " << resumed.message();
      least.insert(plan.steps.begin(), plan.steps.end());
      EXPECT_EQ(FaultSeen(target.root, least), "") << killed_at << ": " << last;
      const auto files = FilesOf(target.root);
      for (const auto& [name, bytes] : wanted)
        EXPECT_TRUE(files.contains(name) && files.at(name) == bytes)
            << killed_at << ": " << last << ": " << name;
      EXPECT_EQ(files.size(), wanted.size()) << killed_at << ": " << last;
      if (HasFailure()) return;
    }
    EXPECT_GT(calls, 15U);
  }
};

INSTANTIATE_TEST_SUITE_P(Places, StoreWriting, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Store" : "Directory"; });

TEST_P(StoreWriting, ANewDatasetSurvivesAnEndAtEachCall) { KillAtEachCall({}, {}); }

TEST_P(StoreWriting, MoreStepsSurviveAnEndAtEachCall) { KillAtEachCall({{.steps = {0}}}, {.steps = {3, 4}}); }

TEST_P(StoreWriting, ANewFieldSurvivesAnEndAtEachCall) {
  KillAtEachCall({{.steps = {0, 3}, .fields = {"b"}}}, {.steps = {0, 3}, .fields = {"a"}});
}

TEST_P(StoreWriting, AReaderAtEachCallSeesWholeSteps) {
  const auto place = MakePlace(GetParam());
  const WritableLocation target = place->target();
  std::mutex mutex;
  std::size_t calls = 0;
  const auto look = [&](const std::string& call) {
    const std::lock_guard lock(mutex);
    ++calls;
    EXPECT_EQ(FaultSeen(target.root, {}), "") << call;
    return Status::Ok();
  };
  const WritableLocation watched{target.root, std::make_shared<FaultyWriter>(target.storage, look)};

  const Status status = Write(watched, {});

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(calls, 20U);
}

/// The check itself: a head that names a step before its files are there.
TEST(StoreWritingCheck, FindsAHeadThatComesTooEarly) {
  Memory place, model;
  ASSERT_TRUE(Write(model.target(), {.steps = {0, 3}}).ok());
  const auto head = (model.target().root / "head").ReadWhole(1 << 20);
  ASSERT_TRUE(head.ok());
  const WritableLocation target = place.target();
  bool found = false;
  const auto plant = [&](const std::string& call) -> Status {
    if (!call.ends_with("000003/step.json")) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(target.storage->Put((target.root / "head").path, *head, PutCondition::Always()));
    found = !FaultSeen(target.root, {0}).empty();
    return Unavailable("enough");
  };
  const WritableLocation watched{target.root, std::make_shared<FaultyWriter>(target.storage, plant)};

  EXPECT_FALSE(Write(watched, {.steps = {0, 3}}).ok());

  EXPECT_TRUE(found);
}

TEST(StoreWritingToMemory, MakesTheFilesOfADirectory) {
  Folder folder;
  Memory memory;
  ASSERT_TRUE(Write(folder.target(), {}).ok());
  ASSERT_TRUE(Write(memory.target(), {}).ok());

  auto expected = FilesOf(folder.target().root);
  auto files = FilesOf(memory.target().root);

  // The heads differ: that of a store says that it publishes.
  EXPECT_EQ(expected.erase("head"), files.erase("head"));
  EXPECT_TRUE(files == expected);
}

TEST(StoreWritingToMemory, TwoWritersAreToldApart) {
  Memory place;
  const WritableLocation target = place.target();
  std::vector<Status> others;
  const auto intrude = [&](const std::string& call) {
    if (call.ends_with("step.json") || call.ends_with("/head") || call.ends_with("dataset.json"))
      others.push_back(Write(target, {.steps = {7}}));
    return Status::Ok();
  };
  const WritableLocation watched{target.root, std::make_shared<FaultyWriter>(target.storage, intrude)};

  const Status status = Write(watched, {});

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GE(others.size(), 7U);
  for (const Status& other : others) {
    EXPECT_EQ(other.code(), StatusCode::kUnavailable) << other.message();
    EXPECT_NE(other.message().find("--break-lock"), std::string::npos) << other.message();
  }
  EXPECT_EQ(FaultSeen(target.root, {0, 3, 4}), "");
}

/// A writer that was taken for dead, and lives.
TEST(StoreWritingToMemory, AWriterWhoseClaimWasBrokenEnds) {
  Memory place;
  const WritableLocation target = place.target();
  bool broken = false;
  const auto intrude = [&](const std::string& call) {
    if (!std::exchange(broken, broken || call.ends_with("000003/step.json")) && broken) {
      const Status other = Write(target, {.steps = {0, 7}}, true);
      EXPECT_TRUE(other.ok()) << other.message();
    }
    return Status::Ok();
  };
  const WritableLocation watched{target.root, std::make_shared<FaultyWriter>(target.storage, intrude)};

  const Status status = Write(watched, {});

  EXPECT_FALSE(status.ok());
  EXPECT_EQ(FaultSeen(target.root, {0, 7}), "");
}

/// A copy leaves no claim.
TEST(StoreWritingToMemory, FilesOfAnInterruptedCopyAreReplaced) {
  Memory place, model;
  const WritableLocation target = place.target();
  ASSERT_TRUE(Write(model.target(), {.steps = {0, 3}}).ok());
  ASSERT_TRUE(Write(target, {.steps = {0}}).ok());
  for (const char* const name : {"steps/000003/b/0000.qsf", "steps/000003/step.json"})
    ASSERT_TRUE(target.storage->Put((target.root / name).path, Bytes(3), PutCondition::Always()).ok());

  const Status status = Write(target, {.steps = {0, 3}});

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(FilesOf(target.root) == FilesOf(model.target().root));
}

TEST(StoreWritingToMemory, AStoreThatIgnoresConditionsIsSaid) {
  const auto storage = std::make_shared<MemoryStorage>(0, false);
  const WritableLocation target{Location(storage, "new.quarry"),
                                std::make_shared<MemoryWriter>(storage, kPart, false)};
  const auto writer = DatasetWriter::Open(MPI_COMM_WORLD, target, OpenMode::kCreate, {});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE((*writer)->Declare(DescriptionOf({"a"})).ok());
  ArraySource source(SamplesOf(0, 0));
  ASSERT_TRUE((*writer)->WriteField(0, 0, "a", &source).ok());
  ASSERT_TRUE((*writer)->PublishStep(0, std::nullopt).ok());

  const std::vector<std::string> warnings = (*writer)->TakeWarnings();

  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("ignores conditions"), std::string::npos) << warnings[0];
}

TEST(StoreWritingToMemory, ManySubfilesNeedMemoryForTheirParts) {
  Memory place;
  PipelineOptions options;
  options.files = 8;
  options.memory_per_rank = 8 * kPart;
  const auto writer = DatasetWriter::Open(MPI_COMM_WORLD, place.target(), OpenMode::kCreate, options);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE((*writer)->Declare(DescriptionOf({"b"})).ok());
  ArraySource source(SamplesOf(0, 1));

  const Status refused = (*writer)->WriteField(0, 0, "b", &source).status();

  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.message();
  EXPECT_NE(refused.message().find("--files"), std::string::npos) << refused.message();
  EXPECT_EQ(FilesOf(place.target().root).size(), 1U);  // the claim
}

TEST(StoreWritingToMemory, LeavesAnotherFolderAlone) {
  const auto storage = std::make_shared<MemoryStorage>(0, false);
  ASSERT_TRUE(storage->Put("folder/important", Bytes(3)).ok());
  ASSERT_TRUE(storage->Put("folder/steps/also", Bytes(3)).ok());
  const WritableLocation target{Location(storage, "folder"), std::make_shared<MemoryWriter>(storage, kPart)};
  for (const bool break_lock : {false, true}) {
    const Status refused = Write(target, {}, break_lock);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.message();
    EXPECT_EQ(FilesOf(target.root).size(), 2U);
  }
}

}  // namespace
}  // namespace quarry::writer
