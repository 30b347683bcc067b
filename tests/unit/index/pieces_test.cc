// The index in pieces: each run reads, writes and copies what is new.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <latch>
#include <map>
#include <numeric>
#include <set>

#include "quarry/format/description_rules.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"
#include "quarry/index/piece_writer.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "quarry/index/step_marks.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"

namespace quarry::index {
namespace {

namespace fs = std::filesystem;
using testing::DatasetRecipe;
using testing::MakeDataset;
using testing::Operation;

class PiecesTest : public ::testing::Test {
 protected:
  void SetUp() override { MakeDataset(path(), {.steps = {0, 1, 2, 3, 4, 5}}); }

  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path index() const { return DefaultIndexFolder(path()).path; }
  std::shared_ptr<const Dataset> Open() const { return *Dataset::Open(path()); }
  IndexReport Update(const Location& dataset) const {
    const auto report =
        UpdateIndex(**Dataset::Open(dataset), index(), false, [](std::uint64_t, std::uint64_t) {});
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : IndexReport();
  }
  IndexReport Update() const { return Update(path()); }
  Seal Sealed() const { return *ReadSeal(index()); }
  /// First and last steps of the ranges, by the name of their piece.
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> Ranges() const {
    std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges;
    const Seal seal = Sealed();
    for (const SealedPiece& piece : seal.pieces)
      for (const SealedRange& range : piece.ranges)
        ranges[piece.file_name()].emplace_back(range.first, range.last);
    return ranges;
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(index()))
      if (entry.path().extension() == ".mdb") names.insert(entry.path().filename());
    return names;
  }
  void ExpectVerified() const {
    const Status verified = VerifyIndex(*Open(), index());
    EXPECT_TRUE(verified.ok()) << verified.message();
    EXPECT_EQ(Files().size(), Sealed().pieces.size());
  }
  static std::size_t Asked(const IndexLocator& index, const Dataset& dataset, std::uint64_t step) {
    const PatchGrid grid = *PatchesOf(dataset.description().grids[0]);
    return index.Find(step, 0, Box{{0, 0, 0}, grid.patches()})->size();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(PiecesTest, OneStepMoreIsAPieceOfItsOwnUntilThereAreMore) {
  EXPECT_EQ(Update().steps_added, 6u);
  const std::string first = *Files().begin();
  for (std::uint64_t step = 6; step < 16; ++step) {
    MakeDataset(path(), {.steps = {step}, .missing = true});
    const IndexReport report = Update();
    EXPECT_EQ(report.steps_added, 1u);
    EXPECT_EQ(report.steps_removed, 0u);
    EXPECT_EQ(report.steps, step + 1);
    EXPECT_EQ(report.rebuilt_because, "");
    ExpectVerified();
    EXPECT_LE(Sealed().pieces.size(), 4u);
    if (step == 6) {
      EXPECT_TRUE(Files().contains(first));
      EXPECT_EQ(Sealed().pieces.size(), 2u);
    }
  }
  EXPECT_FALSE(Files().contains(first)) << "merged";
}

TEST_F(PiecesTest, NothingIsReadOfStepsThatAreAsTheyWere) {
  Update();
  MakeDataset(path(), {.steps = {6}});
  const auto counted = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  EXPECT_EQ(Update({counted, path().string()}).steps_added, 1u);
  std::set<std::string> opened;
  for (const testing::StorageCall& call : counted->Calls(Operation::kOpen)) opened.insert(call.path);
  for (const testing::StorageCall& call : counted->Calls(Operation::kStat)) opened.insert(call.path);
  for (std::uint64_t step = 0; step < 6; ++step) {
    EXPECT_FALSE(opened.contains((path() / fmt::format("steps/{:06}/step.json", step)).string())) << step;
  }
  EXPECT_TRUE(opened.contains((path() / "steps/000006/step.json").string()));
}

TEST_F(PiecesTest, AChangedStepLeavesTheOthersInTheirPiece) {
  Update();
  const std::string first = *Files().begin();
  MakeDataset(path(), {.steps = {2}, .field = "speed"});
  const IndexReport report = Update();
  EXPECT_EQ(report.steps_added, 1u);
  EXPECT_EQ(report.steps_removed, 1u);
  ExpectVerified();
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> around = {{0, 1}, {3, 5}};
  EXPECT_EQ(Ranges()[first], around);
  EXPECT_EQ(Sealed().pieces.size(), 2u);
  EXPECT_EQ(Update().steps_added, 0u);
}

TEST_F(PiecesTest, AStepBetweenOthersIsNew) {
  fs::remove_all(path());
  MakeDataset(path(), {.steps = {0, 10, 20, 30, 40, 50}});
  Update();
  MakeDataset(path(), {.steps = {15}});
  EXPECT_EQ(VerifyIndex(*Open(), index()).code(), StatusCode::kFailedPrecondition) << "old, not damaged";
  const IndexReport report = Update();
  EXPECT_EQ(report.steps_added, 1u);
  EXPECT_EQ(report.steps_removed, 0u);
  ExpectVerified();
}

TEST_F(PiecesTest, RemovedStepsGoWithTheirPiece) {
  Update();
  const std::string first = *Files().begin();
  fs::remove_all(path() / "steps/000001");
  fs::remove_all(path() / "steps/000005");
  IndexReport report = Update();
  EXPECT_EQ(report.steps_removed, 2u);
  EXPECT_EQ(report.steps_added, 0u);
  EXPECT_EQ(*Files().begin(), first) << "nothing is written";
  ExpectVerified();
  EXPECT_EQ(Update().steps_removed, 0u);
  fs::remove_all(path() / "steps/000002");
  fs::remove_all(path() / "steps/000004");
  report = Update();
  EXPECT_EQ(report.steps_removed, 2u);
  EXPECT_EQ(report.steps_added, 0u);
  EXPECT_NE(*Files().begin(), first) << "most of it was waste";
  EXPECT_EQ(Sealed().pieces.at(0).steps, 2u);
  ExpectVerified();
  fs::remove_all(path() / "steps/000000");
  fs::remove_all(path() / "steps/000003");
  EXPECT_EQ(Update().steps_removed, 2u);
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(Sealed().pieces.empty());
}

TEST_F(PiecesTest, TheIndexOfACopyIsKept) {
  Update();
  const Seal before = Sealed();
  fs::copy(path() / "steps", path() / "copy", fs::copy_options::recursive);
  fs::remove_all(path() / "steps");
  fs::rename(path() / "copy", path() / "steps");  // other files with the same contents
  Update();
  EXPECT_EQ(Sealed(), before) << "the catalogue has the same marks";
  fs::remove(path() / "head");
  IndexReport report = Update();
  EXPECT_EQ(report.steps_added, 0u);
  EXPECT_EQ(report.steps_removed, 0u);
  EXPECT_EQ(Sealed().pieces.at(0).checksum, before.pieces.at(0).checksum);
  EXPECT_NE(Sealed(), before) << "the next run knows the marks";
  const auto counted = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  Update({counted, path().string()});
  for (const testing::StorageCall& call : counted->Calls(Operation::kOpen))
    EXPECT_EQ(call.path.find("step.json"), std::string::npos) << call.path;
  ExpectVerified();
}

// 256 records are in the head of the catalogue, then they move to a page.
TEST_F(PiecesTest, StepsInPagesOfTheCatalogueAreKnownByThem) {
  fs::remove_all(path());
  DatasetRecipe recipe{.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1};
  recipe.steps.resize(255);
  std::iota(recipe.steps.begin(), recipe.steps.end(), 0);
  MakeDataset(path(), recipe);
  EXPECT_EQ(Update().steps_added, 255u);
  recipe.steps = {255};
  MakeDataset(path(), recipe);
  ASSERT_EQ(Open()->catalogue().head().pages.size(), 1u);
  const auto counted = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  const auto pages_read = [&] {
    counted->ForgetCalls();
    Update({counted, path().string()});
    return std::ranges::count_if(counted->Calls(Operation::kOpen), [](const testing::StorageCall& call) {
      return call.path.find("/catalogue/") != std::string::npos;
    });
  };

  EXPECT_EQ(pages_read(), 1) << "records have moved";
  EXPECT_EQ(pages_read(), 0);
  for (const testing::StorageCall& call : counted->Calls(Operation::kStat))
    EXPECT_EQ(call.path.find("step.json"), std::string::npos) << call.path;

  recipe.field = "speed";
  recipe.steps = {100};
  MakeDataset(path(), recipe);
  const IndexReport report = Update();
  EXPECT_EQ(report.steps_added, 1u);
  EXPECT_EQ(report.steps_removed, 1u);
  ExpectVerified();
}

TEST_F(PiecesTest, StepsAreLookedAtWhereTheCatalogueMayBeOld) {
  fs::copy_file(path() / "head", path() / "old");
  Update();
  fs::remove(path() / "steps" / format::kCurrentFile);
  EXPECT_EQ(Update().steps_added, 0u);
  MakeDataset(path(), {.steps = {3}, .field = "speed"});
  fs::rename(path() / "old", path() / "head");
  fs::remove(path() / "steps" / format::kCurrentFile);

  EXPECT_EQ(Update().steps_added, 1u);
  ExpectVerified();
}

format::PageRef PageFrom(std::uint64_t name, std::uint64_t first, std::uint64_t last, std::uint64_t records) {
  return {.name = name, .bytes = 1, .first = first, .last = last, .records = records};
}

TEST(PagesOf, NamesThePageThatAloneHasAStep) {
  using Pages = std::vector<std::optional<std::uint64_t>>;
  const auto none = std::nullopt;
  const std::vector<std::uint64_t> steps = {2, 4, 6, 8, 10};
  const auto pages_of = [&](std::vector<format::PageRef> pages) {
    return PagesOf(steps, {.steps = 5, .pages = std::move(pages)});
  };
  EXPECT_EQ(pages_of({}), Pages(5, none));
  EXPECT_EQ(pages_of({PageFrom(7, 2, 4, 2), PageFrom(9, 6, 10, 3)}), (Pages{7, 7, 9, 9, 9}));
  // A later page has newer records, whatever its neighbours.
  EXPECT_EQ(pages_of({PageFrom(7, 2, 8, 4), PageFrom(9, 6, 10, 3)}), (Pages{7, 7, none, none, 9}));
  // One page lacks a step, or has one that is gone.
  EXPECT_EQ(pages_of({PageFrom(7, 2, 8, 3), PageFrom(9, 10, 10, 1)}), (Pages{none, none, none, none, 9}));
  EXPECT_EQ(pages_of({PageFrom(7, 2, 4, 3)}), Pages(5, none));
  // Steps that are not there, and ranges that end before they begin.
  EXPECT_EQ(pages_of({PageFrom(7, 0, 1, 2), PageFrom(8, 11, UINT64_MAX, 1), PageFrom(9, 8, 4, 0),
                      PageFrom(5, 2, 2, 1)}),
            (Pages{5, none, none, none, none}));
  format::StepRecord newest;
  newest.summary.step = 4;
  EXPECT_EQ(PagesOf(steps, {.steps = 5, .pages = {PageFrom(7, 2, 10, 5)}, .records = {newest}}),
            (Pages{7, none, 7, 7, 7}));
}

TEST_F(PiecesTest, DamageInOnePieceIsThatOfItsSteps) {
  Update();
  const std::string first = *Files().begin();
  MakeDataset(path(), {.steps = {6}});
  Update();
  ASSERT_EQ(Files().size(), 2u);
  {
    std::fstream file(index() / first, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(9000);
    file.put('x');
    file.put('y');
  }
  // Only the step in the whole piece is found without tables.
  const auto dataset = Open();
  const std::string& field = dataset->description().fields[0].name;
  for (std::uint32_t s = 0; s < 3; ++s) {
    fs::remove(SubfileLocation(Location(path()), 6, field, s).path);
    fs::remove(SubfileLocation(Location(path()), 5, field, s).path);
  }
  int told = 0;
  const auto locator = *IndexLocator::Open(dataset, index(), folder_.path(), [&](const Status& damage) {
    EXPECT_EQ(damage.code(), StatusCode::kDataLoss);
    EXPECT_NE(damage.message().find(first), std::string::npos) << damage.message();
    ++told;
  });
  const PatchGrid grid = *PatchesOf(dataset->description().grids[0]);
  const Box all{{0, 0, 0}, grid.patches()};
  EXPECT_TRUE(locator->Find(6, 0, all).ok());
  EXPECT_EQ(told, 0);
  for (const std::uint64_t step : {0, 1, 2, 0}) EXPECT_TRUE(locator->Find(step, 0, all).ok());
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(locator->Find(5, 0, all).ok()) << "its tables are missing";
}

/// The paths of pieces that were opened since the last call.
std::set<std::string> OpenedPieces(testing::FaultyStorage* storage) {
  std::set<std::string> names;
  for (const testing::StorageCall& call : storage->Calls(Operation::kOpen))
    if (call.path.ends_with(".mdb")) names.insert(fs::path(call.path).filename());
  storage->ForgetCalls();
  return names;
}

TEST_F(PiecesTest, OnlyNewPiecesThatAQuestionNeedsAreCopied) {
  Update();
  const std::string first = *Files().begin();
  const auto counted = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  const Location folder(counted, index().string());
  testing::TemporaryFolder scratch;
  const auto copies = std::make_shared<PieceCopies>(scratch.path());
  const auto before = *IndexLocator::Open(Open(), folder, copies);
  EXPECT_TRUE(OpenedPieces(counted.get()).empty()) << "no question";
  EXPECT_TRUE(*before->IsCurrent(0));
  EXPECT_TRUE(*before->IsCurrent(5));
  EXPECT_EQ(OpenedPieces(counted.get()), std::set<std::string>{first});

  MakeDataset(path(), {.steps = {6}});
  Update();
  const auto after = *IndexLocator::Open(Open(), folder, copies);
  EXPECT_TRUE(*after->IsCurrent(0));
  EXPECT_TRUE(OpenedPieces(counted.get()).empty()) << "it was open";
  EXPECT_TRUE(*after->IsCurrent(6));
  std::set<std::string> files = Files();
  files.erase(first);
  EXPECT_EQ(OpenedPieces(counted.get()), files);
  EXPECT_TRUE(*before->IsCurrent(3));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

/// A file system that does not answer for one piece.
TEST_F(PiecesTest, APieceThatHangsHoldsUpNoOther) {
  Update();
  const std::string first = *Files().begin();
  MakeDataset(path(), {.steps = {6}});
  Update();
  const auto faulty = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  std::latch asked(1);
  std::latch answer(1);
  faulty->Add({Operation::kOpen, "*" + first, 1, 1, [&](const testing::StorageCall&) {
                 asked.count_down();
                 answer.wait();
                 return testing::Fault{};
               }});
  const auto locator = *IndexLocator::Open(Open(), Location(faulty, index().string()), folder_.path());
  auto hanging = std::async(std::launch::async, [&] { return *locator->IsCurrent(0); });
  asked.wait();
  EXPECT_TRUE(*locator->IsCurrent(6));
  answer.count_down();
  EXPECT_TRUE(hanging.get());
}

TEST_F(PiecesTest, APieceThatWasMergedMeanwhileIsNoDamage) {
  Update();
  const auto dataset = Open();
  Status damage;
  const auto locator =
      *IndexLocator::Open(dataset, index(), folder_.path(), [&](const Status& told) { damage = told; });
  const std::string first = *Files().begin();
  MakeDataset(path(), {.steps = {6, 7, 8, 9, 10, 11}});
  Update();
  ASSERT_FALSE(Files().contains(first));

  EXPECT_FALSE(*locator->IsCurrent(0)) << "its piece is not there";
  EXPECT_EQ(Asked(*locator, *dataset, 0), 30u) << "tables tell";
  EXPECT_TRUE(damage.ok()) << damage.message();
}

TEST_F(PiecesTest, ADamagedPieceIsReadAnewFromTables) {
  Update();
  MakeDataset(path(), {.steps = {6}});
  Update();
  ASSERT_EQ(Files().size(), 2u);
  const auto damage = [&](std::size_t number) {
    fs::resize_file(index() / Sealed().pieces.at(number).file_name(), 4096);
    const IndexReport report = Update();
    EXPECT_NE(report.rebuilt_because.find("4096 bytes"), std::string::npos) << report.rebuilt_because;
    ExpectVerified();
    return report.steps_added;
  };
  EXPECT_EQ(damage(1), 1u);
  EXPECT_EQ(damage(0), 6u);
  EXPECT_EQ(Sealed().pieces.size(), 1u) << "with one that has fewer steps";
  EXPECT_EQ(damage(0), 7u);
}

TEST_F(PiecesTest, AFileGrowsBeyondItsFirstMap) {
  fs::remove_all(path());
  MakeDataset(path(), {.dims = {120, 120, 120}, .patch = {4, 4, 4}, .levels = 3, .missing = true});
  const auto dataset = Open();
  fs::create_directories(index());
  const fs::path file = index() / "working";
  {
    // 27,000 patches of 140 bytes and more, and as many of the mask, in a map of 1 MiB at first.
    const auto writer =
        *PieceWriter::Create(file, *dataset, {.transaction_bytes = 16 << 10, .first_map = 1 << 20});
    const MarkedStep step{0, *MarkOfStep(path(), 0)};
    ASSERT_TRUE(writer->LoadStep(step).ok());
    const Status finished = writer->Finish();
    ASSERT_TRUE(finished.ok()) << finished.message();
    SealedPiece piece = *SealFile(file);
    EXPECT_GT(piece.bytes, std::uint64_t{4} << 20);
    fs::rename(file, index() / piece.file_name());
    piece.steps = 1;
    piece.ranges = {{0, 0, 1, MarksOf(std::vector<MarkedStep>{step})}};
    ASSERT_TRUE(WriteSeal(index(), {{piece}}).ok());
  }
  ExpectVerified();
  EXPECT_EQ(Update().steps_added, 0u);
}

TEST(StepRecord, ComesBackAndIsChecked) {
  const StepRecord record{7, 8, {1, 2, 3}};
  const Bytes value = record.Encode();
  ASSERT_EQ(value.size(), 40u);
  EXPECT_EQ(StepRecord::Decode(value)->checksum, 7u);
  EXPECT_EQ(StepRecord::Decode(value)->mark, 8u);
  EXPECT_EQ(StepRecord::Decode(value)->masks, record.masks);
  for (const std::size_t size : {0, 8, 15, 17, 39})
    EXPECT_EQ(StepRecord::Decode(ByteSpan(value).first(size)).status().code(), StatusCode::kDataLoss) << size;
}

}  // namespace
}  // namespace quarry::index
