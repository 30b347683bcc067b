#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <latch>
#include <map>
#include <random>

#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/geometry/morton.h"
#include "quarry/index/box_tree.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"
#include "quarry/index/seal.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"

namespace quarry::index {
namespace {

namespace fs = std::filesystem;
using testing::MakeDataset;

class IndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MakeDataset(path(), {.steps = {0}});
    MakeDataset(path(), {.steps = {1}, .missing = true});
  }

  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path index() const { return DefaultIndexFolder(path()).path; }
  std::shared_ptr<const Dataset> Open() const { return *Dataset::Open(path()); }
  Result<IndexReport> Update(bool rebuild = false) const {
    return UpdateIndex(*Open(), index(), rebuild, [](std::uint64_t, std::uint64_t) {});
  }
  Result<std::shared_ptr<const IndexLocator>> OpenIndex() const {
    return IndexLocator::Open(Open(), index(), folder_.path());
  }

  /// The damage that a question about a step finds.
  Status DamageAt(std::uint64_t step) const {
    Status damage;
    const auto tell = [&](const Status& told) { damage = told; };
    const auto locator = IndexLocator::Open(Open(), index(), folder_.path(), tell);
    if (!locator.ok()) return locator.status();
    const bool current = *(*locator)->IsCurrent(step);
    EXPECT_EQ(current, damage.ok());
    return damage;
  }

  /// Same records from index and tables, for every step and some boxes.
  void ExpectSameAsTables() const { ExpectSameAsTables(*Open(), **OpenIndex()); }
  static void ExpectSameAsTables(const Dataset& of, const IndexLocator& index) {
    const Dataset* dataset = &of;
    const IndexLocator* locator = &index;
    const PatchGrid grid = *PatchesOf(dataset->description().grids[0]);
    for (const std::uint64_t step : dataset->steps()) {
      for (const Box& positions :
           {Box{{0, 0, 0}, grid.patches()}, Box{{1, 1, 0}, {3, 2, 2}}, Box{{4, 2, 1}, {5, 3, 2}}}) {
        const auto indexed = locator->Find(step, 0, positions);
        const auto expected = dataset->tables().Find(step, 0, positions);
        ASSERT_TRUE(indexed.ok()) << indexed.status().message();
        ASSERT_EQ(indexed->size(), expected->size());
        for (std::size_t i = 0; i < expected->size(); ++i) {
          EXPECT_EQ((*indexed)[i].subfile, (*expected)[i].subfile);
          EXPECT_EQ((*indexed)[i].patch, (*expected)[i].patch);
        }
        const auto indexed_mask = locator->FindMask(step, 0, positions);
        const auto expected_mask = dataset->tables().FindMask(step, 0, positions);
        ASSERT_TRUE(indexed_mask.ok()) << indexed_mask.status().message();
        ASSERT_EQ(indexed_mask->size(), expected_mask->size());
        for (std::size_t i = 0; i < expected_mask->size(); ++i) {
          EXPECT_EQ((*indexed_mask)[i].subfile, (*expected_mask)[i].subfile);
          EXPECT_EQ((*indexed_mask)[i].patch, (*expected_mask)[i].patch);
        }
      }
    }
  }

  testing::TemporaryFolder folder_;
};

TEST_F(IndexTest, HoldsWhatTheTablesHold) {
  const IndexReport report = *Update();
  EXPECT_EQ(report.steps_added, 2u);
  EXPECT_EQ(report.patches_added, 2u * 5 * 3 * 2);
  EXPECT_EQ(report.masks_added, 1u);
  ExpectSameAsTables();
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
}

