// Indices whose seal is right and whose contents are not: whoever can write the folder can make one.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"
#include "quarry/index/lmdb_reader.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/random.h"

namespace quarry::index {
namespace {

namespace fs = std::filesystem;

class HostileIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(path(), {.steps = {0}});
    testing::MakeDataset(path(), {.steps = {1}, .missing = true});
    dataset_ = *Dataset::Open(path());
    ASSERT_TRUE(UpdateIndex(*dataset_, index(), false, nothing).ok());
    seal_ = *ReadSeal(index());
    ASSERT_EQ(seal_.pieces.size(), 1u);
    std::ifstream in(index() / seal_.pieces[0].file_name(), std::ios::binary);
    original_.assign(std::istreambuf_iterator<char>(in), {});
  }

  static void nothing(std::uint64_t, std::uint64_t) {}
  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path index() const { return path() / "index"; }

  /// Makes these bytes the index, with a seal.
  void MakeSealed(const std::string& bytes) const {
    const auto old = ReadSeal(index());
    if (old.ok())
      for (const SealedPiece& piece : old->pieces) fs::remove(index() / piece.file_name());
    Seal seal = seal_;
    seal.pieces[0].checksum = Checksum(std::as_bytes(std::span(bytes)));
    seal.pieces[0].bytes = bytes.size();
    std::ofstream(index() / seal.pieces[0].file_name(), std::ios::binary) << bytes;
    ASSERT_TRUE(WriteSeal(index(), seal).ok());
  }

  template <typename T>
  static T At(const std::string& bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  }
  template <typename T>
  static void Put(T value, std::size_t at, std::string* bytes) {
    std::memcpy(bytes->data() + at, &value, sizeof(T));
  }

  /// The damage that questions about both steps find, with the answers of the tables in any case.
  Status DamageBehind(const std::string& bytes) const {
    MakeSealed(bytes);
    Status damage;
    const auto locator = IndexLocator::Open(dataset_, index(), folder_.path(), [&](const Status& told) {
      EXPECT_TRUE(damage.ok()) << "told once";
      damage = told;
    });
    if (!locator.ok()) return locator.status();
    const PatchGrid grid = *PatchesOf(dataset_->description().grids[0]);
    const Box all{{0, 0, 0}, grid.patches()};
    for (const std::uint64_t step : dataset_->steps()) {
      for (const Box& positions : {all, Box{{1, 1, 0}, {3, 2, 2}}}) {
        for (int i = 0; i < 2; ++i) {
          EXPECT_TRUE((*locator)->Find(step, 0, positions).ok());
          EXPECT_TRUE((*locator)->FindMask(step, 0, positions).ok());
        }
      }
    }
    return damage;
  }

  /// The same, where there has to be some, with a text.
  void ExpectDamage(const std::string& bytes, const std::string& mention) const {
    const Status damage = DamageBehind(bytes);
    EXPECT_EQ(damage.code(), StatusCode::kDataLoss) << mention;
    EXPECT_NE(damage.message().find(mention), std::string::npos) << damage.message();
    EXPECT_NE(damage.message().find("--rebuild"), std::string::npos) << damage.message();
    const Status verified = VerifyIndex(*dataset_, index());
    EXPECT_EQ(verified.code(), StatusCode::kDataLoss) << mention;
  }

