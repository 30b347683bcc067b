// Coarse objects: a first picture takes fewer waits, and no object changes an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/coarse_object.h"
#include "quarry/format/manifest.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/late_storage.h"
#include "tests/testing/make_dataset.h"
#include "writer/upkeep/coarse_writer.h"
#include "writer/upkeep/edit.h"
#include "writer/upkeep/pack.h"
#include "writer/upkeep/upgrade.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

using testing::FaultyStorage;
using testing::LateStorage;
using testing::Operation;

const auto kNothing = [](std::uint64_t, std::uint64_t) {};

class CoarseTest : public ::testing::Test {
 protected:
  CoarseTest() {
    recipe_.dims = {80, 72, 40};
    recipe_.files = 4;
    recipe_.order = format::PayloadOrder::kCoarse;
  }

  void Make() { testing::MakeDataset(path(), recipe_); }
  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path object(std::uint64_t step = 0) const {
    return path() / format::StepFolder(step) / format::kCoarseFile;
  }
  Bytes ReadObject() const { return *ReadWholeFile(object(), format::kCoarseLimit); }
  /// With a checksum that fits.
  void ReplaceObject(Bytes bytes) const {
    bytes.resize(bytes.size() - sizeof(std::uint64_t));
    PutLittleEndian(&bytes, Checksum(bytes));
    ASSERT_TRUE(ReplaceFile(object(), bytes).ok());
  }
  std::shared_ptr<LateStorage> Late() const {
    return std::make_shared<LateStorage>(Location(path()).storage);
  }
  writer::UpgradeReport Upgrade() const { return *writer::Upgrade(path(), kNothing); }

  static query::ReadRequest Picture(int level = 2) {
    return {.field = "pressure", .step = 0, .target = query::AtLevel{level}};
  }
  static query::ReadRequest SmallBox() {
    return {.field = "pressure", .step = 0, .box = Box{{3, 5, 2}, {75, 68, 37}}, .target = query::AtLevel{0}};
  }