/// Indices of the patches at some positions, in Morton order, and the subfile of each: every row of every
/// table, sorted.
std::vector<std::pair<std::uint64_t, std::uint32_t>> RowsAt(const Dataset& dataset, const PatchGrid& grid,
                                                            const Box& positions) {
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> by_code;
  const std::size_t files = (*dataset.Step(0))->fields[0].subfiles.size();
  for (std::uint32_t s = 0; s < files; ++s) {
    const format::PatchRows table = testing::AllRows(dataset, s);
    for (const format::PatchEntry& row : table) {
      const Index3 p = grid.PatchPosition(static_cast<std::int64_t>(row.patch_index));
      if (!positions.Contains({p, {p[0] + 1, p[1] + 1, p[2] + 1}})) continue;
      by_code[MortonEncode(p)] = {row.patch_index, s};
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint32_t>> rows;
  rows.reserve(by_code.size());
  for (const auto& [code, row] : by_code) rows.push_back(row);
  return rows;
}

TEST(ThinBoxes, AreFoundWholeInIndexAndTables) {
  testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "thin.quarry";
  MakeDataset(path,
              {.dims = {52, 36, 22}, .patch = {4, 4, 4}, .levels = 3, .files = 7});  // 13 x 9 x 6 patches
  const auto dataset = *Dataset::Open(path);
  ASSERT_TRUE(
      UpdateIndex(*dataset, folder.path() / "index", false, [](std::uint64_t, std::uint64_t) {}).ok());
  // An index that finds nothing asks the tables, which are not there.
  const fs::path bare = folder.path() / "bare.quarry";
  fs::copy(path, bare, fs::copy_options::recursive);
  for (std::uint32_t s = 0; s < 7; ++s)
    ASSERT_TRUE(
        fs::remove(SubfileLocation(Location(bare), 0, dataset->description().fields[0].name, s).path));
  const auto index = *IndexLocator::Open(*Dataset::Open(bare), folder.path() / "index", folder.path());
  const PatchGrid grid = *PatchesOf(dataset->description().grids[0]);
  ASSERT_EQ(grid.patches(), (Index3{13, 9, 6}));

  std::vector<Box> boxes;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::int64_t i = 0; i < grid.patches()[axis]; ++i) {
      Box slab{{0, 0, 0}, grid.patches()};
      slab.begin[axis] = i;
      slab.end[axis] = i + 1;
      boxes.push_back(slab);
      for (const std::size_t other : {(axis + 1) % 3, (axis + 2) % 3}) {
        Box column = slab;  // ends at a place that follows from its number
        column.begin[other] = i % grid.patches()[other];
        column.end[other] = column.begin[other] + 1;
        boxes.push_back(column);
      }
    }
  }
  for (const Box& box : boxes) {
    const auto expected = RowsAt(*dataset, grid, box);
    for (const query::PatchLocator* locator : {static_cast<const query::PatchLocator*>(index.get()),
                                               static_cast<const query::PatchLocator*>(&dataset->tables())}) {
      const auto found = locator->Find(0, 0, box);
      ASSERT_TRUE(found.ok()) << found.status().message();
      std::vector<std::pair<std::uint64_t, std::uint32_t>> rows;
      for (const query::LocatedPatch& patch : *found)
        rows.emplace_back(patch.patch.patch_index, patch.subfile);
      EXPECT_EQ(rows, expected) << ToString(box);
    }
  }
}

// The box of a subfile has holes. Of every patch, only the subfile that has it is there.
TEST(ThinBoxes, APatchNeedsNoTableButItsOwn) {
  testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "thin.quarry";
  MakeDataset(path, {.dims = {28, 20, 12}, .patch = {4, 4, 4}, .levels = 3, .files = 5, .missing = true});
  const auto whole = *Dataset::Open(path);
  const PatchGrid grid = *PatchesOf(whole->description().grids[0]);
  const auto step = *whole->Step(0);
  const FieldStepDescription& field = step->fields[0];
  ASSERT_EQ(field.subfiles.size(), 5u);
  int in_a_hole = 0;
  for (std::uint32_t s = 0; s < 5; ++s) {
    testing::TemporaryFolder part;
    fs::copy(path, part.path() / "part.quarry", fs::copy_options::recursive);
    for (std::uint32_t other = 0; other < 5; ++other) {
      if (other != s)
        fs::remove(SubfileLocation(Location(part.path() / "part.quarry"), 0, field.name, other).path);
    }
    const auto dataset = *Dataset::Open(part.path() / "part.quarry");
    const format::PatchRows table = testing::AllRows(*whole, s);
    for (const format::PatchEntry& row : table) {
      const Index3 p = grid.PatchPosition(static_cast<std::int64_t>(row.patch_index));
      const Box box{p, {p[0] + 1, p[1] + 1, p[2] + 1}};
      for (std::uint32_t other = 0; other < 5; ++other)
        in_a_hole += other != s && !Intersect(grid.PatchesMeeting(field.subfiles[other].bounds), box).empty();
      const auto found = dataset->tables().Find(0, 0, box);
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_EQ(found->size(), 1u);
      EXPECT_EQ(found->front().patch, row);
    }
  }
  EXPECT_GT(in_a_hole, 0) << "no box of this dataset has a hole";
}