  /// Where the value of the first record of a database lies, that of step 0.
  std::size_t FirstRecord(const char* database = kPatches) const {
    const StoredPages pages = *StoredPages::Open(std::as_bytes(std::span(original_)));
    StoredCursor cursor(pages, *pages.FindTree(database));
    const StoredCursor::Record* const record = *cursor.Seek(StepKey(0));
    return static_cast<std::size_t>(reinterpret_cast<const char*>(record->value.data()) - original_.data());
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
  Seal seal_;
  std::string original_;
};

constexpr std::size_t kPage = 4096;

TEST_F(HostileIndexTest, TheIndexIsUndamagedToBeginWith) {
  EXPECT_TRUE(DamageBehind(original_).ok());
  EXPECT_TRUE(VerifyIndex(*dataset_, index()).ok());
}

TEST_F(HostileIndexTest, BoxesThatAreOthersAreFound) {
  for (const char* database : {kBoxes, kMaskBoxes}) {
    std::string bytes = original_;
    Put(std::uint32_t{1}, FirstRecord(database) + 4, &bytes);  // the end of the box along x
    MakeSealed(bytes);
    const Status verified = VerifyIndex(*dataset_, index());
    EXPECT_EQ(verified.code(), StatusCode::kDataLoss) << database;
    EXPECT_NE(verified.message().find("other boxes"), std::string::npos) << verified.message();
  }
  std::string bytes = original_;
  Put(std::uint32_t{0}, FirstRecord(kBoxes) + 4, &bytes);
  MakeSealed(bytes);
  Status damage;
  const auto locator =
      *IndexLocator::Open(dataset_, index(), folder_.path(), [&](const Status& told) { damage = told; });
  const Box all = dataset_->description().grids[0].domain();
  EXPECT_EQ(locator->SubfilesMeeting(0, 0, all)->size(), (*dataset_->Step(0))->fields[0].subfiles.size())
      << "step.json tells";
  EXPECT_EQ(damage.code(), StatusCode::kDataLoss) << "a box without samples";
}

/// Ended the process with SIGFPE and SIGSEGV when LMDB read the file.
TEST_F(HostileIndexTest, NumbersOfTheFileLeadNowhereElse) {
  constexpr std::size_t kPageSize = 40;
  constexpr std::size_t kMainRoot = 88 + 40;
  const auto with = [&](auto value, std::size_t at) {
    std::string bytes = original_;
    for (const std::size_t page : {std::size_t{0}, kPage}) Put(value, page + at, &bytes);
    return bytes;
  };
  for (const std::uint32_t size : {0u, 1u, 3u, 128u, 4095u, 8192u, 65536u, ~0u})
    ExpectDamage(with(size, kPageSize), "page");
  for (const std::uint64_t root :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{1}})
    ExpectDamage(with(root, kMainRoot), "page");
  ExpectDamage(with(~std::uint64_t{0}, kMainRoot), "there is no database");
  ExpectDamage(with(std::uint16_t{8}, 88 + 4), "flags");
}

TEST_F(HostileIndexTest, NodesLieInTheirPage) {
  for (std::size_t page = 2 * kPage; page < original_.size(); page += kPage) {
    const auto flags = At<std::uint16_t>(original_, page + 10);
    if (flags != 1 && flags != 2) continue;
    for (const std::uint16_t wrong : {0, 15, 4089, 4095, 65535}) {
      std::string bytes = original_;
      Put(wrong, page + 16, &bytes);  // the place of the first node
      (void)DamageBehind(bytes);
      bytes = original_;
      Put(wrong, page + 12, &bytes);  // the end of the places
      (void)DamageBehind(bytes);
      bytes = original_;
      Put(wrong, page + At<std::uint16_t>(original_, page + 16) + 6, &bytes);  // the size of a key
      (void)DamageBehind(bytes);
    }
  }
}

TEST_F(HostileIndexTest, ATreeInItselfEnds) {
  const std::uint64_t root =
      (*StoredPages::Open(std::as_bytes(std::span(original_)))->FindTree(kPatches)).root;
  const std::size_t page = root * kPage;
  ASSERT_EQ(At<std::uint16_t>(original_, page + 10), 1) << "a branch";
  const auto count = static_cast<std::size_t>(At<std::uint16_t>(original_, page + 12) - 16) / 2;
  const auto with_children = [&](std::uint32_t child) {
    std::string bytes = original_;
    for (std::size_t i = 0; i < count; ++i)
      Put(child, page + At<std::uint16_t>(bytes, page + 16 + 2 * i), &bytes);
    return bytes;
  };

  ExpectDamage(with_children(static_cast<std::uint32_t>(root)), "deeper");
  const auto first = At<std::uint32_t>(original_, page + At<std::uint16_t>(original_, page + 16));
  ExpectDamage(with_children(first), "");
  testing::MakeDataset(path(), {.steps = {2, 3}});  // so many that records of the old piece are taken over
  const auto report = UpdateIndex(**Dataset::Open(path()), index(), false, nothing);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_NE(report->rebuilt_because.find("out of order"), std::string::npos) << report->rebuilt_because;
  EXPECT_TRUE(VerifyIndex(**Dataset::Open(path()), index()).ok());
}