  /// All levels and a box, from a store, as they are without an object.
  void ExpectAnswersOfFiles() const {
    const auto files = *Dataset::Open(path());
    const auto stored = *Dataset::Open(Location(Late(), path()));
    for (const query::ReadRequest& request : {Picture(3), Picture(2), Picture(1), Picture(0), SmallBox()}) {
      const auto found = testing::TryReadAll(*stored, request);
      ASSERT_TRUE(found.ok()) << found.status().message();
      const std::vector<float> expected = testing::ReadAll(*files, request);
      ASSERT_EQ(found->size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE((*found)[i] == expected[i] || (std::isnan((*found)[i]) && std::isnan(expected[i]))) << i;
    }
  }
  VerifyReport Verify() const { return *VerifyDataset(**Dataset::Open(path()), kNothing); }

  /// Waits after opening.
  int WaitsOf(const query::ReadRequest& request) const {
    const auto late = Late();
    const auto dataset = *Dataset::Open(Location(late, path()));
    late->ForgetWaits();
    EXPECT_TRUE(testing::TryReadAll(*dataset, request).ok());
    told_ = late->Told();
    return late->waits();
  }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
  mutable std::string told_;
};

TEST_F(CoarseTest, AFirstPictureWaitsOnce) {
  for (const bool missing : {false, true}) {
    for (const format::PayloadOrder order : {format::PayloadOrder::kLevel, format::PayloadOrder::kCoarse}) {
      fs::remove_all(path());
      recipe_.order = order;
      recipe_.missing = missing;
      Make();
      // step.json and the object.
      EXPECT_EQ(WaitsOf(Picture()), 1) << told_;
      // The same, and the finer levels.
      EXPECT_EQ(WaitsOf(Picture(0)), 2) << told_;
      // A box reads its tables.
      EXPECT_EQ(WaitsOf(SmallBox()), 3) << told_;
      ExpectAnswersOfFiles();
      EXPECT_TRUE(Verify().damage.empty());
      EXPECT_EQ(Verify().coarse, 1u);
    }
  }
}

TEST_F(CoarseTest, AStepIsAskedForItsObjectOnce) {
  Make();
  const auto late = Late();
  const auto dataset = *Dataset::Open(Location(late, path()));
  ASSERT_TRUE(testing::TryReadAll(*dataset, Picture()).ok());
  late->ForgetWaits();
  ASSERT_TRUE(testing::TryReadAll(*dataset, Picture(1)).ok());
  EXPECT_EQ(late->Told().find("coarse"), std::string::npos) << late->Told();
}

TEST_F(CoarseTest, TablesInBlocksAndLayersAreThereToo) {
  recipe_.patch = {4, 4, 4};
  recipe_.levels = 3;
  recipe_.files = 2;
  recipe_.coder = CoderId::kInterpolate;
  recipe_.rougher = {0.1};
  Make();
  ASSERT_GT((*Dataset::Open(path()))->tables().Walk(0, 0, 0)->blocks(), 1u);
  EXPECT_EQ(WaitsOf({.field = "pressure", .step = 0, .target = query::AtLevel{2}, .layer = 0}), 1) << told_;
  EXPECT_TRUE(Verify().damage.empty());
}

TEST_F(CoarseTest, OrderPatchAndSmallStepsHaveNone) {
  recipe_.order = format::PayloadOrder::kPatch;
  Make();
  EXPECT_FALSE(fs::exists(object()));
  EXPECT_FALSE((*Dataset::Open(path()))->description().has_coarse_objects);
  EXPECT_EQ(Upgrade().coarse, 0u);
  fs::remove_all(path());
  recipe_.order = format::PayloadOrder::kCoarse;
  recipe_.dims = {9, 8, 7};
  Make();
  EXPECT_FALSE(fs::exists(object()));
  EXPECT_FALSE((*Dataset::Open(path()))->description().has_coarse_objects);
}

TEST_F(CoarseTest, OnFilesNobodyLooksForIt) {
  Make();
  const auto counted = std::make_shared<FaultyStorage>(Location(path()).storage);
  const auto dataset = *Dataset::Open(Location(counted, path()));
  EXPECT_EQ(dataset->coarse(), nullptr);
  ASSERT_TRUE(testing::TryReadAll(*dataset, Picture()).ok());
  for (const Operation operation : {Operation::kOpen, Operation::kStat, Operation::kRead}) {
    for (const testing::StorageCall& call : counted->Calls(operation))
      EXPECT_FALSE(call.path.ends_with("/coarse")) << call.path;
  }
}

TEST_F(CoarseTest, AMissingOrDamagedObjectChangesNoAnswer) {
  recipe_.missing = true;
  Make();
  const Bytes whole = ReadObject();
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    Bytes damaged = whole;
    damaged[random() % damaged.size()] ^= std::byte{4};
    ASSERT_FALSE(format::CoarseObject::Decode(damaged).ok());
    ASSERT_TRUE(ReplaceFile(object(), damaged).ok());
    EXPECT_EQ(Verify().damage.size(), 1u);
    if (i < 3) ExpectAnswersOfFiles();
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{40}, whole.size() - 1}) {
    ASSERT_TRUE(ReplaceFile(object(), ByteSpan(whole).first(size)).ok());
    ExpectAnswersOfFiles();
  }
  EXPECT_EQ(Upgrade().coarse, 1u);
  EXPECT_EQ(ReadObject(), whole);
  fs::remove(object());
  ExpectAnswersOfFiles();
  EXPECT_TRUE(Verify().damage.empty());
  EXPECT_TRUE(Upgrade().changed);
  EXPECT_EQ(ReadObject(), whole);
  EXPECT_FALSE(Upgrade().changed);
}

TEST_F(CoarseTest, WrongBytesWithARightChecksumAreReadFromTheFiles) {
  recipe_.missing = true;
  Make();
  const Bytes whole = ReadObject();
  const auto object = *format::CoarseObject::Decode(whole);
  const std::size_t begin = whole.size() - sizeof(std::uint64_t) - [&] {
    std::size_t bytes = 0;
    for (const format::CoarseFile& file : object.files()) bytes += file.front + file.back;
    return bytes;
  }();
  std::size_t at = begin;
  for (const format::CoarseFile& file : object.files()) {
    // Header, a coarse level, table, footer.
    for (const std::size_t wrong :
         {at + 30, at + file.front - 1, at + file.front + 9, at + file.front + file.back - 30}) {
      Bytes changed = whole;
      changed[wrong] ^= std::byte{16};
      ReplaceObject(std::move(changed));
      ExpectAnswersOfFiles();
      EXPECT_EQ(Verify().damage.size(), 1u);
    }
    at += file.front + file.back;
  }
}