/// Boxes at random, some of them far larger than the others, as those of refined grids are.
std::vector<NumberedBox> ScatteredBoxes(std::size_t count, std::mt19937* random) {
  std::vector<NumberedBox> boxes;
  for (std::uint32_t i = 0; i < count; ++i) {
    Box box;
    const std::int64_t longest = i % 7 == 0 ? 1 << 20 : 1 << 8;
    for (std::size_t a = 0; a < 3; ++a) {
      box.begin[a] = static_cast<std::int64_t>((*random)() % (1U << 30));
      box.end[a] = box.begin[a] + 1 + static_cast<std::int64_t>((*random)()) % longest;
    }
    boxes.push_back({box, i});
  }
  return boxes;
}

TEST(BoxTree, FindsTheBoxesThatMeetABoxAndReadsFewNodes) {
  std::mt19937 random(1);
  for (const std::size_t count : {0, 1, 15, 16, 17, 256, 257, 5000}) {
    const std::vector<NumberedBox> boxes = ScatteredBoxes(count, &random);
    std::map<std::pair<int, std::uint32_t>, Bytes> nodes;
    for (BoxNode& node : MakeBoxTree(boxes)) nodes[{node.level, node.number}] = std::move(node.value);
    std::size_t reads = 0;
    const ReadNode read = [&](std::uint8_t level, std::uint32_t number) -> Result<ByteSpan> {
      ++reads;
      return ByteSpan(nodes.at({level, number}));
    };
    EXPECT_TRUE(CheckBoxTree(boxes, read).ok());
    for (int question = 0; question < 20; ++question) {
      const Box box = question == 0 ? Box{{0, 0, 0}, {1LL << 31, 1LL << 31, 1LL << 31}}
                                    : ScatteredBoxes(question + 1, &random).back().box;
      std::vector<std::uint32_t> expected;
      for (const NumberedBox& one : boxes)
        if (!Intersect(one.box, box).empty()) expected.push_back(one.number);
      reads = 0;
      EXPECT_EQ(*FindBoxes(count, static_cast<std::uint32_t>(count), box, read), expected);
      if (question > 0 && count == 5000) {
        EXPECT_LT(reads, nodes.size() / 4);
      }
    }
  }
}

TEST(BoxTree, RefusesNodesThatAreNotItsOwn) {
  std::mt19937 random(1);
  const std::vector<NumberedBox> boxes = ScatteredBoxes(100, &random);
  const std::vector<BoxNode> nodes = MakeBoxTree(boxes);
  const Box all{{0, 0, 0}, {1LL << 31, 1LL << 31, 1LL << 31}};
  const auto with = [&](std::size_t changed, const Bytes& value) {
    const ReadNode read = [&](std::uint8_t level, std::uint32_t number) -> Result<ByteSpan> {
      for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].level == level && nodes[i].number == number)
          return ByteSpan(i == changed ? value : nodes[i].value);
      return DataLoss("no node {} of level {}", number, level);
    };
    EXPECT_EQ(CheckBoxTree(boxes, read).code(), StatusCode::kDataLoss);
    return FindBoxes(boxes.size(), 100, all, read).status();
  };
  for (const std::size_t changed : {std::size_t{0}, nodes.size() - 1}) {
    Bytes value = nodes[changed].value;
    value.pop_back();
    EXPECT_EQ(with(changed, value).code(), StatusCode::kDataLoss) << "too short";
    value = nodes[changed].value;
    for (std::size_t i = 24; i < 28; ++i) value[i] = std::byte{0xff};
    EXPECT_EQ(with(changed, value).code(), StatusCode::kDataLoss) << "a number that is too large";
    value = nodes[changed].value;
    for (std::size_t i = 4; i < 8; ++i) value[i] = std::byte{0};
    EXPECT_EQ(with(changed, value).code(), StatusCode::kDataLoss) << "a box without samples";
    value = nodes[changed].value;
    std::copy_n(nodes[changed].value.begin() + 28, 28, value.begin());
    EXPECT_EQ(with(changed, value).code(), StatusCode::kDataLoss) << "a box that is there twice";
  }
}