TEST_F(HostileIndexTest, RecordsAreCheckedAsRowsOfTables) {
  const std::size_t record = FirstRecord();
  const std::size_t row = record + 4;
  const auto with = [&](auto value, std::size_t at) {
    std::string bytes = original_;
    Put(value, at, &bytes);
    return bytes;
  };
  ExpectDamage(with(std::uint32_t{3}, record), "subfile 3 of 3");
  ExpectDamage(with(std::uint64_t{7}, row), "under the key of another");
  ExpectDamage(with(std::uint32_t{513}, row + 24), "513 valid samples");
  const std::size_t level = row + 28;
  ExpectDamage(with(std::uint64_t{0}, level), "payload");
  ExpectDamage(with(std::uint64_t{1} << 40, level), "payload");
  ExpectDamage(with(~std::uint64_t{0}, level), "payload");
  ExpectDamage(with(~std::uint32_t{0}, level + 8), "payload");
  ExpectDamage(with(1.5f, level + 32), "coverage");
}

TEST_F(HostileIndexTest, AMaskThatIsAnotherIsReadFromTables) {
  std::string bytes = original_;
  Put(std::uint64_t{1}, FirstRecord(kMaskSubfiles), &bytes);
  EXPECT_TRUE(DamageBehind(bytes).ok()) << "the mask of other files";
  const MaskDescription mask = *(*dataset_->Step(1))->fields[0].mask;
  const auto has_mask = [&] {
    const auto dataset = *Dataset::Open(path());
    return *(*IndexLocator::Open(dataset, index(), folder_.path()))->HasMask(1, mask);
  };
  EXPECT_FALSE(has_mask());
  EXPECT_EQ(VerifyIndex(*dataset_, index()).code(), StatusCode::kDataLoss);

  testing::MakeDataset(path(), {.steps = {2, 3}, .missing = true});  // with the same mask
  const auto report = UpdateIndex(**Dataset::Open(path()), index(), false, nothing);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->masks_added, 1u);
  EXPECT_TRUE(has_mask());
  EXPECT_TRUE(VerifyIndex(**Dataset::Open(path()), index()).ok());
}

TEST_F(HostileIndexTest, AnUpdateBuildsADamagedIndexAnew) {
  testing::MakeDataset(path(), {.steps = {2, 3}});  // so many that records of the old piece are taken over
  const auto dataset = *Dataset::Open(path());
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = original_;
    for (int n = 0; n < 3; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    MakeSealed(bytes);
    const auto report = UpdateIndex(*dataset, index(), false, nothing);
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_EQ(report->steps, 4u);
    ASSERT_EQ(ReadSeal(index())->pieces.size(), 1u);
    const Status verified = VerifyIndex(*dataset, index());
    EXPECT_TRUE(verified.ok() || verified.code() == StatusCode::kDataLoss) << verified.message();
  }
  MakeSealed(original_);
  EXPECT_EQ(UpdateIndex(*dataset, index(), false, nothing)->steps_added, 2u);
  EXPECT_TRUE(VerifyIndex(*dataset, index()).ok());
}

/// 3 of 140 such indices ended a server.
TEST_F(HostileIndexTest, AnyChangeIsDamageOrChangesNothing) {
  std::mt19937 random(testing::SeedFromEnvironment());
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = original_;
    for (std::size_t n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % (bytes.size() - 8);
      // Half of them where LMDB has its own numbers: the begin of a page.
      const std::size_t place = random() % 2 == 0 ? at : at / kPage * kPage + random() % 160;
      if (random() % 2 == 0) bytes[place] = static_cast<char>(random());
      if (random() % 8 == 0) Put(std::uint64_t{random() % 40}, place / 8 * 8, &bytes);
    }
    (void)DamageBehind(bytes);
  }
}

}  // namespace
}  // namespace quarry::index