TEST_F(CoarseTest, AnObjectOfAnotherStepStandsForNothing) {
  recipe_.steps = {0, 1};
  Make();
  fs::copy_file(object(1), object(0), fs::copy_options::overwrite_existing);
  ExpectAnswersOfFiles();
  EXPECT_EQ(WaitsOf(Picture()), 3) << told_;
  // The right paths with the files of another step.
  const auto other = *format::CoarseObject::Decode(*ReadWholeFile(object(1), format::kCoarseLimit));
  std::vector<format::CoarseFile> files = other.files();
  std::vector<Bytes> bytes;
  for (std::size_t f = 0; f < files.size(); ++f) {
    files[f].path.replace(files[f].path.find("000001"), 6, "000000");
    bytes.emplace_back(other.Front(f).begin(), other.Front(f).end());
    bytes.back().insert(bytes.back().end(), other.Back(f).begin(), other.Back(f).end());
  }
  ASSERT_TRUE(ReplaceFile(object(0), format::EncodeCoarseObject(files, bytes)).ok());
  ExpectAnswersOfFiles();
  EXPECT_TRUE(Verify().damage.empty()) << "outdated is no damage";
  EXPECT_EQ(Upgrade().coarse, 1u);
  EXPECT_EQ(WaitsOf(Picture()), 1) << told_;
}

TEST_F(CoarseTest, AddedAndRemovedFieldsMakeItAnew) {
  Make();
  const Bytes one = ReadObject();
  recipe_.field = "other";
  Make();
  const auto both = *format::CoarseObject::Decode(ReadObject());
  EXPECT_EQ(both.files().size(), 8u);
  EXPECT_EQ(WaitsOf({.field = "other", .step = 0, .target = query::AtLevel{2}}), 1) << told_;
  EXPECT_EQ(WaitsOf(Picture()), 1) << told_;
  ASSERT_TRUE(writer::Remove(path(), {.fields = {"other"}}).ok());
  EXPECT_EQ(ReadObject(), one);
  EXPECT_TRUE(Verify().damage.empty());
}

TEST_F(CoarseTest, AFieldOfItsNameTakesItsPlace) {
  Make();
  recipe_.field = "coarse";
  Make();
  EXPECT_TRUE(fs::is_directory(object()));
  ExpectAnswersOfFiles();
  EXPECT_TRUE(Verify().damage.empty());
  EXPECT_EQ(Upgrade().coarse, 0u);
  EXPECT_TRUE(fs::is_directory(object()));
}

TEST_F(CoarseTest, PackedStepsHaveNone) {
  recipe_.steps = {0, 1, 2};
  Make();
  writer::PackOptions options;
  options.smaller_than = std::uint64_t{1} << 20;
  ASSERT_TRUE(writer::Pack(path(), options, kNothing).ok());
  ASSERT_FALSE(fs::exists(object()));
  const auto late = Late();
  const auto dataset = *Dataset::Open(Location(late, path()));
  ASSERT_TRUE(testing::TryReadAll(*dataset, Picture()).ok());
  EXPECT_EQ(late->Told().find("coarse"), std::string::npos) << late->Told();
  EXPECT_TRUE(Verify().damage.empty());
}

TEST_F(CoarseTest, LevelsOfAllFilesKeepToTheRoom) {
  recipe_.patch = {16, 16, 16};
  recipe_.levels = 5;
  Make();
  const auto dataset = *Dataset::Open(path());
  const auto object_in = [&](std::uint64_t room) {
    const writer::StepFiles files{path(), path() / format::StepFolder(0)};
    return *writer::CoarseObjectOf(files, dataset->description(), **dataset->Step(0), room);
  };
  const auto sizes_of = [](const Bytes& bytes) {
    std::uint64_t fronts = 0;
    std::uint64_t backs = 0;
    const auto object = *format::CoarseObject::Decode(bytes);
    for (const format::CoarseFile& file : object.files()) {
      fronts += file.front;
      backs += file.back;
    }
    return std::pair(fronts, backs);
  };
  EXPECT_EQ(object_in(format::kMostCoarseBytes), ReadObject());
  const auto [all, tables] = sizes_of(ReadObject());
  ASSERT_LT(all, (*dataset->Step(0))->fields[0].stored_bytes / 8) << "coarse levels alone";
  const auto [fewer, same] = sizes_of(object_in(all + tables - 1));
  EXPECT_LT(fewer, all) << "one level less";
  EXPECT_EQ(same, tables);
  EXPECT_GT(fewer, 4 * format::SubfileHeader::kEncodedSize);
  EXPECT_EQ(sizes_of(object_in(tables + 4 * format::SubfileHeader::kEncodedSize)).first,
            4 * format::SubfileHeader::kEncodedSize);
  EXPECT_TRUE(object_in(tables + 4 * format::SubfileHeader::kEncodedSize - 1).empty());
  EXPECT_TRUE(object_in(tables - 1).empty());
}

}  // namespace
}  // namespace quarry