TEST(Boxes, OfSubfilesAreThoseOfTheirSteps) {
  testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "many.quarry";
  MakeDataset(path, {.dims = {52, 36, 22}, .patch = {4, 4, 4}, .levels = 3, .files = 23, .missing = true});
  const auto dataset = *Dataset::Open(path);
  ASSERT_TRUE(
      UpdateIndex(*dataset, folder.path() / "index", false, [](std::uint64_t, std::uint64_t) {}).ok());
  Status damage;
  const auto index = *IndexLocator::Open(dataset, folder.path() / "index", folder.path(),
                                         [&](const Status& told) { damage = told; });
  const auto step = *dataset->Step(0);
  const FieldStepDescription& field = step->fields[0];
  ASSERT_EQ(field.subfiles.size(), 23u);
  for (const SubfileDescription& one : field.subfiles) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t s = 0; s < 23; ++s)
      if (!Intersect(field.subfiles[s].bounds, one.bounds).empty()) expected.push_back(s);
    EXPECT_EQ(*index->SubfilesMeeting(0, 0, one.bounds), expected);
  }
  EXPECT_TRUE(index->CheckBoxes(0, 0).ok());
  EXPECT_TRUE(index->CheckMaskBoxes(0, *field.mask).ok());
  EXPECT_EQ(index->SubfilesMeeting(7, 0, {}).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(damage.ok()) << damage.message();
}

TEST_F(IndexTest, AStepOfManyFieldsIsComparedByItsRoot) {
  const fs::path manifest = path() / "steps/000000/step.json";
  const auto put = [&](const std::string& source) {
    StepDescription step = *Open()->LoadStep(0);
    step.fields[0].source = source;
    const std::string text = format::EncodeManifest(step);
    ASSERT_TRUE(ReplaceFile(manifest, std::as_bytes(std::span(text))).ok());
  };
  put(std::string(500'000, 'x'));
  ASSERT_TRUE(Update().ok());
  ExpectSameAsTables();
  const Location on_disk(path());
  const auto counted = std::make_shared<testing::FaultyStorage>(on_disk.storage);
  const auto dataset = *Dataset::Open(Location(counted, on_disk.path));
  const auto index_of = [&](std::shared_ptr<const Dataset> opened) {
    return *IndexLocator::Open(std::move(opened), index(), folder_.path());
  };
  EXPECT_TRUE(*index_of(dataset)->IsCurrent(0));
  std::uint64_t bytes = 0;
  for (const testing::StorageCall& call : counted->Calls(testing::Operation::kRead))
    if (call.path.ends_with("step.json")) bytes += call.size;
  EXPECT_LE(bytes, 20'000u);
  put(std::string(499'999, 'x') + 'y');

  EXPECT_FALSE(*index_of(Open())->IsCurrent(0)) << "the root has another checksum of the section";
}

TEST_F(IndexTest, UpdatingTwiceChangesNothing) {
  ASSERT_TRUE(Update().ok());
  const Seal before = *ReadSeal(index());
  const IndexReport report = *Update();
  EXPECT_EQ(report.steps_added, 0u);
  EXPECT_EQ(*ReadSeal(index()), before);
}

TEST_F(IndexTest, LoadsOnlyWhatIsNew) {
  ASSERT_TRUE(Update().ok());
  MakeDataset(path(), {.steps = {7}});
  EXPECT_EQ(VerifyIndex(*Open(), index()).code(), StatusCode::kFailedPrecondition);
  const IndexReport report = *Update();
  EXPECT_EQ(report.steps_added, 1u);
  EXPECT_EQ(report.steps, 3u);
  ExpectSameAsTables();
}

TEST_F(IndexTest, AStepWithANewFieldIsLoadedAgain) {
  ASSERT_TRUE(Update().ok());
  MakeDataset(path(), {.steps = {1}, .field = "speed"});
  EXPECT_EQ(Update()->steps_added, 1u);
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
}

TEST_F(IndexTest, AMaskIsLoadedOnceForAPiece) {
  MakeDataset(path(), {.steps = {2}, .missing = true});
  EXPECT_EQ(Update()->masks_added, 1u);
  // As many steps as the piece has: it becomes a part of the new one, and its mask is that of the new steps.
  MakeDataset(path(), {.steps = {7, 8, 9}, .missing = true});
  const IndexReport report = *Update();
  EXPECT_EQ(report.steps_added, 3u);
  EXPECT_EQ(report.masks_added, 0u);
  EXPECT_EQ(ReadSeal(index())->pieces.size(), 1u);
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
  ExpectSameAsTables();
}

TEST_F(IndexTest, AMaskInOtherFilesIsNotTheOneThatWasIndexed) {
  ASSERT_TRUE(Update().ok());
  const MaskDescription before = *(*Open()->Step(1))->FindField("pressure")->mask;
  EXPECT_TRUE(*(*OpenIndex())->HasMask(1, before));
  testing::TemporaryFolder kept;
  fs::copy(index(), kept.path() / "index", fs::copy_options::recursive);
  fs::remove_all(path());
  MakeDataset(path(), {.files = 1, .steps = {1}, .missing = true});
  fs::copy(kept.path() / "index", index(), fs::copy_options::recursive);
  const MaskDescription after = *(*Open()->Step(1))->FindField("pressure")->mask;

  EXPECT_EQ(after.name, before.name);
  EXPECT_FALSE(*(*OpenIndex())->HasMask(1, after));
  ExpectSameAsTables();
  EXPECT_EQ(Update()->masks_added, 1u);
  EXPECT_TRUE(*(*OpenIndex())->HasMask(1, after));
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
}

TEST_F(IndexTest, AnIndexOfAnotherVersionIsNotReadAndBuiltAnew) {
  for (const std::string version : {"version 1", "version 4", "version 6"}) {
    ASSERT_TRUE(Update().ok());
    std::ofstream(index() / "seal.json") << R"({"version": )" << version.back()
                                         << R"(, "data_file": "patches-0123456789abcdef.mdb", "bytes": 1,)"
                                         << R"( "checksum": "0", "seal": "0"})";
    const Status status = OpenIndex().status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(version), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("run quarry-index"), std::string::npos) << status.message();
    EXPECT_NE(Update()->rebuilt_because.find(version), std::string::npos);
    ExpectSameAsTables();
  }
}

TEST_F(IndexTest, AStaleIndexStillGivesRightAnswers) {
  ASSERT_TRUE(Update().ok());
  MakeDataset(path(), {.steps = {7}});
  EXPECT_FALSE(*(*OpenIndex())->IsCurrent(7));
  ExpectSameAsTables();
}

TEST_F(IndexTest, RemovedStepsLeaveTheIndex) {
  ASSERT_TRUE(Update().ok());
  fs::remove_all(path() / "steps/000001");
  EXPECT_EQ(Update()->steps_removed, 1u);
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
}

TEST_F(IndexTest, AMissingIndexIsNotFound) { EXPECT_EQ(OpenIndex().status().code(), StatusCode::kNotFound); }

TEST_F(IndexTest, EveryDamageIsNoticedAndARebuildMendsIt) {
  ASSERT_TRUE(Update().ok());
  const fs::path data = index() / ReadSeal(index())->pieces.at(0).file_name();
  const auto size = fs::file_size(data);
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto offset = static_cast<std::streamoff>(random() % size);
    std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char original = static_cast<char>(file.get());
    file.seekp(offset);
    file.put(static_cast<char>(original ^ (1 << random() % 8)));
    file.close();
    EXPECT_EQ(DamageAt(0).code(), StatusCode::kDataLoss);
    std::fstream mend(data, std::ios::in | std::ios::out | std::ios::binary);
    mend.seekp(offset);
    mend.put(original);
  }
  EXPECT_TRUE(DamageAt(0).ok());
  fs::resize_file(data, size / 2);
  EXPECT_EQ(DamageAt(0).code(), StatusCode::kDataLoss);
  const IndexReport report = *Update();
  EXPECT_NE(report.rebuilt_because.find("bytes"), std::string::npos) << report.rebuilt_because;
  ExpectSameAsTables();
  EXPECT_TRUE(VerifyIndex(*Open(), index()).ok());
}

TEST_F(IndexTest, TheIndexOfAnotherDatasetIsNotBelieved) {
  ASSERT_TRUE(Update().ok());
  testing::TemporaryFolder other;
  MakeDataset(other.path() / "b.quarry", {.tolerance = 0.5, .steps = {0, 1}});
  fs::copy(index(), other.path() / "b.quarry/index", fs::copy_options::recursive);
  const auto dataset = *Dataset::Open(other.path() / "b.quarry");
  const auto locator = *IndexLocator::Open(dataset, other.path() / "b.quarry/index", other.path());
  EXPECT_FALSE(*locator->IsCurrent(0));
  EXPECT_EQ(testing::ReadAll(*dataset, {.field = "pressure"}, locator.get()),
            testing::ReadAll(*dataset, {.field = "pressure"}));
}

TEST_F(IndexTest, PrivateCopiesLeaveNothingBehind) {
  ASSERT_TRUE(Update().ok());
  testing::TemporaryFolder scratch;
  const auto locator = IndexLocator::Open(Open(), index(), scratch.path());
  ASSERT_TRUE(locator.ok());
  EXPECT_TRUE(*(*locator)->IsCurrent(0));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

/// Copies dataset and index from disk to memory.
Location CopyToMemory(const fs::path& path) {
  auto memory = std::make_shared<testing::MemoryStorage>();
  const Status copied = memory->CopyFolder(path, "a.quarry");
  EXPECT_TRUE(copied.ok()) << copied.message();
  return {memory, "a.quarry"};
}

TEST_F(IndexTest, AnIndexInMemoryHoldsWhatTheTablesHold) {
  ASSERT_TRUE(Update().ok());
  MakeDataset(path(), {.steps = {7}});  // published after the index
  const Location copy = CopyToMemory(path());
  const auto dataset = *Dataset::Open(copy);
  const auto locator = IndexLocator::Open(dataset, DefaultIndexFolder(copy), folder_.path());
  ASSERT_TRUE(locator.ok()) << locator.status().message();

  EXPECT_TRUE(*(*locator)->IsCurrent(1));
  EXPECT_FALSE(*(*locator)->IsCurrent(7));
  ExpectSameAsTables(*dataset, **locator);
  EXPECT_EQ(testing::ReadAll(*dataset, {.field = "pressure"}, locator->get()),
            testing::ReadAll(*Open(), {.field = "pressure"}));
}

TEST_F(IndexTest, ADatasetInMemoryIsIndexedAndItsIndexVerified) {
  const auto dataset = *Dataset::Open(CopyToMemory(path()));
  const testing::TemporaryFolder local;
  const auto report = UpdateIndex(*dataset, local.path(), false, [](std::uint64_t, std::uint64_t) {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->steps_added, 2u);
  EXPECT_TRUE(VerifyIndex(*dataset, local.path()).ok());
  EXPECT_TRUE(VerifyIndex(*dataset, CopyToMemory(local.path())).ok());
}

TEST_F(IndexTest, EveryFaultOfAStorageIsNoticedAndLeavesNoCopyBehind) {
  using testing::Fault;
  using testing::Operation;
  ASSERT_TRUE(Update().ok());
  const Location copy = CopyToMemory(path());
  const auto dataset = *Dataset::Open(copy);
  const testing::TemporaryFolder scratch;
  const auto open = [&](const std::shared_ptr<testing::FaultyStorage>& faulty) {
    Status damage;
    const auto tell = [&](const Status& told) { damage = told; };
    const auto locator =
        IndexLocator::Open(dataset, DefaultIndexFolder({faulty, copy.path}), scratch.path(), tell);
    if (!locator.ok()) return locator.status();
    const bool current = *(*locator)->IsCurrent(0);
    EXPECT_EQ(current, damage.ok());
    return damage;
  };
  const auto counted = std::make_shared<testing::FaultyStorage>(copy.storage);
  ASSERT_TRUE(open(counted).ok());
  const std::size_t reads = counted->Calls(Operation::kRead).size();
  ASSERT_GE(reads, 2u) << "seal and piece";
  for (std::size_t n = 1; n <= reads; ++n) {
    const auto with = [&](const Fault& fault) {
      const auto faulty = std::make_shared<testing::FaultyStorage>(copy.storage);
      faulty->Add(Operation::kRead, "*", n, 1, fault);
      return open(faulty);
    };
    EXPECT_EQ(with(Fault::Lie()).code(), StatusCode::kDataLoss) << "read " << n;
    EXPECT_EQ(with(Fault::Truncate()).code(), StatusCode::kDataLoss) << "read " << n;
    EXPECT_EQ(with(Fault::Fail(InternalError("the disk is gone"))).message(), "the disk is gone");
    EXPECT_TRUE(fs::is_empty(scratch.path()));
  }
}

/// A file system that does not answer for one step.
TEST_F(IndexTest, AStepThatHangsHoldsUpNoOtherStep) {
  ASSERT_TRUE(Update().ok());
  const auto faulty = std::make_shared<testing::FaultyStorage>(Location(path()).storage);
  std::latch asked(1);
  std::latch answer(1);
  faulty->Add({testing::Operation::kOpen, "*/steps/000000/step.json", 1, 1, [&](const testing::StorageCall&) {
                 asked.count_down();
                 answer.wait();
                 return testing::Fault{};
               }});
  const Location there(faulty, path().string());
  const auto locator = *IndexLocator::Open(*Dataset::Open(there), DefaultIndexFolder(there), folder_.path());
  auto hanging = std::async(std::launch::async, [&] { return *locator->IsCurrent(0); });
  asked.wait();
  EXPECT_TRUE(*locator->IsCurrent(1));
  answer.count_down();
  EXPECT_TRUE(hanging.get());
}

}  // namespace
}  // namespace quarry::index
